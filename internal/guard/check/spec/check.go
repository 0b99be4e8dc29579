package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/judge"
	"tailscope/internal/strictyaml"
)

// decodeCheck reads a check from its plan. values are those of one series of Each; nil reads
// the definition.
func (r *reader) decodeCheck(p *plan, values map[string]string) *Check {
	c := &Check{Name: p.name, File: p.at.File.Name, Line: p.at.Line, plan: p}
	n := p.node
	if each := n.Get("each"); each != nil {
		var e Each
		r.d.Decode("each", each, &e)
		var by []string
		for _, t := range pointers(e.By) {
			if r.d.OK(t) {
				by = append(by, *t)
			}
		}
		n = r.substitute(n, by, values)
	}
	r.d.Decode(p.what(), n, c)
	c.Zone = cmp.Or(c.Zone, p.zone)
	if c.Each != nil {
		r.checkEach(c.Each)
	}
	r.checkLabels(c)
	r.checkSchedule(p, &c.Schedule)
	r.checkTimeout(c)
	if r.d.OK(&c.Value) {
		r.checkSource(&c.Value)
		if q := c.Value.Query; q != nil && !r.d.Given(&c.Unit) && (q.Measure == "errors" || q.Measure == "above" || q.Measure == "below") {
			c.Unit = "ratio"
		}
	} else {
		r.problem(p.at, "write value: and an expression, or a source such as http", "%s has no value", p.what())
	}
	if c.Threshold != nil {
		r.checkThreshold(c, c.Threshold)
	}
	r.checkRules(&c.Rules)
	if known := r.all.Checks.of; known != nil { // a definition, not an instance of it
		checkNamed(r, "receiver", pointers(c.Receivers), r.all.Receivers.of)
		checkNamed(r, "check", pointers(c.DependsOn), known)
		if r.d.Given(&c.After) {
			checkNamed(r, "check", []*string{&c.After}, known)
		}
	}
	return c
}

func (p *plan) what() string { return "check " + p.name }

// reservedLabels are set on all series of checks.
var reservedLabels = map[string]bool{"check": true, "perf": true}

func (r *reader) checkLabels(c *Check) {
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for _, name := range names(c.Labels) {
		n := r.d.Node(&c.Labels).Get(name)
		if n.Kind == strictyaml.Null {
			delete(c.Labels, name)
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
	}
	if !r.d.Given(&c.Item) {
		return
	}
	if !r.d.Given(&c.Host) || !r.d.Given(&c.Service) {
		r.d.Wrong(&c.Item, "give host and service too", "item %s has no host and service", c.Item)
	}
	for name, t := range map[string]string{"host": c.Host, "service": c.Service, "item": c.Item} {
		if c.Each == nil || !slices.Contains(c.Each.By, name) {
			c.Labels[name] = t
		}
	}
}

func (r *reader) checkSchedule(p *plan, s *Schedule) {
	r.checkOne(p.at, p.what()+" has", "schedule", "write one of every: 10s, cron: and after: another check", &s.Interval, &s.Cron, &s.After)
	if r.d.OK(&s.Interval) && s.Interval < time.Second {
		r.d.Wrong(&s.Interval, "at least 1s", "every %s is too often", r.d.S(&s.Interval))
	}
	if r.d.Given(&s.Delay) && !r.d.Given(&s.After) {
		r.d.Wrong(&s.Delay, "it belongs to after", "delay without after")
	}
}

func (r *reader) checkTimeout(c *Check) {
	t := &c.Timeout
	if !r.d.OK(t) {
		if *t = 10 * time.Second; c.Interval > 0 {
			*t = min(*t, c.Interval)
		}
		return
	}
	if c.Interval > 0 && *t > c.Interval {
		r.d.Wrong(t, fmt.Sprintf("at most every: %s", c.Interval), "the timeout %s is longer than the interval", r.d.S(t))
	}
	if *t < 10*time.Millisecond {
		r.d.Wrong(t, "at least 10ms", "the timeout %s is too short", r.d.S(t))
	}
}

func (r *reader) checkEach(e *Each) {
	for i := range e.By {
		if t := &e.By[i]; reservedLabels[*t] {
			r.d.Wrong(t, "choose another one", "the label %s is what the check's own series have anyway", *t)
		}
	}
	e.By = unique(e.By)
	if r.d.OK(&e.Within) && e.Within < time.Minute {
		r.d.Wrong(&e.Within, "at least 1m", "within %s is too short", r.d.S(&e.Within))
	}
}

func (r *reader) checkRules(s *state.Rules) {
	if f := &s.Flapping; r.d.OK(&f.High) && r.d.OK(&f.Low) && f.High <= f.Low {
		r.d.Wrong(&f.High, "it ends at a smaller share than it begins at", "high %s is not above low %s", r.d.S(&f.High), r.d.S(&f.Low))
	}
	if r.d.OK(&s.Remind) && s.Remind != 0 && s.Remind < time.Minute {
		r.d.Wrong(&s.Remind, "at least 1m", "remind %s is too often", r.d.S(&s.Remind))
	}
}

func (r *reader) checkThreshold(c *Check, t *Threshold) {
	r.checkNames(r.d.Node(&t.Of), t.Of.Expr)
	if name := t.Of.Profile; name != "" {
		def, ok := r.all.Profiles.of[name]
		at := r.d.Node(&t.Of).Within(strings.LastIndex(r.d.S(&t.Of), name))
		if !ok && r.all.Checks.of != nil {
			r.problem(at, strictyaml.Suggest(name, names(r.all.Profiles.of)), "unknown profile %s", name)
		}
		if ok {
			for _, label := range profileLabels(def.it.Days) {
				if c.Each == nil || !slices.Contains(c.Each.By, label) {
					r.problem(at, "add it to by of each", "profile %s asks for $%s, which this check has not", name, label)
				}
			}
		}
	}
	if r.d.Given(&t.Allow) {
		r.checkAllow(t)
	} else if !r.d.Given(&t.Must) {
		r.d.Wrong(t, `write must: "<" and critical: 3%, or allow: increase:3%`, "threshold has neither must nor allow")
	}
	if !r.d.Given(&t.Warning) && !r.d.Given(&t.Critical) && !r.d.Given(&t.Allow) {
		r.d.Wrong(t, "write warning: 10%, critical: 30%", "threshold has neither warning nor critical: it would judge nothing")
	}
	number, w, k := t.Of.Number, t.Warning, t.Critical
	warning, critical := r.d.S(&t.Warning), r.d.S(&t.Critical)
	if k != nil && r.d.Given(&t.Allow) {
		critical = figure.Digits(100*k.Share) + "%"
	}
	switch alike := percent(warning) == percent(critical); {
	case w == nil || k == nil:
	case alike && w.Share+w.Absolute > k.Share+k.Absolute:
		r.d.Wrong(&t.Warning, "warning is the nearer one", "warning %s lies beyond critical %s", warning, critical)
	case !alike && number != nil && w.from(*number) > k.from(*number):
		r.d.Wrong(&t.Warning, "warning is the nearer one", "warning %s of %s lies beyond critical %s", warning, r.d.S(&t.Of), critical)
	}
	if number != nil && *number == 0 {
		for _, d := range []**Distance{&t.Warning, &t.Critical} {
			if r.d.OK(d) && (*d).Share > 0 {
				r.d.Wrong(d, "write an amount such as 5", "%s of 0 is 0", r.d.S(d))
			}
		}
		if r.d.Given(&t.Allow) && k != nil && k.Share > 0 {
			r.d.Wrong(&t.Allow, "write must and critical: 5", "%s of 0 is 0", critical)
		}
	}
}

// mustOf says what a healthy value does where only changes in a direction matter.
var mustOf = map[judge.Direction]string{judge.Either: "=", judge.Increase: "<", judge.Decrease: ">"}

// checkAllow turns the gate of a threshold into must and critical.
func (r *reader) checkAllow(t *Threshold) {
	if !r.d.OK(&t.Allow) {
		return
	}
	if r.d.Given(&t.Must) || r.d.Given(&t.Critical) {
		r.d.Wrong(&t.Allow, "leave them out, or allow", "allow says what must and critical say")
	}
	g, err := judge.ParseGate(t.Allow)
	must, ok := mustOf[g.Direction]
	switch {
	case err != nil:
		r.d.Wrong(&t.Allow, "write one such as increase:3%", "%v", err)
	case g.Measure != "":
		r.d.Wrong(&t.Allow, "a check has one value: write increase:3%", "allow names the measure %s", g.Measure)
	case !ok:
		r.d.Wrong(&t.Allow, "write increase or decrease: which of them is worse is not known of a check's value", "%q is a direction of comparisons alone", string(g.Direction))
	default:
		t.Must, t.Critical = must, &Distance{Share: g.Allowed}
	}
}

// profileLabels returns the $labels in the expressions of a profile.
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

// from returns the distance from a threshold as an amount.
func (d *Distance) from(threshold float64) float64 {
	return math.Abs(threshold)*d.Share + d.Absolute
}

// percent reports whether a distance was written as a share.
func percent(s string) bool { return strings.HasSuffix(s, "%") }
