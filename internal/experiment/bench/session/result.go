package session

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/tally"
)

// result returns the run so far. Of a run that has ended it lacks End and the
// generator's figures.
func (r *run) result(began time.Time, elapsed time.Duration, unsent uint64) *api.BenchResult {
	none := api.Float(math.NaN())
	o := &r.o
	res := &api.BenchResult{
		Format: 1, Name: o.Name, Target: o.Target.Scheme + "://" + o.Target.Host, Service: o.Service, Variant: o.Variant, Command: o.Command,
		Start: tally.Unix(began), End: none, Seed: o.Plan.Seed, Asked: none, Rate: none,
		Plan: api.BenchPlan{
			Arrivals: o.Plan.Arrivals.String(), Protocol: "HTTP/1.1", TLS: o.Load.TLS != nil, Connections: o.Load.Connections,
			Timeout: api.Float(o.Load.Timeout.Seconds()), Duration: none,
		},
		Phases: slices.Clone(r.phases), Thresholds: []api.BenchThreshold{}, Resources: []api.BenchResource{}, Loads: []api.BenchLoad{},
		Events: []api.BenchEvent{}, Notes: append([]string{}, o.Set.Notes()...), Invalid: []string{}, Valid: true, WarmUp: o.Warmed,
		Generator: api.BenchGenerator{CPUSeconds: none, CPUPerRequest: none, Cores: none, Busiest: none, Host: none, Delayed: none},
	}
	if o.Plan.Grouped() {
		res.Notes = append(res.Notes, fmt.Sprintf("requests above %.0f a second were due in groups, one every %s: that spares CPU, and makes them come up to %s sooner or later than evenly; --set precise=true (precise: true of a scenario) sends each at its own time",
			1/o.Plan.Grid.Seconds(), o.Plan.Grid, o.Plan.Grid/2))
	}
	if o.Load.Protocol == load.HTTP2 {
		res.Plan.Protocol = "HTTP/2"
	}
	if o.Load.Connections == 0 {
		res.Plan.Connections = defaultConnections
	}
	if o.Load.Timeout == 0 {
		res.Plan.Timeout = api.Float(defaultTimeout.Seconds())
	}
	if d := r.duration(); d > 0 {
		res.Plan.Duration = api.Float(d.Seconds())
	}
	if o.Environment != nil {
		res.Environment = *o.Environment
	}
	res.Loads = append(res.Loads, o.Loads...)
	frame := tally.Frame{Start: began, Elapsed: elapsed, Unsent: unsent}
	if o.Plan.Arrivals < bench.Closed {
		frame.Due = func(d time.Duration) float64 { return dueBefore(o.Plan, d) }
	}
	r.tally.Fill(res, frame)
	if res.WarmUp == nil && r.skip > 0 {
		res.WarmUp = &api.BenchWarmUp{Seconds: api.Float(r.skip.Seconds()), Requests: r.tally.Warmed(), Why: fmt.Sprintf("%s were asked for; whether the target had become steady was not looked at", r.skip.Round(time.Millisecond))}
	}
	if s := elapsed.Seconds(); s > 0 {
		res.Rate = api.Float(float64(res.Account.Answered) / s)
		switch {
		case frame.Due != nil:
			res.Asked = api.Float(frame.Due(min(elapsed, scheduled(o.Plan, elapsed))) / min(elapsed, scheduled(o.Plan, elapsed)).Seconds())
		case o.Plan.Arrivals == bench.Recorded:
			res.Asked = api.Float(float64(res.Account.Due) / s)
		}
	}
	for i := range res.Phases {
		p := &res.Phases[i]
		if math.IsNaN(float64(p.End)) || float64(p.End) > elapsed.Seconds() && unsent+res.Account.Sent > 0 {
			p.End = api.Float(max(elapsed.Seconds(), float64(p.Start)))
		}
		if len(res.Phases) > 1 && float64(p.Start) <= elapsed.Seconds() {
			res.Events = append(res.Events, api.BenchEvent{Time: res.Start + p.Start, End: res.Start + p.End, Kind: "phase", Name: p.Name, Text: rates(p)})
		}
	}
	if o.Events != nil {
		res.Events = append(res.Events, o.Events()...)
		slices.SortStableFunc(res.Events, func(a, b api.BenchEvent) int {
			switch {
			case a.Time < b.Time:
				return -1
			case a.Time > b.Time:
				return 1
			}
			return 0
		})
	}
	if o.Resources != nil {
		res.Resources = append(res.Resources, o.Resources(res.Account.Answered)...)
	}
	for _, t := range o.Thresholds {
		res.Thresholds = append(res.Thresholds, t.Judge(res))
	}
	res.Headline = headline(res)
	return res
}

// The engine's defaults, as results show them.
const (
	defaultConnections = 64
	defaultTimeout     = 30 * time.Second
)

// scheduled returns the part of elapsed in which the plan had requests due: after it
// only answers come.
func scheduled(p bench.Plan, elapsed time.Duration) time.Duration {
	if d := p.Duration(); d > 0 {
		return d
	}
	return elapsed
}

// dueBefore returns the mean number of requests that the plan has due before d.
func dueBefore(p bench.Plan, d time.Duration) float64 {
	due := 0.0
	for _, ph := range p.Phases {
		if d <= 0 {
			break
		}
		t := d
		if ph.For > 0 {
			t = min(d, ph.For)
		}
		rate := ph.From
		if ph.For > 0 { // at the middle of its elapsed time
			rate += (ph.To - ph.From) * t.Seconds() / ph.For.Seconds() / 2
		}
		due += rate * t.Seconds()
		if ph.For == 0 {
			break
		}
		d -= ph.For
	}
	return due
}

func rates(p *api.BenchPhase) string {
	from, to := float64(p.From), float64(p.To)
	switch {
	case math.IsNaN(from):
		return ""
	case from == to:
		return number(from) + "/s"
	}
	return number(from) + " to " + number(to) + "/s"
}

func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// headline returns the outcome of a run in a sentence.
func headline(r *api.BenchResult) string {
	if r.Account.Sent == 0 {
		return "no request was sent"
	}
	if r.Account.Answered == 0 {
		return fmt.Sprintf("none of %d requests was answered", r.Account.Sent)
	}
	q := func(name string) string { return tally.Short(float64(r.Latency.Quantiles[name])) }
	text := number(float64(r.Rate)) + " requests/s"
	if asked := float64(r.Asked); !math.IsNaN(asked) && math.Abs(float64(r.Rate)/asked-1) > 0.01 {
		text += " of " + number(asked) + " asked for"
	}
	text += fmt.Sprintf(": p50 %s, p99 %s, max %s", q("0.5"), q("0.99"), tally.Short(float64(r.Latency.Max)))
	if r.Plan.Arrivals == bench.Closed.String() {
		text += " from when they were sent, as the loop is closed"
	}
	if r.Account.Errors > 0 {
		text += fmt.Sprintf("; %s of requests failed", percent(float64(r.Account.Errors)/float64(r.Account.Sent)))
	}
	if !r.Valid {
		text = "invalid, the generator could not keep up: " + text
	}
	return text
}

func percent(v float64) string {
	if v < 0.001 {
		return "less than 0.1 %"
	}
	return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
}
