package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Families of what the senders send beside spans.
const (
	familyDelta      = "delta_seconds"
	familyCumulative = "cumulative_seconds"
	familyGauge      = "queue_length"
	familySum        = "orders"
	familyMark       = "marks" // not a family: the ledger's name for marks
)

// senders holds the state of the senders.
type senders struct {
	incarnation int
	streams     [3]cumulative
	sums        map[int64]int64   // times of the last increments, by service
	used        map[[2]int64]bool // service and millisecond of gauges
	marks       int
}

// cumulative is a cumulative histogram's sender.
type cumulative struct {
	instance string
	count    uint64
	time     int64  // Unix nanoseconds of the last point
	primed   Moment // when the first point, which is empty, was acknowledged
}

// restarted lets senders go on after a crash that kept what was acknowledged
// until a moment: whose first point may be gone begins anew.
func (s *senders) restarted(kept Moment) {
	for i := range s.streams {
		if c := &s.streams[i]; c.primed > kept || c.primed == 0 {
			*c = cumulative{}
		}
	}
}

func (c *cumulative) line() Line {
	return Line{Family: familyCumulative, Service: "s", Instance: c.instance}
}

// operation does one thing at random.
func (w *world) operation(ctx context.Context) error {
	k := w.rng.IntN(100)
	if w.plain && k >= 45 && k < 60 {
		k = 0
	}
	switch {
	case k < 45:
		return w.send(ctx, w.rng)
	case k < 55:
		return w.cumulative(ctx)
	case k < 60:
		return w.mark(ctx)
	case k < 66:
		return w.storm(ctx)
	case k < 82:
		passed := int64(w.rng.IntN(25e9))
		w.now.Add(passed)
		w.passed.Add(passed)
	case k < 93:
		m := w.ledger.Mark()
		if err := w.a.Flush(ctx); err == nil {
			w.keep(m)
		} else if !w.faulty {
			return fmt.Errorf("flush: %w", err)
		}
	case k < 96:
		if k == 93 {
			if err := w.leap(ctx); err != nil {
				return err
			}
		}
		if err := w.st.Maintain(ctx, w.clock()); err != nil && !w.faulty {
			return fmt.Errorf("maintain: %w", err)
		}
	default: // let the syncer come by
		time.Sleep(3 * time.Millisecond)
	}
	return nil
}

// leapt is the leap of the clock, in nanoseconds.
const leapt = int64(10 * 365 * 24 * time.Hour)

// leap flushes and maintains while the clock is years ahead: nothing may expire.
func (w *world) leap(ctx context.Context) error {
	w.ahead.Store(leapt)
	defer w.ahead.Store(0)
	if err := w.a.Flush(ctx); err != nil && !w.faulty {
		return fmt.Errorf("flush with the clock years ahead: %w", err)
	}
	if err := w.st.Maintain(ctx, w.clock()); err != nil && !w.faulty {
		return fmt.Errorf("maintain with the clock years ahead: %w", err)
	}
	return nil
}

// storm sends from several goroutines while generations are cut.
func (w *world) storm(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		seed := w.rng.Uint64()
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 3))
			for range 5 {
				if i == 0 {
					if err := w.a.Flush(ctx); err != nil && !w.faulty {
						errs[i] = fmt.Errorf("flush: %w", err)
					}
				} else if errs[i] == nil {
					errs[i] = w.send(ctx, rng)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// send commits one request of spans, of histograms, or of increments.
func (w *world) send(ctx context.Context, rng *rand.Rand) error {
	b := w.a.NewBatch()
	from, to := b.Accepts()
	now := w.now.Load()
	entries := map[Line]uint64{}
	refused := 0
	within := func(t int64) bool {
		if t < from || t > to {
			refused++
			return false
		}
		return true
	}
	service := fmt.Sprint("s", rng.IntN(3))
	kind := rng.IntN(8)
	if w.plain {
		kind = 7
	}
	switch kind {
	default:
		n := 1 + rng.IntN(30)
		if rng.IntN(20) == 0 {
			n = 2000
		}
		for range n {
			id := agg.SpanIdentity{Service: service, Operation: fmt.Sprint("o", rng.IntN(4)), Kind: "server",
				Tenant: fmt.Sprint("t", rng.IntN(6)), Instance: fmt.Sprint("i", rng.IntN(2))}
			late := rng.Int64N(20e9)
			if rng.IntN(20) == 0 {
				late = rng.Int64N(2 * 3600e9)
			}
			weight := uint32(1)
			if rng.IntN(20) == 0 && !w.plain {
				weight += rng.Uint32N(9)
			}
			end := now - late
			b.Observe(w.a.SpanTarget(&id), end, rng.Int64N(1<<rng.IntN(34)), weight)
			if within(end) {
				entries[Line{series.SpanDuration, id.Service, id.Operation, id.Tenant, "", slotOf(end)}] += uint64(weight)
			}
		}
	case 0:
		h := hist.New(5)
		n := uint64(1 + rng.IntN(50))
		for range n {
			if err := h.Record(rng.Float64()); err != nil {
				return err
			}
		}
		b.Distribution(w.a.SeriesTarget(metric(familyDelta, series.Distribution, service, "")), now, h)
		if within(now) {
			entries[Line{Family: familyDelta, Service: service, Slot: slotOf(now)}] += n
		}
	case 1:
		// Increments from before the last one count at its time, where only one
		// running total can be: this sender waits until the clock has caught up.
		if !w.senders.later(now, int64(service[1])) {
			break
		}
		n := 1 + rng.Uint64N(9)
		b.DeltaNumber(w.a.SeriesTarget(metric(familySum, series.Counter, service, "")), agg.StreamID{7, uint64(service[1])}, now, float64(n))
		if within(now) {
			entries[Line{Family: familySum, Service: service}] += n
		}
	case 2:
		at := w.senders.moment(rng, now, int64(service[1]))
		b.Number(w.a.SeriesTarget(metric(familyGauge, series.Gauge, service, "")), at, float64(rng.IntN(100)))
		if within(at) {
			entries[Line{Family: familyGauge, Service: service, Slot: slotOf(at)}]++
		}
	}
	req := w.ledger.Begin(entries)
	rejects, err := b.Commit(ctx)
	switch {
	case err != nil:
		req.Refused()
		if !w.faulty {
			return fmt.Errorf("commit: %w", err)
		}
	case rejects.Total() != refused:
		return fmt.Errorf("commit refused %+v, %d were to be", rejects, refused)
	default:
		req.Acknowledged()
	}
	return nil
}

func metric(family string, kind series.Kind, service, instance string) series.Series {
	return series.Series{Family: family, Kind: kind, Labels: labels.FromMap(map[string]string{"service": service, "instance": instance}).WithoutEmpty()}
}

func slotOf(nanos int64) int64 { return series.Base.Slot(nanos / 1e9) }

var momentsMu sync.Mutex

// later reports whether now is after the service's last increment, and makes it that.
func (s *senders) later(now, service int64) bool {
	momentsMu.Lock()
	defer momentsMu.Unlock()
	if s.sums == nil {
		s.sums = map[int64]int64{}
	}
	if now/1e6 <= s.sums[service]/1e6 {
		return false
	}
	s.sums[service] = now
	return true
}

// moment returns a time close to now, in whole milliseconds, that no other
// sample of the service has.
func (s *senders) moment(rng *rand.Rand, now, service int64) int64 {
	momentsMu.Lock()
	defer momentsMu.Unlock()
	if s.used == nil {
		s.used = map[[2]int64]bool{}
	}
	for {
		ms := now/1e6 - rng.Int64N(10_000)
		if k := [2]int64{service, ms}; !s.used[k] {
			s.used[k] = true
			return ms * 1e6
		}
	}
}

// cumulative commits the next point of a cumulative histogram.
func (w *world) cumulative(ctx context.Context) error {
	c := &w.senders.streams[w.rng.IntN(len(w.senders.streams))]
	if c.instance == "" {
		w.senders.incarnation++
		c.instance = fmt.Sprint("i", w.senders.incarnation)
	}
	h := hist.New(5)
	totals := map[Line]uint64{}
	if c.primed > 0 {
		c.count += w.rng.Uint64N(20)
		if err := h.RecordN(0.1, c.count); c.count > 0 && err != nil {
			return err
		}
		totals[c.line()] = c.count
	}
	c.time = max(c.time+1, w.now.Load())
	b := w.a.NewBatch()
	var id agg.StreamID
	fmt.Sscanf(c.instance, "i%d", &id[0])
	b.Cumulative(w.a.SeriesTarget(metric(familyCumulative, series.Distribution, "s", c.instance)), id, 77, 0, c.time, h)
	req := w.ledger.BeginTotal(totals)
	rejects, err := b.Commit(ctx)
	switch {
	case err != nil && !w.faulty:
		return fmt.Errorf("commit: %w", err)
	case err != nil || rejects.Total() > 0:
		req.Refused()
	default:
		req.Acknowledged()
		if c.primed == 0 {
			c.primed = w.ledger.Mark()
		}
	}
	return nil
}

func (w *world) mark(ctx context.Context) error {
	w.senders.marks++
	id := fmt.Sprint("m", w.senders.marks)
	req := w.ledger.Begin(map[Line]uint64{{Family: familyMark, Operation: id}: 1})
	err := store.PutMark(ctx, w.st, store.Mark{ID: id, Time: w.clock(), Name: "deployed"})
	if err == nil {
		req.Acknowledged()
		return nil
	}
	if !w.faulty {
		return fmt.Errorf("mark: %w", err)
	}
	req.Refused()
	return nil
}

// stored asks for everything, as lines of the ledger.
func (w *world) stored(ctx context.Context) (map[Line]uint64, error) {
	out := map[Line]uint64{}
	start, end := w.begin-24*3600, w.now.Load()/1e9+24*3600
	ask := func(family string, v series.View, add func(labels.Labels, int64, uint64)) error {
		r, err := w.st.Query(ctx, store.Query{Family: family, View: v, Start: start - start%10, End: end - end%10, Step: 10, Each: true, Schema: hist.DefaultSchema, Measure: store.Moments})
		if err != nil {
			return fmt.Errorf("ask for %s: %w", family, err)
		}
		for _, g := range r.Groups {
			for _, p := range g.Points {
				add(g.Labels, p.Start, p.Hist.Count)
			}
		}
		return nil
	}
	type place struct {
		service string
		slot    int64
	}
	var views [3]map[place]uint64
	for v := range views {
		views[v] = map[place]uint64{}
		err := ask(series.SpanDuration, series.View(v), func(l labels.Labels, slot int64, n uint64) {
			service := l.Get(series.LabelService)
			views[v][place{service, slot}] += n
			if v == int(series.Full) {
				out[Line{series.SpanDuration, service, l.Get(series.LabelOperation), l.Get(series.LabelTenant), "", slot}] += n
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for v := range views {
		for at, n := range views[0] {
			if !w.lenient && (views[v][at] != n || len(views[v]) != len(views[0])) {
				return nil, fmt.Errorf("views differ: %v holds %d in full, %d in view %d", at, n, views[v][at], v)
			}
		}
	}
	err := ask(familyDelta, series.Full, func(l labels.Labels, slot int64, n uint64) {
		out[Line{Family: familyDelta, Service: l.Get("service"), Slot: slot}] += n
	})
	if err != nil {
		return nil, err
	}
	err = ask(familyCumulative, series.Full, func(l labels.Labels, _ int64, n uint64) {
		out[Line{Family: familyCumulative, Service: l.Get("service"), Instance: l.Get("instance")}] += n
	})
	if err != nil {
		return nil, err
	}
	for _, family := range []string{familyGauge, familySum} {
		all, err := w.st.Samples(ctx, store.SampleQuery{Family: family, StartMillis: start * 1e3, EndMillis: end * 1e3})
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", family, err)
		}
		for _, s := range all {
			service := s.Labels.Get("service")
			if family == familySum {
				out[Line{Family: familySum, Service: service}] = uint64(s.Samples[len(s.Samples)-1].Value)
				continue
			}
			for _, v := range s.Samples {
				out[Line{Family: family, Service: service, Slot: slotOf(v.TimeMillis * 1e6)}]++
			}
		}
	}
	marks, err := store.Marks(ctx, w.st, time.Unix(start, 0), time.Unix(end, 0))
	if err != nil {
		return nil, fmt.Errorf("marks: %w", err)
	}
	for _, m := range marks {
		out[Line{Family: familyMark, Operation: m.ID}]++
	}
	return out, nil
}
