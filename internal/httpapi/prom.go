package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"tailscope/internal/query"
)

// Prometheus' query API, as Grafana and promtool speak it. Paths, parameters,
// envelope, error types and their status codes follow prometheus/prometheus
// web/api/v1 and https://prometheus.io/docs/prometheus/latest/querying/api/.

// promErrorType is what went wrong in Prometheus' words.
type promErrorType string

const (
	promBadData     promErrorType = "bad_data"
	promExecution   promErrorType = "execution"
	promCanceled    promErrorType = "canceled"
	promTimeout     promErrorType = "timeout"
	promInternal    promErrorType = "internal"
	promNotFound    promErrorType = "not_found"
	promUnavailable promErrorType = "unavailable"
)

func (t promErrorType) status() int {
	switch t {
	case promBadData:
		return http.StatusBadRequest
	case promExecution:
		return http.StatusUnprocessableEntity
	case promCanceled:
		return 499 // the client closed the connection
	case promTimeout, promUnavailable:
		return http.StatusServiceUnavailable
	case promNotFound:
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

type promError struct {
	kind promErrorType
	err  error
}

func (e *promError) Error() string { return e.err.Error() }
func (e *promError) Unwrap() error { return e.err }

func badParam(name string, err error) error {
	var q *query.Error
	if errors.As(err, &q) && q.Code != query.CodeInvalid {
		return err
	}
	if q != nil {
		err = errors.New(q.Message)
	}
	return &promError{promBadData, fmt.Errorf("invalid parameter %q: %w", name, err)}
}

// promAnswer is a handler's success.
type promAnswer struct {
	data   []byte // JSON
	annos  annotations.Annotations
	query  string // what annotations point into
	warned []string
}

func (s *server) promHandler(next func(*http.Request) (promAnswer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := r.ParseForm(); err != nil {
			s.promFail(w, r, &promError{promBadData, fmt.Errorf("error parsing form values: %w", err)})
			return
		}
		if to := r.Form.Get("timeout"); to != "" {
			d, err := promDuration(to)
			if err != nil {
				s.promFail(w, r, badParam("timeout", err))
				return
			}
			ctx, cancel := context.WithTimeout(ctx, min(d, s.Timeout))
			defer cancel()
			r = r.WithContext(ctx)
		}
		done, err := s.turn(r.Context())
		if err != nil {
			s.promFail(w, r, err)
			return
		}
		defer done()
		a, err := next(r)
		if err != nil {
			s.promFail(w, r, err)
			return
		}
		warnings, infos := a.annos.AsStrings(a.query, 10, 10)
		b := append([]byte(`{"status":"success","data":`), a.data...)
		b = appendStrings(b, "warnings", append(warnings, a.warned...))
		b = appendStrings(b, "infos", infos)
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(b, '}')) //nolint:errcheck // the client has gone
	})
}

func appendStrings(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	j, err := json.Marshal(list)
	if err != nil { // strings always marshal
		return b
	}
	return append(append(append(b, `,"`...), name+`":`...), j...)
}

func (s *server) promFail(w http.ResponseWriter, r *http.Request, err error) {
	e := promErrorOf(err)
	if e.kind == promInternal {
		s.Logger.ErrorContext(r.Context(), "question failed", "path", r.URL.Path, "query", r.Form.Get("query"), "err", err)
	}
	w.Header().Set("Content-Type", "application/json")
	if e.kind.status() == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(e.kind.status())
	b, err := json.Marshal(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", string(e.kind), e.Error()})
	if err != nil { // strings always marshal
		return
	}
	w.Write(b) //nolint:errcheck // the client has gone
}

func promErrorOf(err error) *promError {
	var p *promError
	var canceled promql.ErrQueryCanceled
	var timeout promql.ErrQueryTimeout
	var storage promql.ErrStorage
	var q *query.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &q):
		switch q.Code {
		case query.CodeInvalid:
			return &promError{promBadData, errors.New(q.Message)}
		case query.CodeTooMany:
			return &promError{promExecution, errors.New(q.Message)}
		case query.CodeNotFound:
			return &promError{promNotFound, errors.New(q.Message)}
		case query.CodeUnavailable:
			if errors.Is(err, context.Canceled) {
				return &promError{promCanceled, errors.New(q.Message)}
			}
			if errors.Is(err, context.DeadlineExceeded) {
				return &promError{promTimeout, errors.New(q.Message)}
			}
			return &promError{promUnavailable, errors.New(q.Message)}
		}
		return &promError{promInternal, errors.New(q.Message)}
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &promError{promCanceled, err}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &promError{promTimeout, err}
	case errors.As(err, &storage):
		return &promError{promInternal, err}
	}
	return &promError{promExecution, err}
}

// promRoutes serves /prometheus/api/v1. Reads may be posted as forms, since
// queries are longer than some proxies let an address be.
func (s *server) promRoutes(mux *http.ServeMux) {
	const base = "/prometheus/api/v1/"
	for name, h := range map[string]func(*http.Request) (promAnswer, error){
		"query":        s.promInstant,
		"query_range":  s.promRange,
		"series":       s.promSeries,
		"labels":       s.promLabels,
		"format_query": s.promFormat,
	} {
		mux.Handle("GET "+base+name, s.promHandler(h))
		mux.Handle("POST "+base+name, s.promHandler(h))
	}
	for name, h := range map[string]func(*http.Request) (promAnswer, error){
		"label/{name}/values": s.promLabelValues,
		"metadata":            s.promMetadata,
		"status/buildinfo":    s.promBuildInfo,
		"query_exemplars":     emptyList,
		"rules":               emptyGroups,
		"alerts":              emptyAlerts,
	} {
		mux.Handle("GET "+base+name, s.promHandler(h))
	}
	mux.Handle("POST "+base+"query_exemplars", s.promHandler(emptyList))
	mux.HandleFunc("/prometheus/", func(w http.ResponseWriter, r *http.Request) {
		s.promFail(w, r, &promError{promNotFound, fmt.Errorf("there is no %s %s; the query API is under %s", r.Method, r.URL.Path, base)})
	})
}

func emptyList(*http.Request) (promAnswer, error) { return promAnswer{data: []byte("[]")}, nil }

func emptyGroups(*http.Request) (promAnswer, error) {
	return promAnswer{data: []byte(`{"groups":[]}`)}, nil
}

func emptyAlerts(*http.Request) (promAnswer, error) {
	return promAnswer{data: []byte(`{"alerts":[]}`)}, nil
}

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

func (s *server) promSeries(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	start, end, err := s.promRangeParams(r)
	if err != nil {
		return promAnswer{}, err
	}
	if len(r.Form["match[]"]) == 0 {
		return promAnswer{}, &promError{promBadData, errors.New("no match[] parameter provided")}
	}
	selections, err := s.promSelections(r)
	if err != nil {
		return promAnswer{}, err
	}
	found, truncated, err := s.prom.Series(r.Context(), start, end, selections, limit)
	if err != nil {
		return promAnswer{}, err
	}
	a := promAnswer{data: []byte{'['}}
	for i, l := range found {
		if i > 0 {
			a.data = append(a.data, ',')
		}
		a.data = appendLabels(a.data, l)
	}
	a.data = append(a.data, ']')
	if truncated {
		a.warned = append(a.warned, "results truncated due to limit")
	}
	return a, nil
}

func (s *server) promLabels(r *http.Request) (promAnswer, error) {
	return s.promNames(r, func(ms []*labels.Matcher, q promLabelQuerier) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.Context(), nil, ms...)
	})
}

func (s *server) promLabelValues(r *http.Request) (promAnswer, error) {
	name := r.PathValue("name")
	if len(name) > 3 && name[:3] == "U__" {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return promAnswer{}, &promError{promBadData, fmt.Errorf("invalid label name: %q", name)}
	}
	return s.promNames(r, func(ms []*labels.Matcher, q promLabelQuerier) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.Context(), name, nil, ms...)
	})
}

// promNames answers a sorted list that is the union over the selections.
func (s *server) promNames(r *http.Request, list func([]*labels.Matcher, promLabelQuerier) ([]string, annotations.Annotations, error)) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	start, end, err := s.promRangeParams(r)
	if err != nil {
		return promAnswer{}, err
	}
	selections, err := s.promSelections(r)
	if err != nil {
		return promAnswer{}, err
	}
	if len(selections) == 0 {
		selections = [][]*labels.Matcher{nil}
	}
	q, err := s.prom.Queryable().Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return promAnswer{}, err
	}
	defer q.Close() //nolint:errcheck // holds nothing
	names := []string{}
	for _, ms := range selections {
		found, _, err := list(ms, q)
		if err != nil {
			return promAnswer{}, err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	a := promAnswer{}
	if limit > 0 && len(names) > limit {
		names = names[:limit]
		a.warned = append(a.warned, "results truncated due to limit")
	}
	a.data, err = json.Marshal(names)
	return a, err
}

func (s *server) promMetadata(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	m, err := s.prom.Metadata(r.Context(), r.Form.Get("metric"))
	if err != nil {
		return promAnswer{}, err
	}
	for name := range m {
		if limit > 0 && len(m) > limit {
			delete(m, name)
		}
	}
	b, err := json.Marshal(m)
	return promAnswer{data: b}, err
}

func (s *server) promBuildInfo(*http.Request) (promAnswer, error) {
	// Grafana reads the version to know what it may ask for.
	b, err := json.Marshal(map[string]string{
		"version": promVersion, "application": "tailscope", "revision": s.Status.Version, "branch": "", "buildUser": "", "buildDate": "", "goVersion": goVersion,
	})
	return promAnswer{data: b}, err
}

func (s *server) promFormat(r *http.Request) (promAnswer, error) {
	e, err := s.prom.Parser().ParseExpr(r.Form.Get("query"))
	if err != nil {
		return promAnswer{}, badParam("query", err)
	}
	b, err := json.Marshal(e.Pretty(0))
	return promAnswer{data: b}, err
}

func (s *server) promSelections(r *http.Request) ([][]*labels.Matcher, error) {
	sets, err := s.prom.Parser().ParseMetricSelectors(r.Form["match[]"])
	if err != nil {
		return nil, badParam("match[]", err)
	}
	for _, ms := range sets {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, badParam("match[]", errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	return sets, nil
}

// promRangeParams reads start and end of a look-up of names; without them the
// last day is looked at.
func (s *server) promRangeParams(r *http.Request) (start, end time.Time, err error) {
	if end, err = promTimeParam(r, "end", s.Now()); err != nil {
		return start, end, err
	}
	if start, err = promTimeParam(r, "start", end.Add(-24*time.Hour)); err != nil {
		return start, end, err
	}
	if end.Before(start) {
		return start, end, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	return start, end, nil
}

func promOpts(r *http.Request) (promql.QueryOpts, error) {
	var lookback time.Duration
	if s := r.Form.Get("lookback_delta"); s != "" {
		d, err := promDuration(s)
		if err != nil {
			return nil, badParam("lookback_delta", err)
		}
		lookback = d
	}
	return promql.NewPrometheusQueryOpts(false, lookback), nil
}

func promLimit(r *http.Request) (int, error) {
	s := r.Form.Get("limit")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, badParam("limit", fmt.Errorf("cannot parse %q to a valid limit", s))
	}
	if n < 0 {
		return 0, badParam("limit", errors.New("limit must be non-negative"))
	}
	return n, nil
}

func promTimeParam(r *http.Request, name string, def time.Time) (time.Time, error) {
	s := r.Form.Get(name)
	if s == "" {
		return def, nil
	}
	t, err := promTime(s)
	if err != nil {
		return t, badParam(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// promTime reads Unix seconds or RFC 3339. Years are bounded so that
// milliseconds cannot overflow.
func promTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(f) || math.Abs(f) > 1e13 {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
		}
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(math.Round(frac*1000)*1e6)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

func promDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * 1e9
		if !(math.Abs(ns) < math.MaxInt64) {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}
