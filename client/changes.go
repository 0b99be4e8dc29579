package client

import (
	"context"
	"net/http"
	"net/url"

	"tailscope/api"
)

// ChangesQuery asks for the moments at which the requests that Match names
// changed. Empty fields are left to the server.
type ChangesQuery struct {
	Selection
	Operations int    // to search, those with the most requests
	Status     string // new, confirmed, dismissed, all
}

func (c *Client) Changes(ctx context.Context, q ChangesQuery) (*api.ChangesResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	setInt(v, "operations", q.Operations)
	set(v, "status", q.Status)
	return get[api.ChangesResponse](ctx, c, "/api/v1/changes", v)
}

// DecideChange confirms a change as a mark, dismisses it, or takes that back.
func (c *Client) DecideChange(ctx context.Context, d api.ChangeDecision) (*api.ChangeDecided, error) {
	return send[api.ChangeDecided](ctx, c, http.MethodPost, "/api/v1/changes", nil, d)
}
