package load

import (
	"context"
	"errors"
)

// events says that there is an event loop for plain HTTP/1.1.
const events = true

func runEvents(context.Context, Options) (Account, error) {
	return Account{}, errors.ErrUnsupported
}
