package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"tailscope/api"
)

func (c *Client) Apdex(ctx context.Context, r api.ApdexRequest) (*api.ApdexResponse, error) {
	return get[api.ApdexResponse](ctx, c, "/api/v1/apdex", r)
}

const targetsPath = "/api/v1/apdex-targets"

// ApdexTargets lists what satisfies a user.
func (c *Client) ApdexTargets(ctx context.Context) (*api.ApdexTargetsResponse, error) {
	return get[api.ApdexTargetsResponse](ctx, c, targetsPath, nil)
}

// PutApdexTarget sets the target of a service, or of one of its operations.
func (c *Client) PutApdexTarget(ctx context.Context, t api.ApdexTarget) error {
	b, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode target: %w", err)
	}
	return c.do(ctx, http.MethodPut, targetsPath, nil, b, nil)
}

// DeleteApdexTarget removes a target, so that the next wider one holds.
func (c *Client) DeleteApdexTarget(ctx context.Context, service, operation string) error {
	v := url.Values{}
	set(v, "service", service)
	set(v, "operation", operation)
	return c.do(ctx, http.MethodDelete, targetsPath, v, nil, nil)
}

func (c *Client) SLA(ctx context.Context, r api.SLARequest) (*api.SLAResponse, error) {
	return get[api.SLAResponse](ctx, c, "/api/v1/sla", r)
}
