package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// NearestRequest asks what was there at a moment.
type NearestRequest struct {
	Selection // Start and End are ignored
	Time      time.Time
	By        []string // distributions only; number series are always each their own
	Quantiles []Quantile
}

// reaches are the windows searched for the slot nearest to a moment: each
// looks so far to either side, in slots so long. Both grow by about ten, so
// the search is logarithmic in the distance.
var reaches = [...]struct{ seconds, step int64 }{
	{60, 10}, {600, 10}, {3600, 60}, {6 * 3600, 60}, {2 * 86400, 600}, {35 * 86400, 3600}, {400 * 86400, 86400},
}

// Nearest answers, per number series, the sample closest to the moment; for
// distributions, per group, the slot that holds it or is closest to it. Groups
// without a slot near where the first one is found are left out.
func Nearest(ctx context.Context, st store.Store, r NearestRequest) (*api.NearestResponse, error) {
	r.Start, r.End = r.Time, r.Time.Add(time.Second)
	sel, err := resolve(ctx, st, r.Selection, r.By)
	if err != nil {
		return nil, AsNearestError(err)
	}
	out := &api.NearestResponse{Series: []api.NearestSeries{}}
	if sel.info.Kind != series.Distribution {
		found, err := st.Nearest(ctx, sel.info.Name, sel.q.Matchers, r.Time.UnixMilli())
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if len(s.Samples) > 0 {
				v := api.Float(s.Samples[0].Value)
				out.Series = append(out.Series, api.NearestSeries{Labels: labelMap(s.Labels), Time: api.Float(float64(s.Samples[0].TimeMillis) / 1e3), Value: &v})
			}
		}
		return out, nil
	}
	at := r.Time.Unix()
	for _, reach := range reaches {
		found, err := nearestSlots(ctx, st, sel.q, at, reach.seconds, reach.step)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		for _, f := range found {
			if reach.step > int64(series.Base) {
				if f, err = refine(ctx, st, sel.q, at, f, reach.step); err != nil {
					return nil, err
				}
			}
			g := distributionGroup(f.labels, f.point.Hist, r.Quantiles, nil, false)
			out.Series = append(out.Series, api.NearestSeries{Labels: g.Labels, Time: api.Float(float64(f.point.Start)), Distribution: &g})
		}
		slices.SortFunc(out.Series, func(a, b api.NearestSeries) int {
			return strings.Compare(keyOf(a.Labels, r.By), keyOf(b.Labels, r.By))
		})
		return out, nil
	}
	return out, nil
}

// AsNearestError renames the parameter of range errors: a moment has no range.
func AsNearestError(err error) error {
	if e := AsError(err); e.Code == CodeInvalid && (e.Field == "start" || e.Field == "end") {
		c := *e
		c.Field = "time"
		return &c
	}
	return err
}

func keyOf(l api.Labels, by []string) string {
	var b strings.Builder
	for _, n := range by {
		b.WriteString(l[n])
		b.WriteByte(0)
	}
	return b.String()
}

// foundSlot is the best slot so far of one group, on either side of the moment.
type foundSlot struct {
	labels      labels.Labels
	point       store.MergedPoint // the nearest
	left, right int64             // starts of the nearest slots that begin at or before, and after; -1 if none
}

// away is how far the moment is from the slot: 0 inside it.
func away(at, slot, step int64) int64 {
	switch {
	case at < slot:
		return slot - at
	case at >= slot+step:
		return at - (slot + step) + 1
	}
	return 0
}

func nearestSlots(ctx context.Context, st store.Store, q store.Query, at, reach, step int64) ([]foundSlot, error) {
	q.Step = step
	q.Start = series.Resolution(step).Slot(max(at-reach, 0))
	q.End = series.Resolution(step).Slot(at+reach) + step
	if step > int64(series.Base) {
		q.Measure = store.Moments
	}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	var out []foundSlot
	for _, g := range res.Groups {
		f := foundSlot{labels: g.Labels, left: -1, right: -1}
		for _, p := range g.Points {
			if p.Hist == nil || p.Hist.Count == 0 {
				continue
			}
			if p.Start <= at {
				f.left = p.Start
			} else if f.right < 0 {
				f.right = p.Start
			}
			if f.point.Hist == nil || away(at, p.Start, step) < away(at, f.point.Start, step) {
				f.point = p
			}
		}
		if f.point.Hist != nil {
			out = append(out, f)
		}
	}
	return out, nil
}

// refine reads the finest slots inside the coarse ones next to the moment.
func refine(ctx context.Context, st store.Store, q store.Query, at int64, f foundSlot, step int64) (foundSlot, error) {
	q.Step = int64(series.Base)
	for _, n := range q.By {
		m, err := labels.NewMatcher(labels.MatchEqual, n, f.labels.Get(n))
		if err != nil {
			return f, err
		}
		q.Matchers = append(slices.Clone(q.Matchers), m)
	}
	best := foundSlot{labels: f.labels}
	bestAway := int64(farFuture)
	for _, slot := range []int64{f.left, f.right} {
		if slot < 0 {
			continue
		}
		q.Start, q.End = slot, slot+step
		res, err := st.Query(ctx, q)
		if err != nil {
			return f, err
		}
		for _, g := range res.Groups {
			for _, p := range g.Points {
				if p.Hist == nil || p.Hist.Count == 0 {
					continue
				}
				if d := away(at, p.Start, slotOf(res)); d < bestAway {
					best.point, bestAway = p, d
				}
			}
		}
	}
	if best.point.Hist == nil {
		return f, &Error{Code: CodeUnavailable, Message: "the slot expired while it was looked for; ask again"}
	}
	return best, nil
}

// unitOf reads a family's unit off its name, as OpenTelemetry's Prometheus
// naming puts it there.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, u := range [...]string{"seconds", "bytes"} {
		if strings.HasSuffix(name, "_"+u) {
			return u
		}
	}
	return ""
}
