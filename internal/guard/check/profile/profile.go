// Package profile is a threshold by the clock and the calendar.
//
// A Profile holds rules of days; the first that applies, in the order of class,
// gives the day's 24 hourly values or its intervals. An hour's value holds at
// hh:00; between two full hours the threshold moves in a straight line, and from
// 23:00 on towards the value at 00:00 of the next day, whatever rule that day
// falls under. What a full hour is when the clock is changed, see knot.
//
// Learn makes the same kind of profile from history.
package profile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
)

// Quantity is a number, or an expression to be evaluated, or None: no threshold.
type Quantity struct {
	Number  float64
	Program *expr.Program // nil unless it is an expression
	None    bool
}

// Blend is a threshold at a moment: T is From + Fraction·(To−From). Either end
// being null makes T null. At a full hour, and where nothing is interpolated, To
// is From and Fraction 0. From is None exactly if To is.
type Blend struct {
	From, To Quantity
	Fraction float64 // in [0, 1)
	// Low and High are the band of a profile that has one, as learned ones do,
	// else NaN: values below Low and above High are bad, From and To the middle.
	// They are interpolated already.
	Low, High float64
	// Warning and Critical take the place of the threshold's own, unless nil.
	Warning, Critical *spec.Distance
	Rule              string // for people: profile office, mon-fri, 09:00–10:00
}

// T returns the threshold for the values of From and To.
func (b Blend) T(from, to float64) float64 {
	if b.Fraction == 0 {
		return from
	}
	return from + b.Fraction*(to-from)
}

// None reports whether there is no threshold at the moment.
func (b Blend) None() bool { return b.From.None }

// Profile is a compiled profile, safe for concurrent use.
type Profile struct {
	name     string
	calendar string // its name
	cal      *Calendar
	rules    []rule // by class, then as listed
	learn    *spec.Learn
	of       func(series map[string]string) (*Profile, error) // nil if no expression has a $label
}

// value is the value of an hour or an interval.
type value struct {
	Quantity
	low, high float64 // NaN unless a band
}

var nothing = value{Quantity{None: true}, math.NaN(), math.NaN()}

// Compile makes a profile from its definition. parse reads expressions, with the
// line that they stand in. Errors are *Error or those of parse, joined if there
// are several. A profile that is to be learned compiles to one without any
// threshold; Learned.Compile gives what takes its place.
func Compile(name string, s spec.Profile, cal *Calendar, parse func(src string, line int) (*expr.Program, error)) (*Profile, error) {
	return compileFor(name, s, cal, parse, nil)
}

// compileFor is Compile with labels of one series, or nil.
func compileFor(name string, s spec.Profile, cal *Calendar, parse func(src string, line int) (*expr.Program, error), series map[string]string) (*Profile, error) {
	p := &Profile{name: name, calendar: s.Calendar, cal: cal, learn: s.Learn}
	if s.Learn != nil {
		if len(s.Days) > 0 {
			return nil, &Error{s.Line, fmt.Sprintf("profile %s has both days and learn", name), "leave one of them out"}
		}
		return p, checkLearn(s.Learn, s.Line)
	}
	if len(s.Days) == 0 {
		return nil, &Error{s.Line, fmt.Sprintf("profile %s has no days", name), "list days, or say learn"}
	}
	c := compiler{p: p, parse: parse, series: series}
	for _, d := range s.Days {
		c.day(d)
	}
	if c.bands > 0 && c.plain > 0 {
		c.wrong(s.Line, "write every value as low..middle..high, or none of them", "profile %s mixes bands and single values", name)
	}
	slices.SortStableFunc(p.rules, func(a, b rule) int { return int(a.class - b.class) })
	if n := len(p.rules); n > 1 && p.rules[n-2].class == byDefault {
		c.wrong(s.Days[len(s.Days)-1].Line, "give all of them but one a condition, such as weekdays", "profile %s has several days without a condition", name)
	}
	if c.errs != nil {
		return nil, errors.Join(c.errs...)
	}
	if c.labels && series == nil {
		p.of = func(series map[string]string) (*Profile, error) { return compileFor(name, s, cal, parse, series) }
	}
	return p, nil
}

// Of is the profile for one series that Each found, with the values of its labels
// in place of $label. Where no expression has one it is p; of p itself they are
// examples, which nothing is called.
func (p *Profile) Of(series map[string]string) (*Profile, error) {
	if p.of == nil {
		return p, nil
	}
	if series == nil {
		series = map[string]string{}
	}
	return p.of(series)
}

// Name is the profile's name.
func (p *Profile) Name() string { return p.name }

// Calendar is the profile's; it may be nil, which is UTC without holidays.
func (p *Profile) Calendar() *Calendar { return p.cal }

// Learn returns how the profile is to be learned. It is nil if the profile is written by
// hand or Learned.Compile made it.
func (p *Profile) Learn() *spec.Learn { return p.learn }

// At is the threshold at a moment. It does not allocate where a day rule
// applies.
func (p *Profile) At(t time.Time) Blend {
	b := Blend{From: nothing.Quantity, To: nothing.Quantity, Low: math.NaN(), High: math.NaN()}
	if p.learn != nil {
		b.Rule = "profile " + p.name + ", nothing learned yet"
		return b
	}
	t = t.In(p.cal.Zone())
	r := p.rule(on(t))
	switch {
	case r == nil:
		b.Rule = "profile " + p.name + ", no day rule applies"
	case r.hours != nil:
		p.hourly(&b, r, t)
	default:
		s := r.slot(t)
		b.Rule, b.From, b.To = s.text, s.Quantity, s.Quantity
		b.Low, b.High, b.Warning, b.Critical = s.low, s.high, s.warning, s.critical
	}
	return b
}

func (p *Profile) hourly(b *Blend, r *rule, t time.Time) {
	from, to := around(t)
	b.Rule = r.texts[t.Hour()]
	v := r.hours[from.hour]
	if from.day != on(t) { // a change of the clock just after midnight
		v = p.value(from)
	}
	if r.step {
		v = r.hours[t.Hour()]
	}
	b.From, b.To, b.Low, b.High = v.Quantity, v.Quantity, v.low, v.high
	passed := t.Sub(from.at)
	if r.step || v.None || passed == 0 {
		return
	}
	next := p.value(to)
	if next.None {
		if to.day == from.day {
			b.From, b.To, b.Low, b.High = nothing.Quantity, nothing.Quantity, math.NaN(), math.NaN()
		}
		return // the last hour holds its value into a day that has none
	}
	b.To = next.Quantity
	b.Fraction = float64(passed) / float64(to.at.Sub(from.at))
	b.Low, b.High = b.T(v.low, next.low), b.T(v.high, next.high)
}

// value is the value at a full hour.
func (p *Profile) value(k knot) value {
	r := p.rule(k.day)
	switch {
	case r == nil:
		return nothing
	case r.hours != nil:
		return r.hours[k.hour]
	}
	return r.slots[r.find(k.hour*60)].value
}

// rule is the first that applies to a day; nil if none does.
func (p *Profile) rule(d day) *rule {
	for i := range p.rules {
		if p.rules[i].applies(p.cal, d) {
			return &p.rules[i]
		}
	}
	return nil
}
