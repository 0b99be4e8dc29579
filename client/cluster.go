package client

import (
	"context"

	"tailscope/api"
)

// Cluster returns the servers that share the store, the nodes that hold it, and the agents.
func (c *Client) Cluster(ctx context.Context) (*api.ClusterResponse, error) {
	return get[api.ClusterResponse](ctx, c, "/api/v1/cluster", nil)
}
