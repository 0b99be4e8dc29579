package spec

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/check/expr"
	"tailscope/internal/strictyaml"
)

// check puts a check together from its plan. values are those of one series of
// Each; nil reads the definition.
func (r *reader) check(p *plan, values map[string]string) (Check, rawCheck) {
	c := Check{Name: p.name, File: p.at.File.Name, Line: p.at.Line, plan: p}
	n := p.node
	var raw rawCheck
	if each := n.Get("each"); each != nil {
		d := r.decoder(false)
		var e rawEach
		d.Decode("each", each, &e)
		c.Each = r.each(&e)
		n = r.substitute(n, c.Each.By, values)
	}
	r.decoder(false).Decode(p.what(), n, &raw)

	c.Description, c.Unit = raw.Description.S(), raw.Unit.S()
	c.Host, c.Service = raw.Host.S(), raw.Service.S()
	c.Inactive, c.Silent = raw.Inactive.Bool, raw.Silent.Bool
	c.Null = map[string]expr.Nulls{"skip": expr.Skip, "zero": expr.Zero}[raw.Null.S()]
	c.OnNull = raw.OnNull.Or("UNKNOWN")
	c.Labels = r.labels(&c, &raw)
	c.Schedule = r.schedule(p, &raw)
	c.Timeout = r.timeout(&c, raw.Timeout)
	if raw.Tolerance.OK {
		c.Tolerance = raw.Tolerance.Duration
	}
	if raw.Value == nil {
		r.problem(p.at, "write value: and an expression, or a source such as http", "%s has no value", p.what())
	} else {
		c.Value = r.source(&c, raw.Value)
	}
	if raw.Threshold != nil {
		c.Threshold = r.threshold(&c, raw.Threshold)
	}
	c.States = r.states(&raw)
	if r.checks != nil { // a definition, not an instance of it
		c.Receivers = named(r, "receiver", raw.Receivers, r.receivers)
		c.DependsOn = named(r, "check", raw.DependsOn, r.checks)
		if raw.After.Given() {
			named(r, "check", []text{raw.After}, r.checks)
		}
	}
	return c, raw
}

func (p *plan) what() string { return "check " + p.name }

// reservedLabels are those that a check's series have anyway.
var reservedLabels = map[string]bool{"check": true, "perf": true}

func (r *reader) labels(c *Check, raw *rawCheck) map[string]string {
	out := map[string]string{}
	for _, name := range names(raw.Labels) {
		t := raw.Labels[name]
		if !t.Given() {
			continue
		}
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.problem(t.Node.At, "write a name of letters, digits and underscores", "%q is not a label", name)
		case reservedLabels[name]:
			r.problem(t.Node.At, "choose another name", "the label %s is what the check's series have anyway", name)
		case c.Each != nil && slices.Contains(c.Each.By, name):
			r.problem(t.Node.At, "choose another name", "the label %s is already that of each series", name)
		}
		out[name] = t.S()
	}
	if !raw.Item.Given() {
		return out
	}
	if !raw.Host.Given() || !raw.Service.Given() {
		r.problem(raw.Item.Node.At, "give host and service too", "item %s has no host and service", raw.Item.S())
	}
	for name, t := range map[string]text{"host": raw.Host, "service": raw.Service, "item": raw.Item} {
		if c.Each != nil && slices.Contains(c.Each.By, name) {
			continue
		}
		out[name] = t.S()
	}
	return out
}

func (r *reader) schedule(p *plan, raw *rawCheck) Schedule {
	given := 0
	for _, t := range []text{raw.Every, raw.Cron, raw.After} {
		if t.Given() {
			given++
		}
	}
	if given != 1 {
		at := p.at
		message := p.what() + " has no schedule"
		if given > 1 {
			message = p.what() + " has several schedules"
		}
		r.problem(at, "write one of every: 10s, cron: and after: another check", "%s", message)
	}
	s := Schedule{Interval: raw.Every.Duration, Cron: raw.Cron.S(), After: raw.After.S(), Delay: raw.Delay.Duration, Zone: raw.Zone.Or(p.zone)}
	if raw.Every.OK && s.Interval < time.Second {
		r.problem(raw.Every.Node.At, "at least 1s", "every %s is too often", raw.Every.S())
	}
	if raw.Delay.Given() && !raw.After.Given() {
		r.problem(raw.Delay.Node.At, "it belongs to after", "delay without after")
	}
	return s
}

func (r *reader) timeout(c *Check, t text) time.Duration {
	const usual = 10 * time.Second
	interval := c.Schedule.Interval
	if !t.OK {
		if interval > 0 {
			return min(usual, interval)
		}
		return usual
	}
	if interval > 0 && t.Duration > interval {
		r.problem(t.Node.At, fmt.Sprintf("at most every: %s", interval), "the timeout %s is longer than the interval", t.S())
	}
	if t.Duration < 10*time.Millisecond {
		r.problem(t.Node.At, "at least 10ms", "the timeout %s is too short", t.S())
	}
	return t.Duration
}

func (r *reader) each(raw *rawEach) *Each {
	e := &Each{Most: 1000, Within: time.Hour}
	e.Family, e.Matchers = r.series(raw.Series)
	for _, t := range raw.By {
		if reservedLabels[t.S()] {
			r.problem(t.Node.At, "choose another one", "the label %s is what the check's own series have anyway", t.S())
		}
		if t.OK && !slices.Contains(e.By, t.S()) {
			e.By = append(e.By, t.S())
		}
	}
	if raw.Most.OK {
		e.Most = int(raw.Most.Int)
	}
	if raw.Within.OK {
		e.Within = raw.Within.Duration
		if e.Within < time.Minute {
			r.problem(raw.Within.Node.At, "at least 1m", "within %s is too short", raw.Within.S())
		}
	}
	return e
}

func (r *reader) states(raw *rawCheck) States {
	s := States{Bad: 3, OfBad: 3, Good: 1, OfGood: 1, FlapHigh: 0.5, FlapLow: 0.25, Remind: raw.Remind.Duration}
	if raw.Soft.OK {
		s.Bad, s.OfBad = raw.Soft.Of[0], raw.Soft.Of[1]
	}
	if raw.Recover.OK {
		s.Good, s.OfGood = raw.Recover.Of[0], raw.Recover.Of[1]
	}
	f := raw.Flapping
	switch {
	case f == nil || f.Node == nil:
	case f.Node.Kind == strictyaml.Scalar:
		s.FlapHigh, s.FlapLow = 0, 0
	case f.High.OK && f.Low.OK:
		s.FlapHigh, s.FlapLow = f.High.Number, f.Low.Number
		if s.FlapHigh <= s.FlapLow {
			r.problem(f.High.Node.At, "it ends at a smaller share than it begins at", "high %s is not above low %s", f.High.S(), f.Low.S())
		}
	}
	if raw.Remind.OK && raw.Remind.Duration != 0 && raw.Remind.Duration < time.Minute {
		r.problem(raw.Remind.Node.At, "at least 1m", "remind %s is too often", raw.Remind.S())
	}
	return s
}

var ofProfile = regexp.MustCompile(`^profile +([^\s].*)$`)

func (r *reader) threshold(c *Check, raw *rawThreshold) *Threshold {
	t := &Threshold{Must: raw.Must.S(), Warning: distance(raw.Warning), Critical: distance(raw.Critical)}
	if raw.Of.Given() {
		if f, err := strconv.ParseFloat(raw.Of.S(), 64); err == nil {
			t.Number = &f
		} else if name := ofProfile.FindStringSubmatch(raw.Of.S()); name != nil {
			t.Profile = name[1]
			def, ok := r.profiles[t.Profile]
			at := raw.Of.Node.Within(strings.LastIndex(raw.Of.S(), name[1]))
			if !ok && r.checks != nil {
				r.problem(at, strictyaml.Suggest(name[1], names(r.profiles)), "unknown profile %s", name[1])
			}
			for _, label := range profileLabels(def.raw.Days) {
				if c.Each == nil || !slices.Contains(c.Each.By, label) {
					r.problem(at, "add it to by of each", "profile %s asks for $%s, which this check has not", t.Profile, label)
				}
			}
		} else {
			t.Expr = r.expression(c, raw.Of.Node, "value")
		}
	}
	if !raw.Warning.Given() && !raw.Critical.Given() {
		r.problem(raw.Node.At, "write warning: 10%, critical: 30%", "threshold has neither warning nor critical: it would judge nothing")
	}
	w, k := t.Warning, t.Critical
	if w != nil && k != nil && raw.Warning.Bool == raw.Critical.Bool && w.Share+w.Absolute > k.Share+k.Absolute {
		r.problem(raw.Warning.Node.At, "warning is the nearer one", "warning %s lies beyond critical %s", raw.Warning.S(), raw.Critical.S())
	}
	if t.Number != nil && w != nil && k != nil && raw.Warning.Bool != raw.Critical.Bool && w.of(*t.Number) > k.of(*t.Number) {
		r.problem(raw.Warning.Node.At, "warning is the nearer one", "warning %s of %s lies beyond critical %s", raw.Warning.S(), raw.Of.S(), raw.Critical.S())
	}
	if t.Number != nil && *t.Number == 0 {
		for _, d := range []text{raw.Warning, raw.Critical} {
			if d.OK && d.Bool && d.Number > 0 {
				r.problem(d.Node.At, "write an amount such as 5", "%s of 0 is 0", d.S())
			}
		}
	}
	return t
}

// profileLabels are the $labels in the expressions of a profile.
func profileLabels(days []rawDay) (out []string) {
	for i := range days {
		for _, t := range days[i].Hours {
			out = append(out, Labels(t.S())...)
		}
		for j := range days[i].Intervals {
			out = append(out, Labels(days[i].Intervals[j].Value.S())...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of is how far from a threshold the distance reaches.
func (d *Distance) of(threshold float64) float64 {
	return math.Abs(threshold)*d.Share + d.Absolute
}

func distance(t text) *Distance {
	switch {
	case !t.OK:
		return nil
	case t.Bool:
		return &Distance{Share: t.Number}
	}
	return &Distance{Absolute: t.Number}
}
