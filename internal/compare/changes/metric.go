package changes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

const (
	// Value names the search of a metric's values, for each request if asked for.
	Value = "value"

	mostMetricSlots = 1500
	// unfinished is how long before now a metric is not read: what is exported late.
	unfinished = 20 * time.Second
	// mostInstances is the number of instances that are searched, to name one that
	// changed alone.
	mostInstances = 50
)

// metricSearch is the search in a family that is not of spans.
type metricSearch struct {
	st    store.Store
	r     *Request
	kind  series.Kind
	step  int64
	start int64
	slots int
	// several are services whose environments are searched by themselves.
	several map[string]bool
	out     *api.ChangesResponse
}

// searchMetric finds the changes of a metric, of each service by itself. The moments
// found are those of all its series together; an instance that alone changed is named.
func searchMetric(ctx context.Context, st store.Store, r *Request) (*api.ChangesResponse, error) {
	info, err := query.Family(ctx, st, r.Family)
	if err != nil {
		return nil, err
	}
	end := r.End
	if last := r.Now.Add(-unfinished); !r.Now.IsZero() && end.After(last) {
		end = last
	}
	m := &metricSearch{st: st, r: r, kind: info.Kind}
	for _, long := range query.SlotLengths(info.IntervalSeconds) {
		m.step, m.start = long, (r.Start.Unix()+long-1)/long*long
		if m.slots = int((end.Unix() - m.start) / long); m.slots <= mostMetricSlots {
			break
		}
	}
	if m.step == 0 || m.slots > mostMetricSlots {
		return nil, query.Invalid("start", "the range has more slots of %s than can be searched, %d; write a later start", r.Family, mostMetricSlots)
	}
	if m.slots <= 0 {
		return nil, query.Invalid("end", "the range does not hold a slot of %d s; write a longer one", m.step)
	}
	m.out = &api.ChangesResponse{Range: api.Range{Start: m.start, End: m.start + int64(m.slots)*m.step}, Slot: m.step, Changes: []api.Change{}, Notes: []string{}}
	if err := m.search(ctx); err != nil {
		return nil, err
	}
	m.out.Notes = append(m.out.Notes, searchedUntil(m.out)...)
	if m.out.Searched == 0 {
		m.out.Notes = append(m.out.Notes, "nothing that matches was measured in this range; take a filter off, or ask for another range")
	}
	return m.out, nil
}

func (m *metricSearch) read(ctx context.Context, by ...string) ([]query.SlotGroup, error) {
	for {
		sel := m.r.Selection
		sel.Start, sel.End = time.Unix(m.start, 0), time.Unix(m.start+int64(m.slots)*m.step, 0)
		found, err := query.Slots(ctx, m.st, query.SlotsRequest{Selection: sel, Step: m.step, By: by, Per: m.r.Per})
		if err != nil {
			return nil, err
		}
		if found.Slot <= m.step {
			return found.Groups, nil
		}
		// Only longer slots are kept.
		end := m.start + int64(m.slots)*m.step
		m.step, m.start = found.Slot, (m.start+found.Slot-1)/found.Slot*found.Slot
		m.slots = int((end - m.start) / m.step)
		m.out.Slot = m.step
		if m.slots <= 0 {
			return nil, nil
		}
	}
}

// groups reads the metric of each service, in each of its environments if it has several
// at a time.
func (m *metricSearch) groups(ctx context.Context) ([]query.SlotGroup, error) {
	groups, err := m.read(ctx, series.LabelService)
	if err != nil {
		return nil, err
	}
	step := m.step
	apart, err := m.read(ctx, series.LabelService, series.LabelEnvironment)
	if e := query.AsError(err); e != nil && e.Code == query.CodeInvalid {
		return groups, nil // no series has the label
	}
	if err != nil || m.step != step {
		return apart, err
	}
	spans := map[string]map[string]compare.Stretch{}
	for i := range apart {
		g := &apart[i]
		service := g.Labels.Get(series.LabelService)
		if spans[service] == nil {
			spans[service] = map[string]compare.Stretch{}
		}
		if slots := occupiedOf(g); len(slots) > 0 {
			spans[service][g.Labels.Get(series.LabelEnvironment)] = compare.Stretch{From: slots[0], To: slots[len(slots)-1] + 1}
		}
	}
	m.several = map[string]bool{}
	for _, service := range slices.Sorted(maps.Keys(spans)) {
		if names := compare.InTurn(spans[service]); names == nil {
			m.several[service] = true
		} else if len(names) > 1 {
			m.out.Notes = append(m.out.Notes, inTurnText(service, names))
		}
	}
	groups = slices.DeleteFunc(groups, func(g query.SlotGroup) bool { return m.several[g.Labels.Get(series.LabelService)] })
	for _, g := range apart {
		if m.several[g.Labels.Get(series.LabelService)] {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// partOf names what a group is of.
func (m *metricSearch) partOf(g *query.SlotGroup) compare.Part {
	out := compare.Part{Service: g.Labels.Get(series.LabelService)}
	if m.several[out.Service] {
		out.Environment = g.Labels.Get(series.LabelEnvironment)
	}
	return out
}

// matchersOf selects the metric of a part, by what was asked for.
func (m *metricSearch) matchersOf(p compare.Part) []*labels.Matcher {
	return p.Select(m.r.Matchers, m.several[p.Service])
}

func (m *metricSearch) search(ctx context.Context) error {
	groups, err := m.groups(ctx)
	if err != nil {
		return err
	}
	groups = slices.DeleteFunc(groups, func(g query.SlotGroup) bool { return g.Count < fewestSlots })
	m.out.Searched = len(groups)
	all := make([]searched, len(groups))
	for i := range groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		if all[i], err = m.points(&groups[i], discovery); err != nil {
			return err
		}
	}
	if err := keepDiscoveries(all, among, func(i int, alpha float64) (searched, error) { return m.points(&groups[i], alpha) }); err != nil {
		return err
	}
	for i := range all {
		if len(all[i].points) == 0 {
			continue
		}
		instances, err := m.instances(ctx, all[i].part)
		if err != nil {
			return err
		}
		describe := func(c candidate) (*api.Change, error) { return m.describe(ctx, c, instances) }
		var changes []api.Change
		of := stretched(all[i])
		for j := range of {
			of[j].title = judge.Where(all[i].part.Service, all[i].part.Environment, m.r.Family)
		}
		for _, c := range of {
			change, err := describe(c)
			if err != nil {
				return err
			}
			changes = append(changes, *change)
		}
		if changes, of, err = inSteps(changes, of, m.step, describe, nil); err != nil {
			return err
		}
		if changes, err = withoutReturns(changes, of, m.step, describe); err != nil {
			return err
		}
		m.out.Changes = append(m.out.Changes, changes...)
	}
	slices.SortStableFunc(m.out.Changes, func(x, y api.Change) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Service, y.Service), cmp.Compare(x.Environment, y.Environment))
	})
	return describeEvents(ctx, m.st, m.out, nil)
}

// Start returns the beginning of a slot, Unix seconds.
func (m *metricSearch) Start(slot int) int64 { return m.start + int64(slot)*m.step }

// points returns the change points of a group, each with a probability of at most alpha.
func (m *metricSearch) points(g *query.SlotGroup, alpha float64) (out searched, err error) {
	out = searched{part: m.partOf(g), of: Value}
	var found []stat.ChangePoint
	if g.Den != nil {
		t := stat.Tally{Num: g.Num, Den: g.Den}
		out.slots = occupied(t)
		out.tally = &t
		found, err = stat.ChangePointsOfTally(pick(t, out.slots), stat.ValueTally, stat.ChangeOptions{Alpha: alpha, Season: seasonOf(out.slots, m.step)})
	} else {
		var some []*hist.Histogram
		out.slots = occupiedOf(g)
		for _, i := range out.slots {
			some = append(some, g.Hists[i])
		}
		var s *stat.Series
		if s, err = stat.NewSeries(some); err == nil {
			found, err = stat.ChangePoints(s, stat.ChangeOptions{Alpha: alpha, Season: seasonOf(out.slots, m.step)})
		}
	}
	if err != nil {
		return out, err
	}
	for _, f := range found {
		out.points = append(out.points, pointOf(f, out.slots, Value))
	}
	return out, nil
}

// occupiedOf returns the slots of a group that hold anything.
func occupiedOf(g *query.SlotGroup) (slots []int) {
	if g.Den != nil {
		return occupied(stat.Tally{Num: g.Num, Den: g.Den})
	}
	for i, h := range g.Hists {
		if h != nil && h.Count > 0 {
			slots = append(slots, i)
		}
	}
	return slots
}

// instances are the change points of each instance of a service.
func (m *metricSearch) instances(ctx context.Context, p compare.Part) (map[string][]point, error) {
	of := *m
	r := *m.r
	r.Matchers = m.matchersOf(p)
	of.r = &r
	groups, err := of.read(ctx, series.LabelService, series.LabelInstance)
	if query.AsError(err) != nil {
		return nil, nil // no series has the label
	}
	if err != nil || of.step != m.step || len(groups) < 2 || len(groups) > mostInstances {
		return nil, err
	}
	out := map[string][]point{}
	for i := range groups {
		found, err := m.points(&groups[i], discovery)
		if err != nil {
			return nil, err
		}
		out[groups[i].Labels.Get(series.LabelInstance)] = found.points
	}
	return out, nil
}

// describe puts a change into the words of the API.
func (m *metricSearch) describe(ctx context.Context, c candidate, instances map[string][]point) (*api.Change, error) {
	start := m.Start
	window := func(w compare.Stretch) compare.Window {
		return compare.Window{Start: time.Unix(start(w.From), 0), End: time.Unix(start(w.To), 0)}
	}
	sel := m.r.Selection
	sel.Matchers = m.matchersOf(c.part)
	ctx, done := store.Passing(ctx)
	defer done()
	found, err := compare.Compare(ctx, m.st, compare.Request{Selection: sel, A: window(c.before), B: window(c.after), Per: m.r.Per, Now: m.r.Now, Limit: 1})
	if err != nil {
		return nil, err
	}
	at := start(c.point.at)
	out := &api.Change{
		ID: idOf(subject{service: c.part.Service, environment: c.part.Environment, family: m.r.Family}, at), Time: api.Float(at), Low: api.Float(start(c.point.low)), High: api.Float(start(c.point.high)),
		Service: c.part.Service, Environment: c.part.Environment, Family: m.r.Family, Unit: found.Unit, Found: c.point.of, Kink: c.point.kink, P: api.Float(c.point.p),
		Before: api.Range{Start: start(c.before.From), End: start(c.before.To)}, After: api.Range{Start: start(c.after.From), End: start(c.after.To)},
		Measures: found.Measures, Verdict: found.Verdict,
	}
	var alone []string
	for name, points := range instances {
		if slices.ContainsFunc(points, c.point.meets) {
			alone = append(alone, name)
		}
	}
	if len(alone) == 1 {
		out.Instance = alone[0]
	}
	sure := func(x *api.CompareMeasure) bool { return judge.Moved(x.Verdict) && float64(x.Adjusted) <= discovery }
	name := c.title
	if out.Kink && c.tally != nil {
		out.Headline, out.Shape = driftText(m, c, out, name, found.Unit)
		out.Name = name + " drifts"
	} else if lead := compare.Lead(found.Measures, sure, compare.DefaultWithin); lead != nil {
		out.Lead, out.Headline, out.Name = lead.Name, lead.Sentence, strings.TrimSpace(fmt.Sprintf("%s %s", name, lead.Verdict))
	} else {
		out.Headline, out.Name = name+" changed"+unsure(found.Measures), name+" changed"
	}
	if out.Instance != "" {
		out.Headline += fmt.Sprintf("; of %s instances only %s changed", figure.Thousands(uint64(len(instances))), out.Instance)
	}
	out.Sentence = out.Headline + ", " + when(out, m.step)
	return out, nil
}
