// Package client asks a Tailscope server over its HTTP API.
//
// Answers are the types of package api. An error of the server is an *Error,
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

// Selection says which observations a question is about. Empty fields are left
// to the server: its default family, no matchers, the last six hours.
type Selection struct {
	Family     string
	Match      string // PromQL matchers: {service="checkout"}
	Start, End string // RFC 3339, Unix seconds, now, now-6h
}

func (s Selection) add(q url.Values) {
	set(q, "family", s.Family)
	set(q, "match", s.Match)
	set(q, "start", s.Start)
	set(q, "end", s.End)
}

// Grid cuts a range into columns: of a length (30s, 5m), or at most so many.
type Grid struct {
	Step  string
	Width int
}

func (g Grid) add(q url.Values) {
	set(q, "step", g.Step)
	setInt(q, "width", g.Width)
}

// ServicesQuery asks for every service.
type ServicesQuery struct {
	Selection
	Grid
	Quantiles []string
	ApdexT    float64 // seconds; 0 is the server's default
}

func (c *Client) Services(ctx context.Context, q ServicesQuery) (*api.ServicesResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	setList(v, "q", q.Quantiles)
	if q.ApdexT != 0 {
		v.Set("apdex_t", strconv.FormatFloat(q.ApdexT, 'g', -1, 64))
	}
	return get[api.ServicesResponse](ctx, c, "/api/v1/services", v)
}

// DistributionQuery asks for whole distributions.
type DistributionQuery struct {
	Selection
	By        []string
	Quantiles []string
	At        []float64
	Buckets   bool
	Limit     int
}

func (c *Client) Distribution(ctx context.Context, q DistributionQuery) (*api.DistributionResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	setList(v, "by", q.By)
	setList(v, "q", q.Quantiles)
	at := make([]string, len(q.At))
	for i, f := range q.At {
		at[i] = strconv.FormatFloat(f, 'g', -1, 64)
	}
	setList(v, "at", at)
	if q.Buckets {
		v.Set("buckets", "true")
	}
	setInt(v, "limit", q.Limit)
	return get[api.DistributionResponse](ctx, c, "/api/v1/distribution", v)
}

// HeatmapQuery asks how a distribution moves.
type HeatmapQuery struct {
	Selection
	Grid
	Rows int
}

func (c *Client) Heatmap(ctx context.Context, q HeatmapQuery) (*api.HeatmapResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	setInt(v, "rows", q.Rows)
	return get[api.HeatmapResponse](ctx, c, "/api/v1/heatmap", v)
}

// TimelineQuery asks for figures per step.
type TimelineQuery struct {
	Selection
	Grid
	By        []string
	Quantiles []string
	Offset    string // 1d, 1w
	Overlay   string // day, week or like: an earlier day instead, by the wall clock of Zone
	Zone      string // Europe/Berlin
	Per       string // request: divided by the requests of the service
	Slide     string // 10m: the figures of trailing windows
	Limit     int
}

func (c *Client) Timeline(ctx context.Context, q TimelineQuery) (*api.TimelineResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	setList(v, "by", q.By)
	setList(v, "q", q.Quantiles)
	set(v, "offset", q.Offset)
	set(v, "overlay", q.Overlay)
	set(v, "tz", q.Zone)
	set(v, "per", q.Per)
	set(v, "slide", q.Slide)
	setInt(v, "limit", q.Limit)
	return get[api.TimelineResponse](ctx, c, "/api/v1/timeline", v)
}

// LabelsQuery asks what there is to filter by.
type LabelsQuery struct {
	Selection
	Names []string
	Limit int
}

func (c *Client) Labels(ctx context.Context, q LabelsQuery) (*api.LabelsResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	setList(v, "names", q.Names)
	setInt(v, "limit", q.Limit)
	return get[api.LabelsResponse](ctx, c, "/api/v1/labels", v)
}

// TenantsQuery asks who sends the traffic.
type TenantsQuery struct {
	Selection
	Quantiles     []string
	Sort          string // requests, errors, mean, slow, cohort, size, name or a quantile; a leading minus turns it round
	Search        string
	Cohort        string // very large, large, medium, small; empty: all
	NotRare       bool   // only those for whom slow requests are not rare
	Slow          string // duration from which a request is slow; empty: 1s
	Rare          string // share up to which they are rare; empty: 0.01
	Offset, Limit int
}

func (c *Client) Tenants(ctx context.Context, q TenantsQuery) (*api.TenantsResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	setList(v, "q", q.Quantiles)
	set(v, "sort", q.Sort)
	set(v, "search", q.Search)
	set(v, "cohort", q.Cohort)
	if q.NotRare {
		v.Set("not_rare", "true")
	}
	set(v, "slow", q.Slow)
	set(v, "rare", q.Rare)
	setInt(v, "offset", q.Offset)
	setInt(v, "limit", q.Limit)
	return get[api.TenantsResponse](ctx, c, "/api/v1/tenants", v)
}

// NearestQuery asks what was there at a moment.
type NearestQuery struct {
	Family    string
	Match     string
	Time      string
	By        []string
	Quantiles []string
}

func (c *Client) Nearest(ctx context.Context, q NearestQuery) (*api.NearestResponse, error) {
	v := url.Values{}
	Selection{Family: q.Family, Match: q.Match}.add(v)
	set(v, "time", q.Time)
	setList(v, "by", q.By)
	setList(v, "q", q.Quantiles)
	return get[api.NearestResponse](ctx, c, "/api/v1/nearest", v)
}

// FamiliesOf asks what is measured of one service within a range; start and
// end may be empty.
func (c *Client) FamiliesOf(ctx context.Context, service, start, end string) (*api.FamiliesResponse, error) {
	v := url.Values{}
	set(v, "service", service)
	Selection{Start: start, End: end}.add(v)
	return get[api.FamiliesResponse](ctx, c, "/api/v1/families", v)
}

func (c *Client) Families(ctx context.Context) (*api.FamiliesResponse, error) {
	return get[api.FamiliesResponse](ctx, c, "/api/v1/families", nil)
}

func (c *Client) Status(ctx context.Context) (*api.StatusResponse, error) {
	return get[api.StatusResponse](ctx, c, "/api/v1/status", nil)
}

// MarksQuery asks for named moments; empty fields do not narrow it.
type MarksQuery struct {
	Start, End, Service string
}

func (c *Client) Marks(ctx context.Context, q MarksQuery) (*api.MarksResponse, error) {
	v := url.Values{}
	set(v, "start", q.Start)
	set(v, "end", q.End)
	set(v, "service", q.Service)
	return get[api.MarksResponse](ctx, c, "/api/v1/marks", v)
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

// DeleteMark forgets a mark. It is no error if there is none.
func (c *Client) DeleteMark(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/api/v1/marks/"+url.PathEscape(id), nil, nil, nil)
}

func set(q url.Values, name, v string) {
	if v != "" {
		q.Set(name, v)
	}
}

func setInt(q url.Values, name string, v int) {
	if v != 0 {
		q.Set(name, strconv.Itoa(v))
	}
}

func setList(q url.Values, name string, v []string) {
	if len(v) > 0 {
		q.Set(name, strings.Join(v, ","))
	}
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (*T, error) {
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
