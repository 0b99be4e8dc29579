package check

import (
	"context"
	"errors"

	"tailscope/api"
	"tailscope/internal/check/spec"
)

var errSoon = errors.New("not there yet")

// Engine runs checks. It is safe for concurrent use.
type Engine struct{ o Options }

// Open reads what is kept of earlier runs. Nothing runs before Run.
func Open(ctx context.Context, o Options) (*Engine, error) { return &Engine{o: o}, nil }

// Run runs checks until ctx is done, ends runs under way and keeps what they
// came to.
func (e *Engine) Run(ctx context.Context) { <-ctx.Done() }

// Replace changes the definitions. Checks that are the same go on as they were;
// the incident of one that is gone is resolved.
func (e *Engine) Replace(ctx context.Context, f spec.File, files []string) error { return errSoon }

// SetProblem says why the definitions on disk are not those that run; empty: they are.
func (e *Engine) SetProblem(problem string) {}

// Stats returns the totals since Open.
func (e *Engine) Stats() Stats { return Stats{} }

// List answers checks by falling severity, then by name.
func (e *Engine) List(ctx context.Context, r ListRequest) (*api.ChecksResponse, error) {
	return nil, errSoon
}

// Get answers one check with its past.
func (e *Engine) Get(ctx context.Context, r GetRequest) (*api.CheckResponse, error) {
	return nil, errSoon
}

// Evaluate answers what an expression comes to at a moment, and over a range.
func (e *Engine) Evaluate(ctx context.Context, r api.CheckEvaluate) (*api.CheckEvaluateResponse, error) {
	return nil, errSoon
}

// Backtest answers what a threshold would have done.
func (e *Engine) Backtest(ctx context.Context, r api.CheckBacktest) (*api.CheckBacktestResponse, error) {
	return nil, errSoon
}

// Acknowledge says that somebody takes care of a check that is not OK.
func (e *Engine) Acknowledge(ctx context.Context, id string, a api.Ack) (*api.Check, error) {
	return nil, errSoon
}

// Unacknowledge takes it back.
func (e *Engine) Unacknowledge(ctx context.Context, id, user string) (*api.Check, error) {
	return nil, errSoon
}

// RunNow runs a check besides its schedule, and waits for what it comes to.
func (e *Engine) RunNow(ctx context.Context, id string) (*api.Check, error) { return nil, errSoon }

// Maintenance lists the windows of files, those under way and to come of the
// posted ones, and those posted that ended within a day.
func (e *Engine) Maintenance(ctx context.Context) (*api.MaintenanceResponse, error) {
	return nil, errSoon
}

// AddMaintenance begins a window, now or later.
func (e *Engine) AddMaintenance(ctx context.Context, m api.Maintenance) (*api.Maintenance, error) {
	return nil, errSoon
}

// EndMaintenance ends a window that was posted.
func (e *Engine) EndMaintenance(ctx context.Context, id string) error { return errSoon }

// Incidents answers incidents, the newest first.
func (e *Engine) Incidents(ctx context.Context, r IncidentsRequest) (*api.IncidentsResponse, error) {
	return nil, errSoon
}

// MarkIncident notes that there was one, for backtests.
func (e *Engine) MarkIncident(ctx context.Context, m api.MarkedIncident) (*api.Incident, error) {
	return nil, errSoon
}

// ForgetIncident forgets one that was marked.
func (e *Engine) ForgetIncident(ctx context.Context, id string) error { return errSoon }
