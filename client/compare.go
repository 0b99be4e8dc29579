package client

import (
	"context"

	"tailscope/api"
)

func (c *Client) Compare(ctx context.Context, r api.CompareRequest) (*api.CompareResponse, error) {
	return get[api.CompareResponse](ctx, c, "/api/v1/compare", r)
}
