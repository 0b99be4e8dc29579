package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// promVersion is the version of Prometheus whose API this is.
const promVersion = "3.13.0"

var goVersion = runtime.Version()

type promLabelQuerier = storage.LabelQuerier

// appendValue appends a PromQL value as Prometheus' API writes it: numbers as
// strings, times as seconds with at most three decimals.
func appendValue(b []byte, v parser.Value) ([]byte, error) {
	switch v := v.(type) {
	case promql.Vector:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendLabels(append(b, `{"metric":`...), s.Metric)
			if s.H != nil {
				b = appendHistogramPoint(append(b, `,"histogram":`...), s.T, s.H)
			} else {
				b = appendPoint(append(b, `,"value":`...), s.T, s.F)
			}
			b = append(b, '}')
		}
		return append(b, ']'), nil
	case promql.Matrix:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSeries(b, s)
		}
		return append(b, ']'), nil
	case promql.Scalar:
		return appendPoint(b, v.T, v.V), nil
	case promql.String:
		text, err := json.Marshal(v.V)
		if err != nil {
			return b, err
		}
		b = append(appendMillis(append(b, '['), v.T), ',')
		return append(append(b, text...), ']'), nil
	}
	return b, fmt.Errorf("cannot encode a %T", v)
}

func appendSeries(b []byte, s promql.Series) []byte {
	b = appendLabels(append(b, `{"metric":`...), s.Metric)
	for i, p := range s.Floats {
		if i == 0 {
			b = append(b, `,"values":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendPoint(b, p.T, p.F)
	}
	if len(s.Floats) > 0 {
		b = append(b, ']')
	}
	for i, p := range s.Histograms {
		if i == 0 {
			b = append(b, `,"histograms":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendHistogramPoint(b, p.T, p.H)
	}
	if len(s.Histograms) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendPoint(b []byte, t int64, f float64) []byte {
	b = append(appendMillis(append(b, '['), t), ',')
	return append(appendQuoted(b, f), ']')
}

func appendHistogramPoint(b []byte, t int64, h *histogram.FloatHistogram) []byte {
	b = append(appendMillis(append(b, '['), t), ',')
	return append(appendHistogram(b, h), ']')
}

// appendHistogram writes buckets as [ends, low, high, count]: ends is 0 when
// the upper one is inclusive, 1 the lower, 2 neither, 3 both.
func appendHistogram(b []byte, h *histogram.FloatHistogram) []byte {
	b = appendQuoted(append(b, `{"count":`...), h.Count)
	b = appendQuoted(append(b, `,"sum":`...), h.Sum)
	found := false
	for it := h.AllBucketIterator(); it.Next(); {
		k := it.At()
		if k.Count == 0 {
			continue
		}
		if found {
			b = append(b, ',')
		} else {
			b = append(b, `,"buckets":[`...)
		}
		found = true
		ends := byte('2')
		switch {
		case k.LowerInclusive && k.UpperInclusive:
			ends = '3'
		case k.LowerInclusive:
			ends = '1'
		case k.UpperInclusive:
			ends = '0'
		}
		b = appendQuoted(append(b, '[', ends, ','), k.Lower)
		b = appendQuoted(append(b, ','), k.Upper)
		b = append(appendQuoted(append(b, ','), k.Count), ']')
	}
	if found {
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendQuoted(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return append(strconv.AppendFloat(append(b, '"'), f, format, -1, 64), '"')
}

func appendMillis(b []byte, t int64) []byte {
	if t < 0 {
		b, t = append(b, '-'), -t
	}
	b = strconv.AppendInt(b, t/1000, 10)
	if ms := t % 1000; ms != 0 {
		b = append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
	}
	return b
}

func appendLabels(b []byte, l labels.Labels) []byte {
	b = append(b, '{')
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		for i, s := range [...]string{l.Name, l.Value} {
			if i == 1 {
				b = append(b, ':')
			}
			q, err := json.Marshal(s)
			if err != nil { // strings always marshal
				q = []byte(`""`)
			}
			b = append(b, q...)
		}
	})
	return append(b, '}')
}
