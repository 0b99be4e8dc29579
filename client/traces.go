package client

import (
	"context"
	"net/url"

	"tailscope/api"
)

// TracesQuery asks for requests of kept traces. Family must be empty; Match
// may name service, operation, tenant and status.
type TracesQuery struct {
	Selection
	Min, Max float64  // seconds; 0: no bound
	Why      []string // slow, failed, exemplar; empty: any
	Sort     string   // slowest, newest, or nearest to At and Time
	At       float64  // seconds
	Time     string
	Step     string // how long the moment lasts
	Limit    int
}

func (c *Client) Traces(ctx context.Context, q TracesQuery) (*api.TracesResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	setFloat(v, "min", q.Min)
	setFloat(v, "max", q.Max)
	setList(v, "why", q.Why)
	set(v, "sort", q.Sort)
	setFloat(v, "at", q.At)
	set(v, "time", q.Time)
	set(v, "step", q.Step)
	setInt(v, "limit", q.Limit)
	return get[api.TracesResponse](ctx, c, "/api/v1/traces", v)
}

// Trace asks for a whole kept trace by its id of 32 hex digits.
func (c *Client) Trace(ctx context.Context, id string) (*api.TraceResponse, error) {
	return get[api.TraceResponse](ctx, c, "/api/v1/traces/"+url.PathEscape(id), nil)
}
