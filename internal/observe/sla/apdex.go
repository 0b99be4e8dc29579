package sla

import (
	"context"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// ApdexRequest asks for Apdex over time.
type ApdexRequest struct {
	query.Selection
	query.Grid
	T           float64 // > 0 replaces the targets
	ByOperation bool
	Overlay     query.Overlay // scores earlier days in place of the range
	Now         time.Time     // zero: all of the range is stored
	Newest      *seconds.Ring // the newest requests; nil if they are not kept
}

// maxRows bounds the rows of one answer.
const maxRows = 2000

// Apdex returns the scores of services, or of their operations, in the range and in each
// step of it.
func Apdex(ctx context.Context, st store.Store, targets *Targets, r ApdexRequest) (*api.ApdexResponse, error) {
	if r.T != 0 {
		if err := CheckT("t", r.T); err != nil {
			return nil, err
		}
	}
	if r.Step == 0 && r.Width == 0 {
		r.Width = 120
	}
	set, err := targets.All(ctx)
	if err != nil {
		return nil, err
	}
	by := []string{series.LabelService, series.LabelEnvironment}
	if r.ByOperation {
		by = append(by, series.LabelOperation)
	}
	found, err := query.Requests(ctx, st, query.RequestsRequest{Selection: r.Selection, Grid: r.Grid, By: by, Overlay: r.Overlay})
	if err != nil {
		return nil, err
	}
	if len(found.Groups) > maxRows {
		return nil, &query.Error{Code: query.CodeTooMany, Field: "match", Message: "the answer would have more than 2000 rows; add a service to match"}
	}
	n := int((found.End - found.Start) / found.Step)
	out := &api.ApdexResponse{Range: api.Range{Start: found.Start, End: found.End}, Step: found.Step, Overlay: found.Overlay, Times: make([]int64, n), Rows: []api.ApdexRow{}}
	for i := range out.Times {
		out.Times[i] = found.Start + int64(i)*found.Step
	}
	only := query.Named(r.Matchers, series.LabelOperation) // which uses its own target even if not by operation
	lasts := float64(found.End - found.Start)
	var measured *query.Measured
	if found.Overlay == nil {
		if measured, err = query.NewMeasured(ctx, st, r.Matchers, time.Unix(found.Start, 0), time.Unix(min(found.End, found.Until), 0), r.Now, r.Newest); err != nil {
			return nil, err
		}
	}
	for _, g := range found.Groups {
		row, err := makeApdexRow(found, &g, r, set, only)
		if err != nil {
			return nil, err
		}
		if measured != nil {
			lasts, err = measured.Seconds(func(service, environment string) bool {
				return service == row.Service && environment == row.Environment
			})
			if err != nil {
				return nil, err
			}
		}
		row.Rate = float(float64(row.Requests) / lasts)
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func makeApdexRow(found *query.Requested, g *query.RequestGroup, r ApdexRequest, set *Set, only string) (api.ApdexRow, error) {
	row := api.ApdexRow{Service: g.Labels.Get(series.LabelService), Environment: g.Labels.Get(series.LabelEnvironment)}
	operation := only
	if r.ByOperation {
		operation = g.Labels.Get(series.LabelOperation)
	}
	row.Operation = operation
	t, from := set.T(row.Service, operation)
	if r.T != 0 {
		t, from = r.T, FromAsked
	}
	row.T, row.From = float(t), from
	var whole outcomes
	since := 0.0 // seconds since the first request
	for i := range g.Good {
		if err := whole.add(g.Good[i], g.Failed[i]); err != nil {
			return row, err
		}
		requests := g.Moment(i)
		a := query.ScoreApdex(g.Good[i], count(g.Failed[i]), t)
		row.Over = append(row.Over, float(a.Score))
		row.ThinOver = append(row.ThinOver, isThin(requests.Effective(), found.Seconds(i)))
		if whole.requests() > 0 {
			since += found.Seconds(i)
		}
	}
	a := query.ScoreApdex(whole.good, whole.errors(), t)
	row.Apdex, row.Low, row.High = float(a.Score), float(a.Low), float(a.High)
	row.Satisfied, row.Tolerating, row.Frustrated = float(a.Satisfied), float(a.Tolerating), float(a.Frustrated)
	row.Requests, row.Effective = a.Requests, query.Effective(whole.moment())
	row.Thin = isThin(whole.effective(), since)
	return row, nil
}

func count(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}
