package client

import (
	"context"

	"tailscope/api"
)

func (c *Client) Scaling(ctx context.Context, r api.ScalingRequest) (*api.ScalingResponse, error) {
	return get[api.ScalingResponse](ctx, c, "/api/v1/scaling", r)
}
