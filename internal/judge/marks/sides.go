package marks

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	slot = int64(series.Base)
	// settle is left out after the slot of a mark, before its effect is measured.
	settle = slot
	// defaultWindow is how long a side is at most.
	defaultWindow = time.Hour
	// fewest slots a side needs to be judged, and has even if another mark is nearer.
	fewest = 20
	// ripe is how long after its end a slot is read, in seconds: all of it has come.
	ripe = 30
	// mostServices of a mark that concerns all are judged, those with the most requests.
	mostServices = 20
	// mostApart bounds the time from the first to the last of the marks that are judged as
	// one, in seconds: what lies between them belongs to neither side.
	mostApart = 15 * 60
	// surelyApart is how far from a mark the moment of a change begins at least, in seconds,
	// so that the mark is not taken for its cause without a word.
	surelyApart = 60
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
	cutBefore, cutAfter string          // what cut them short, as a sentence names it; empty if nothing did
	together            []*store.Mark   // see together
	near                string          // a change that was found too near to the mark to be left out
	rollouts            []string        // marks of services that call the marked one, or are called, in the time after
	then                *api.MarkThen   // what began a while after, without its verdict; nil if nothing did
	causes              []*api.Change   // the changes that then is of, that which cut the time after first
	ending              *compare.Chosen // how a late change chose the end of the time after; nil if none did
	outage              *api.MarkOutage // what was over about the mark; nil if nothing was
}

func slotOf(t time.Time) int64 { return series.Base.Slot(t.Unix()) }

// together returns the marks, in order of time, that cannot be told apart from mark i for a
// service: between two of them that follow each other are fewer slots than a side needs.
// It returns the mark alone where they are too many to be one event. marks are in order of
// time.
func together(marks []store.Mark, i int, service string) []*store.Mark {
	alone := []*store.Mark{&marks[i]}
	places := []int{i}
	for _, step := range []int{-1, 1} {
		last := &marks[i]
		for k := i + step; k >= 0 && k < len(marks); k += step {
			m := &marks[k]
			apart := (slotOf(m.Time) - slotOf(last.Time)) * int64(step)
			if apart >= slot+settle+fewest*slot {
				break
			}
			if !m.Concerns(service, marks[i].Environment) {
				continue
			}
			if places, last = append(places, k), m; max(m.Time.Sub(marks[i].Time), marks[i].Time.Sub(m.Time)) > mostApart*time.Second {
				return alone
			}
		}
	}
	slices.Sort(places)
	out := make([]*store.Mark, len(places))
	for n, k := range places {
		out[n] = &marks[k]
	}
	if out[len(out)-1].Time.Sub(out[0].Time) > mostApart*time.Second {
		return alone
	}
	return out
}

// sidesOf are the sides of mark i for a service. marks are in order of time.
func sidesOf(marks []store.Mark, i int, service string, window time.Duration) sides {
	length := max(int64(window/time.Second)/slot, fewest) * slot
	s := sides{together: together(marks, i, service)}
	s.placeBefore(marks, i, service, slotOf(s.first().Time), length)
	s.placeAfter(marks, i, service, slotOf(s.last().Time)+slot+settle, length)
	return s
}

// placeBefore makes the side before of what ends at a moment, without the marks within.
func (s *sides) placeBefore(marks []store.Mark, i int, service string, end, length int64) {
	s.before, s.cutBefore = span{end - length, end}, ""
	for m := range s.others(marks, i, service) {
		if t := slotOf(m.Time); t < end && t+slot+settle > s.before.start {
			s.before.start, s.cutBefore = t+slot+settle, theMark(m)
		}
	}
	s.before.start = max(0, min(s.before.start, end-fewest*slot))
}

// placeAfter makes the side after of what begins at a moment, up to the first mark within.
func (s *sides) placeAfter(marks []store.Mark, i int, service string, start, length int64) {
	s.after, s.cutAfter = span{start, start + length}, ""
	for m := range s.others(marks, i, service) {
		if t := slotOf(m.Time); t >= start && t < s.after.end {
			s.after.end, s.cutAfter = t, theMark(m)
		}
	}
	s.after.end = max(s.after.end, start+fewest*slot)
}

// others are the marks that concern a service beside those that the sides are of, in order
// of time.
func (s *sides) others(marks []store.Mark, i int, service string) iter.Seq[*store.Mark] {
	return func(yield func(*store.Mark) bool) {
		for k := range marks {
			if m := &marks[k]; !slices.Contains(s.together, m) && m.Concerns(service, marks[i].Environment) && !yield(m) {
				return
			}
		}
	}
}

func theMark(m *store.Mark) string { return fmt.Sprintf("the mark %q", m.Name) }

// first and last are those of the marks that the sides are of.
func (s *sides) first() *store.Mark { return s.together[0] }
func (s *sides) last() *store.Mark  { return s.together[len(s.together)-1] }

// names returns the marks that cannot be told apart; none of one alone.
func (s *sides) names() []api.MarkName {
	out := []api.MarkName{}
	if len(s.together) > 1 {
		for _, m := range s.together {
			out = append(out, api.MarkName{ID: m.ID, Name: m.Name, Time: api.UnixTime(m.Time)})
		}
	}
	return out
}

// apart says of marks, in order of time, that they cannot be told apart; empty of none.
func apart(marks []api.MarkName) string {
	if len(marks) == 0 {
		return ""
	}
	var names []string
	for _, m := range marks {
		if name := strconv.Quote(m.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	n, verb := len(marks), "are"
	if n > 2 || len(names) == 1 {
		verb = "are within"
	}
	of := figure.Listed(names)
	if len(names) < n {
		of = fmt.Sprintf("%d marks %s", n, of)
	}
	text := fmt.Sprintf("%s %s %s", of, verb, judge.Span(int64(math.Ceil(float64(marks[n-1].Time-marks[0].Time)))))
	if verb == "are" {
		text += " apart"
	}
	return text + " and cannot be told apart"
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
	reach = max(reach, (fewest+2)*slot) + mostApart // of a mark judged with others, from the farthest of them
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
		Selection: query.Selection{Family: series.SpanDuration, Start: start, End: end}, Names: true,
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
	found, err := query.Services(ctx, st, query.ServicesRequest{Selection: sel, Names: true})
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
