package main

import (
	"context"
	"time"

	"tailscope/test/payload"
	"tailscope/test/sender"
)

// pacedRate is what one server of a middling company sees, in spans a second.
const pacedRate = 40_000

// paced names what sendPaced sends by gRPC, beside the protocols.
const paced = "gRPC paced"

// sendPaced sends requests of payload.SpansPerRequest spans of about now, one after the
// other at pacedRate, for so long. Senders whose firsts are far apart send different traces.
// It calls look about every residentEvery with how often a request was sent again, and
// returns how many spans were sent and that number.
func sendPaced(ctx context.Context, s sender.Sender, first uint64, lasts time.Duration, look func(retries int) error) (spans, retries int, err error) {
	begin, next := time.Now(), residentEvery
	const (
		perRequest = time.Second * payload.SpansPerRequest / pacedRate
		batch      = 40 // requests made at once, so that making them is not a burst
	)
	for n := first; time.Since(begin) < lasts; n++ {
		for _, b := range payload.TracesAt(n, batch, time.Now().Add(-time.Second)) {
			for {
				err := s.Send(ctx, b)
				if err == nil {
					break
				}
				wait, retry := wishesRetry(err)
				if !retry {
					return spans, retries, err
				}
				retries++
				if err := sleepUntil(ctx, time.Now().Add(wait)); err != nil {
					return spans, retries, err
				}
			}
			spans += payload.SpansPerRequest
			if err := sleepUntil(ctx, begin.Add(time.Duration(spans/payload.SpansPerRequest)*perRequest)); err != nil {
				return spans, retries, err
			}
		}
		if time.Since(begin) >= next {
			next += residentEvery
			if err := look(retries); err != nil {
				return spans, retries, err
			}
		}
	}
	return spans, retries, nil
}

// sleepUntil waits for a moment. Its error is that of ctx.
func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
