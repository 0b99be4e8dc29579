package spec

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/strictyaml"
)

// check puts a check together from its plan. values are those of one series of
// Each; nil reads the definition.
func (r *reader) check(p *plan, values map[string]string) (Check, *rawCheck) {
	c := Check{Name: p.name, File: p.at.File.Name, Line: p.at.Line, plan: p}
	n := p.node
	raw := new(rawCheck)
	if each := n.Get("each"); each != nil {
		var e rawEach
		r.decode(false, "each", each, &e)
		c.Each = r.each(&e)
		n = r.substitute(n, c.Each.By, values)
	}
	r.decode(false, p.what(), n, raw)

	c.Description, c.Unit = raw.Description, raw.Unit
	c.Host, c.Service = raw.Host, raw.Service
	c.Inactive, c.Silent = raw.Inactive, raw.Silent
	c.Null = map[string]expr.Nulls{"skip": expr.Skip, "zero": expr.Zero}[raw.Null]
	c.OnNull = raw.OnNull
	c.Labels = r.labels(&c, raw)
	c.Schedule = r.schedule(p, raw)
	c.Timeout = r.timeout(&c, &raw.Timeout)
	c.Tolerance = raw.Tolerance
	if raw.Value == nil {
		r.problem(p.at, "write value: and an expression, or a source such as http", "%s has no value", p.what())
	} else {
		c.Value = r.source(&c, raw.Value)
	}
	if raw.Threshold != nil {
		c.Threshold = r.threshold(&c, raw.Threshold)
	}
	c.States = r.states(raw)
	if r.checks != nil { // a definition, not an instance of it
		c.Receivers = named(r, "receiver", fields(raw.Receivers), r.receivers)
		c.DependsOn = named(r, "check", fields(raw.DependsOn), r.checks)
		if r.d.Given(&raw.After) {
			named(r, "check", []*string{&raw.After}, r.checks)
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
		n := r.d.Node(&raw.Labels).Get(name)
		if n.Kind == strictyaml.Null {
			continue
		}
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.problem(n.At, "write a name of letters, digits and underscores", "%q is not a label", name)
		case reservedLabels[name]:
			r.problem(n.At, "choose another name", "the label %s is what the check's series have anyway", name)
		case c.Each != nil && slices.Contains(c.Each.By, name):
			r.problem(n.At, "choose another name", "the label %s is already that of each series", name)
		}
		out[name] = n.Text
	}
	if !r.d.Given(&raw.Item) {
		return out
	}
	if !r.d.Given(&raw.Host) || !r.d.Given(&raw.Service) {
		r.d.Wrong(&raw.Item, "give host and service too", "item %s has no host and service", raw.Item)
	}
	for name, t := range map[string]string{"host": raw.Host, "service": raw.Service, "item": raw.Item} {
		if c.Each != nil && slices.Contains(c.Each.By, name) {
			continue
		}
		out[name] = t
	}
	return out
}

func (r *reader) schedule(p *plan, raw *rawCheck) Schedule {
	given := r.d.Count(&raw.Every, &raw.Cron, &raw.After)
	if given != 1 {
		at := p.at
		message := p.what() + " has no schedule"
		if given > 1 {
			message = p.what() + " has several schedules"
		}
		r.problem(at, "write one of every: 10s, cron: and after: another check", "%s", message)
	}
	s := Schedule{Interval: raw.Every, Cron: raw.Cron, After: raw.After, Delay: raw.Delay, Zone: cmp.Or(raw.Zone, p.zone)}
	if r.d.OK(&raw.Every) && s.Interval < time.Second {
		r.d.Wrong(&raw.Every, "at least 1s", "every %s is too often", r.d.S(&raw.Every))
	}
	if r.d.Given(&raw.Delay) && !r.d.Given(&raw.After) {
		r.d.Wrong(&raw.Delay, "it belongs to after", "delay without after")
	}
	return s
}

func (r *reader) timeout(c *Check, t *time.Duration) time.Duration {
	const usual = 10 * time.Second
	interval := c.Schedule.Interval
	if !r.d.OK(t) {
		if interval > 0 {
			return min(usual, interval)
		}
		return usual
	}
	if interval > 0 && *t > interval {
		r.d.Wrong(t, fmt.Sprintf("at most every: %s", interval), "the timeout %s is longer than the interval", r.d.S(t))
	}
	if *t < 10*time.Millisecond {
		r.d.Wrong(t, "at least 10ms", "the timeout %s is too short", r.d.S(t))
	}
	return *t
}

func (r *reader) each(raw *rawEach) *Each {
	e := &Each{Most: raw.Most, Within: raw.Within}
	e.Family, e.Matchers = r.series(&raw.Series)
	for _, t := range fields(raw.By) {
		if reservedLabels[*t] {
			r.d.Wrong(t, "choose another one", "the label %s is what the check's own series have anyway", *t)
		}
		if r.d.OK(t) && !slices.Contains(e.By, *t) {
			e.By = append(e.By, *t)
		}
	}
	if r.d.OK(&raw.Within) && e.Within < time.Minute {
		r.d.Wrong(&raw.Within, "at least 1m", "within %s is too short", r.d.S(&raw.Within))
	}
	return e
}

func (r *reader) states(raw *rawCheck) States {
	s := States{Bad: raw.Soft[0], OfBad: raw.Soft[1], Good: raw.Recover[0], OfGood: raw.Recover[1], FlapHigh: 0.5, FlapLow: 0.25, Remind: raw.Remind}
	f := raw.Flapping
	switch {
	case f == nil || r.d.Node(f) == nil:
	case r.d.Node(f).Kind == strictyaml.Scalar:
		s.FlapHigh, s.FlapLow = 0, 0
	case r.d.OK(&f.High) && r.d.OK(&f.Low):
		s.FlapHigh, s.FlapLow = f.High, f.Low
		if s.FlapHigh <= s.FlapLow {
			r.d.Wrong(&f.High, "it ends at a smaller share than it begins at", "high %s is not above low %s", r.d.S(&f.High), r.d.S(&f.Low))
		}
	}
	if r.d.OK(&raw.Remind) && raw.Remind != 0 && raw.Remind < time.Minute {
		r.d.Wrong(&raw.Remind, "at least 1m", "remind %s is too often", r.d.S(&raw.Remind))
	}
	return s
}

var ofProfile = regexp.MustCompile(`^profile +([^\s].*)$`)

func (r *reader) threshold(c *Check, raw *rawThreshold) *Threshold {
	t := &Threshold{Must: raw.Must, Warning: raw.Warning, Critical: raw.Critical}
	if r.d.Given(&raw.Of) {
		if f, err := strconv.ParseFloat(raw.Of, 64); err == nil {
			t.Number = &f
		} else if name := ofProfile.FindStringSubmatch(raw.Of); name != nil {
			t.Profile = name[1]
			def, ok := r.profiles[t.Profile]
			var days []ProfileDay
			if ok {
				days = def.raw.Days
			}
			at := r.d.Node(&raw.Of).Within(strings.LastIndex(raw.Of, name[1]))
			if !ok && r.checks != nil {
				r.problem(at, strictyaml.Suggest(name[1], names(r.profiles)), "unknown profile %s", name[1])
			}
			for _, label := range profileLabels(days) {
				if c.Each == nil || !slices.Contains(c.Each.By, label) {
					r.problem(at, "add it to by of each", "profile %s asks for $%s, which this check has not", t.Profile, label)
				}
			}
		} else {
			t.Expr = r.expression(c, r.d.Node(&raw.Of), "value")
		}
	}
	if !r.d.Given(&raw.Warning) && !r.d.Given(&raw.Critical) {
		r.d.Wrong(raw, "write warning: 10%, critical: 30%", "threshold has neither warning nor critical: it would judge nothing")
	}
	w, k := t.Warning, t.Critical
	if w != nil && k != nil && percent(r.d.S(&raw.Warning)) == percent(r.d.S(&raw.Critical)) && w.Share+w.Absolute > k.Share+k.Absolute {
		r.d.Wrong(&raw.Warning, "warning is the nearer one", "warning %s lies beyond critical %s", r.d.S(&raw.Warning), r.d.S(&raw.Critical))
	}
	if t.Number != nil && w != nil && k != nil && percent(r.d.S(&raw.Warning)) != percent(r.d.S(&raw.Critical)) && w.of(*t.Number) > k.of(*t.Number) {
		r.d.Wrong(&raw.Warning, "warning is the nearer one", "warning %s of %s lies beyond critical %s", r.d.S(&raw.Warning), raw.Of, r.d.S(&raw.Critical))
	}
	if t.Number != nil && *t.Number == 0 {
		for _, d := range []**Distance{&raw.Warning, &raw.Critical} {
			if r.d.OK(d) && (*d).Share > 0 {
				r.d.Wrong(d, "write an amount such as 5", "%s of 0 is 0", r.d.S(d))
			}
		}
	}
	return t
}

// profileLabels are the $labels in the expressions of a profile.
func profileLabels(days []ProfileDay) (out []string) {
	for i := range days {
		for _, t := range days[i].Hours {
			out = append(out, Labels(t)...)
		}
		for j := range days[i].Intervals {
			out = append(out, Labels(days[i].Intervals[j].Value)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of is how far from a threshold the distance reaches.
func (d *Distance) of(threshold float64) float64 {
	return math.Abs(threshold)*d.Share + d.Absolute
}

// percent reports whether a distance was written as a share.
func percent(s string) bool { return strings.HasSuffix(s, "%") }
