package client

import (
	"context"

	"tailscope/api"
)

func (c *Client) Breakdown(ctx context.Context, r api.BreakdownRequest) (*api.BreakdownResponse, error) {
	return get[api.BreakdownResponse](ctx, c, "/api/v1/breakdown", r)
}

func (c *Client) Operations(ctx context.Context, r api.OperationsRequest) (*api.OperationsResponse, error) {
	return get[api.OperationsResponse](ctx, c, "/api/v1/operations", r)
}

func (c *Client) Callers(ctx context.Context, r api.CallersRequest) (*api.CallersResponse, error) {
	return get[api.CallersResponse](ctx, c, "/api/v1/callers", r)
}
