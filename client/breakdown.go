package client

import (
	"context"
	"net/url"
	"strconv"

	"tailscope/api"
)

// BreakdownQuery asks where the time of one service's requests goes. Family
// must be empty; Match names the service.
type BreakdownQuery struct {
	Selection
	Grid
	Quantiles []string
	Above     float64 // the band: requests above this quantile; 0 is the server's default
	Low, High float64 // the band instead: requests that took so many seconds; 0: no bound
	Limit     int     // parts that are answered per step too
	Overlay   string  // day, week or like: an earlier day instead, by the wall clock of Zone
	Zone      string  // UTC if empty
}

func (c *Client) Breakdown(ctx context.Context, q BreakdownQuery) (*api.BreakdownResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	setList(v, "q", q.Quantiles)
	setFloat(v, "above", q.Above)
	setFloat(v, "low", q.Low)
	setFloat(v, "high", q.High)
	setInt(v, "limit", q.Limit)
	set(v, "overlay", q.Overlay)
	set(v, "tz", q.Zone)
	return get[api.BreakdownResponse](ctx, c, "/api/v1/breakdown", v)
}

// OperationsQuery asks which operations take the time. Family must be empty.
type OperationsQuery struct {
	Selection
	Grid
	Quantiles     []string
	Sort          string // total, calls, errors, mean, name or a quantile (0.99, p99); a leading minus turns it round
	Search        string
	Components    []string
	Kinds         []string
	Offset, Limit int
	Overlay       string // day, week or like: an earlier day instead, by the wall clock of Zone
	Zone          string // UTC if empty
}

func (c *Client) Operations(ctx context.Context, q OperationsQuery) (*api.OperationsResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	setList(v, "q", q.Quantiles)
	set(v, "sort", q.Sort)
	set(v, "search", q.Search)
	setList(v, "component", q.Components)
	setList(v, "kind", q.Kinds)
	setInt(v, "offset", q.Offset)
	setInt(v, "limit", q.Limit)
	set(v, "overlay", q.Overlay)
	set(v, "tz", q.Zone)
	return get[api.OperationsResponse](ctx, c, "/api/v1/operations", v)
}

// CallersQuery asks which requests lead to an operation. Component may be empty.
type CallersQuery struct {
	Service, Component, Operation string
	Start, End                    string
}

func (c *Client) Callers(ctx context.Context, q CallersQuery) (*api.CallersResponse, error) {
	v := url.Values{}
	set(v, "service", q.Service)
	set(v, "component", q.Component)
	set(v, "operation", q.Operation)
	Selection{Start: q.Start, End: q.End}.add(v)
	return get[api.CallersResponse](ctx, c, "/api/v1/callers", v)
}

func setFloat(q url.Values, name string, v float64) {
	if v != 0 {
		q.Set(name, strconv.FormatFloat(v, 'g', -1, 64))
	}
}
