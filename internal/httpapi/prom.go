package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

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
		leave, err := s.promql.enter()
		if err != nil {
			s.promFail(w, r, err)
			return
		}
		defer leave()
		s.hurry(w)
		ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err = r.ParseForm()
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			err = fmt.Errorf("the form is larger than %d KiB; ask for less at once", maxForm>>10)
		}
		if err != nil {
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
		ctx, done, end, err := s.promql.take(r.Context())
		if err != nil {
			s.promFail(w, r, err)
			return
		}
		defer end()
		a, err := next(r.WithContext(ctx))
		if err != nil {
			s.promFail(w, r, err)
			return
		}
		done()
		warnings, infos := a.annos.AsStrings(a.query, 10, 10)
		last := appendStrings(nil, "warnings", append(warnings, a.warned...))
		last = append(appendStrings(last, "infos", infos), '}')
		w.Header().Set("Content-Type", "application/json")
		for _, b := range [][]byte{[]byte(`{"status":"success","data":`), a.data, last} {
			if _, err := w.Write(b); err != nil {
				return // the client has gone
			}
		}
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
		var q *query.Error // says to the caller that the log says more
		var in promql.ErrStorage
		if errors.As(err, &in) {
			err = in.Err
		}
		if errors.As(err, &q) && q.Err != nil {
			err = q.Err
		}
		s.Logger.ErrorContext(r.Context(), "question failed", "path", r.URL.Path, "query", r.Form.Get("query"), "err", err)
	}
	writePromError(w, e.kind.status(), e.kind, e.Error())
}

func writePromError(w http.ResponseWriter, status int, kind promErrorType, message string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	b, err := json.Marshal(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", string(kind), message})
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
		if errors.As(storage.Err, &q) {
			return promErrorOf(q)
		}
		return &promError{promInternal, err}
	}
	return &promError{promExecution, err}
}

// promRoutes serves /prometheus/api/v1. Reads may be posted as forms, since
// queries are longer than some proxies let an address be.
func (s *server) promRoutes(mux *http.ServeMux) {
	const base = "/prometheus/api/v1/"
	for name, h := range map[string]func(*http.Request) (promAnswer, error){
		"query":           s.promInstant,
		"query_range":     s.promRange,
		"query_exemplars": s.promExemplars,
		"series":          s.promSeries,
		"labels":          s.promLabels,
		"format_query":    s.promFormat,
	} {
		mux.Handle("GET "+base+name, s.promHandler(h))
		mux.Handle("POST "+base+name, s.promHandler(h))
	}
	for name, h := range map[string]func(*http.Request) (promAnswer, error){
		"label/{name}/values": s.promLabelValues,
		"metadata":            s.promMetadata,
		"status/buildinfo":    s.promBuildInfo,
		"rules":               emptyGroups,
		"alerts":              emptyAlerts,
	} {
		mux.Handle("GET "+base+name, s.promHandler(h))
	}
	// Clients ask the address itself whether anybody is there.
	mux.HandleFunc("GET /prometheus/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "Prometheus' query API of tailscope: %squery\n", base)
	})
	mux.HandleFunc("/prometheus/", func(w http.ResponseWriter, r *http.Request) {
		s.promFail(w, r, &promError{promNotFound, fmt.Errorf("there is no %s %s; the query API is under %s", r.Method, r.URL.Path, base)})
	})
}

func emptyGroups(*http.Request) (promAnswer, error) {
	return promAnswer{data: []byte(`{"groups":[]}`)}, nil
}

func emptyAlerts(*http.Request) (promAnswer, error) {
	return promAnswer{data: []byte(`{"alerts":[]}`)}, nil
}
