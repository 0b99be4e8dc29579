package client

import (
	"context"

	"tailscope/api"
)

// Explain answers which labels, and pairs of them, became slow in a rectangle, or are slow in it.
func (c *Client) Explain(ctx context.Context, r api.ExplainRequest) (*api.ExplainResponse, error) {
	return get[api.ExplainResponse](ctx, c, "/api/v1/explain", r)
}
