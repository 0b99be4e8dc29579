package notify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// matches reports whether a receiver wants a result, by the labels of its series.
func matches(r spec.Receiver, res *event.Result) bool {
	return matchAll(r.Match, func(name string) string { return res.Labels.Get(name) }, res.Key.Check)
}

// matchesEvent is matches for events.
func matchesEvent(r spec.Receiver, e *event.Event) bool {
	return matchAll(r.Match, func(name string) string { return e.Labels[name] }, e.Key.Check)
}

func matchAll(matchers []*labels.Matcher, get func(string) string, check string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
		v := get(m.Name)
		if v == "" && m.Name == "check" {
			v = check
		}
		return !m.Matches(v)
	})
}

// wantsLevel reports whether an event has a level that the receiver wants. An
// incident once sent is sent to its end, whatever wantsLevel reports.
func wantsLevel(r spec.Receiver, e *event.Event) bool {
	if len(r.Levels) == 0 {
		return true
	}
	if e.Kind == event.Resolved {
		return false // the receiver does not know the incident
	}
	return slices.ContainsFunc(r.Levels, func(l string) bool { return strings.EqualFold(l, e.To.String()) })
}

// wantedEvents returns the events that a receiver wants, of which it knows some incidents: one
// of an incident that it was told of by an earlier event it is told to the end.
func wantedEvents(r spec.Receiver, events []event.Event, knows func(incident string) bool) (wanted []event.Event) {
	told := map[string]bool{}
	for i := range events {
		e := &events[i]
		if matchesEvent(r, e) && (wantsLevel(r, e) || told[e.Incident] || knows(e.Incident)) {
			told[e.Incident] = true
			wanted = append(wanted, *e)
		}
	}
	return wanted
}

type label struct{ name, value string }

// seriesLabels reads a key's labels, which are as labels.Labels prints them. What
// cannot be read is left out.
func seriesLabels(k event.Key) []label {
	var list []label
	for s := k.Labels; s != ""; {
		var l label
		if s[0] == '"' { // a name that is not an identifier
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return list
			}
			l.name, _ = strconv.Unquote(q)
			s = s[len(q):]
			if s == "" || s[0] != '=' {
				return list
			}
		} else {
			i := strings.IndexByte(s, '=')
			if i < 0 {
				return list
			}
			l.name, s = s[:i], s[i:]
		}
		q, err := strconv.QuotedPrefix(s[1:])
		if err != nil {
			return list
		}
		if l.value, err = strconv.Unquote(q); err != nil {
			return list
		}
		list = append(list, l)
		s = strings.TrimPrefix(strings.TrimPrefix(s[1+len(q):], ","), " ")
	}
	return list
}
