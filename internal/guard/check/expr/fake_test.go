package expr

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
)

// fake is a History of a few series in memory, looked through from end to end.
type fake []fakeSeries

type fakeSeries struct {
	labels  labels.Labels // with the name
	samples []Sample      // newest first
}

func (f fake) Kind(_ context.Context, family string) (Kind, error) {
	for _, s := range f {
		if s.labels.Get(labels.MetricName) == family {
			if len(s.samples) > 0 && s.samples[0].Dist != nil {
				return Distributions, nil
			}
			return Numbers, nil
		}
	}
	return Missing, nil
}

func (f fake) Look(_ context.Context, s *Selector, at time.Time, dst []Sample) ([]Sample, error) {
	var found []fakeSeries
	for _, series := range f {
		matches := series.labels.Get(labels.MetricName) == s.Family
		for _, m := range s.Matchers {
			matches = matches && m.Matches(series.labels.Get(m.Name))
		}
		if matches {
			found = append(found, series)
		}
	}
	if len(found) > 1 {
		e := &AmbiguousError{Selector: s}
		for _, series := range found {
			e.Series = append(e.Series, series.labels)
		}
		return dst, e
	}
	var all []Sample
	if len(found) == 1 {
		all = found[0].samples
	}
	mark := len(dst)
	switch s.By {
	case ByIndex:
		for _, i := range s.Indexes {
			if i < len(all) {
				dst = append(dst, all[i])
			} else {
				dst = append(dst, Sample{Null: true})
			}
		}
	case ByIndexRange:
		for i := s.From; i < len(all) && (s.To == END || i <= s.To); i++ {
			dst = append(dst, all[i])
		}
	case ByTime:
		dst = append(dst, closest(all, at.Add(-s.Ago)))
	case ByTimeRange:
		for _, x := range all {
			if ago := at.Sub(x.Time); ago >= s.Newer && (s.Older == END || ago <= s.Older) {
				dst = append(dst, x)
			}
		}
	case BySameTime:
		day := at
		for n := 0; n < s.N; {
			day = day.AddDate(0, 0, -1)
			if s.Every == Weeks {
				day = day.AddDate(0, 0, -6)
			}
			if s.Every == Weekdays && (day.Weekday() == time.Saturday || day.Weekday() == time.Sunday) {
				continue
			}
			n++
			dst = append(dst, closest(all, day))
		}
	}
	if len(dst) == mark {
		dst = append(dst, Sample{Null: true})
	}
	return dst, nil
}

func closest(all []Sample, t time.Time) Sample {
	if len(all) == 0 {
		return Sample{Null: true}
	}
	return slices.MinFunc(all, func(a, b Sample) int {
		return int(a.Time.Sub(t).Abs() - b.Time.Sub(t).Abs())
	})
}

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// numbers makes a series of samples each apart, newest first, the newest at now;
// NaN is null.
func numbers(name string, each time.Duration, values ...float64) fakeSeries {
	s := fakeSeries{labels: parseLabels(name)}
	for i, v := range values {
		s.samples = append(s.samples, Sample{Time: now.Add(-time.Duration(i) * each), Value: v, Null: v != v})
	}
	return s
}

// distributions makes a series of distributions, newest first.
func distributions(name string, each time.Duration, values ...[]float64) fakeSeries {
	s := fakeSeries{labels: parseLabels(name)}
	for i, list := range values {
		h := hist.New(hist.DefaultSchema)
		for _, v := range list {
			if err := h.Record(v); err != nil {
				panic(err)
			}
		}
		s.samples = append(s.samples, Sample{Time: now.Add(-time.Duration(i) * each), Dist: h})
	}
	return s
}

// parseLabels reads a selector without brackets.
func parseLabels(name string) labels.Labels {
	p, err := Parse(name+"[0]", Options{Old: true})
	if err != nil {
		panic(err)
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(labels.MetricName, p.selectors[0].Family)
	for _, m := range p.selectors[0].Matchers {
		b.Set(m.Name, m.Value)
	}
	return b.Labels()
}
