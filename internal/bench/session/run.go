package session

import (
	"context"
	"errors"
)

// Run sends the load and returns what came of it. When ctx is done it ends in
// order, and the outcome is of what was measured until then, with Aborted set.
// An error says that nothing was measured: the target is not reached, or the
// options are wrong. A missed threshold and an invalid run are no errors.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	return nil, errors.ErrUnsupported
}
