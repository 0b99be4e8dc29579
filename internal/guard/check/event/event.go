// Package event holds the words that checks, the doors that measure for them
// (package probe) and the doors that tell of them (package notify) share: a
// level, what one measurement gave, what one run of a check came to, and what
// receivers are told.
package event

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

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

// Reading is what measuring gave. Null says that there is no value: nothing was
// there to measure, or measuring failed, which Err then says.
type Reading struct {
	Value float64
	Null  bool
	Err   error  // ends in what to do next; never holds a secret
	Text  string // one line of what was seen, for people
	Perf  []Perf // of a command, also stored as series check_perf{label}
	// Level is what the source itself says, as Nagios plugins do by their exit
	// code; nil if it says nothing and the threshold decides.
	Level *Level
	Took  time.Duration
}

// Key names a check: its definition's name, and the labels of the series it was
// applied to, if it was applied to each of several. It is what series, states
// and receivers call the check.
type Key struct {
	Check  string
	Labels string // canonical, as labels.Labels prints them without braces: operation="GET /a", service="shop"; empty if none
}

// ID is the key in one string, unique among checks: the name, then the labels in
// braces if there are any.
func (k Key) ID() string {
	if k.Labels == "" {
		return k.Check
	}
	return k.Check + "{" + k.Labels + "}"
}

// Bands are the thresholds of one run. What is not set is NaN. Where values
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
	// Quiet says that receivers of events are not told: in maintenance,
	// acknowledged, flapping or masked by what it depends on.
	Quiet string
}

// Kind says what an event tells.
type Kind string

const (
	Opened       Kind = "opened"       // an incident began: hard state no longer OK
	Changed      Kind = "changed"      // its severity changed
	Acknowledged Kind = "acknowledged" // somebody takes care of it
	Resolved     Kind = "resolved"     // hard state OK again, or its check is gone
	Flapping     Kind = "flapping"     // changes too often: no more is told until Steady
	Steady       Kind = "steady"
)

// Event is a change of an incident that receivers are told. (Incident, Seq)
// names it for ever: a receiver that gets it twice can know.
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
	From, To Level
	Value    float64 // NaN if null
	Bands    Bands
	Unit     string
	Text     string // one sentence for people: what, how much, since when
	User     string // of an acknowledgement
	Comment  string
	Link     string // to the check on the page, if the page's address is known
}
