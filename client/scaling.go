package client

import (
	"context"
	"net/url"

	"tailscope/api"
)

// ScalingQuery asks for the scalability law of a service's requests. Empty fields are
// left to the server.
type ScalingQuery struct {
	Selection
	Grid
	Level string // confidence of the intervals: 0.95
}

func (c *Client) Scaling(ctx context.Context, q ScalingQuery) (*api.ScalingResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	q.Grid.add(v)
	set(v, "level", q.Level)
	return get[api.ScalingResponse](ctx, c, "/api/v1/scaling", v)
}
