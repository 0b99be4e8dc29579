package sla

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// ReportRequest asks for the report. The selection names a service; its start is not
// used, and the last period is the one that holds the moment before its end.
type ReportRequest struct {
	query.Selection
	Now       time.Time
	Period    string // Day, Week (default) or Month
	Count     int    // number of periods; default 7 days, 8 weeks or 6 months
	Zone      string // IANA name; empty is UTC
	Objective float64
	Under     float64 // seconds; both 0: no objective
	T         float64 // > 0 replaces the target
	Quantiles []query.Quantile
}

func (r *ReportRequest) check() error {
	if r.Period == "" {
		r.Period = Week
	}
	if r.Count == 0 {
		r.Count = defaultCounts[r.Period]
	}
	if r.Count < 0 || r.Count > maxCount {
		return query.Invalid("count", "count %d is not between 1 and %d", r.Count, maxCount)
	}
	if query.Named(r.Matchers, series.LabelService) == "" {
		return query.Invalid("match", `the report is of one service; write match={service="checkout"}`)
	}
	switch {
	case r.Objective == 0 && r.Under == 0:
	case r.Objective == 0:
		return query.Invalid("objective", "under needs an objective beside it, such as objective=0.99")
	case r.Under == 0:
		return query.Invalid("under", "an objective needs a bound in seconds beside it, such as under=0.5")
	case !(r.Objective > 0 && r.Objective < 1):
		if r.Objective > 1 && r.Objective < 100 {
			return query.Invalid("objective", "an objective of %g is not between 0 and 1; write %g", r.Objective, math.Round(r.Objective*1e4)/1e6)
		}
		return query.Invalid("objective", "an objective of %g is not between 0 and 1; write one such as 0.99", r.Objective)
	default:
		if err := CheckT("under", r.Under); err != nil {
			return err
		}
	}
	if r.T != 0 {
		return CheckT("t", r.T)
	}
	return nil
}

// row is a period while its figures are collected.
type row struct {
	period
	outcomes
	from, to int64    // the part of it that may have data
	cut      int64    // length of the kept slot that its beginning or end lies in, or 0
	read     [2]int64 // the range that was read, which cuts extend
	tenants  []*tenantSums
	worst    *tenantSums
}

func (r *row) seconds() float64 { return float64(max(0, r.to-r.from)) }

// report is a report in progress.
type report struct {
	ReportRequest
	st    store.Store
	t     float64
	notes []string
	first int64 // start of the data, Unix seconds; math.MaxInt64 without data
	until int64 // end of the data: now, or the end of the last period
}

// Report returns how a service did by day, week or month of a time zone.
func Report(ctx context.Context, st store.Store, targets *Targets, r ReportRequest) (*api.SLAResponse, error) {
	if r.Now.IsZero() {
		r.Now = r.End
	}
	if r.Period != "" {
		if _, err := periodOf(r.Period, r.End); err != nil {
			return nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	loc, err := query.Zone("tz", r.Zone)
	if err != nil {
		return nil, err
	}
	list, err := periods(r.Period, r.End.In(loc), r.Count)
	if err != nil {
		return nil, err
	}
	if list[0].start.Unix() < 0 {
		return nil, query.Invalid("count", "%d periods reach back before 1970; write fewer", r.Count)
	}
	set, err := targets.All(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.SLAResponse{Period: r.Period, Zone: loc.String(), Objective: float(math.NaN()), Under: float(math.NaN()), Rows: []api.SLAPeriod{}}
	if r.Objective > 0 {
		out.Objective, out.Under = float(r.Objective), float(r.Under)
	}
	out.Service = query.Named(r.Matchers, series.LabelService)
	out.Operation = query.Named(r.Matchers, series.LabelOperation)
	out.Environment = query.Named(r.Matchers, series.LabelEnvironment)
	t, _ := set.T(out.Service, out.Operation)
	if r.T != 0 {
		t = r.T
	}
	out.T = float(t)
	x := &report{ReportRequest: r, st: st, t: t}
	if err := x.make(ctx, list, out); err != nil {
		return nil, err
	}
	out.Notes = x.notes
	return out, nil
}

func (x *report) make(ctx context.Context, list []period, out *api.SLAResponse) error {
	x.End = list[len(list)-1].end
	x.until = min(x.End.Unix(), x.Now.Unix())
	if err := x.findFirst(ctx, list[0].start); err != nil {
		return err
	}
	rows := make([]*row, len(list))
	for i, p := range list {
		var err error
		if rows[i], err = x.read(ctx, p, p.end); err != nil {
			return err
		}
	}
	x.noteCuts(rows[1:])
	if err := x.findWorst(ctx, rows[1:]); err != nil {
		return err
	}
	outages, err := x.findOutages(ctx, rows[1].start.Unix())
	if err != nil {
		return err
	}
	zone := rows[1].start.Location()
	all := &row{period: period{x.Period, rows[1].start, rows[len(rows)-1].end}, from: math.MaxInt64}
	for i, r := range rows[1:] {
		line, err := x.fillFigures(r)
		if err != nil {
			return err
		}
		line.Name = r.name()
		line.Partial = x.until < r.end.Unix() || x.first > r.start.Unix()
		place(&line, outages, zone)
		before := rows[i]
		if x.until < r.end.Unix() && r.start.Unix() < x.until {
			// The running period is compared with the same part of the one before.
			if before, err = x.read(ctx, before.period, samePart(before.period, r.period, time.Unix(x.until, 0).In(r.start.Location()))); err != nil {
				return err
			}
		}
		if err := x.compareTrend(&line, r, before); err != nil {
			return err
		}
		out.Rows = append(out.Rows, line)
		if err := all.add(r.good, r.failed); err != nil {
			return err
		}
		if r.seconds() > 0 {
			all.from, all.to = min(all.from, r.from), max(all.to, r.to)
		}
	}
	if out.All, err = x.fillFigures(all); err != nil {
		return err
	}
	out.All.Name = "all"
	place(&out.All, outages, zone)
	out.All.Partial = x.until < all.end.Unix() || x.first > all.start.Unix()
	out.All.Worst, err = x.worstOfAll(rows[1:], all)
	return err
}

// findFirst finds the start of the data, and whether they hold requests, which are then
// the only spans that the report counts.
func (x *report) findFirst(ctx context.Context, start time.Time) error {
	x.first = math.MaxInt64
	sel := x.Selection
	sel.Start, sel.End = start, x.End
	if !sel.End.After(sel.Start) {
		return nil
	}
	step := int64(series.Hour)
	for step*10_000 < sel.End.Unix()-sel.Start.Unix() {
		step *= 2
	}
	before := int64(math.MaxInt64)
	for {
		found, err := query.Requests(ctx, x.st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: step}, Measure: store.Moments})
		if err != nil {
			return err
		}
		at := -1
		for _, g := range found.Groups {
			for i := range g.Good {
				if g.Count(i) > 0 && (at < 0 || i < at) {
					at = i
				}
			}
		}
		if at < 0 {
			return nil
		}
		if found.Entry {
			if err := x.onlyRequests(); err != nil {
				return err
			}
			sel.Matchers = x.Matchers
		}
		x.first = max(found.Start+int64(at)*found.Step, start.Unix())
		if found.Step <= int64(series.Base) || found.Step >= before {
			return nil // as fine as the kept slots allow
		}
		before = found.Step
		// Search again, at a finer step, around the start.
		sel.Start = time.Unix(found.Start+int64(at)*found.Step, 0)
		if end := sel.Start.Add(time.Duration(found.Step) * time.Second); end.Before(sel.End) {
			sel.End = end
		}
		step = found.Step / 60 / int64(series.Base) * int64(series.Base)
		step = max(step, int64(series.Base))
	}
}

func (x *report) onlyRequests() error {
	if slices.ContainsFunc(x.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelKind }) {
		return nil
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelKind, "server|consumer")
	if err != nil {
		return err
	}
	x.Matchers = append(slices.Clone(x.Matchers), m)
	return nil
}

// read reads the requests of p up to end.
func (x *report) read(ctx context.Context, p period, end time.Time) (*row, error) {
	r := &row{period: p}
	r.from, r.to = max(p.start.Unix(), x.first), min(end.Unix(), x.until)
	if r.to <= r.from {
		r.to = r.from
		return r, nil
	}
	start := p.start
	if time.Unix(x.until, 0).Before(end) {
		end = time.Unix(x.until, 0)
	}
	found, err := x.requests(ctx, start, end)
	if err != nil {
		return nil, err
	}
	// A slot that straddles midnight cannot be cut: it counts in the period that it ends
	// in, so that it counts once.
	low, high := found.Start < start.Unix(), found.End > end.Unix() && end.Equal(p.end)
	if low {
		r.cut = slotFrom(found.Start, start.Unix())
		start = time.Unix(found.Start, 0)
	}
	if high {
		r.cut = max(r.cut, slotTo(found.End, end.Unix()))
		end = time.Unix(found.End-slotTo(found.End, end.Unix()), 0)
		if found, err = x.requests(ctx, start, end); err != nil {
			return nil, err
		}
	}
	r.read = [2]int64{found.Start, found.End}
	for _, g := range found.Groups {
		if err := r.add(g.Good[0], g.Failed[0]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (x *report) requests(ctx context.Context, start, end time.Time) (*query.Requested, error) {
	sel := x.Selection
	sel.Start, sel.End = start, end
	return query.Requests(ctx, x.st, query.RequestsRequest{Selection: sel, Whole: true})
}

func (x *report) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// noteCuts notes the periods that begin or end at another moment than they should.
func (x *report) noteCuts(rows []*row) {
	n, slot := 0, int64(0)
	last := ""
	for _, r := range rows {
		if r.cut > 0 {
			n++
			slot = max(slot, r.cut)
			last = r.name()
		}
	}
	if n > 0 {
		x.note("%d of the periods, up to %s, are old enough that only slots of %s are kept, and midnight in %s lies within one: they are cut at the whole slot before it",
			n, last, slotName(slot), x.Zone)
	}
}

// slotFrom returns the length of the slot that begins at from and holds at.
func slotFrom(from, at int64) int64 {
	for _, r := range series.Resolutions {
		if r.Slot(from) == from && from+int64(r) > at {
			return int64(r)
		}
	}
	return int64(series.Hour)
}

// slotTo returns the length of the slot that ends at to and holds at.
func slotTo(to, at int64) int64 {
	for _, r := range series.Resolutions {
		if r.Slot(to) == to && to-int64(r) <= at {
			return int64(r)
		}
	}
	return int64(series.Hour)
}

func slotName(seconds int64) string {
	switch seconds {
	case int64(series.Hour):
		return "an hour"
	case int64(series.TenMin):
		return "ten minutes"
	case int64(series.Minute):
		return "a minute"
	}
	return fmt.Sprintf("%d s", seconds)
}
