package client

import (
	"context"
	"net/http"
	"net/url"

	"tailscope/api"
)

// LeavesQuery asks what leaves of a fan-out took: the requests of the service that Match
// names. Empty fields are left to the server: the last hour, slots as short as there are
// observations for, 20 operations apart.
type LeavesQuery struct {
	Match      string // PromQL matchers: {service="solr"}
	Start, End string // RFC 3339, Unix seconds, now, now-6h
	Step       string
	Classes    int
}

// Leaves asks for distributions by operation and slot.
func (c *Client) Leaves(ctx context.Context, q LeavesQuery) (*api.Leaves, error) {
	v := url.Values{}
	set(v, "match", q.Match)
	set(v, "start", q.Start)
	set(v, "end", q.End)
	set(v, "step", q.Step)
	setInt(v, "classes", q.Classes)
	return get[api.Leaves](ctx, c, "/api/v1/leaves", v)
}

// Simulate has the server play a file of tailscope simulate, with leaves out of its own
// store.
func (c *Client) Simulate(ctx context.Context, file string) (*api.Simulation, error) {
	return send[api.Simulation](ctx, c, http.MethodPost, "/api/v1/simulate", nil, api.SimulateRequest{File: file})
}
