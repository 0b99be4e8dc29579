package client

import (
	"context"
	"net/http"

	"tailscope/api"
)

// Leaves asks for distributions by operation and slot.
func (c *Client) Leaves(ctx context.Context, r api.LeavesRequest) (*api.Leaves, error) {
	return get[api.Leaves](ctx, c, "/api/v1/leaves", r)
}

// Simulate has the server play a file of tailscope simulate, with leaves out of its own
// store.
func (c *Client) Simulate(ctx context.Context, file string) (*api.Simulation, error) {
	return send[api.Simulation](ctx, c, http.MethodPost, "/api/v1/simulate", nil, api.SimulateRequest{File: file})
}
