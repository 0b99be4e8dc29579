//go:build !unix

package proxy

import "errors"

const canPeek = false

func peek(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported } // never called
