package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"tailscope/internal/experiment/bench/load"
)

// Timing is a field of answers that holds the time for which a request queued at the
// target, or was worked on.
type Timing struct {
	Field string
	// Metric is a metric of Server-Timing (https://www.w3.org/TR/server-timing/),
	// empty for fields that are a number.
	Metric string
	Worked bool    // it is the time of work: the rest of the time from sent queued
	Unit   float64 // seconds of a number without a unit
}

// usualTimings are the default timings. Numbers without a unit are milliseconds in
// Server-Timing and as load balancers write them, seconds as Rack and nginx do.
var usualTimings = []Timing{
	{Field: "Server-Timing", Metric: "queue", Unit: 1e-3},
	{Field: "Server-Timing", Metric: "queued", Unit: 1e-3},
	{Field: "Server-Timing", Metric: "queueing", Unit: 1e-3},
	{Field: "Server-Timing", Metric: "wait", Unit: 1e-3},
	{Field: "X-Queue-Time", Unit: 1e-3},
	{Field: "X-Queue-Wait", Unit: 1e-3},
	{Field: "X-Request-Queue-Time", Unit: 1e-3},
	{Field: "X-Runtime", Worked: true, Unit: 1},
	{Field: "X-Upstream-Response-Time", Worked: true, Unit: 1},
	{Field: "Upstream-Response-Time", Worked: true, Unit: 1},
}

// String returns the timing in the syntax of ParseTiming, without the unit.
func (t Timing) String() string {
	if t.Metric != "" {
		return t.Field + ";" + t.Metric
	}
	return t.Field
}

// ParseTiming parses a timing as users write it: X-Queue-Time, X-Queue-Time:s,
// Server-Timing;queue. The default unit is milliseconds.
func ParseTiming(text string, worked bool) (Timing, error) {
	t := Timing{Worked: worked, Unit: 1e-3}
	name, unit, said := strings.Cut(text, ":")
	if said {
		switch strings.TrimSpace(unit) {
		case "s":
			t.Unit = 1
		case "ms":
		case "us", "µs":
			t.Unit = 1e-6
		default:
			return t, fmt.Errorf("%q: the unit %q is not known (hint: s, ms or us)", text, unit)
		}
	}
	t.Field, t.Metric, _ = strings.Cut(strings.TrimSpace(name), ";")
	if t.Field == "" || strings.ContainsAny(t.Field, " \t,") {
		return t, fmt.Errorf("%q names no header field (hint: such as X-Queue-Time:ms or Server-Timing;queue)", text)
	}
	if strings.EqualFold(t.Field, "Server-Timing") && t.Metric == "" {
		return t, fmt.Errorf("%q: Server-Timing has several (hint: name one, such as Server-Timing;queue)", text)
	}
	return t, nil
}

// seconds returns the time in a field's value.
func (t Timing) seconds(value string) (float64, bool) {
	if t.Metric == "" {
		return interval(value, t.Unit)
	}
	for entry := range strings.SplitSeq(value, ",") {
		name, params, _ := strings.Cut(entry, ";")
		if !strings.EqualFold(strings.TrimSpace(name), t.Metric) {
			continue
		}
		for param := range strings.SplitSeq(params, ";") {
			key, v, ok := strings.Cut(param, "=")
			if ok && strings.EqualFold(strings.TrimSpace(key), "dur") {
				return interval(strings.Trim(strings.TrimSpace(v), `"`), t.Unit)
			}
		}
	}
	return 0, false
}

// interval parses 12, 12.5ms, 0.012s or t=12. Several values, such as nginx writes
// after asking more than one server (0.004, 0.010 : 0.002), add up.
func interval(value string, unit float64) (float64, bool) {
	sum, found := 0.0, false
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		if _, v, ok := strings.Cut(part, "="); ok {
			part = v
		}
		scale := unit
		for _, u := range []struct {
			name string
			size float64
		}{{"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"s", 1}} {
			if v, ok := strings.CutSuffix(part, u.name); ok {
				part, scale = v, u.size
				break
			}
		}
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || !(v >= 0 && v < 1e12) {
			continue // nginx writes - of a server that was not asked
		}
		sum, found = sum+v*scale, true
	}
	return sum, found
}

// queueing records the timings in answers. It is a load.Checker around another.
type queueing struct {
	load.Checker // nil if nobody else asks
	timings      []Timing

	which        atomic.Int32 // of timings, plus 1; 0 until one was seen
	nanos, count atomic.Uint64
	silent       atomic.Uint64 // answers without
}

// enoughSilence is the number of answers without any timing after which nobody reads
// them any more.
const enoughSilence = 2000

func (q *queueing) Wants(query int) (header, body bool) {
	if q.Checker != nil {
		header, body = q.Checker.Wants(query)
	}
	return header || q.listens(), body
}

func (q *queueing) listens() bool {
	return len(q.timings) > 0 && (q.which.Load() > 0 || q.silent.Load() < enoughSilence)
}

func (q *queueing) Check(query, status int, header []load.Field, body []byte) int {
	if q.listens() {
		q.record(header)
	}
	if q.Checker != nil {
		return q.Checker.Check(query, status, header, body)
	}
	return -1
}

// record reads the first timing that it finds, and that one alone from then on.
func (q *queueing) record(header []load.Field) {
	which := int(q.which.Load())
	for i, t := range q.timings {
		if which > 0 && i != which-1 {
			continue
		}
		for _, f := range header {
			if !strings.EqualFold(f.Name, t.Field) {
				continue
			}
			if s, ok := t.seconds(f.Value); ok {
				q.which.CompareAndSwap(0, int32(i+1))
				q.nanos.Add(uint64(s * 1e9))
				q.count.Add(1)
				return
			}
		}
	}
	q.silent.Add(1)
}

// takeTimings returns what was recorded since the last call: seconds in all, the number of
// answers, and the timing.
func (q *queueing) takeTimings() (seconds float64, answers uint64, by *Timing) {
	n, nanos := q.count.Swap(0), q.nanos.Swap(0)
	if which := q.which.Load(); which > 0 {
		by = &q.timings[which-1]
	}
	return float64(nanos) / 1e9, n, by
}
