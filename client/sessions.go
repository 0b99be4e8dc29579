package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"tailscope/api"
)

const sessionsPath = "/api/v1/sessions"

func sessionPath(id string) string { return sessionsPath + "/" + url.PathEscape(id) }

// Sessions lists what was tried, those that run first, then the latest.
func (c *Client) Sessions(ctx context.Context, r api.SessionsRequest) (*api.SessionsResponse, error) {
	return get[api.SessionsResponse](ctx, c, sessionsPath, r)
}

// Session asks for one session as it was last reported.
func (c *Client) Session(ctx context.Context, id string) (*api.Session, error) {
	return get[api.Session](ctx, c, sessionPath(id), nil)
}

// ReportSession tells the server how a session goes, and returns what its
// users want changed. It is called every second or so by the program that runs
// the session, and once at its end.
func (c *Client) ReportSession(ctx context.Context, id string, p api.SessionReport) (api.SessionReply, error) {
	var reply api.SessionReply
	b, err := json.Marshal(p)
	if err != nil {
		return reply, fmt.Errorf("encode report: %w", err)
	}
	err = c.do(ctx, http.MethodPut, sessionPath(id), nil, b, &reply)
	return reply, err
}

// ChangeSession asks for a change of a mirror session that runs, and returns
// all that is wanted of it and not applied yet.
func (c *Client) ChangeSession(ctx context.Context, id string, m api.MirrorChange) (*api.MirrorChange, error) {
	return send[api.MirrorChange](ctx, c, http.MethodPatch, sessionPath(id), nil, m)
}

// StopSession asks a mirror session, a run of load or an experiment to end:
// its program does when it next reports.
func (c *Client) StopSession(ctx context.Context, id string) error {
	_, err := c.ChangeSession(ctx, id, api.MirrorChange{Stop: true})
	return err
}

// ForgetSession drops a session that has ended. Its series stay.
func (c *Client) ForgetSession(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, sessionPath(id), nil, nil, nil)
}

// SessionVerdict asks for each candidate against the control, or against the
// primary without one.
func (c *Client) SessionVerdict(ctx context.Context, r api.SessionVerdictRequest) (*api.MirrorVerdictResponse, error) {
	return get[api.MirrorVerdictResponse](ctx, c, sessionPath(r.ID)+"/verdict", r)
}
