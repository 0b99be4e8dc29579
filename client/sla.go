package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"tailscope/api"
)

// ApdexQuery asks for Apdex over time. Only requests are scored.
type ApdexQuery struct {
	Match      string
	Start, End string
	Grid
	T           float64 // seconds for every row; 0: each row's own target
	ByOperation bool
	// Overlay scores an earlier day instead, by the wall clock of Zone (UTC if
	// empty): day, week, or like (the last day like it).
	Overlay, Zone string
}

func (c *Client) Apdex(ctx context.Context, q ApdexQuery) (*api.ApdexResponse, error) {
	v := url.Values{}
	Selection{Match: q.Match, Start: q.Start, End: q.End}.add(v)
	q.Grid.add(v)
	setFloat(v, "t", q.T)
	if q.ByOperation {
		v.Set("by", "operation")
	}
	set(v, "overlay", q.Overlay)
	set(v, "tz", q.Zone)
	return get[api.ApdexResponse](ctx, c, "/api/v1/apdex", v)
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

// SLAQuery asks for the report of one service.
type SLAQuery struct {
	Match     string // PromQL matchers that name the service
	Period    string // day, week, month
	Count     int
	Zone      string // of IANA's database: Europe/Berlin
	End       string
	Objective float64 // share; 0: none
	Under     float64 // seconds
	T         float64 // seconds; 0: the target
	Quantiles []string
}

func (c *Client) SLA(ctx context.Context, q SLAQuery) (*api.SLAResponse, error) {
	v := url.Values{}
	set(v, "match", q.Match)
	set(v, "period", q.Period)
	setInt(v, "count", q.Count)
	set(v, "tz", q.Zone)
	set(v, "end", q.End)
	setFloat(v, "objective", q.Objective)
	setFloat(v, "under", q.Under)
	setFloat(v, "t", q.T)
	setList(v, "q", q.Quantiles)
	return get[api.SLAResponse](ctx, c, "/api/v1/sla", v)
}
