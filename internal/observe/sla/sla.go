// Package sla scores requests against what their users expect: Apdex by service and
// operation, and the report by day, week or month of a time zone.
//
// Everything is computed from the kept distributions at the time of the question.
// Nothing is scored at ingest, so a target that changes re-scores the past. The price is
// the width of a bucket: a request that took about T lies in a bucket that holds T, and
// may lie on either side of it. So every score comes with the bounds that the buckets
// holding T and 4T leave, and an objective is met, not met, or unknown when only a
// bucket's width decides.
package sla

import (
	"tailscope/api"
	"tailscope/hist"
)

// ThinPerMinute is the rate of independent requests a minute that a meaningful Apdex needs.
const ThinPerMinute = 100

func isThin(effective, seconds float64) bool {
	return effective*60 < ThinPerMinute*seconds
}

// outcomes holds requests of one kind or span of time, the failed ones separately.
type outcomes struct {
	good, failed *hist.Histogram // nil if there are none
}

// moment returns the moments of all requests.
func (o *outcomes) moment() (m hist.Moment) {
	for _, h := range []*hist.Histogram{o.good, o.failed} {
		if h != nil {
			m.Merge(h.Moment())
		}
	}
	return m
}

// effective returns how many independent requests say as much.
func (o *outcomes) effective() float64 {
	m := o.moment()
	return m.Effective()
}

func (o *outcomes) add(good, failed *hist.Histogram) error {
	if err := merge(&o.good, good); err != nil {
		return err
	}
	return merge(&o.failed, failed)
}

// merge merges h, which it may retain but does not change.
func merge(to **hist.Histogram, h *hist.Histogram) error {
	switch {
	case h == nil || h.Count == 0:
		return nil
	case *to == nil:
		*to = h.Clone()
		return nil
	}
	return (*to).Merge(h)
}

func (o *outcomes) errors() uint64 {
	if o.failed == nil {
		return 0
	}
	return o.failed.Count
}

func (o *outcomes) requests() uint64 {
	n := o.errors()
	if o.good != nil {
		n += o.good.Count
	}
	return n
}

// all returns both merged.
func (o *outcomes) all() (*hist.Histogram, error) {
	h := hist.New(hist.MaxSchema)
	for _, part := range []*hist.Histogram{o.good, o.failed} {
		if part != nil {
			if err := h.Merge(part); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

func float(f float64) api.Float { return api.Float(f) }
