package query

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// keptFor is how long minutes are kept before all are read anew, in seconds: what comes
	// late is usual from then on.
	keptFor = 15 * 60
	// mostStretches bounds the stretches of minutes that are kept, mostMinutes the minutes of all
	// services in one, as which packedMinute bytes of packed durations count too.
	mostStretches = 12
	mostMinutes   = 100_000
	packedMinute  = 256
)

// minute is what the requests of one minute come to.
type minute struct {
	start         int64
	count, errors float64
	squares       float64 // Σw² of all
	p50, p99      float64 // NaN where they are not known
	packed        []byte  // durations in hist's binary form, of minutes that do not hold a p99; else nil
	apdex         float64 // NaN where it is not known, or nobody set a T
}

// minuteCache keeps the minutes of stretches that move with the present, so that only new ones
// are read. The zero value is ready.
type minuteCache struct {
	mu   sync.Mutex
	kept map[string]stretch
}

// stretch holds the minutes of [from, to), Unix seconds, as readMinutes returns them. They stay as
// they are.
type stretch struct {
	from, to int64
	since    int64 // when the oldest were read
	of       map[serviceIn][]minute
}

// read returns the minutes of [from, to), of which it asks anew for those that are not past or not
// kept.
func (c *minuteCache) read(key string, from, to, now int64, anew func(from, to int64) (map[serviceIn][]minute, error)) (map[serviceIn][]minute, error) {
	c.mu.Lock()
	k, ok := c.kept[key]
	c.mu.Unlock()
	cut := series.Minute.Slot(min(k.to, now-pastAfter, to))
	ok = ok && k.from <= from && cut > from && now-k.since < keptFor
	if !ok {
		k, cut = stretch{since: now}, from
	}
	out, err := anew(cut, to)
	if err != nil {
		return nil, err
	}
	if ok {
		out = joinMinutes(k.of, out, from, cut)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string]stretch{}
	}
	maps.DeleteFunc(c.kept, func(_ string, k stretch) bool { return now-k.since >= keptFor })
	delete(c.kept, key)
	if len(c.kept) < mostStretches && sizeOf(out) <= mostMinutes {
		// The next question asks anew for what is not past at this one.
		c.kept[key] = stretch{from, min(to, series.Minute.Slot(now-pastAfter)), k.since, out}
	}
	return out, nil
}

// sizeOf returns the number of minutes of services, and of what is packed as many as its memory is worth.
func sizeOf(services map[serviceIn][]minute) int {
	n, packed := 0, 0
	for _, ms := range services {
		n += len(ms)
		for i := range ms {
			packed += len(ms[i].packed)
		}
	}
	return n + packed/packedMinute
}

// joinMinutes returns the minutes of [from, cut) of before, and behind them those of after. Each
// service has all minutes in which any has requests.
func joinMinutes(before, after map[serviceIn][]minute, from, cut int64) map[serviceIn][]minute {
	out := map[serviceIn][]minute{}
	for of, ms := range before {
		out[of] = slices.DeleteFunc(slices.Clone(ms), func(m minute) bool { return m.start < from || m.start >= cut })
	}
	first, last := quietOf(out), quietOf(after)
	for of := range after {
		if out[of] == nil {
			out[of] = slices.Clone(first)
		}
	}
	for of, ms := range out {
		next, ok := after[of]
		if !ok {
			next = last
		}
		out[of] = append(ms, next...)
	}
	return out
}

// quietOf returns the minutes of services as they are of one without requests.
func quietOf(services map[serviceIn][]minute) (out []minute) {
	for _, ms := range services {
		for _, m := range ms {
			out = append(out, minute{start: m.start, p50: math.NaN(), p99: math.NaN(), apdex: math.NaN()})
		}
		break
	}
	return out
}

// readMinutes returns the minutes of each service in which any service has requests; a
// later question's answer supersedes an earlier one's. It returns none where only longer
// slots are kept.
func readMinutes(ctx context.Context, st store.Store, qs []store.Query, from, to int64, targets map[string]float64) (map[serviceIn][]minute, error) {
	from = max(from, 0)
	if to <= from {
		return nil, nil
	}
	found := map[serviceIn][]store.Group{}
	for _, q := range qs {
		q.Start, q.End, q.Step = from, to, minuteLong
		res, err := st.Query(ctx, q)
		if err != nil || res.Resolution > series.Minute {
			return nil, err
		}
		maps.Copy(found, byService(res.Groups))
	}
	n := int((to - from) / minuteLong)
	any, moments := make([]bool, n), qs[0].Measure == store.Moments
	out := map[serviceIn][]minute{}
	for of, groups := range found {
		all, good := make([]*hist.Histogram, n), make([]*hist.Histogram, n)
		ms := make([]minute, n)
		t, set := targets[of.name]
		for _, g := range onlyRequests(groups) {
			failed := g.Labels.Get(series.LabelStatus) == statusError
			for _, p := range g.Points {
				if p.Hist == nil || p.Hist.Count == 0 {
					continue
				}
				i := (p.Start - from) / minuteLong
				any[i] = true
				ms[i].add(p.Hist, failed)
				if moments {
					continue
				}
				if set && !failed {
					if good[i] == nil {
						good[i] = hist.New(hist.MaxSchema)
					}
					if err := good[i].Merge(p.Hist); err != nil {
						return nil, err
					}
				}
				if all[i] == nil {
					all[i] = p.Hist
				} else if err := all[i].Merge(p.Hist); err != nil {
					return nil, err
				}
			}
		}
		for i, h := range all {
			m := &ms[i]
			m.start, m.apdex = from+int64(i)*minuteLong, math.NaN()
			if err := m.durations(h); err != nil {
				return nil, err
			}
			if set && h != nil {
				m.apdex = ScoreApdex(good[i], uint64(m.errors), t).Score
			}
		}
		out[of] = ms
	}
	for of, ms := range out {
		out[of] = slices.DeleteFunc(ms, func(m minute) bool { return !any[(m.start-from)/minuteLong] })
	}
	return out, nil
}

func (m *minute) add(h *hist.Histogram, failed bool) {
	m.count += float64(h.Count)
	m.squares += h.SquaredWeights()
	if failed {
		m.errors += float64(h.Count)
	}
}

// alone returns the number of independent requests that say as much as those of the minute.
func (m *minute) alone() float64 { return m.count * m.count / m.squares }

// durations takes those of all requests of the minute; h may be nil.
func (m *minute) durations(h *hist.Histogram) (err error) {
	m.p50, m.p99 = math.NaN(), math.NaN()
	if h == nil {
		return nil
	}
	m.p50, m.p99 = h.Quantile(0.5), h.Quantile(0.99)
	if !holds(nowQuantiles[1].Q, m.alone()) {
		// About two bytes for each bucket.
		m.packed, err = h.AppendBinary(make([]byte, 0, 64+2*min(h.Count, uint64(len(h.Positive.Counts)))))
	}
	return err
}
