// Package event holds the types that packages check, probe and notify share: a Level, the
// Reading of one measurement, the Result of one run of a check, and the Event that
// receivers are sent.
package event

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// ErrTurnOver reports that events were not taken as another server, of those that share a store,
// tells the receivers by now.
var ErrTurnOver = errors.New("another server tells the receivers")

// Level is the state of a check, with the numbers of Nagios plugins.
type Level uint8

const (
	OK Level = iota
	Warning
	Critical
	Unknown
)

var levels = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

func (l Level) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Severity orders levels by how bad they are: OK, WARNING, UNKNOWN, CRITICAL.
func (l Level) Severity() int { return [...]int{0, 1, 3, 2}[min(l, Unknown)] }

// Perf is one value of a plugin's performance data. Bounds that were not given
// are NaN.
type Perf struct {
	Label                        string
	Value                        float64
	Unit                         string
	Warning, Critical, Low, High float64 // outer bounds of the ranges, as far as a number says them
}

// Reading is one measurement. Null reports that it has no value: there was nothing to
// measure, or Err says why measuring failed.
type Reading struct {
	Value float64
	Null  bool
	Err   error  // ends in what to do next; never holds a secret
	Text  string // one line of what was seen, for people
	Perf  []Perf // of a command, also stored as series check_perf{label}
	// Level is the source's own, such as the exit code of a Nagios plugin. If it is nil
	// the threshold decides.
	Level *Level
	Took  time.Duration
}

// Key names a check in series, states and notifications: its definition's name and, if
// that is applied to each of several series, the labels of the series.
type Key struct {
	Check  string
	Labels string // canonical, as labels.Labels prints them without braces: operation="GET /a", service="shop"; empty if none
}

// ID returns the key as one string, unique among checks: the name, then the labels in
// braces if there are any.
func (k Key) ID() string {
	if k.Labels == "" {
		return k.Check
	}
	return k.Check + "{" + k.Labels + "}"
}

// Bands are the thresholds of one run; NaN is not set. Where values
// above are bad, Warning <= Critical lie above; a value is bad when it lies
// strictly beyond. The lower pair is used by checks that want values above a
// threshold, both by checks that want them near one.
type Bands struct {
	Threshold                 float64 // the T that the others are made of
	LowCritical, LowWarning   float64
	HighWarning, HighCritical float64
	Rule                      string // where T comes from, e.g. "profile office, weekday 1-5, 09:00–10:00"
}

// Result is one run of one check.
type Result struct {
	Key     Key
	Host    string // as Nagios calls it; default the check's label host, or service, else tailscope
	Service string // Nagios' service description; default the key's ID
	// Labels are those of the series that the check stores: check, the definition's,
	// and those of the series that it is applied to.
	Labels  labels.Labels
	Time    time.Time
	Reading Reading
	Bands   Bands
	Level   Level // of this run alone
	State   Level // hard state after it
	Soft    bool  // Level differs from State and has not lasted long enough
	Unit    string
	// Quiet says why no event is sent: maintenance, an acknowledgement, flapping, or a
	// check that this one depends on. It is empty if events are sent.
	Quiet string
}

// Kind is the kind of an event.
type Kind string

const (
	Opened       Kind = "opened"       // an incident began: hard state no longer OK
	Changed      Kind = "changed"      // its severity changed
	Acknowledged Kind = "acknowledged" // somebody takes care of it
	Resolved     Kind = "resolved"     // hard state OK again, or its check is gone
	Flapping     Kind = "flapping"     // changes too often: nothing more is sent until Steady
	Steady       Kind = "steady"
	Verdict      Kind = "verdict" // of a mark, once it is final; it is not of an incident
)

// Event is a change of an incident that receivers are sent. Incident and Seq identify it
// for ever, so that a receiver can drop the second copy.
type Event struct {
	Incident string // stable id, the same from Opened to Resolved
	Seq      int    // from 1, rising within the incident
	Kind     Kind
	Key      Key
	Labels   map[string]string // of the series, and those that the definition adds
	Host     string
	Service  string
	Time     time.Time
	Opened   time.Time // when the incident began
	Since    time.Time // when what made its service worse began, if that is known and before Opened; else Opened
	From, To Level
	Value    float64 // NaN if null
	Bands    Bands
	Unit     string
	Text     string // one sentence for people: what, how much, since when
	User     string // of an acknowledgement
	Comment  string
	Link     string // to the check on the page, if the page's address is known
}

// SinceOr returns since, or opened of an event that was kept by a version that knew no since.
func SinceOr(since, opened time.Time) time.Time {
	if since.IsZero() {
		return opened
	}
	return since
}
