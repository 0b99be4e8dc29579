package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/figure"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

func (s *server) promInstant(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	at, err := promTimeParam(r, "time", s.Now())
	if err != nil {
		return promAnswer{}, err
	}
	opts, err := promOpts(r)
	if err != nil {
		return promAnswer{}, err
	}
	q, err := s.prom.Instant(r.Context(), opts, r.Form.Get("query"), at)
	if err != nil {
		return promAnswer{}, badParam("query", err)
	}
	return execute(r.Context(), q, limit)
}

// maxPoints bounds the steps of a range query, as Prometheus does.
const maxPoints = 11000

func (s *server) promRange(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	start, err := promTime(r.Form.Get("start"))
	if err != nil {
		return promAnswer{}, badParam("start", err)
	}
	end, err := promTime(r.Form.Get("end"))
	if err != nil {
		return promAnswer{}, badParam("end", err)
	}
	if end.Before(start) {
		return promAnswer{}, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	step, err := promDuration(r.Form.Get("step"))
	if err != nil {
		return promAnswer{}, badParam("step", err)
	}
	if step < time.Millisecond {
		return promAnswer{}, badParam("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if end.Sub(start)/step > maxPoints {
		return promAnswer{}, &promError{promBadData, fmt.Errorf("exceeded maximum resolution of %s points per timeseries: the range has %s; write step=%s or a shorter range",
			figure.Thousands(maxPoints), figure.Thousands(int64(end.Sub(start)/step)+1), query.StepWithin(end.Sub(start), maxPoints))}
	}
	opts, err := promOpts(r)
	if err != nil {
		return promAnswer{}, err
	}
	q, err := s.prom.Range(r.Context(), opts, r.Form.Get("query"), start, end, step)
	if err != nil {
		return promAnswer{}, badParam("query", err)
	}
	return execute(r.Context(), q, limit)
}

func execute(ctx context.Context, q promql.Query, limit int) (promAnswer, error) {
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return promAnswer{}, res.Err
	}
	a := promAnswer{annos: res.Warnings, query: q.String()}
	if truncate(res, limit) {
		a.warned = append(a.warned, "results truncated due to limit")
	}
	size := sizeOfJSON(res.Value)
	if err := store.BudgetOf(ctx).Reserve(size); err != nil {
		return promAnswer{}, err
	}
	a.data = append(make([]byte, 0, size), `{"resultType":"`...)
	a.data = append(a.data, string(res.Value.Type())+`","result":`...)
	var err error
	if a.data, err = appendValue(a.data, res.Value); err != nil {
		return promAnswer{}, err
	}
	a.data = append(a.data, '}')
	return a, nil
}

// sizeOfJSON estimates the bytes of a value in an answer.
func sizeOfJSON(v parser.Value) int64 {
	const point, series, bucket = 40, 100, 60
	histogram := func(h *histogram.FloatHistogram) int {
		return series + bucket*(len(h.PositiveBuckets)+len(h.NegativeBuckets)+1)
	}
	n := series
	metric := func(l labels.Labels) {
		n += series
		l.Range(func(l labels.Label) { n += len(l.Name) + len(l.Value) + 6 })
	}
	switch v := v.(type) {
	case promql.Vector:
		for _, s := range v {
			metric(s.Metric)
			if n += point; s.H != nil {
				n += histogram(s.H)
			}
		}
	case promql.Matrix:
		for _, s := range v {
			metric(s.Metric)
			n += point * len(s.Floats)
			for _, p := range s.Histograms {
				n += point + histogram(p.H)
			}
		}
	}
	return int64(n)
}

func truncate(res *promql.Result, limit int) bool {
	if limit <= 0 {
		return false
	}
	switch v := res.Value.(type) {
	case promql.Vector:
		if len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	case promql.Matrix:
		if len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	}
	return false
}
