package client

import (
	"context"
	"net/http"

	"tailscope/api"
)

// AcknowledgeDamage has the server report no longer what was found damaged or
// missing, as far as it is no longer in place.
func (c *Client) AcknowledgeDamage(ctx context.Context) (*api.DamageAcknowledged, error) {
	return send[api.DamageAcknowledged](ctx, c, http.MethodPost, "/api/v1/damage/acknowledge", nil, api.DamageAcknowledge{})
}
