//go:build !linux

package load

import (
	"context"
	"errors"
)

// events reports that plain HTTP/1.1 does not have an event loop.
const events = false

func runEvents(context.Context, Options) (Account, error) {
	return Account{}, errors.ErrUnsupported // never called
}
