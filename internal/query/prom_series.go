package query

import (
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// promSample is a histogram, or a number when h is nil.
type promSample struct {
	t int64 // Unix milliseconds
	v float64
	h *histogram.FloatHistogram
}

// promSet is a storage.SeriesSet over samples in memory.
type promSet struct {
	series []*promSeries
	next   int
	warns  annotations.Annotations
}

func (s *promSet) add(family string, l labels.Labels, samples []promSample) {
	if len(samples) == 0 {
		return
	}
	b := labels.NewBuilder(l)
	b.Set(labels.MetricName, family)
	s.series = append(s.series, &promSeries{b.Labels(), samples})
}

func (s *promSet) warn(format string, args ...any) {
	s.warns.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, fmt.Sprintf(format, args...)))
}

func (s *promSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *promSet) At() storage.Series                { return s.series[s.next-1] }
func (s *promSet) Err() error                        { return nil }
func (s *promSet) Warnings() annotations.Annotations { return s.warns }

type promSeries struct {
	labels  labels.Labels
	samples []promSample
}

func (s *promSeries) Labels() labels.Labels { return s.labels }

func (s *promSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(s)
}

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
