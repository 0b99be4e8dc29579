// Package state turns the levels of a check's runs into its state.
//
// One bad run says little: a Machine is hard only after Soft.N of the last Soft.Of
// runs were not OK, and OK again after Recover.N of the last Recover.Of were; until then
// the change is soft. An incident lasts from
// the first bad hard state to the next OK, and has one id and numbered events. A check
// that changes all the time is flapping: the beginning of an incident is notified as
// ever, but its changes and its end wait until the check is steady.
//
// A Machine does not know clocks, stores or receivers. It is handed runs with their
// times and why receivers are not notified (quiet), and returns the events that follow,
// each with whether receivers are notified of it now. It encodes as
// JSON, and a decoded machine goes on exactly as the encoded one would have.
package state

import (
	"math/bits"
	"time"

	"tailscope/internal/guard/check/event"
)

// MostRuns bounds how many runs a rule looks back on.
const MostRuns = 60

// window is the number of runs that flapping is judged by, as in Nagios.
const window = 21

// Machine is the state of one check. The zero value has not run yet. It is not
// safe for concurrent use.
type Machine struct {
	Ran      bool        `json:"ran,omitempty"`
	Hard     event.Level `json:"hard"`
	Since    time.Time   `json:"since,omitzero"` // when Hard began, or the first run was
	Last     event.Level `json:"last"`           // of the last run
	Differs  time.Time   `json:"differs,omitzero"`
	Runs     uint64      `json:"runs,omitempty"`  // since Hard last became OK or bad; bit 0 is the newest, 1 is not OK
	N        int         `json:"n,omitempty"`     // how many of the bits are runs
	Turns    uint32      `json:"turns,omitempty"` // bit 0: the last run's level differs from that of the run before
	Flapping bool        `json:"flapping,omitempty"`
	Ack      *Ack        `json:"ack,omitempty"` // only while there is an incident
	Incident *Incident   `json:"incident,omitempty"`
	Quiet    string      `json:"quiet,omitempty"` // why receivers were not notified at the last look
}

// Incident is an open incident.
type Incident struct {
	ID         string      `json:"id"`
	Opened     time.Time   `json:"opened"`
	Seq        int         `json:"seq"`   // of the last event
	Level      event.Level `json:"level"` // as of the last event
	Worst      event.Level `json:"worst"`
	Notified   event.Level `json:"told"`              // what receivers know; OK: they do not know of the incident
	NotifiedAt time.Time   `json:"told_at,omitzero"`  // when they were last notified
	Changed    int         `json:"changed,omitempty"` // seq of the last Changed that was not notified
	Damped     bool        `json:"damped,omitempty"`  // Flapping was reported, Steady was not yet
}

// Ack notes that somebody takes care.
type Ack struct {
	User    string    `json:"user"`
	Comment string    `json:"comment,omitempty"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until,omitzero"` // zero: until OK
}

// Event is one numbered thing that happened to an incident.
type Event struct {
	Incident string
	Seq      int
	Kind     event.Kind
	Time     time.Time
	Opened   time.Time
	From, To event.Level
	// Notify reports that receivers are notified now. Late reports that the event is an
	// earlier one of which they were not: it was returned before, with the same Seq.
	Notify, Late bool
	Why          string // of a Changed that changes nothing: what reminds
	Ack          *Ack   // of an Acknowledged
}

// Reasons of reminders.
const (
	StillBad = "still not OK"
	AckEnded = "the acknowledgement has ended"
	QuietEnd = "nobody was to be told until now"
)

// Soft reports whether the last run differs from the hard state.
func (m *Machine) Soft() bool { return m.Ran && m.Last != m.Hard }

// Run adds a run at the moment at, and appends the events that follow to dst. quiet is
// why receivers are not notified, empty if they are.
// id makes the name of an incident that opens at a moment. Times must not fall.
func (m *Machine) Run(r Rules, level event.Level, at time.Time, quiet string, id func(time.Time) string, dst []Event) []Event {
	m.noteRun(r, level, at)
	was := m.Hard
	switch {
	case was == event.OK && countBad(m.Runs, m.N, r.Soft.Of) >= atLeastOne(r.Soft.N) && level != event.OK:
		m.setHard(level, at)
	case was != event.OK && countGood(m.Runs, m.N, r.Recover.Of) >= atLeastOne(r.Recover.N) && level == event.OK:
		m.setHard(event.OK, at)
	case was != event.OK && level != event.OK && level != was:
		m.Hard, m.Since = level, at
	}
	if m.Last == m.Hard {
		m.Differs = time.Time{}
	} else if m.Differs.IsZero() {
		m.Differs = at
	}
	return m.updateIncident(r, at, quiet, id, dst)
}

// Tick looks without a run: acknowledgements end, reminders fall due, maintenance is
// over.
func (m *Machine) Tick(r Rules, at time.Time, quiet string, dst []Event) []Event {
	if m.Incident == nil {
		m.Quiet = quiet
		return dst
	}
	return m.updateIncident(r, at, quiet, nil, dst)
}

// Acknowledge notes that somebody takes care until the incident is over, or
// until a time. Without an incident it does nothing and returns false.
func (m *Machine) Acknowledge(a Ack, quiet string, dst []Event) ([]Event, bool) {
	if m.Incident == nil {
		return dst, false
	}
	m.Ack = &a
	e := m.newEvent(event.Acknowledged, a.At, m.Incident.Level, m.Incident.Level)
	e.Ack, e.Notify = &a, quiet == "" && m.Incident.Notified != event.OK
	return append(dst, e), true
}

// Unacknowledge takes the acknowledgement back. The next Tick reports what changed in
// between.
func (m *Machine) Unacknowledge() bool {
	was := m.Ack != nil
	m.Ack = nil
	return was
}

// Close ends the incident because its check is gone, and forgets all runs.
func (m *Machine) Close(at time.Time, why string, dst []Event) []Event {
	if m.Incident != nil {
		e := m.newEvent(event.Resolved, at, m.Incident.Level, event.OK)
		e.Notify, e.Why = m.Incident.Notified != event.OK, why
		dst = append(dst, e)
	}
	*m = Machine{}
	return dst
}

// noteRun adds a run to the history that states are judged by.
func (m *Machine) noteRun(r Rules, level event.Level, at time.Time) {
	if !m.Ran {
		m.Ran, m.Since, m.Last = true, at, level
	}
	m.Turns = m.Turns << 1 & (1<<(window-1) - 1)
	if level != m.Last {
		m.Turns |= 1
	}
	m.Last = level
	m.Runs = m.Runs << 1 & (1<<MostRuns - 1)
	if level != event.OK {
		m.Runs |= 1
	}
	m.N = min(m.N+1, MostRuns)
	share := float64(bits.OnesCount32(m.Turns)) / (window - 1)
	switch {
	case r.Flapping.High <= 0:
		m.Flapping = false
	case !m.Flapping:
		m.Flapping = share >= r.Flapping.High
	default:
		m.Flapping = share > r.Flapping.Low
	}
}

// setHard makes the hard state OK or bad; runs before it no longer count.
func (m *Machine) setHard(level event.Level, at time.Time) {
	m.Hard, m.Since, m.Runs, m.N = level, at, 0, 0
}

// updateIncident brings the incident to the hard state.
func (m *Machine) updateIncident(r Rules, at time.Time, quiet string, id func(time.Time) string, dst []Event) []Event {
	ackEnded := m.Ack != nil && !m.Ack.Until.IsZero() && !at.Before(m.Ack.Until)
	if ackEnded {
		m.Ack = nil
	}
	if m.Incident == nil && m.Hard != event.OK && id != nil {
		m.Incident = &Incident{ID: id(at), Opened: at, Level: m.Hard, Worst: m.Hard}
		e := m.newEvent(event.Opened, at, event.OK, m.Hard)
		e.Notify = quiet == ""
		m.noteNotified(e)
		dst = append(dst, e)
	}
	if m.Incident != nil {
		dst = m.reportFlapping(at, quiet, dst)
	}
	in := m.Incident
	if in != nil && m.Hard.Severity() > in.Worst.Severity() {
		in.Worst = m.Hard
	}
	if in == nil || m.Flapping {
		m.Quiet = quiet
		return dst
	}
	silent := quiet != "" || m.Ack != nil
	if m.Hard == event.OK {
		e := m.newEvent(event.Resolved, at, in.Level, event.OK)
		e.Notify = in.Notified != event.OK
		m.Incident, m.Ack, m.Quiet = nil, nil, quiet
		return append(dst, e)
	}
	if m.Hard != in.Level {
		e := m.newEvent(event.Changed, at, in.Level, m.Hard)
		in.Level = m.Hard
		e.Notify = !silent && in.Notified != event.OK && in.Notified != m.Hard
		if !e.Notify {
			in.Changed = e.Seq
		}
		m.noteNotified(e)
		dst = append(dst, e)
	}
	if !silent && !in.NotifiedAt.Equal(at) {
		dst = m.catchUp(at, m.Quiet != "", ackEnded, r, dst)
	}
	m.Quiet = quiet
	return dst
}

// reportFlapping appends the beginning and end of flapping, once each within an incident.
func (m *Machine) reportFlapping(at time.Time, quiet string, dst []Event) []Event {
	in := m.Incident
	if m.Flapping == in.Damped {
		return dst
	}
	in.Damped = m.Flapping
	kind := event.Steady
	if m.Flapping {
		kind = event.Flapping
	}
	e := m.newEvent(kind, at, in.Level, m.Hard)
	e.Notify = quiet == "" && m.Ack == nil && in.Notified != event.OK
	return append(dst, e)
}

// catchUp appends the event that receivers missed while they were not notified, or a
// reminder; at most one.
func (m *Machine) catchUp(at time.Time, wasQuiet, ackEnded bool, r Rules, dst []Event) []Event {
	in := m.Incident
	var e Event
	switch {
	case in.Notified == event.OK:
		e = Event{Seq: 1, Kind: event.Opened, Time: in.Opened, From: event.OK, To: in.Level, Late: true}
	case in.Notified != in.Level && in.Changed > 0:
		e = Event{Seq: in.Changed, Kind: event.Changed, Time: at, From: in.Notified, To: in.Level, Late: true}
	case wasQuiet:
		e = m.newEvent(event.Changed, at, in.Level, in.Level)
		e.Why = QuietEnd
	case ackEnded:
		e = m.newEvent(event.Changed, at, in.Level, in.Level)
		e.Why = AckEnded
	case r.Remind > 0 && at.Sub(in.NotifiedAt) >= r.Remind:
		e = m.newEvent(event.Changed, at, in.Level, in.Level)
		e.Why = StillBad
	default:
		return dst
	}
	e.Incident, e.Opened, e.Notify = in.ID, in.Opened, true
	m.noteNotified(e)
	in.NotifiedAt, in.Changed = at, 0
	return append(dst, e)
}

// newEvent numbers an event of the open incident.
func (m *Machine) newEvent(kind event.Kind, at time.Time, from, to event.Level) Event {
	in := m.Incident
	in.Seq++
	return Event{Incident: in.ID, Seq: in.Seq, Kind: kind, Time: at, Opened: in.Opened, From: from, To: to}
}

// noteNotified notes what receivers know now.
func (m *Machine) noteNotified(e Event) {
	if e.Notify {
		m.Incident.Notified, m.Incident.NotifiedAt = e.To, e.Time
	}
}

// countBad and countGood count among the last of runs.
func countBad(runs uint64, n, of int) int {
	return bits.OnesCount64(runs & (1<<min(n, atLeastOne(of)) - 1))
}

func countGood(runs uint64, n, of int) int {
	of = min(n, atLeastOne(of))
	return of - countBad(runs, n, of)
}

func atLeastOne(n int) int { return max(1, min(n, MostRuns)) }
