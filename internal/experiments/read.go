package experiments

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
	i := slices.IndexFunc(steps, func(s int64) bool { return s >= int64(least) })
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
}

type rowData struct{ duration, ratio legs }

// errCoarse says that slots of a length are not kept any more.
type errCoarse struct{ kept series.Resolution }

func (errCoarse) Error() string { return "only longer slots are kept" }

// read reads a session's measurements, in longer slots where only those are kept.
func read(ctx context.Context, st store.Store, service, id string, g grid) (*data, error) {
	for range steps {
		d, err := readIn(ctx, st, service, id, g)
		var coarse errCoarse
		if !errors.As(err, &coarse) {
			return d, err
		}
		g = g.coarser(coarse.kept)
	}
	return &data{grid: g}, nil
}

func readIn(ctx context.Context, st store.Store, service, id string, g grid) (*data, error) {
	d := &data{grid: g, operations: map[string]*rowData{}, tenants: map[string]*rowData{}}
	var byOperation, byTenant [2]map[string]legs
	e, ctx := errgroup.WithContext(ctx)
	whole := func(to *legs, family string) {
		e.Go(func() error {
			all, err := readBy(ctx, st, service, id, g, family, "")
			*to = all[""]
			return err
		})
	}
	whole(&d.duration, familyDuration)
	whole(&d.ratio, familyRatio)
	whole(&d.first, familyFirstByte)
	whole(&d.bytes, familyBytes)
	for i, family := range []string{familyDuration, familyRatio} {
		for by, to := range map[string]*map[string]legs{series.LabelOperation: &byOperation[i], series.LabelTenant: &byTenant[i]} {
			e.Go(func() (err error) {
				*to, err = readBy(ctx, st, service, id, g, family, by)
				return err
			})
		}
	}
	if err := e.Wait(); err != nil {
		return nil, err
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

// readBy reads a family by the values of a label, all of it if that is empty.
func readBy(ctx context.Context, st store.Store, service, id string, g grid, family, by string) (map[string]legs, error) {
	q := store.Query{
		Family: family, Start: g.start, End: g.end(), Step: g.step, Schema: hist.MaxSchema,
		Matchers: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, series.LabelService, service),
			labels.MustNewMatcher(labels.MatchEqual, labelExperiment, id),
			labels.MustNewMatcher(labels.MatchEqual, labelMirrored, ""),
		},
		By: []string{series.LabelVariant, labelAgainst, series.LabelStatus},
	}
	if by != "" {
		q.By = append(q.By, by)
	}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	if int64(res.Resolution) > g.step {
		return nil, errCoarse{res.Resolution}
	}
	out := map[string]legs{}
	for _, group := range res.Groups {
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
			l = &leg{ok: make([]*hist.Histogram, g.n), failed: make([]float64, g.n), all: make([]float64, g.n)}
			out[name][key] = l
		}
		// Ratios are of answers below 500, and carry no status.
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
				return nil, err
			}
		}
	}
	return out, nil
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
