package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// What of the parts of requests is searched.
const (
	Calls = "calls" // of a part, for each request
	Time  = "time"  // in a part, for each request
)

const (
	// mostParts bounds the parts of a service's requests that are searched,
	// mostPartsRead those that one question reads.
	mostParts     = 8
	mostPartsRead = 100

	callsPerRequest = "calls_per_request"
	timePerRequest  = "time_per_request"
)

// inner is a part of the requests of a service or an operation, slot by slot.
type inner struct {
	part compare.Part // of which requests
	of   *query.PartSlots
}

func (x *inner) name() api.ChangePart {
	p := x.of.Part
	return api.ChangePart{Service: p.Service, Component: p.Component, Operation: p.Operation, System: p.System}
}

// calls returns the calls of a part for each request, seconds the time in it.
func (x *inner) calls() stat.Tally {
	return stat.Tally{Num: x.of.Calls, Den: x.of.Requests, NumSquares: x.of.CallsSquares}
}

func (x *inner) seconds() stat.Tally { return stat.Tally{Num: x.of.Seconds, Den: x.of.Requests} }

// operationIn is an operation of a service.
type operationIn struct{ service, operation string }

// innerParts reads the parts of the requests of services, or of the operation that is
// asked for alone. The code of an operation itself is not one of them: its time is what
// the durations of its requests say, where it calls nothing all of it.
func innerParts(ctx context.Context, st store.Store, s *compare.Stretches, chosen []compare.Part, r *Request) ([]inner, error) {
	all, err := readParts(ctx, st, s, chosen, r)
	if err != nil {
		return nil, err
	}
	some := ofOperations(r)
	operations := map[operationIn]bool{}
	for _, p := range s.Parts() {
		operations[operationIn{p.Service, p.Operation}] = p.Own
	}
	var out []inner
	searched := map[compare.Part]int{}
	for i := range all {
		p := &all[i]
		own := p.Part.Service == p.Service && p.Part.Component == series.ComponentApp && operations[operationIn{p.Service, p.Part.Operation}]
		if p.TotalRequests < fewest || own {
			continue
		}
		var of []compare.Part
		for _, c := range chosen {
			if c.Service == p.Service && c.Own == some && (!s.Environments(c.Service) || c.Environment == p.Environment) {
				of = append(of, c)
			}
		}
		if len(of) != 1 || searched[of[0]] == mostParts {
			continue
		}
		searched[of[0]]++
		out = append(out, inner{of[0], p})
	}
	return out, nil
}

// readParts reads the parts of all services, of each by itself if that is more than one
// question answers. Environments of a service that is searched as one are taken together.
func readParts(ctx context.Context, st store.Store, s *compare.Stretches, chosen []compare.Part, r *Request) ([]query.PartSlots, error) {
	read := func(ms []*labels.Matcher) ([]query.PartSlots, error) {
		ctx, done := store.Passing(ctx) // what is kept is a few sums a slot
		defer done()
		return query.PartsBySlot(ctx, st, ms, s.Start(0), s.Start(s.Slots()), s.Step(), mostPartsRead)
	}
	all, err := read(r.Matchers)
	if err != nil && !errors.Is(err, store.ErrTooMany) {
		return nil, err
	}
	if err != nil || len(all) >= mostPartsRead {
		all = nil
		known := map[string]bool{}
		for _, c := range chosen {
			if known[c.Service] {
				continue
			}
			known[c.Service] = true
			of, err := read(append(slices.Clip(r.Matchers), labels.MustNewMatcher(labels.MatchEqual, series.LabelService, c.Service)))
			if err != nil {
				return nil, err
			}
			all = append(all, of...)
		}
	}
	var out []query.PartSlots
	for service := range s.Followed() {
		out = append(out, query.TakeTogether(all, service)...)
	}
	for _, p := range all {
		if s.Followed()[p.Service] == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// searchInner finds the change points of a part of requests, each with a probability of at most
// alpha.
func searchInner(s *compare.Stretches, x *inner, of string, alpha float64) (searched, error) {
	out := searched{part: x.part, inner: x, of: of}
	tally, kind := x.calls(), stat.CountTally
	if of == Time {
		tally, kind = x.seconds(), stat.ValueTally
		out.tally = &tally
	}
	out.slots = slices.DeleteFunc(occupied(tally), func(slot int) bool { return s.IsLeft(x.part, slot) })
	found, err := stat.ChangePointsOfTally(pick(tally, out.slots), kind, stat.ChangeOptions{Alpha: alpha, Season: seasonOf(out.slots, s.Step())})
	if err != nil {
		return out, err
	}
	for _, f := range found {
		if math.Abs(math.Log(f.After/f.Before)) >= leastRate {
			out.points = append(out.points, pointOf(f, out.slots, of))
		}
	}
	return out, nil
}

// describeInner puts a change of a part of requests into the words of the API.
func describeInner(s *compare.Stretches, c candidate) (*api.Change, error) {
	out := newChange(s, c)
	calls, err := s.CompareTally(c.part, callsPerRequest, "", c.inner.calls(), c.before, c.after)
	if err != nil {
		return nil, err
	}
	seconds, err := s.CompareTally(c.part, timePerRequest, "seconds", c.inner.seconds(), c.before, c.after)
	if err != nil {
		return nil, err
	}
	name, of := innerTitle(c.inner.name(), c.part.Service), c.title
	share := func(w compare.Stretch) float64 {
		part, all := 0.0, 0.0
		for i := w.From; i < w.To; i++ {
			part, all = part+c.inner.of.Seconds[i], all+c.inner.of.OfAll[i]
		}
		return part / all
	}
	calls.Sentence = "calls of " + name + " per request of " + of + " " + byText(&calls, "many", func(v float64) string { return figure.Value(v, "") })
	seconds.Sentence = "time in " + name + " per request of " + of + " " + byText(&seconds, "much", func(v float64) string { return figure.Value(v, "seconds") })
	out.Measures = []api.CompareMeasure{calls, seconds}
	var sum judge.Sum
	said := ""
	for _, m := range out.Measures {
		thing := map[string]string{callsPerRequest: Calls, timePerRequest: Time}[m.Name]
		if !slices.Contains(c.point.of, thing) || m.Change == "" {
			continue
		}
		sum.Add(judge.Changed, m.Change)
		if said != "" {
			said += "; "
		} else {
			word := "more"
			if m.Change == judge.Better {
				word = "less"
				if thing == Calls {
					word = "fewer"
				}
			}
			out.Name = fmt.Sprintf("%s %s of %s", word, thing, name)
			if thing == Time {
				out.Name = fmt.Sprintf("%s time in %s", word, name)
			}
		}
		if said == "" {
			out.Lead = m.Name
		}
		said += m.Sentence
		if thing == Time {
			said += fmt.Sprintf(", %s → %s of all their time", figure.Percent(share(c.before)), figure.Percent(share(c.after)))
		}
	}
	switch out.Headline, out.Verdict = said, sum.Verdict(); {
	case out.Kink && slices.Equal(c.point.of, []string{Time}):
		out.Lead = ""
		out.Headline, out.Shape = driftText(s, c, out, "time in "+name+" per request of "+of, "seconds")
	case said == "":
		out.Headline, out.Name = fmt.Sprintf("%s of %s per request of %s changed%s", figure.Listed(c.point.of), name, of, unsure(out.Measures)), name+" changed"
	}
	out.Sentence = out.Headline + ", " + when(out, s.Step())
	return out, nil
}

// innerTitle names a part: SELECT orders (postgresql), POST /pay of payments (app).
func innerTitle(p api.ChangePart, service string) string {
	out := judge.Printed(p.Operation)
	if p.Service != service {
		out += " of " + judge.Printed(p.Service)
	}
	kind := p.Component
	if p.System != "" {
		kind = p.System
	}
	if kind == series.ComponentApp || kind == "" {
		return out
	}
	return fmt.Sprintf("%s (%s)", out, kind)
}

// byText writes a figure before and after, and by how much it moved: 2 → 9, 4.5 times
// as many (95 % interval 4.4 … 4.6).
func byText(m *api.CompareMeasure, much string, value func(float64) string) string {
	f := m.Judged()
	out := value(float64(f.A)) + " → " + value(float64(f.B))
	effect, low, high := float64(f.Effect), float64(f.Low), float64(f.High)
	if m.Scale != "ratio" || math.IsNaN(low) || math.IsNaN(high) {
		return out
	}
	if effect >= 2 {
		return fmt.Sprintf("%s, %s times as %s (95 %% interval %s … %s)", out, figure.Digits(effect), much, figure.Digits(low), figure.Digits(high))
	}
	return fmt.Sprintf("%s, %s %% (95 %% interval %s … %s %%)", out, figure.Signed(100*(effect-1)), figure.Signed(100*(low-1)), figure.Signed(100*(high-1)))
}
