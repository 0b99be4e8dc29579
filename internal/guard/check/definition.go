package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/agg"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/series"
)

// definition is one check of a file, made ready to run. It does not change after
// it was made, but for instances.
type definition struct {
	c        *spec.Check
	schedule schedule.Schedule
	past     history.ForOptions
	view     expr.History     // of all instances: resolves selectors once
	profile  *profile.Profile // as the file has it; instances have their own
	store    bool             // values come out of the store, so that all instances run together

	// Of an Each whose value is one question: the question, and the order of the
	// labels that distinguish instances.
	grouped *spec.Query
	by      []string

	// Guarded by Engine.mu.
	instances []*instance // by key
	byKey     map[string]*instance
	beyond    int // series beyond Most
	tasks     []*task
}

// instance is a definition applied to one series, or to none without Each. It does not change.
type instance struct {
	d       *definition
	c       *spec.Check      // with $labels substituted
	profile *profile.Profile // likewise; nil unless the threshold is one
	group   string           // joinValues of the labels of Each
	task    *task            // of its own, if it runs by itself
	*condition
}

// condition is the state of a check. It outlives changes of the definition.
// Guarded by Engine.mu but for what is said otherwise.
type condition struct {
	key     event.Key
	id      string
	each    map[string]string // labels of Each
	labels  labels.Labels     // of its series: check, the definition's, those of Each
	seen    time.Time         // when Each last found it
	removed bool

	machine     state.Machine
	last        event.Result // Time zero: has not run since the start
	transitions []transition
	events      *incident // the open incident as it is kept
	dirty       bool
	receivers   []string  // who are notified; used after the definition is gone
	masked      bool      // by what it depends on, at its last run
	in          *instance // as it runs now; nil if no definition has it

	*outputs
}

// outputs are the series that a check writes.
type outputs struct {
	out  [families]written
	perf map[string]*written // by label
}

// written is one series that a check writes.
type written struct {
	series series.Series
	made   bool

	target agg.Target // the sink's
	epoch  uint32

	value float64 // of those that are written when they change
	at    int64   // Unix milliseconds
}

const (
	outValue = iota
	outThreshold
	outLowCritical
	outLowWarning
	outHighWarning
	outHighCritical
	outState
	outSeconds
	families
)

var familyNames = [families]string{
	FamilyValue, FamilyThreshold, FamilyLowCritical, FamilyLowWarning, FamilyHighWarning, FamilyHighCritical, FamilyState, FamilySeconds,
}

// output returns the series of a family.
func (c *condition) output(family int) *written {
	w := &c.out[family]
	if !w.made {
		w.series = series.Series{Family: familyNames[family], Kind: series.Gauge, Labels: c.labels}
		w.made = true
	}
	return w
}

func (c *condition) perfOutput(label string) *written {
	w := c.perf[label]
	if w == nil {
		if len(c.perf) >= mostPerf {
			return nil
		}
		b := labels.NewBuilder(c.labels)
		b.Set("perf", label)
		w = &written{made: true, series: series.Series{Family: FamilyPerf, Kind: series.Gauge, Labels: b.Labels()}}
		if c.perf == nil {
			c.perf = map[string]*written{}
		}
		c.perf[label] = w
	}
	return w
}

// mostPerf bounds how many values of performance data a check stores.
const mostPerf = 100

// keyOf names a check: each are the labels of Each.
func keyOf(name string, each map[string]string) event.Key {
	k := event.Key{Check: name}
	if len(each) > 0 {
		k.Labels = strings.TrimSuffix(strings.TrimPrefix(labels.FromMap(each).String(), "{"), "}")
	}
	return k
}

func newCondition(c *spec.Check, each map[string]string) *condition {
	k := keyOf(c.Name, each)
	all := maps.Clone(c.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, each)
	all[LabelCheck] = c.Name
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return &condition{key: k, id: k.ID(), each: each, labels: labels.FromMap(all), outputs: &outputs{}}
}

// define makes a definition ready.
func (e *Engine) define(c *spec.Check, profiles map[string]*profile.Profile) (*definition, error) {
	d := &definition{c: c, byKey: map[string]*instance{}, store: c.Value.Query != nil || c.Value.Expr != nil || c.Value.PromQL != ""}
	var err error
	if d.schedule, err = schedule.Parse(c.Schedule, c.Name); err != nil {
		return nil, fmt.Errorf("check %s: %w", c.Name, err)
	}
	zone, holiday := time.UTC, func(time.Time) bool { return false }
	if t := c.Threshold; t != nil && t.Of.Profile != "" {
		if d.profile = profiles[t.Of.Profile]; d.profile == nil {
			return nil, fmt.Errorf("check %s: there is no profile %q", c.Name, t.Of.Profile)
		}
		if cal := d.profile.Calendar(); cal != nil {
			zone, holiday = cal.Zone(), cal.Holiday
		}
	} else if c.Schedule.Zone != "" {
		if zone, err = time.LoadLocation(c.Schedule.Zone); err != nil {
			return nil, fmt.Errorf("check %s: zone: %w", c.Name, err)
		}
	}
	d.past = historyOptions(c, d.schedule, zone, holiday)
	d.view = e.o.History.For(d.past)
	if c.Each != nil {
		d.by = slices.Sorted(slices.Values(c.Each.By))
		d.grouped = groupedQuery(c)
	}
	return d, nil
}

// groupedQuery returns the query that measures every instance of an Each, or nil if
// their queries differ: matchers like operation="$operation" of
// the labels of Each are what grouping does.
func groupedQuery(c *spec.Check) *spec.Query {
	if c.Value.Query == nil {
		return nil
	}
	q := *c.Value.Query
	q.Series.Matchers = nil
	for _, m := range c.Value.Query.Series.Matchers {
		switch {
		case !strings.Contains(m.Value, "$"):
			q.Series.Matchers = append(q.Series.Matchers, m)
		case m.Type == labels.MatchEqual && m.Value == "$"+m.Name && slices.Contains(c.Each.By, m.Name):
		case m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp:
			if mentions(m.Value, c.Each.By) {
				return nil
			}
			q.Series.Matchers = append(q.Series.Matchers, m)
		default:
			return nil
		}
	}
	if family(q.Series.Family) == family(c.Each.Series.Family) {
		for _, m := range c.Each.Series.Matchers {
			if !slices.ContainsFunc(q.Series.Matchers, func(o *labels.Matcher) bool { return o.String() == m.String() }) {
				q.Series.Matchers = append(q.Series.Matchers, m)
			}
		}
	}
	return &q
}

func mentions(text string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(text, "$"+n) })
}

func family(name string) string {
	if name == "" {
		return series.SpanDuration
	}
	return name
}

// instanceOf applies d to the labels of one series; each is empty without Each.
func (d *definition) instanceOf(each map[string]string, known map[string]*condition) (*instance, error) {
	c := d.c
	if d.c.Each != nil {
		var err error
		if c, err = d.c.Instance(each); err != nil {
			return nil, err
		}
	}
	p := d.profile
	if p != nil {
		var err error
		if p, err = p.Of(each); err != nil {
			return nil, err
		}
	}
	fresh := newCondition(d.c, each)
	if old := known[fresh.id]; old != nil && !old.removed {
		// The labels of its series are the new definition's.
		if !labels.Equal(old.labels, fresh.labels) {
			old.labels, old.outputs = fresh.labels, &outputs{}
		}
		fresh = old
	}
	in := &instance{d: d, c: c, profile: p, condition: fresh}
	in.group = joinValues(labels.FromMap(each), d.by)
	return in, nil
}
