package client

import (
	"context"
	"net/url"

	"tailscope/api"
)

func (c *Client) Traces(ctx context.Context, r api.TracesRequest) (*api.TracesResponse, error) {
	return get[api.TracesResponse](ctx, c, "/api/v1/traces", r)
}

// Trace asks for a whole kept trace by its id of 32 hex digits.
func (c *Client) Trace(ctx context.Context, id string) (*api.TraceResponse, error) {
	return get[api.TraceResponse](ctx, c, "/api/v1/traces/"+url.PathEscape(id), nil)
}
