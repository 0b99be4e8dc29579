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
)

// check puts a check together from its plan. values are those of one series of
// Each; nil reads the definition.
func (r *reader) check(p *plan, values map[string]string) (Check, rawCheck) {
	c := Check{Name: p.name, File: p.at.file.name, Line: p.at.line, plan: p}
	n := p.node
	var raw rawCheck
	if each := n.get("each"); each != nil {
		d := &decoder{r: r}
		var e rawEach
		d.decode("each", each, &e)
		c.Each = r.each(&e)
		n = r.substitute(n, c.Each.By, values)
	}
	(&decoder{r: r}).decode(p.what(), n, &raw)

	c.Description, c.Unit = raw.Description.s(), raw.Unit.s()
	c.Host, c.Service = raw.Host.s(), raw.Service.s()
	c.Inactive, c.Silent = raw.Inactive.b, raw.Silent.b
	c.Null = map[string]expr.Nulls{"skip": expr.Skip, "zero": expr.Zero}[raw.Null.s()]
	c.OnNull = raw.OnNull.or("UNKNOWN")
	c.Labels = r.labels(&c, &raw)
	c.Schedule = r.schedule(p, &raw)
	c.Timeout = r.timeout(&c, raw.Timeout)
	if raw.Tolerance.ok {
		c.Tolerance = raw.Tolerance.d
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
		if raw.After.given() {
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
		if !t.given() {
			continue
		}
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.problem(t.n.at, "write a name of letters, digits and underscores", "%q is no label", name)
		case reservedLabels[name]:
			r.problem(t.n.at, "choose another name", "the label %s is what the check's series have anyway", name)
		case c.Each != nil && slices.Contains(c.Each.By, name):
			r.problem(t.n.at, "choose another name", "the label %s is already that of each series", name)
		}
		out[name] = t.s()
	}
	if !raw.Item.given() {
		return out
	}
	if !raw.Host.given() || !raw.Service.given() {
		r.problem(raw.Item.n.at, "give host and service too", "item %s has no host and service", raw.Item.s())
	}
	for name, t := range map[string]text{"host": raw.Host, "service": raw.Service, "item": raw.Item} {
		if c.Each != nil && slices.Contains(c.Each.By, name) {
			continue
		}
		out[name] = t.s()
	}
	return out
}

func (r *reader) schedule(p *plan, raw *rawCheck) Schedule {
	given := 0
	for _, t := range []text{raw.Every, raw.Cron, raw.After} {
		if t.given() {
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
	s := Schedule{Interval: raw.Every.d, Cron: raw.Cron.s(), After: raw.After.s(), Delay: raw.Delay.d, Zone: raw.Zone.or(p.zone)}
	if raw.Every.ok && s.Interval < time.Second {
		r.problem(raw.Every.n.at, "at least 1s", "every %s is too often", raw.Every.s())
	}
	if raw.Delay.given() && !raw.After.given() {
		r.problem(raw.Delay.n.at, "it belongs to after", "delay without after")
	}
	return s
}

func (r *reader) timeout(c *Check, t text) time.Duration {
	const usual = 10 * time.Second
	interval := c.Schedule.Interval
	if !t.ok {
		if interval > 0 {
			return min(usual, interval)
		}
		return usual
	}
	if interval > 0 && t.d > interval {
		r.problem(t.n.at, fmt.Sprintf("at most every: %s", interval), "the timeout %s is longer than the interval", t.s())
	}
	if t.d < 10*time.Millisecond {
		r.problem(t.n.at, "at least 10ms", "the timeout %s is too short", t.s())
	}
	return t.d
}

func (r *reader) each(raw *rawEach) *Each {
	e := &Each{Most: 1000, Within: time.Hour}
	e.Family, e.Matchers = r.series(raw.Series)
	for _, t := range raw.By {
		if reservedLabels[t.s()] {
			r.problem(t.n.at, "choose another one", "the label %s is what the check's own series have anyway", t.s())
		}
		if t.ok && !slices.Contains(e.By, t.s()) {
			e.By = append(e.By, t.s())
		}
	}
	if raw.Most.ok {
		e.Most = int(raw.Most.i)
	}
	if raw.Within.ok {
		e.Within = raw.Within.d
		if e.Within < time.Minute {
			r.problem(raw.Within.n.at, "at least 1m", "within %s is too short", raw.Within.s())
		}
	}
	return e
}

func (r *reader) states(raw *rawCheck) States {
	s := States{Bad: 3, OfBad: 3, Good: 1, OfGood: 1, FlapHigh: 0.5, FlapLow: 0.25, Remind: raw.Remind.d}
	if raw.Soft.ok {
		s.Bad, s.OfBad = raw.Soft.of[0], raw.Soft.of[1]
	}
	if raw.Recover.ok {
		s.Good, s.OfGood = raw.Recover.of[0], raw.Recover.of[1]
	}
	f := raw.Flapping
	switch {
	case f == nil || f.Node == nil:
	case f.Node.kind == scalar:
		s.FlapHigh, s.FlapLow = 0, 0
	case f.High.ok && f.Low.ok:
		s.FlapHigh, s.FlapLow = f.High.f, f.Low.f
		if s.FlapHigh <= s.FlapLow {
			r.problem(f.High.n.at, "it ends at a smaller share than it begins at", "high %s is not above low %s", f.High.s(), f.Low.s())
		}
	}
	if raw.Remind.ok && raw.Remind.d != 0 && raw.Remind.d < time.Minute {
		r.problem(raw.Remind.n.at, "at least 1m", "remind %s is too often", raw.Remind.s())
	}
	return s
}

var ofProfile = regexp.MustCompile(`^profile +([^\s].*)$`)

func (r *reader) threshold(c *Check, raw *rawThreshold) *Threshold {
	t := &Threshold{Must: raw.Must.s(), Warning: distance(raw.Warning), Critical: distance(raw.Critical)}
	if raw.Of.given() {
		if f, err := strconv.ParseFloat(raw.Of.s(), 64); err == nil {
			t.Number = &f
		} else if name := ofProfile.FindStringSubmatch(raw.Of.s()); name != nil {
			t.Profile = name[1]
			def, ok := r.profiles[t.Profile]
			at := raw.Of.n.within(strings.LastIndex(raw.Of.s(), name[1]))
			if !ok && r.checks != nil {
				r.problem(at, nearest(name[1], names(r.profiles)), "unknown profile %s", name[1])
			}
			for _, label := range profileLabels(def.raw.Days) {
				if c.Each == nil || !slices.Contains(c.Each.By, label) {
					r.problem(at, "add it to by of each", "profile %s asks for $%s, which this check has not", t.Profile, label)
				}
			}
		} else {
			t.Expr = r.expression(c, raw.Of.n, "value")
		}
	}
	if !raw.Warning.given() && !raw.Critical.given() {
		r.problem(raw.Node.at, "write warning: 10%, critical: 30%", "threshold has neither warning nor critical: it would judge nothing")
	}
	w, k := t.Warning, t.Critical
	if w != nil && k != nil && raw.Warning.b == raw.Critical.b && w.Share+w.Absolute > k.Share+k.Absolute {
		r.problem(raw.Warning.n.at, "warning is the nearer one", "warning %s lies beyond critical %s", raw.Warning.s(), raw.Critical.s())
	}
	if t.Number != nil && w != nil && k != nil && raw.Warning.b != raw.Critical.b && w.of(*t.Number) > k.of(*t.Number) {
		r.problem(raw.Warning.n.at, "warning is the nearer one", "warning %s of %s lies beyond critical %s", raw.Warning.s(), raw.Of.s(), raw.Critical.s())
	}
	if t.Number != nil && *t.Number == 0 {
		for _, d := range []text{raw.Warning, raw.Critical} {
			if d.ok && d.b && d.f > 0 {
				r.problem(d.n.at, "write an amount such as 5", "%s of 0 is 0", d.s())
			}
		}
	}
	return t
}

// profileLabels are the $labels in the expressions of a profile.
func profileLabels(days []rawDay) (out []string) {
	for i := range days {
		for _, t := range days[i].Hours {
			out = append(out, Labels(t.s())...)
		}
		for j := range days[i].Intervals {
			out = append(out, Labels(days[i].Intervals[j].Value.s())...)
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
	case !t.ok:
		return nil
	case t.b:
		return &Distance{Share: t.f}
	}
	return &Distance{Absolute: t.f}
}
