package legs

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// Families of mirror sessions, and their labels beside those of package series.
// The primary's requests that were not chosen carry mirrored="no".
const (
	familyDuration  = "mirror_duration_seconds"
	familyFirstByte = "mirror_first_byte_seconds"
	familyBytes     = "mirror_answer_bytes"
	familyRatio     = "mirror_ratio"

	labelExperiment = "experiment"
	labelAgainst    = "against"
	labelMirrored   = "mirrored"
	statusOK        = "ok"
)

// leg is what one server made of some requests, slot by slot.
type leg struct {
	ok          []*hist.Histogram // of whole answers below 500; nil where there are none
	failed, all []float64         // requests, of each slot
	good        uint64            // of all slots
	whole       *stat.Series      // of ok, once it was asked for
}

// legKey names a server, and for a ratio the one it is set against.
type legKey struct{ variant, against string }

// legs are those of everything, of an operation or of a tenant.
type legs map[legKey]*leg

// grid is where slots lie.
type grid struct {
	start, step int64
	n           int
}

func (g grid) end() int64 { return g.start + int64(g.n)*g.step }

// steps are the lengths of slots; the first is taken of which there are few enough.
var steps = []int64{int64(series.Base), int64(series.Minute), int64(series.TenMin), int64(series.Hour)}

const mostSlots = 720

func gridOf(start, end int64) grid {
	for _, step := range steps {
		g := grid{start: start - start%step, step: step}
		g.n = int((end - g.start + step - 1) / step)
		if g.n <= mostSlots || step == steps[len(steps)-1] {
			return g
		}
	}
	return grid{}
}

// coarser is the same range in slots no shorter than a resolution.
func (g grid) coarser(least series.Resolution) grid {
	i := slices.IndexFunc(steps, func(s int64) bool { return s >= max(g.step, int64(least)) })
	step := steps[max(i, 0)]
	out := grid{start: g.start - g.start%step, step: step}
	out.n = int((g.end() - out.start + step - 1) / step)
	return out
}

// data is what a verdict is made of. Of everything the legs of all families are
// kept, of operations and tenants durations and ratios.
type data struct {
	grid
	duration, first, bytes, ratio legs
	operations, tenants           map[string]*rowData
	tenantStep                    int64 // of the slots of tenants
}

type rowData struct{ duration, ratio legs }

// errCoarse says that slots of a length are not kept any more.
type errCoarse struct{ kept series.Resolution }

func (errCoarse) Error() string { return "only longer slots are kept" }

// question says what of a session is read.
type question struct {
	service, id      string
	control, primary string // control is empty without one
	first, bytes     bool   // whether times to the first byte, and sizes, are wanted
	family, by       string // values of by are told apart, unless it is empty
}

// read reads a session's measurements, in longer slots where only those are kept.
func read(ctx context.Context, st store.Store, q question, g grid) (*data, error) {
	for range steps {
		d, err := readIn(ctx, st, q, g)
		var coarse errCoarse
		if !errors.As(err, &coarse) {
			return d, err
		}
		g = g.coarser(coarse.kept)
	}
	return &data{grid: g}, nil
}

// Tenants are many: where their legs would have more slots than that in all,
// they are read in slots of which a session still has enough.
const manySlots, enoughSlots = 20_000, 30

func readIn(ctx context.Context, st store.Store, q question, g grid) (*data, error) {
	d := &data{grid: g, operations: map[string]*rowData{}, tenants: map[string]*rowData{}}
	tenants, err := tenantsOf(ctx, st, q, g)
	if err != nil {
		return nil, err
	}
	gt := g
	for _, step := range steps {
		if long := g.coarser(series.Resolution(step)); len(tenants)*gt.n > manySlots && long.n >= enoughSlots {
			gt = long
		}
	}
	d.tenantStep = gt.step
	var byOperation, byTenant [2]map[string]legs
	e, ctx := errgroup.WithContext(ctx)
	reading := func(to *map[string]legs, family, by string, g grid, more ...*labels.Matcher) {
		q := q
		q.family, q.by = family, by
		e.Go(func() (err error) {
			*to, err = readBy(ctx, st, q, g, more...)
			return err
		})
	}
	var first, bytes map[string]legs
	for i, family := range []string{familyDuration, familyRatio} {
		reading(&byOperation[i], family, series.LabelOperation, g)
		if len(tenants) > 1 {
			reading(&byTenant[i], family, series.LabelTenant, gt, labels.MustNewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(tenants...)))
		}
	}
	if q.first {
		reading(&first, familyFirstByte, "", g)
	}
	if q.bytes {
		reading(&bytes, familyBytes, "", g)
	}
	if err := e.Wait(); err != nil {
		return nil, err
	}
	d.first, d.bytes = first[""], bytes[""]
	for _, sum := range []struct {
		to   *legs
		from map[string]legs
	}{{&d.duration, byOperation[0]}, {&d.ratio, byOperation[1]}} {
		if *sum.to, err = together(sum.from, g.n); err != nil {
			return nil, err
		}
	}
	for _, rows := range []struct {
		from [2]map[string]legs
		to   map[string]*rowData
	}{{byOperation, d.operations}, {byTenant, d.tenants}} {
		for name, durations := range rows.from[0] {
			if name != "" && name != series.Other {
				rows.to[name] = &rowData{duration: durations, ratio: rows.from[1][name]}
			}
		}
	}
	return d, nil
}

// tenantsOf are the tenants with the most requests at the primary.
func tenantsOf(ctx context.Context, st store.Store, q question, g grid) ([]string, error) {
	res, err := st.Query(ctx, store.Query{
		Family: familyDuration, Start: g.start, End: g.end(), Measure: store.Moments, Schema: hist.DefaultSchema, By: []string{series.LabelTenant}, TopK: MostRows + 2,
		Matchers: append(q.matchers(), labels.MustNewMatcher(labels.MatchEqual, series.LabelVariant, q.primary)),
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, group := range res.Groups {
		if name := group.Labels.Get(series.LabelTenant); name != "" && name != series.Other && len(names) < MostRows {
			names = append(names, name)
		}
	}
	return names, nil
}

// together are the legs of all operations.
func together(of map[string]legs, slots int) (legs, error) {
	out := legs{}
	for _, some := range of {
		for key, l := range some {
			to := out[key]
			if to == nil {
				to = newLeg(slots)
				out[key] = to
			}
			to.good += l.good
			for t, h := range l.ok {
				to.failed[t] += l.failed[t]
				to.all[t] += l.all[t]
				switch {
				case h == nil:
				case to.ok[t] == nil:
					to.ok[t] = h.Clone()
				default:
					if err := to.ok[t].Merge(h); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return out, nil
}

func newLeg(slots int) *leg {
	return &leg{ok: make([]*hist.Histogram, slots), failed: make([]float64, slots), all: make([]float64, slots)}
}

func (q *question) matchers() []*labels.Matcher {
	return []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, series.LabelService, q.service),
		labels.MustNewMatcher(labels.MatchEqual, labelExperiment, q.id),
		labels.MustNewMatcher(labels.MatchEqual, labelMirrored, ""),
	}
}

// readBy reads a family by the values of a label, under no name if it has none
// to be told apart by. With a control the candidates' ratios to the primary are
// of no use, and left out.
func readBy(ctx context.Context, st store.Store, q question, g grid, more ...*labels.Matcher) (map[string]legs, error) {
	parts := [][]*labels.Matcher{nil}
	if q.family == familyRatio && q.control != "" {
		parts = [][]*labels.Matcher{
			{labels.MustNewMatcher(labels.MatchEqual, labelAgainst, q.control)},
			{labels.MustNewMatcher(labels.MatchEqual, series.LabelVariant, q.control)},
		}
	}
	out := map[string]legs{}
	for _, part := range parts {
		ask := store.Query{
			Family: q.family, Start: g.start, End: g.end(), Step: g.step, Schema: hist.MaxSchema,
			Matchers: slices.Concat(q.matchers(), more, part), By: []string{series.LabelVariant, labelAgainst, series.LabelStatus},
		}
		if q.by != "" {
			ask.By = append(ask.By, q.by)
		}
		res, err := st.Query(ctx, ask)
		if err != nil {
			return nil, err
		}
		if int64(res.Resolution) > g.step {
			return nil, errCoarse{res.Resolution}
		}
		for i := range res.Groups {
			if err := take(out, &res.Groups[i], q.by, g); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// take puts a group of the store where it belongs.
func take(out map[string]legs, group *store.Group, by string, g grid) error {
	name := ""
	if by != "" {
		name = group.Labels.Get(by)
	}
	if out[name] == nil {
		out[name] = legs{}
	}
	key := legKey{group.Labels.Get(series.LabelVariant), group.Labels.Get(labelAgainst)}
	l := out[name][key]
	if l == nil {
		l = newLeg(g.n)
		out[name][key] = l
	}
	// Ratios are of answers below 500, and need no status.
	good := group.Labels.Get(series.LabelStatus) == statusOK || key.against != ""
	for _, p := range group.Points {
		t := int((p.Start - g.start) / g.step)
		if p.Hist == nil || p.Hist.Count == 0 || t < 0 || t >= g.n {
			continue
		}
		l.all[t] += float64(p.Hist.Count)
		if !good {
			l.failed[t] += float64(p.Hist.Count)
			continue
		}
		l.good += p.Hist.Count
		if l.ok[t] == nil {
			l.ok[t] = p.Hist
		} else if err := l.ok[t].Merge(p.Hist); err != nil {
			return err
		}
	}
	return nil
}

// series is the durations of a leg.
func (l *leg) series() (*stat.Series, error) {
	if l.whole == nil {
		s, err := stat.NewSeries(l.ok)
		if err != nil {
			return nil, err
		}
		l.whole = s
	}
	return l.whole, nil
}

// sides are two legs in the slots in which both have answers.
func sides(a, b *leg) (x, y stat.Side, err error) {
	sx, ex := a.within(b)
	sy, ey := b.within(a)
	return stat.Side{sx}, stat.Side{sy}, errors.Join(ex, ey)
}

func (l *leg) within(other *leg) (*stat.Series, error) {
	kept := make([]*hist.Histogram, len(l.ok))
	all := true
	for t, h := range l.ok {
		if other.ok[t] != nil {
			kept[t] = h
		} else if h != nil {
			all = false
		}
	}
	if all {
		return l.series()
	}
	return stat.NewSeries(kept)
}

// shares are the failed requests of two legs in the slots in which both have any.
func shares(a, b *leg) (x, y stat.Tally) {
	n := len(a.all)
	x, y = stat.Tally{Num: make([]float64, n), Den: make([]float64, n)}, stat.Tally{Num: make([]float64, n), Den: make([]float64, n)}
	for t := range n {
		if a.all[t] > 0 && b.all[t] > 0 {
			x.Num[t], x.Den[t], y.Num[t], y.Den[t] = a.failed[t], a.all[t], b.failed[t], b.all[t]
		}
	}
	return x, y
}
