package query

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"tailscope/internal/store"
)

// promSample is a histogram, or a number when h is nil.
type promSample struct {
	t int64 // Unix milliseconds
	v float64
	h *histogram.FloatHistogram
}

// promSet is a storage.SeriesSet over samples in memory.
type promSet struct {
	ctx    context.Context
	budget *store.Budget
	held   int64 // bytes reserved
	series []*promSeries
	next   int
	warns  annotations.Annotations

	// Labels become up to grow times as long, and longer bytes more, in the query.
	grow, longer int

	listed bool // no query runs

	as classic // names the series that are added
}

// What samples and series take, and what the engine takes of labels in passing:
// it makes new ones for each function, and holds those of two or three at once.
const (
	promSampleBytes = 40
	promSeriesBytes = 600
	promListedBytes = 300 // of a series without samples
	promLabels      = 3
)

// hold reserves memory of the question.
func (s *promSet) hold(bytes int) error {
	s.held += int64(bytes)
	return s.budget.Reserve(int64(bytes))
}

// add adds a series whose samples are held already.
func (s *promSet) add(family string, l labels.Labels, samples []promSample) error {
	if len(samples) == 0 {
		return nil
	}
	family, l, ok := s.as.relabel(family, l)
	if !ok {
		return nil
	}
	if err := s.hold(s.sizeOfLabels(l)); err != nil {
		return err
	}
	b := labels.NewBuilder(l)
	b.Set(labels.MetricName, family)
	s.series = append(s.series, &promSeries{s.ctx, b.Labels(), samples})
	return nil
}

// keep holds samples and adds their series.
func (s *promSet) keep(family string, l labels.Labels, samples []promSample) error {
	if err := s.hold(sizeOfSamples(samples)); err != nil {
		return err
	}
	return s.add(family, l, samples)
}

func (s *promSet) sizeOfLabels(l labels.Labels) int {
	if s.listed {
		return promListedBytes + l.Len()*32
	}
	size := promSeriesBytes + promLabels*s.longer
	l.Range(func(l labels.Label) { size += promLabels * (len(l.Name) + len(l.Value)*max(1, s.grow)) })
	return size
}

// sizeOfSamples is what samples take, with the copies that the engine makes of a
// series while it walks over it.
func sizeOfSamples(samples []promSample) int {
	n := promSampleBytes * cap(samples)
	for _, p := range samples {
		if p.h != nil {
			n += sizeOfHistogram(p.h)
		}
	}
	return n
}

func sizeOfHistogram(h *histogram.FloatHistogram) int {
	return 160 + 8*(cap(h.PositiveBuckets)+cap(h.NegativeBuckets)+cap(h.PositiveSpans)+cap(h.NegativeSpans))
}

func (s *promSet) warn(format string, args ...any) {
	s.warns.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, fmt.Sprintf(format, args...)))
}

func (s *promSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *promSet) At() storage.Series                { return s.series[s.next-1] }
func (s *promSet) Err() error                        { return nil }
func (s *promSet) Warnings() annotations.Annotations { return s.warns }

type promSeries struct {
	ctx     context.Context // of the query
	labels  labels.Labels
	samples []promSample
}

func (s *promSeries) Labels() labels.Labels { return s.labels }

func (s *promSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return &promIterator{Iterator: storage.NewListSeriesIterator(s), ctx: s.ctx}
}

// promIterator ends when the query's time is over: the engine looks at its
// deadline once for each series, which may have many steps with long windows.
type promIterator struct {
	chunkenc.Iterator
	ctx context.Context
	n   int
}

func (i *promIterator) Next() chunkenc.ValueType {
	if i.n++; i.n%32 == 0 && i.ctx.Err() != nil {
		return chunkenc.ValNone
	}
	return i.Iterator.Next()
}

// Err implements chunkenc.Iterator; the engine asks for it at every end.
func (i *promIterator) Err() error { return i.ctx.Err() }

// Len and Get implement storage.Samples.
func (s *promSeries) Len() int                { return len(s.samples) }
func (s *promSeries) Get(i int) chunks.Sample { return &s.samples[i] }

// promSample implements chunks.Sample. FH hands out copies, since the engine
// changes what it gets.
func (s *promSample) T() int64                { return s.t }
func (s *promSample) ST() int64               { return 0 }
func (s *promSample) F() float64              { return s.v }
func (s *promSample) H() *histogram.Histogram { return nil }

func (s *promSample) FH() *histogram.FloatHistogram {
	if s.h == nil {
		return nil
	}
	return s.h.Copy()
}

func (s *promSample) Type() chunkenc.ValueType {
	if s.h != nil {
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

func (s *promSample) Copy() chunks.Sample {
	c := *s
	c.h = s.FH()
	return &c
}
