package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
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
		return promAnswer{}, &promError{promBadData, errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")}
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
	a.data = append(a.data, `{"resultType":"`...)
	a.data = append(a.data, string(res.Value.Type())+`","result":`...)
	var err error
	if a.data, err = appendValue(a.data, res.Value); err != nil {
		return promAnswer{}, err
	}
	a.data = append(a.data, '}')
	return a, nil
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
