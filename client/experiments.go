package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"tailscope/api"
)

const experimentsPath = "/api/v1/experiments"

func experimentPath(id string) string { return experimentsPath + "/" + url.PathEscape(id) }

// ExperimentsQuery asks for what was tried. Empty fields are left to the server:
// any kind, any state, all time, the latest 1,000.
type ExperimentsQuery struct {
	Kind       string // mirror, bench, experiment, capacity, simulation
	State      string // running, ended, lost
	Search     string // words that all are in what it is about
	Start, End string // that it overlaps
	Limit      int
}

// Experiments lists what was tried, those that run first, then the latest.
func (c *Client) Experiments(ctx context.Context, q ExperimentsQuery) (*api.ExperimentsResponse, error) {
	v := url.Values{}
	set(v, "kind", q.Kind)
	set(v, "state", q.State)
	set(v, "q", q.Search)
	setInt(v, "limit", q.Limit)
	set(v, "start", q.Start)
	set(v, "end", q.End)
	return get[api.ExperimentsResponse](ctx, c, experimentsPath, v)
}

// Experiment asks for one experiment as it was last reported.
func (c *Client) Experiment(ctx context.Context, id string) (*api.Experiment, error) {
	return get[api.Experiment](ctx, c, experimentPath(id), nil)
}

// ReportExperiment tells the server how an experiment goes, and returns what its
// users want changed. It is called every second or so by the program that runs
// the experiment, and once at its end.
func (c *Client) ReportExperiment(ctx context.Context, id string, p api.ExperimentReport) (api.ExperimentReply, error) {
	var reply api.ExperimentReply
	b, err := json.Marshal(p)
	if err != nil {
		return reply, fmt.Errorf("encode report: %w", err)
	}
	err = c.do(ctx, http.MethodPut, experimentPath(id), nil, b, &reply)
	return reply, err
}

// ChangeExperiment asks for a change of a mirror session that runs, and returns
// all that is wanted of it and not applied yet.
func (c *Client) ChangeExperiment(ctx context.Context, id string, m api.MirrorChange) (*api.MirrorChange, error) {
	return send[api.MirrorChange](ctx, c, http.MethodPatch, experimentPath(id), nil, m)
}

// StopExperiment asks a mirror session, a run of load or an experiment to end:
// its program does when it next reports.
func (c *Client) StopExperiment(ctx context.Context, id string) error {
	_, err := c.ChangeExperiment(ctx, id, api.MirrorChange{Stop: true})
	return err
}

// ForgetExperiment drops an experiment that has ended. Its series stay.
func (c *Client) ForgetExperiment(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, experimentPath(id), nil, nil, nil)
}

// ExperimentVerdictQuery asks what came of an experiment. Empty fields are left
// to the server: its whole time, all measures, 20 operations and tenants.
type ExperimentVerdictQuery struct {
	ID         string
	Start, End string
	Measures   []string // ratio, p50 … p99.9, mean, errors, first_byte, bytes
	Limit      int      // operations, and tenants
}

// ExperimentVerdict asks for each candidate against the control, or against the
// primary without one.
func (c *Client) ExperimentVerdict(ctx context.Context, q ExperimentVerdictQuery) (*api.MirrorVerdictResponse, error) {
	v := url.Values{}
	set(v, "start", q.Start)
	set(v, "end", q.End)
	setList(v, "measures", q.Measures)
	setInt(v, "limit", q.Limit)
	return get[api.MirrorVerdictResponse](ctx, c, experimentPath(q.ID)+"/verdict", v)
}
