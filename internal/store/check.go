package store

import (
	"errors"
	"fmt"
	"slices"

	"tailscope/hist"
	"tailscope/internal/series"
)

// farPast and farFuture bound the times that can be stored, in Unix seconds: those that
// every store can order.
const (
	farPast   = -1 << 40
	farFuture = 1 << 40
)

// InRange reports whether a moment, in Unix seconds, can be stored.
func InRange(t int64) bool { return t >= farPast && t < farFuture }

// Check returns an error if the batch breaks a rule of its fields, or if one of its points
// does not decode.
func (b *Batch) Check() error {
	if b.Writer == "" {
		return errors.New("the batch names no writer")
	}
	if b.Generation == 0 {
		return errors.New("generations start from 1")
	}
	if (len(b.Points) > 0 || b.Resolution != 0) && !slices.Contains(series.Resolutions[:], b.Resolution) {
		return fmt.Errorf("resolution of %d s is not kept: use one of %v", b.Resolution, series.Resolutions)
	}
	for i := range b.Points {
		p := &b.Points[i]
		if int(p.Series) >= len(b.Series) {
			return fmt.Errorf("point %d is of series %d, the batch has %d", i, p.Series, len(b.Series))
		}
		if p.Slot%int64(b.Resolution) != 0 || !InRange(p.Slot) {
			return fmt.Errorf("point %d: slot %d is not a multiple of %d s", i, p.Slot, b.Resolution)
		}
		var err error
		if b.Series[p.Series].Kind == series.Distribution {
			_, err = hist.Moments(p.Data)
		} else {
			_, err = DecodeNumber(p.Data)
		}
		if err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
	}
	for i := range b.Samples {
		ss := &b.Samples[i]
		if int(ss.Series) >= len(b.Series) {
			return fmt.Errorf("samples %d are of series %d, the batch has %d", i, ss.Series, len(b.Series))
		}
		for _, v := range ss.Samples {
			if !InRange(v.TimeMillis / 1000) {
				return fmt.Errorf("sample at %d ms is out of range", v.TimeMillis)
			}
		}
	}
	if b.IDs != nil && len(b.IDs) != len(b.Series) {
		return fmt.Errorf("%d identities of %d series", len(b.IDs), len(b.Series))
	}
	if err := b.checkTenants(); err != nil {
		return err
	}
	for i := range b.Series {
		if b.Series[i].Family == "" || b.Series[i].Kind > series.Counter || b.Series[i].View > series.Total {
			return fmt.Errorf("series %d has no family, or an unknown kind or view", i)
		}
	}
	return nil
}

func (b *Batch) checkTenants() error {
	if b.TenantOf == nil {
		return nil
	}
	if len(b.TenantOf) != len(b.Series) || b.IDs == nil {
		return fmt.Errorf("%d numbers of tenants and %d identities of %d series", len(b.TenantOf), len(b.IDs), len(b.Series))
	}
	for i, n := range b.TenantOf {
		if int(n) >= len(b.Tenants) {
			return fmt.Errorf("series %d is of tenant %d, the batch has %d", i, n, len(b.Tenants))
		}
	}
	known := make(map[string]struct{}, len(b.Tenants))
	for _, t := range b.Tenants {
		if _, twice := known[t]; twice && t != "" {
			return fmt.Errorf("tenant %q twice", t)
		}
		known[t] = struct{}{}
	}
	return nil
}

// whyKnown holds every reason to keep a trace.
const whyKnown = WhySlow | WhyFailed | WhyExemplar

// Check returns an error if the trace breaks a rule of its fields.
func (t *Trace) Check() error {
	if len(t.Entries) == 0 || len(t.Entries) > MaxTraceEntries {
		return fmt.Errorf("trace %x has %d requests, must have 1 to %d", t.ID, len(t.Entries), MaxTraceEntries)
	}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.DurationNanos < 0 || e.Why > whyKnown {
			return fmt.Errorf("trace %x: request %x lasts %d ns, kept for %b", t.ID, e.Span, e.DurationNanos, e.Why)
		}
	}
	return nil
}

// EachOnce returns the trace's requests without repeated spans: of one span the first
// counts.
func (t *Trace) EachOnce() []TraceEntry {
	seen := make(map[[8]byte]bool, len(t.Entries))
	out := make([]TraceEntry, 0, len(t.Entries))
	for _, e := range t.Entries {
		if !seen[e.Span] {
			seen[e.Span] = true
			out = append(out, e)
		}
	}
	return out
}
