package query

import (
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

const (
	// fewestRequests is how many independent requests a tenant needs for an interval.
	fewestRequests = 30
	// tenantBatch bounds the tenants whose slots are read at once.
	tenantBatch = 500
	// mostSlownesses is for how many times from which requests are slow a
	// summary remembers intervals.
	mostSlownesses = 4
)

// slowStore keeps what a summary knows of slow requests. Whoever holds turn
// may use it.
type slowStore struct {
	turn  chan struct{}
	all   []*slowTenants // the last used at the end
	slots *store.Query   // the question of slots, without tenants; nil until it is known
}

// slowTenants is each tenant's share of requests above a time.
type slowTenants struct {
	of      *tenantSummary
	st      store.Store
	above   float64   // seconds
	share   []float64 // by tenant
	alone   []float64 // by tenant: how many independent requests say as much as its own
	suffers []float64 // by tenant, see suffering
	ci      []stat.Interval
	known   []bool // whose interval was made
	release func()
}

// slowness returns the shares of requests above the time, for the caller alone
// until it calls done.
func (s *tenantSummary) slowness(ctx context.Context, st store.Store, from float64) (*slowTenants, error) {
	select {
	case s.slow.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := func() { <-s.slow.turn }
	at := slices.IndexFunc(s.slow.all, func(x *slowTenants) bool { return x.above == from })
	if at >= 0 {
		found := s.slow.all[at]
		s.slow.all = append(slices.Delete(s.slow.all, at, at+1), found)
		found.st, found.release = st, release
		return found, nil
	}
	x := &slowTenants{of: s, st: st, above: from, share: make([]float64, len(s.tenants)), alone: make([]float64, len(s.tenants)),
		suffers: make([]float64, len(s.tenants)), ci: make([]stat.Interval, len(s.tenants)), known: make([]bool, len(s.tenants)), release: release}
	var h hist.Histogram
	for i := range s.tenants {
		if err := h.UnmarshalBinary(s.tenants[i].hist); err != nil {
			release()
			return nil, err
		}
		x.share[i], x.alone[i] = above(&h, from), h.Effective()
		x.suffers[i] = suffering(&h, s.tenants[i].errors)
		x.ci[i] = stat.Interval{Low: math.NaN(), High: math.NaN()}
	}
	s.slow.all = append(s.slow.all[max(0, len(s.slow.all)-mostSlownesses+1):], x)
	return x, nil
}

// suffering returns how much a tenant suffers, to sort by: the lower end of the interval of its
// p99, in seconds, in which a failed request counts as one that is slower than any. Those
// whose p99 fails are ordered by how many do. It is NaN of too few requests for an interval.
func suffering(h *hist.Histogram, failed uint64) float64 {
	n := h.Effective()
	if n < fewestRequests {
		return math.NaN()
	}
	least, _ := wilson(0.99, n)
	if share := float64(failed) / float64(h.Count); share >= 1-least {
		return math.MaxFloat64 * share
	}
	return h.Quantile(least)
}

func (x *slowTenants) done() { x.release() }

// notRare says that the whole interval lies above rare.
func (x *slowTenants) notRare(i int, rare float64) bool { return x.known[i] && x.ci[i].Low > rare }

func (x *slowTenants) fill(t *api.Tenant, i int, rare float64) {
	t.SlowShare, t.SlowLow, t.SlowHigh = api.Float(x.share[i]), api.Float(x.ci[i].Low), api.Float(x.ci[i].High)
	t.NotRare = x.notRare(i, rare)
}

// judge makes the intervals of all tenants that may be the ones for whom slow
// requests are not rare. An interval made on slots is no narrower than that of
// as many independent requests, so who is below rare by the latter needs none.
func (x *slowTenants) judge(ctx context.Context, rare float64) error {
	var may []int
	for i, share := range x.share {
		if share <= rare {
			continue
		}
		if low, _ := wilson(share, x.alone[i]); low > rare {
			may = append(may, i)
		}
	}
	return x.know(ctx, may)
}

// wilson is Wilson's 95 % interval (1927, JASA 22) of a share of n.
func wilson(p, n float64) (low, high float64) {
	const c = 1.959
	mid, half := p+c*c/(2*n), c*math.Sqrt(p*(1-p)/n+c*c/(4*n*n))
	return (mid - half) / (1 + c*c/n), (mid + half) / (1 + c*c/n)
}

// know makes the intervals of tenants, given by their places, that are not known.
func (x *slowTenants) know(ctx context.Context, tenants []int) error {
	var missing []int
	for _, i := range tenants {
		switch {
		case x.known[i]:
		case x.alone[i] < fewestRequests:
			x.known[i] = true // that there is none
		default:
			missing = append(missing, i)
		}
	}
	for part := range slices.Chunk(missing, tenantBatch) {
		if err := x.learn(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// learn reads the slots of a few tenants.
func (x *slowTenants) learn(ctx context.Context, part []int) error {
	names := make([]string, len(part))
	place := make(map[string]int, len(part))
	for k, i := range part {
		names[k] = x.of.tenants[i].name
		place[names[k]] = k
	}
	m, err := anyTenant(labels.MatchRegexp, names)
	if err != nil {
		return err
	}
	q, err := x.of.filled(ctx, x.st)
	if err != nil {
		return err
	}
	q.By, q.Matchers = []string{series.LabelTenant}, append(slices.Clone(q.Matchers), m)
	res, err := x.st.Query(ctx, q)
	if err != nil {
		return err
	}
	slots := int((q.End - q.Start + q.Step - 1) / q.Step)
	tallies := make([]stat.Tally, len(part))
	for k := range tallies {
		tallies[k] = stat.Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
	}
	for _, g := range res.Groups {
		k, ok := place[g.Labels.Get(series.LabelTenant)]
		if !ok {
			continue
		}
		for _, p := range g.Points {
			if p.Hist == nil {
				continue
			}
			upTo, _, _ := p.Hist.AtMost(x.above)
			at := (p.Start - q.Start) / q.Step
			tallies[k].Num[at] += float64(p.Hist.Count) - upTo
			tallies[k].Den[at] += float64(p.Hist.Count)
			tallies[k].DenSquares += p.Hist.SquaredWeights()
		}
	}
	shares, err := stat.EachShare(tallies, stat.Options{})
	if err != nil {
		return err
	}
	for k, i := range part {
		x.ci[i], x.known[i] = shares[k].CI, true
	}
	return nil
}

// filled returns the question of slots that intervals are made on: of the time from the
// first request of anybody to the last, so that neither empty time around it nor who else
// is asked for changes an interval. The caller has the turn.
func (s *tenantSummary) filled(ctx context.Context, st store.Store) (store.Query, error) {
	if s.slow.slots != nil {
		return *s.slow.slots, nil
	}
	q := s.q
	q.Step = s.slot
	whole := q
	whole.By, whole.Measure = nil, store.Moments
	var err error
	if whole.View, err = viewFor(q.Family, q.Matchers, nil); err != nil {
		return q, err
	}
	for {
		res, err := st.Query(ctx, whole)
		if err != nil {
			return q, err
		}
		if int64(res.Resolution) > whole.Step { // finer ones are not kept that long
			break
		}
		q.Start, q.End, q.Step = whole.Start, whole.End, whole.Step
		first, last := q.End, q.Start
		for _, g := range res.Groups {
			for _, p := range g.Points {
				if p.Hist != nil && p.Hist.Count > 0 {
					first, last = min(first, p.Start), max(last, min(p.Start+q.Step, q.End))
				}
			}
		}
		if last <= first {
			break
		}
		q.Start, q.End = first, last
		slot := tenantSlot(first, last)
		if slot >= q.Step {
			break
		}
		whole.Start, whole.End, whole.Step = first, last, slot
	}
	s.slow.slots = &q
	return q, nil
}
