package marks

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	slot = int64(series.Base)
	// settle is left out after the slot of a mark, before its effect is measured.
	settle = slot
	// fewest slots a side needs to be judged, and has even if another mark is nearer.
	fewest = 20
	// ripe is how long after its end a slot is read, in seconds: all of it has come.
	ripe = 30
	// mostServices of a mark that concerns all are judged, those with the most requests.
	mostServices = 20
)

// span is a range of whole slots, Unix seconds, half open.
type span struct{ start, end int64 }

func (s span) window() compare.Window {
	return compare.Window{Start: time.Unix(s.start, 0), End: time.Unix(s.end, 0)}
}

// sides are the times before and after a mark that are compared. Each ends at
// the next mark that concerns the service, so that no other change lies within,
// but has its fewest slots in any case.
type sides struct {
	before, after       span
	cutBefore, cutAfter string // the marks that cut them short, if any
}

func slotOf(t time.Time) int64 { return series.Base.Slot(t.Unix()) }

// sidesOf are the sides of mark i for a service. marks are in order of time.
func sidesOf(marks []store.Mark, i int, service string, window time.Duration) sides {
	length := max(int64(window/time.Second)/slot, fewest) * slot
	at := slotOf(marks[i].Time)
	from := at + slot + settle
	s := sides{before: span{at - length, at}, after: span{from, from + length}}
	for k := range marks {
		m := &marks[k]
		if k == i || !m.Concerns(service, marks[i].Environment) {
			continue
		}
		switch t := slotOf(m.Time); {
		case t >= from && t < s.after.end:
			s.after.end, s.cutAfter = t, m.Name
		case t < at && t+slot+settle > s.before.start:
			s.before.start, s.cutBefore = t+slot+settle, m.Name
		}
	}
	s.before.start = max(0, min(s.before.start, at-fewest*slot))
	s.after.end = max(s.after.end, from+fewest*slot)
	return s
}

// earliest and complete are when the first verdict, and the final one, can be
// made, in Unix seconds.
func (s sides) earliest() int64 { return s.after.start + fewest*slot + ripe }
func (s sides) complete() int64 { return s.after.end + ripe }
func (s sides) longest() int64 {
	return max(s.before.end-s.before.start, s.after.end-s.after.start)
}

// look is a moment after a mark at which it is judged early, with the part of the error that
// it has: looks are few, at times that were fixed before.
type look struct {
	after time.Duration
	share float64
}

// looks are those of a fresh mark, the first as soon as there are slots enough. Most of what
// they share is that of a quarter of an hour, by when small changes are to be told. Together
// they have less than a quarter of the error: where the side after is short, its slots say
// too little of how much they depend on each other for so small probabilities, and the final
// verdict has the whole error for itself.
var looks = []look{
	{0, 0.004}, {5 * time.Minute, 0.004}, {7 * time.Minute, 0.006}, {10 * time.Minute, 0.01}, {15 * time.Minute, 0.15},
	{20 * time.Minute, 0.01}, {30 * time.Minute, 0.01}, {45 * time.Minute, 0.01},
	{time.Hour, 0.005}, {2 * time.Hour, 0.005}, {6 * time.Hour, 0.005}, {12 * time.Hour, 0.005}, {24 * time.Hour, 0.005},
}

// extra is the share of a judgement between two looks, as when another mark comes.
const extra = 0.001

// shareAt is the part of the error that a judgement at now has: that of the latest look, if
// the one before, last, was earlier than it; the zero time: there was none.
func shareAt(at, last, now time.Time) float64 {
	latest := looks[0]
	for _, l := range looks[1:] {
		if !now.Before(at.Add(l.after)) {
			latest = l
		}
	}
	if !last.Before(at.Add(latest.after)) {
		return extra
	}
	return latest.share
}

// nextLook is when a mark judged at now is judged again, in Unix seconds: at
// the next of looks, or as soon as the time after it is complete for a service.
func nextLook(at, now time.Time, marks []store.Mark, i int, services []string, window time.Duration) int64 {
	next := now.Add(24 * time.Hour).Unix()
	for _, l := range looks {
		if t := at.Add(l.after); t.After(now) {
			next = t.Unix()
			break
		}
	}
	if len(services) == 0 {
		services = []string{marks[i].Service}
	}
	for _, service := range services {
		if c := sidesOf(marks, i, service, window).complete(); c > now.Unix() {
			next = min(next, c)
		}
	}
	return next
}

// beside names the moment of mark i and the marks that may cut its sides: if
// that changes, the mark is judged anew.
func beside(marks []store.Mark, i int, window time.Duration) string {
	m := &marks[i]
	at, reach := slotOf(m.Time), int64(window/time.Second)+slot+settle
	reach = max(reach, (fewest+2)*slot)
	var b strings.Builder
	b.WriteString(strconv.FormatInt(at, 10))
	first, _ := slices.BinarySearchFunc(marks, at-reach, func(m store.Mark, t int64) int { return cmp.Compare(m.Time.Unix(), t) })
	for k := first; k < len(marks) && marks[k].Time.Unix() < at+reach; k++ {
		if n := &marks[k]; k != i && n.Concerns(m.Service, m.Environment) {
			b.WriteString(" " + n.ID + "@" + strconv.FormatInt(slotOf(n.Time), 10))
		}
	}
	if m.Environment != "" {
		b.WriteString(" in " + m.Environment)
	}
	if m.Allow != "" {
		b.WriteString(" allow " + m.Allow)
	}
	return b.String()
}

// gatesOf returns what a mark allows. What cannot be read, which the door refuses, allows
// nothing.
func gatesOf(m *store.Mark) judge.Gates {
	gates, err := judge.ParseGates(m.Allow)
	if err != nil {
		return nil
	}
	return gates
}

// busiest are the services with requests after a mark, those with the most first.
func busiest(ctx context.Context, st store.Store, s sides, now time.Time) ([]string, error) {
	end := time.Unix(s.after.end, 0)
	if latest := now.Add(-ripe * time.Second); end.After(latest) {
		end = latest
	}
	start := time.Unix(s.before.start, 0)
	if !end.After(start) {
		return nil, nil
	}
	found, err := query.Services(ctx, st, query.ServicesRequest{
		Selection: query.Selection{Family: series.SpanDuration, Start: start, End: end}, Grid: query.Grid{Width: 2},
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found.Services, func(a, b api.Service) int { return cmp.Compare(b.Requests, a.Requests) })
	var names []string
	for _, s := range found.Services[:min(len(found.Services), mostServices)] {
		if s.Name != "" && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

func ofService(name string) ([]*labels.Matcher, error) {
	m, err := labels.NewMatcher(labels.MatchEqual, series.LabelService, name)
	if err != nil {
		return nil, err
	}
	return []*labels.Matcher{m}, nil
}

// environmentsOf matches each environment of a service around a mark, or that of the
// mark; nil stands for the service as a whole, which has one environment or none, or has
// several one after the other, as where a deploy names it.
func environmentsOf(ctx context.Context, st store.Store, m *store.Mark, service string, s sides) ([]*labels.Matcher, error) {
	if m.Environment != "" {
		return []*labels.Matcher{query.InEnvironment(m.Environment)}, nil
	}
	of, err := ofService(service)
	if err != nil {
		return nil, err
	}
	sel := query.Selection{Family: series.SpanDuration, Matchers: of, Start: time.Unix(s.before.start, 0), End: time.Unix(s.after.end, 0)}
	found, err := query.Services(ctx, st, query.ServicesRequest{Selection: sel, Grid: query.Grid{Width: 2}})
	if err != nil {
		return nil, err
	}
	apart := len(found.Services) > 1
	if apart {
		if apart, err = compare.EnvironmentsApart(ctx, st, sel); err != nil {
			return nil, err
		}
	}
	if !apart {
		return []*labels.Matcher{nil}, nil
	}
	var out []*labels.Matcher
	for _, s := range found.Services {
		out = append(out, query.InEnvironment(s.Environment))
	}
	return out, nil
}
