//go:build !linux

package load

import "time"

// alarm wakes the one goroutine that waits for it, at a time or by a call.
type alarm struct {
	timer *time.Timer
	woken chan struct{}
}

func newAlarm() (*alarm, error) {
	return &alarm{timer: time.NewTimer(time.Hour), woken: make(chan struct{}, 1)}, nil
}

// wait returns when d has passed or wake was called, now and then sooner.
func (a *alarm) wait(d time.Duration) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-a.woken:
	}
}

// wake ends the current wait, or the next if nobody waits.
func (a *alarm) wake() {
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

func (a *alarm) close() { a.timer.Stop() }
