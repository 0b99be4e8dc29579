package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"tailscope/api"
	"tailscope/internal/query"
)

// apiError is the one error of /api/v1: its status and its body.
type apiError struct {
	status int
	Detail api.ErrorDetail `json:"error"`
	cause  error
}

func (e *apiError) Error() string  { return e.Detail.Message }
func (e *apiError) GetStatus() int { return e.status }
func (e *apiError) Unwrap() error  { return e.cause }

// fail is the one constructor of errors.
func fail(err error) *apiError {
	q := query.AsError(err)
	return &apiError{status: statusOf(q.Code), Detail: api.ErrorDetail{Code: q.Code, Message: q.Message, Field: q.Field, Misnamed: api.Misnamed{Instead: q.Instead}}, cause: q.Err}
}

func statusOf(code string) int {
	switch code {
	case query.CodeInvalid:
		return http.StatusBadRequest
	case query.CodeNotFound:
		return http.StatusNotFound
	case query.CodeTooMany:
		return http.StatusUnprocessableEntity
	case query.CodeTooEarly:
		return http.StatusConflict
	case query.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Refuse answers a request that did not get as far as the API, in the words of
// what was asked for: this API, Prometheus', or a line of text.
func Refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/prometheus/"):
		writePromError(w, status, promBadData, message)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		e := fail(query.Invalid("", "%s", message))
		e.status = status
		e.write(w)
	default:
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, message, status)
	}
}

// retryAfter is what a 503 tells its client to wait, in seconds.
const retryAfter = "2"

func (e *apiError) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(e.status)
	body, err := json.Marshal(e)
	if err != nil { // strings always marshal
		return
	}
	w.Write(append(body, '\n')) //nolint:errcheck // the client has gone
}

func (e *apiError) GetHeaders() http.Header {
	if e.status == http.StatusServiceUnavailable {
		return http.Header{"Retry-After": {retryAfter}}
	}
	return nil
}
