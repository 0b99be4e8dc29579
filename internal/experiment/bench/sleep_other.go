//go:build !linux

package bench

import (
	"context"
	"time"
)

// threadSleeper returns the runtime's sleep, whose lateness Run measures.
func threadSleeper() (sleep func(context.Context, time.Duration), release func()) {
	return func(ctx context.Context, d time.Duration) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}, func() {}
}
