package client

import (
	"context"
	"net/http"

	"tailscope/api"
)

func (c *Client) Changes(ctx context.Context, r api.ChangesRequest) (*api.ChangesResponse, error) {
	return get[api.ChangesResponse](ctx, c, "/api/v1/changes", r)
}

// DecideChange confirms a change as a mark, dismisses it, or takes that back.
func (c *Client) DecideChange(ctx context.Context, d api.ChangeDecision) (*api.ChangeDecided, error) {
	return send[api.ChangeDecided](ctx, c, http.MethodPost, "/api/v1/changes", nil, d)
}
