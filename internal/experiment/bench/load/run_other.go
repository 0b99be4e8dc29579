//go:build !linux

package load

import (
	"context"
	"errors"
)

// events says that there is an event loop for plain HTTP/1.1.
const events = false

func runEvents(context.Context, Options) (Account, error) {
	return Account{}, errors.ErrUnsupported // never called
}
