package client

import (
	"context"
	"net/http"
	"net/url"

	"tailscope/api"
)

const (
	checkPath       = "/api/v1/check"
	checksPath      = "/api/v1/checks"
	incidentsPath   = "/api/v1/incidents"
	maintenancePath = "/api/v1/maintenance"
)

// Checks lists what is guarded, the worst first.
func (c *Client) Checks(ctx context.Context, r api.ChecksRequest) (*api.ChecksResponse, error) {
	return get[api.ChecksResponse](ctx, c, checksPath, r)
}

// Check asks for one check with its past.
func (c *Client) Check(ctx context.Context, r api.CheckRequest) (*api.CheckResponse, error) {
	return get[api.CheckResponse](ctx, c, checkPath, r)
}

// AcknowledgeCheck says that somebody takes care of a check that is not OK, until
// it is, or until a.Until. User is needed, Time is the server's.
func (c *Client) AcknowledgeCheck(ctx context.Context, id string, a api.Ack) (*api.Check, error) {
	return send[api.Check](ctx, c, http.MethodPost, checkPath+"/acknowledge", url.Values{"id": {id}}, a)
}

// UnacknowledgeCheck takes that back in the name of a user.
func (c *Client) UnacknowledgeCheck(ctx context.Context, id, user string) (*api.Check, error) {
	v := url.Values{"id": {id}}
	set(v, "user", user)
	return send[api.Check](ctx, c, http.MethodDelete, checkPath+"/acknowledge", v, nil)
}

// RunCheck runs a check beside its schedule, and waits for what it comes to.
func (c *Client) RunCheck(ctx context.Context, id string) (*api.Check, error) {
	return send[api.Check](ctx, c, http.MethodPost, checkPath+"/run", url.Values{"id": {id}}, nil)
}

// EvaluateCheck asks what an expression comes to.
func (c *Client) EvaluateCheck(ctx context.Context, q api.CheckEvaluate) (*api.CheckEvaluateResponse, error) {
	return send[api.CheckEvaluateResponse](ctx, c, http.MethodPost, checksPath+"/evaluate", nil, q)
}

// BacktestCheck asks what a check, or one with another threshold, would have done.
func (c *Client) BacktestCheck(ctx context.Context, q api.CheckBacktest) (*api.CheckBacktestResponse, error) {
	return send[api.CheckBacktestResponse](ctx, c, http.MethodPost, checksPath+"/backtest", nil, q)
}

// Incidents lists times in which checks were not OK, and those that were marked,
// the newest first.
func (c *Client) Incidents(ctx context.Context, r api.IncidentsRequest) (*api.IncidentsResponse, error) {
	return get[api.IncidentsResponse](ctx, c, incidentsPath, r)
}

// MarkIncident says that there was an incident, for backtests to be held against.
// The answer has its id.
func (c *Client) MarkIncident(ctx context.Context, m api.MarkedIncident) (*api.Incident, error) {
	return send[api.Incident](ctx, c, http.MethodPost, incidentsPath, nil, m)
}

// DeleteIncident forgets one that was marked.
func (c *Client) DeleteIncident(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, incidentsPath+"/"+url.PathEscape(id), nil, nil, nil)
}

// Maintenance lists windows in which nobody is told.
func (c *Client) Maintenance(ctx context.Context) (*api.MaintenanceResponse, error) {
	return get[api.MaintenanceResponse](ctx, c, maintenancePath, nil)
}

// AddMaintenance begins a window: at m.Start, or now when it is 0. The answer has
// its id.
func (c *Client) AddMaintenance(ctx context.Context, m api.Maintenance) (*api.Maintenance, error) {
	return send[api.Maintenance](ctx, c, http.MethodPost, maintenancePath, nil, m)
}

// EndMaintenance ends a window that was posted.
func (c *Client) EndMaintenance(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, maintenancePath+"/"+url.PathEscape(id), nil, nil, nil)
}
