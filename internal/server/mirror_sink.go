package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/zeebo/xxh3"

	"tailscope/internal/agg"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// mirrorSink commits the measurements of a mirror in this process to the aggregator.
type mirrorSink struct {
	agg      *agg.Aggregator
	log      *slog.Logger
	declared map[string]bool
	key      []byte
}

func newMirrorSink(a *agg.Aggregator, log *slog.Logger) *mirrorSink {
	return &mirrorSink{agg: a, log: log, declared: map[string]bool{}}
}

// Put commits points in one batch. It drops points that are too old for the store, and
// logs their number.
func (s *mirrorSink) Put(ctx context.Context, points []pair.Point) error {
	b := s.agg.NewBatch()
	for _, p := range points {
		if !s.declared[p.Family] {
			s.declared[p.Family] = true
			s.agg.DeclareFamily(store.FamilyInfo{Name: p.Family, Kind: p.Kind})
		}
		t := s.agg.SeriesTarget(series.Series{Family: p.Family, View: series.Full, Kind: p.Kind, Labels: p.Labels})
		if p.Kind == series.Distribution {
			b.Distribution(t, p.TimeNanos, p.Hist)
		} else {
			b.DeltaNumber(t, s.stream(p), p.TimeNanos, p.Value)
		}
	}
	rejects, err := b.Commit(ctx)
	if err != nil {
		return fmt.Errorf("keep what a mirror measured: %w", err)
	}
	if n := rejects.Total(); n > 0 {
		s.log.Warn("some measurements of a mirror were refused", "points", n,
			"too_old", rejects.TooOld, "too_new", rejects.TooNew, "invalid", rejects.Invalid)
	}
	return nil
}

// stream returns the identity of a counter.
func (s *mirrorSink) stream(p pair.Point) agg.StreamID {
	s.key = append(append(s.key[:0], p.Family...), 0)
	s.key = append(s.key, p.Labels.Bytes(nil)...)
	h := xxh3.Hash128(s.key)
	return agg.StreamID{h.Hi, h.Lo}
}
