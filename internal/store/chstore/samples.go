package chstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// sampledKey is a series of raw samples.
type sampledKey struct {
	id   [16]byte
	kind series.Kind
}

// sampled is a series of an answer.
type sampled struct {
	store.SampleSeries
	cut int64 // ms: samples before it were dropped
}

// sampleQuestion selects series with raw samples.
type sampleQuestion struct {
	s        *Store
	m        *meta
	family   string
	selected string // condition on rows of series
	series   map[sampledKey]*sampled
}

// newSampleQuestion selects series by their identities, or by matchers if those are nil, of
// the days that [from, to] touches, in ms.
func (s *Store) newSampleQuestion(m *meta, family string, matchers []*labels.Matcher, ids []series.ID, from, to int64) (*sampleQuestion, error) {
	if ids != nil {
		matchers = nil
	}
	until := int64(math.MaxInt64)
	if to < math.MaxInt64-1000 {
		until = tier.FloorDiv(to, 1000) + 1
	}
	c, err := onDays(m, family, series.Full, matchers, tier.FloorDiv(from, 1000), until)
	if err != nil {
		return nil, err
	}
	c += " AND kind != 0"
	if ids != nil {
		all := make([]string, len(ids))
		for i, id := range ids {
			b := idBytes(id)
			all[i] = fixed(b[:])
		}
		c += " AND id IN (" + strings.Join(all, ",") + ")"
	}
	return &sampleQuestion{s: s, m: m, family: family, selected: c, series: map[sampledKey]*sampled{}}, nil
}

// readSeries reads the series that are selected, and where their samples were cut.
func (q *sampleQuestion) readSeries(ctx context.Context) error {
	s := q.s
	var mu sync.Mutex
	return s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		r, err := s.client.read(ctx, n, "SELECT id, kind, any(names), any(values) FROM "+s.local("series")+" WHERE "+q.selected+" GROUP BY id, kind")
		if err != nil {
			return err
		}
		cuts := &rows{}
		if q.m.families[q.family].Dropped.Times > 0 {
			cuts, err = s.client.read(ctx, n, "SELECT id, kind, max(cut) FROM "+s.local("cuts")+" WHERE family = "+quote(q.family)+
				" AND id IN (SELECT id FROM "+s.local("series")+" WHERE "+q.selected+") GROUP BY id, kind")
			if err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		var b labels.ScratchBuilder
		for r.next() {
			k := r.sampledKey()
			names, values := r.strings(), r.strings()
			if r.err == nil && len(names) != len(values) {
				return fmt.Errorf("%d names of labels, %d values: %w", len(names), len(values), store.ErrCorrupt)
			}
			if r.err != nil {
				break
			}
			if err := store.BudgetOf(ctx).Reserve(seriesBytes); err != nil {
				return err
			}
			q.series[k] = &sampled{SampleSeries: store.SampleSeries{Labels: labelsOf(&b, names, values), Kind: k.kind}, cut: math.MinInt64}
		}
		for cuts.next() {
			k := cuts.sampledKey()
			if of, cut := q.series[k], cuts.int64(); of != nil {
				of.cut = cut
			}
		}
		if r.err != nil {
			return r.err
		}
		return cuts.err
	})
}

func (r *rows) sampledKey() (k sampledKey) {
	copy(k.id[:], r.take(16))
	k.kind = series.Kind(r.uint8())
	return k
}

// rows returns the condition on rows of samples in [from, to], in ms.
func (q *sampleQuestion) rows(from, to int64) string {
	from = max(from, q.m.tiers.SampleFloor*1000)
	const most = math.MaxInt32 / 2
	part := func(ms int64) int64 {
		return min(max(tier.FloorDiv(tier.FloorDiv(ms, 1000), samplePart), -most), most)
	}
	return "family = " + quote(q.family) + fmt.Sprintf(" AND part >= %d AND part <= %d AND ms >= %d AND ms <= %d AND ", part(from), part(to), from, to) +
		q.m.visible.rows(false) + " AND id IN (SELECT id FROM " + q.s.local("series") + " WHERE " + q.selected + ")"
}

// sampleBytes is the memory of a sample in an answer.
const sampleBytes = 16

// Samples returns raw samples. See store.Store.
func (s *Store) Samples(ctx context.Context, q store.SampleQuery) ([]store.SampleSeries, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := s.samples(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("samples of %s: %w", q.Family, err)
	}
	return out, nil
}

func (s *Store) samples(ctx context.Context, q store.SampleQuery) ([]store.SampleSeries, error) {
	if q.EndMillis < q.StartMillis || q.IDs != nil && len(q.IDs) == 0 {
		return nil, nil
	}
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, err
	}
	x, err := s.newSampleQuestion(m, q.Family, q.Matchers, q.IDs, q.StartMillis, q.EndMillis)
	if err != nil {
		return nil, err
	}
	if err := x.readSeries(ctx); err != nil {
		return nil, err
	}
	if q.MaxSeries > 0 && len(x.series) > q.MaxSeries {
		return nil, fmt.Errorf("%d series match, the limit is %d: %w", len(x.series), q.MaxSeries, store.ErrTooMany)
	}
	if len(x.series) == 0 {
		return nil, nil
	}
	query := "SELECT id, kind, ms, value FROM " + s.local("samples") + " WHERE " + x.rows(q.StartMillis, q.EndMillis) + " ORDER BY id, kind, ms, put"
	passing, passed := store.Passing(ctx)
	defer passed()
	var mu sync.Mutex
	err = s.eachShard(passing, func(pctx context.Context, _ int, n *node) error {
		r, err := s.client.read(pctx, n, query)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		var of *sampled
		var last sampledKey
		for r.next() {
			if k := r.sampledKey(); of == nil || k != last {
				of, last = x.series[k], k
			}
			v := series.Sample{TimeMillis: r.int64(), Value: r.float64()}
			if of == nil || v.TimeMillis < of.cut {
				continue
			}
			if err := of.add(ctx, v); err != nil {
				return err
			}
		}
		return r.err
	})
	if err != nil {
		return nil, err
	}
	var out []store.SampleSeries
	for _, of := range x.series {
		if q.Dropped && of.cut > q.StartMillis {
			start := tier.Floor(q.StartMillis, hour*1000)
			of.Dropped = []store.Span{{Start: start, End: min(of.cut, tier.Floor(q.EndMillis, hour*1000)+hour*1000)}}
		}
		if len(of.Samples)+len(of.Dropped) > 0 {
			out = append(out, of.SampleSeries)
		}
	}
	slices.SortFunc(out, func(a, b store.SampleSeries) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// add adds the next sample; of equal times the later one counts.
func (of *sampled) add(ctx context.Context, v series.Sample) error {
	if n := len(of.Samples); n > 0 && of.Samples[n-1].TimeMillis == v.TimeMillis {
		of.Samples[n-1] = v
		return nil
	}
	if n := len(of.Samples); n == cap(of.Samples) {
		if err := store.BudgetOf(ctx).Reserve(int64(max(n, 16)) * sampleBytes); err != nil {
			return err
		}
		of.Samples = slices.Grow(of.Samples, max(n, 16))
	}
	of.Samples = append(of.Samples, v)
	return nil
}

// nearestWithin are the distances, in ms, within which Nearest searches one after the other.
var nearestWithin = [...]int64{hour * 1000, 3 * day * 1000, math.MaxInt64}

// Nearest returns the sample of each series that is closest to a moment. See store.Store.
func (s *Store) Nearest(ctx context.Context, family string, matchers []*labels.Matcher, timeMillis int64) ([]store.SampleSeries, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := s.nearest(ctx, family, matchers, timeMillis)
	if err != nil {
		return nil, fmt.Errorf("nearest sample of %s: %w", family, err)
	}
	return out, nil
}

func (s *Store) nearest(ctx context.Context, family string, matchers []*labels.Matcher, at int64) ([]store.SampleSeries, error) {
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, err
	}
	// A series may have its only sample on any day.
	x, err := s.newSampleQuestion(m, family, matchers, nil, m.tiers.SampleFloor*1000, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if err := x.readSeries(ctx); err != nil {
		return nil, err
	}
	var out []store.SampleSeries
	for _, within := range nearestWithin {
		if len(x.series) == 0 {
			break
		}
		from, to := int64(math.MinInt64), int64(math.MaxInt64)
		if within < math.MaxInt64 {
			from, to = at-within, at+within
		}
		if len(out) > 0 && len(x.series) <= fewSeries {
			x.selectRest()
		}
		found, err := x.closest(ctx, at, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b store.SampleSeries) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// fewSeries is the number of series that a statement names one by one.
const fewSeries = 1000

// selectRest selects only the series that are left.
func (q *sampleQuestion) selectRest() {
	var ids []string
	for k := range q.series {
		ids = append(ids, fixed(k.id[:]))
	}
	q.selected += " AND id IN (" + strings.Join(ids, ",") + ")"
}

// closest returns, and removes from the question, the series with a sample in [from, to],
// with the closest to the moment.
func (q *sampleQuestion) closest(ctx context.Context, at, from, to int64) ([]store.SampleSeries, error) {
	s := q.s
	// Twice the distance, and one more for what is later: a tie goes to the earlier.
	key := fmt.Sprintf("abs(ms - %d) * 2 + (ms > %d)", at, at)
	cut := "(SELECT id, kind, max(cut) AS cut FROM " + s.local("cuts") + " WHERE family = " + quote(q.family) + " GROUP BY id, kind)"
	query := "SELECT id, kind, ms, value FROM (SELECT id, kind, ms, value, put FROM " + s.local("samples") + " WHERE " + q.rows(from, to) + ") ANY LEFT JOIN " + cut +
		" USING id, kind WHERE ms >= cut ORDER BY id, kind, " + key + ", put DESC LIMIT 1 BY id, kind"
	var out []store.SampleSeries
	var mu sync.Mutex
	err := s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		r, err := s.client.read(ctx, n, query)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			k := r.sampledKey()
			v := series.Sample{TimeMillis: r.int64(), Value: r.float64()}
			if of := q.series[k]; of != nil && r.err == nil {
				of.Samples = []series.Sample{v}
				out = append(out, of.SampleSeries)
				delete(q.series, k)
			}
		}
		return r.err
	})
	return out, err
}
