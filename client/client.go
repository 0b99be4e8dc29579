// Package client asks a Tailscope server over its HTTP API.
//
// Requests and answers are the types of package api: a field of a request that is
// zero leaves the choice to the server. An error of the server is an *Error,
// whose message says what to write instead.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
)

// DefaultAddress is where a server listens unless told otherwise.
const DefaultAddress = "http://127.0.0.1:7099"

// Client asks one server. The zero value asks DefaultAddress. It is safe for
// concurrent use.
type Client struct {
	// Address is the server's, such as http://127.0.0.1:7099; the scheme may be left out.
	Address string
	// HTTP sends the requests; http.DefaultClient if nil.
	HTTP *http.Client
}

// Error is what the server answered instead.
type Error struct {
	Status     int // of HTTP
	Code       string
	Message    string
	Field      string        // the parameter at fault, if any
	RetryAfter time.Duration // > 0: asking again then may help
}

func (e *Error) Error() string {
	if e.Field != "" && !strings.HasPrefix(e.Message, e.Field+" ") {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// ErrUnreachable wraps failures to speak to a server at all.
var ErrUnreachable = errors.New("cannot reach the server")

func (c *Client) Services(ctx context.Context, r api.ServicesRequest) (*api.ServicesResponse, error) {
	return get[api.ServicesResponse](ctx, c, "/api/v1/services", r)
}

func (c *Client) Distribution(ctx context.Context, r api.DistributionRequest) (*api.DistributionResponse, error) {
	return get[api.DistributionResponse](ctx, c, "/api/v1/distribution", r)
}

func (c *Client) Heatmap(ctx context.Context, r api.HeatmapRequest) (*api.HeatmapResponse, error) {
	return get[api.HeatmapResponse](ctx, c, "/api/v1/heatmap", r)
}

func (c *Client) Timeline(ctx context.Context, r api.TimelineRequest) (*api.TimelineResponse, error) {
	return get[api.TimelineResponse](ctx, c, "/api/v1/timeline", r)
}

func (c *Client) Labels(ctx context.Context, r api.LabelsRequest) (*api.LabelsResponse, error) {
	return get[api.LabelsResponse](ctx, c, "/api/v1/labels", r)
}

func (c *Client) Tenants(ctx context.Context, r api.TenantsRequest) (*api.TenantsResponse, error) {
	return get[api.TenantsResponse](ctx, c, "/api/v1/tenants", r)
}

func (c *Client) Nearest(ctx context.Context, r api.NearestRequest) (*api.NearestResponse, error) {
	return get[api.NearestResponse](ctx, c, "/api/v1/nearest", r)
}

// Families asks what is measured, of one service within a range if it is named.
func (c *Client) Families(ctx context.Context, r api.FamiliesRequest) (*api.FamiliesResponse, error) {
	return get[api.FamiliesResponse](ctx, c, "/api/v1/families", r)
}

func (c *Client) Status(ctx context.Context) (*api.StatusResponse, error) {
	return get[api.StatusResponse](ctx, c, "/api/v1/status", nil)
}

func (c *Client) Marks(ctx context.Context, r api.MarksRequest) (*api.MarksResponse, error) {
	return get[api.MarksResponse](ctx, c, "/api/v1/marks", r)
}

// Mark is one mark, with all that was found at it.
func (c *Client) Mark(ctx context.Context, id string) (*api.Mark, error) {
	return get[api.Mark](ctx, c, "/api/v1/marks/"+url.PathEscape(id), nil)
}

// PutMark names a moment: m.Time, or now when it is 0. The answer has the
// mark's id.
func (c *Client) PutMark(ctx context.Context, m api.Mark) (*api.Mark, error) {
	return send[api.Mark](ctx, c, http.MethodPost, "/api/v1/marks", nil, m)
}

// DeleteMark forgets a mark. A mark that is not there is not an error.
func (c *Client) DeleteMark(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/api/v1/marks/"+url.PathEscape(id), nil, nil, nil)
}

func set(q url.Values, name, v string) {
	if v != "" {
		q.Set(name, v)
	}
}

// get asks for what a request of package api says, or without parameters if it is nil.
func get[T any](ctx context.Context, c *Client, path string, request any) (*T, error) {
	var q url.Values
	if request != nil {
		q = api.Parameters(request)
	}
	out := new(T)
	if err := c.do(ctx, http.MethodGet, path, q, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// send sends v as JSON, or nothing if it is nil.
func send[T any](ctx context.Context, c *Client, method, path string, q url.Values, v any) (*T, error) {
	var b []byte
	if v != nil {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	out := new(T)
	if err := c.do(ctx, method, path, q, b, out); err != nil {
		return nil, err
	}
	return out, nil
}

// base is the server's address with its scheme and without a trailing slash.
func (c *Client) base() string {
	a := strings.TrimRight(c.Address, "/")
	if a == "" {
		return DefaultAddress
	}
	if !strings.Contains(a, "://") {
		a = "http://" + a
	}
	return a
}

// maxResponse bounds what is read of an answer.
const maxResponse = 1 << 30

func (c *Client) do(ctx context.Context, method, path string, q url.Values, body []byte, out any) error {
	target := c.base() + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("address %s: %w", c.base(), err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	res, err := h.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the whole query string
		}
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base(), err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base(), err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return errorOf(res, b)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s does not answer like a tailscope server: %w", c.base(), err)
	}
	return nil
}

func errorOf(res *http.Response, b []byte) error {
	e := &Error{Status: res.StatusCode}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	var body api.Error
	if err := json.Unmarshal(b, &body); err == nil && body.Error.Message != "" {
		e.Code, e.Message, e.Field = body.Error.Code, body.Error.Message, body.Error.Field
		return e
	}
	text := strings.TrimSpace(string(b))
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	e.Message = strings.TrimSpace("the server answered " + res.Status + " " + text)
	return e
}
