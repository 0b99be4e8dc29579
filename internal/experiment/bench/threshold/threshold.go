// Package threshold judges a run of load by conditions on its result.
//
//	p(99) < 300ms             of latency from when requests were due; p99 and p(99) are the same
//	errors < 1%               share of requests that failed
//	rate > 450/s              answered a second
//	p(99){term} < 50ms        of one query; {phase: peak} of a phase, {tenant: acme} of a tenant
//	errors < 5%, abort after 10s
//
// Conditions are on latency from when requests were due. There is none on the
// time since they were sent, as that leaves out what a slow target makes
// requests wait.
package threshold

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// Threshold is a condition. The zero value is none.
type Threshold struct {
	text     string // as it was written
	measure  measure
	quantile float64 // of measure quantile
	of       scope
	name     string // of the query, phase or tenant
	op       string
	value    float64 // seconds, a share, requests a second, a number
	abort    bool
	after    time.Duration
}

type measure uint8

const (
	quantile measure = iota
	mean
	least
	most
	errorShare
	checkShare
	droppedShare
	rate
	count
)

type scope uint8

const (
	whole scope = iota
	query
	phase
	tenant
)

// kind is the unit of a measure's value.
type kind uint8

const (
	duration kind = iota
	share
	perSecond
	number
)

var measures = []struct {
	name    string
	measure measure
	kind    kind
}{
	{"mean", mean, duration},
	{"min", least, duration},
	{"max", most, duration},
	{"errors", errorShare, share},
	{"checks", checkShare, share},
	{"dropped", droppedShare, share},
	{"rate", rate, perSecond},
	{"count", count, number},
	{"avg", mean, duration},
	{"median", quantile, duration},
}

// names lists the measures as conditions write them.
func names() []string {
	known := []string{"p50", "p(99)"}
	for _, m := range measures {
		known = append(known, m.name)
	}
	return known
}

// String returns the condition as it was written.
func (t Threshold) String() string { return t.text }

// Aborts reports whether missing the condition ends the run, and after what time.
func (t Threshold) Aborts() (after time.Duration, ok bool) { return t.after, t.abort }

// Quantile returns the quantile of the condition, 0..1. ok is false if it has another
// measure.
func (t Threshold) Quantile() (q float64, ok bool) { return t.quantile, t.measure == quantile }

// Measure names the measure: quantile, mean, min, max, errors, checks, dropped, rate
// or count.
func (t Threshold) Measure() string {
	for _, m := range measures {
		if m.measure == t.measure && t.measure != quantile {
			return m.name
		}
	}
	return "quantile"
}

// Limit returns the comparison, one of < <= > >= =, and its right side: seconds, a
// share, requests a second or a number.
func (t Threshold) Limit() (op string, value float64) { return t.op, t.value }

// Key returns the name of a quantile in api.BenchLatency.Quantiles.
func Key(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }

// Names returns the query, phase or tenant of the condition; all are empty if it
// covers the whole run.
func (t Threshold) Names() (queryName, phaseName, tenantName string) {
	switch t.of {
	case query:
		queryName = t.name
	case phase:
		phaseName = t.name
	case tenant:
		tenantName = t.name
	}
	return queryName, phaseName, tenantName
}

const grace = 5 * time.Second // until an abort may happen, if nothing else is said

// Parse reads a condition. The error quotes it and says what to write instead.
func Parse(text string) (Threshold, error) {
	t, err := parse(strings.TrimSpace(text))
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w", text, err)
	}
	return t, nil
}

func parse(text string) (Threshold, error) {
	t := Threshold{text: text}
	if text == "" {
		return t, fmt.Errorf("it is empty (hint: write one as p(99) < 300ms or errors < 1%%)")
	}
	left, rest, err := subject(text)
	if err != nil {
		return t, err
	}
	if err := t.parseMeasure(left.measure); err != nil {
		return t, err
	}
	if err := t.parseScope(left); err != nil {
		return t, err
	}
	at := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("<>=!", r) })
	if at < 0 {
		at = len(rest)
	}
	switch t.op = rest[:at]; t.op {
	case "<", "<=", ">", ">=":
	case "=", "==":
		t.op = "="
	case "":
		return t, fmt.Errorf("a comparison is missing after %s (hint: write < or >, such as %s)", left.measure, t.example())
	default:
		return t, fmt.Errorf("comparison %s is not known (hint: one of < <= > >= =)", t.op)
	}
	value, action, acts := strings.Cut(rest[at:], " abort")
	if before, found := strings.CutSuffix(strings.TrimSpace(value), ","); found && acts {
		value = before
	}
	if err := t.parseValue(strings.TrimSpace(value)); err != nil {
		return t, err
	}
	if acts {
		if err := t.parseAbort(strings.TrimSpace(action)); err != nil {
			return t, err
		}
	}
	return t, t.possible()
}

type parts struct {
	measure string
	scope   string // between the braces
	scoped  bool
}

// subject splits a condition before its comparison. Names in braces may hold any
// character but a closing brace.
func subject(text string) (parts, string, error) {
	end := strings.IndexAny(text, "{<>=!")
	if end < 0 {
		return parts{measure: text}, "", nil
	}
	p := parts{measure: strings.TrimSpace(text[:end])}
	rest := text[end:]
	if rest[0] == '{' {
		inside, after, closed := strings.Cut(rest[1:], "}")
		if !closed {
			return p, "", fmt.Errorf("the brace is not closed (hint: write the name of a query as p(99){term} < 50ms)")
		}
		p.scope, p.scoped, rest = strings.TrimSpace(inside), true, after
	}
	return p, strings.TrimSpace(rest), nil
}

func (t *Threshold) parseMeasure(name string) error {
	for _, m := range measures {
		if m.name == name {
			if t.measure = m.measure; name == "median" {
				t.quantile = 0.5
			}
			return nil
		}
	}
	if digits, ok := strings.CutPrefix(name, "p"); ok {
		if inner, found := strings.CutPrefix(digits, "("); found {
			if digits, found = strings.CutSuffix(inner, ")"); !found {
				return fmt.Errorf("%s: the parenthesis is not closed (hint: write p(99))", name)
			}
		}
		if p, err := strconv.ParseFloat(strings.TrimSpace(digits), 64); err == nil {
			if !(p > 0 && p < 100) {
				return fmt.Errorf("%s: a percentile is above 0 and below 100 (hint: write p(99) or p(99.9); the largest is max)", name)
			}
			t.measure = quantile
			// In decimal, so that 99.9 is 0.999 and not a neighbour of it.
			t.quantile, _ = strconv.ParseFloat(strconv.FormatFloat(p/100, 'g', 12, 64), 64)
			return nil
		}
	}
	if name == "" {
		return fmt.Errorf("a measure is missing (hint: write p(99), mean, max, errors, checks, rate or count)")
	}
	return fmt.Errorf("measure %s is not known (hint: %s)", name, strictyaml.Suggest(name, names()))
}

func (t *Threshold) parseScope(p parts) error {
	if !p.scoped {
		return nil
	}
	t.of, t.name = query, p.scope
	if word, name, found := strings.Cut(p.scope, ":"); found {
		for of, known := range map[scope]string{query: "query", phase: "phase", tenant: "tenant"} {
			if strings.TrimSpace(word) == known {
				t.of, t.name = of, strings.TrimSpace(name)
			}
		}
	}
	if t.name == "" {
		return fmt.Errorf("no name stands in the braces (hint: a query's as {term}, {phase: peak} or {tenant: acme})")
	}
	if t.measure == droppedShare {
		return fmt.Errorf("what was dropped was of no query yet, and is counted of the whole run (hint: leave {%s} out)", p.scope)
	}
	if t.of == phase && t.measure == checkShare {
		return fmt.Errorf("checks are counted by query and not by phase (hint: use errors, which failed checks are among)")
	}
	return nil
}

func (t *Threshold) kind() kind {
	for _, m := range measures {
		if m.measure == t.measure {
			return m.kind
		}
	}
	return duration
}

func (t *Threshold) example() string {
	name := "p(99)"
	for _, m := range measures {
		if m.measure == t.measure && t.measure != quantile {
			name = m.name
			break
		}
	}
	return name + [...]string{duration: " < 300ms", share: " < 1%", perSecond: " > 450/s", number: " > 1000"}[t.kind()]
}

func (t *Threshold) parseValue(text string) error {
	if text == "" {
		return fmt.Errorf("a value is missing after %s (hint: such as %s)", t.op, t.example())
	}
	var err error
	k := t.kind()
	switch k {
	case duration:
		var d time.Duration
		if d, err = time.ParseDuration(strings.ReplaceAll(text, " ", "")); err != nil {
			if _, bad := strconv.ParseFloat(text, 64); bad == nil {
				return fmt.Errorf("%s has no unit (hint: write %sms or %ss)", text, text, text)
			}
		}
		t.value = d.Seconds()
	case share:
		digits, percent := strings.CutSuffix(text, "%")
		if t.value, err = parseNumber(digits); percent {
			t.value /= 100
		}
		if err == nil && !(t.value >= 0 && t.value <= 1) {
			return fmt.Errorf("%s is not a share of requests (hint: write 1%% or 0.01)", text)
		}
	case perSecond:
		digits, unit, said := strings.Cut(text, "/")
		per := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(unit)]
		if said && per == 0 {
			return fmt.Errorf("unit /%s is not known (hint: write %s/s)", unit, strings.TrimSpace(digits))
		}
		if t.value, err = parseNumber(digits); said {
			t.value /= per
		}
	case number:
		t.value, err = parseNumber(text)
	}
	if err != nil {
		return fmt.Errorf("%q cannot be read as %s (hint: such as %s)", text,
			[...]string{duration: "a duration", share: "a share", perSecond: "a rate", number: "a number"}[k], t.example())
	}
	if t.value < 0 {
		return fmt.Errorf("%s is negative, which nothing here can be (hint: such as %s)", text, t.example())
	}
	return nil
}

func parseNumber(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && (math.IsInf(v, 0) || math.IsNaN(v)) {
		err = strconv.ErrRange
	}
	return v, err
}

func (t *Threshold) parseAbort(text string) error {
	t.abort, t.after = true, grace
	if text == "" {
		return nil
	}
	after, ok := strings.CutPrefix(text, "after ")
	d, err := time.ParseDuration(strings.TrimSpace(after))
	if !ok || err != nil || d < 0 {
		return fmt.Errorf("abort %s cannot be read (hint: write abort, or abort after 10s)", text)
	}
	t.after = d
	return nil
}

// possible refuses conditions that no run can meet.
func (t *Threshold) possible() error {
	switch {
	case t.op == "<" && t.value == 0:
		return fmt.Errorf("nothing is below 0, so that no run meets it (hint: write <= or = for none at all)")
	case t.op == ">" && t.value == 1 && t.kind() == share:
		return fmt.Errorf("no share is above 100%%, so that no run meets it (hint: write = 100%%)")
	}
	return nil
}
