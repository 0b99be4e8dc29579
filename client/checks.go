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

// ChecksQuery asks for checks. Empty fields do not narrow it.
type ChecksQuery struct {
	State         string // OK, WARNING, CRITICAL, UNKNOWN, PENDING, or bad: all but OK and PENDING
	Match         string // {service="shop"}; the label check is the definition's name
	Search        string // part of the id or the description
	Offset, Limit int    // Limit 0 is 100
}

// Checks lists what is guarded, the worst first.
func (c *Client) Checks(ctx context.Context, q ChecksQuery) (*api.ChecksResponse, error) {
	v := url.Values{}
	set(v, "state", q.State)
	set(v, "match", q.Match)
	set(v, "q", q.Search)
	setInt(v, "offset", q.Offset)
	setInt(v, "limit", q.Limit)
	return get[api.ChecksResponse](ctx, c, checksPath, v)
}

// CheckQuery asks for one check over a range; without one, its last day.
type CheckQuery struct {
	ID         string
	Start, End string
	Step       string // 60s: between the points
}

// Check asks for one check with its past.
func (c *Client) Check(ctx context.Context, q CheckQuery) (*api.CheckResponse, error) {
	v := url.Values{"id": {q.ID}}
	set(v, "start", q.Start)
	set(v, "end", q.End)
	set(v, "step", q.Step)
	return get[api.CheckResponse](ctx, c, checkPath, v)
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

// IncidentsQuery asks for incidents. Empty fields do not narrow it.
type IncidentsQuery struct {
	Start, End string // that it overlaps
	Check      string // id, or a definition's name: those of all its checks
	Kind       string // check, marked
	Open       bool   // only those that last
	Limit      int    // the newest; 0 is 1,000
}

// Incidents lists times in which checks were not OK, and those that were marked,
// the newest first.
func (c *Client) Incidents(ctx context.Context, q IncidentsQuery) (*api.IncidentsResponse, error) {
	v := url.Values{}
	set(v, "start", q.Start)
	set(v, "end", q.End)
	set(v, "check", q.Check)
	set(v, "kind", q.Kind)
	if q.Open {
		v.Set("open", "true")
	}
	setInt(v, "limit", q.Limit)
	return get[api.IncidentsResponse](ctx, c, incidentsPath, v)
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
