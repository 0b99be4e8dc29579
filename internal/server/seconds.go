package server

import (
	"context"

	"tailscope/internal/seconds"
)

// startSeconds starts the ring of the newest seconds, which the aggregator fills.
func (s *Server) startSeconds() {
	s.seconds = seconds.New(seconds.Options{Bytes: s.shares.Seconds, Now: s.now})
	s.metrics.registry.MustRegister(newPartCollector(s.seconds.Stats, secondsReadings))
	if !s.ticks {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.seconds.Run(ctx)
	}()
	s.started("seconds", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

var secondsReadings = []reading[seconds.Stats]{
	{"tailscope_seconds_requests_total", "Requests counted in slots of one second.", counts, func(s seconds.Stats) float64 { return float64(s.Observations) }},
	{"tailscope_seconds_overflowed_total", "Requests left out of slots of one second because too many came between two folds.", counts, func(s seconds.Stats) float64 { return float64(s.Overflowed) }},
	{"tailscope_seconds_left_out_total", "Requests left out of slots of one second because their operation is, for lack of memory.", counts, func(s seconds.Stats) float64 { return float64(s.LeftOut) }},
	{"tailscope_seconds_series", "Series in slots of one second.", level, func(s seconds.Stats) float64 { return float64(s.Series) }},
	{"tailscope_seconds_series_left_out", "Series left out of slots of one second for lack of memory, those with the fewest requests.", level, func(s seconds.Stats) float64 { return float64(s.SeriesOut) }},
	{"tailscope_seconds_bytes", "Memory of slots of one second.", level, func(s seconds.Stats) float64 { return float64(s.Bytes) }},
}
