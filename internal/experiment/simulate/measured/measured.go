// Package measured reads the measured times of leaves for the model of a simulation:
// from a store, slot by slot and operation by operation; from a file; or as they are
// written down.
//
// Slots are kept apart because a slow moment is slow on all leaves: a fan-out of
// leaves drawn from the whole hour's distribution has a faster tail than the one that
// was measured. The remaining correlation within one query is estimated from kept
// traces (together.go).
package measured

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Request asks for the requests of a service as leaves.
type Request struct {
	Service    string
	Operation  string // empty: each is a class
	Matchers   []*labels.Matcher
	Start, End time.Time
	Step       int64 // seconds of a slot; 0 chooses
	Classes    int   // at most so many, then the others as one; 0 is 20
}

// Bounds of an answer.
const (
	mostClasses = 200
	mostSlots   = 720
	usualSlots  = 360
	// thin is the mean number of observations that a chosen slot should have.
	thin = 200
	rest = "other operations"
)

func (r *Request) check() error {
	switch {
	case r.Service == "":
		return query.Invalid("service", "whose requests are leaves is missing; write service=solr")
	case r.Classes < 0 || r.Classes > mostClasses:
		return query.Invalid("classes", "classes %d is not between 1 and %d", r.Classes, mostClasses)
	case r.Step < 0:
		return query.Invalid("step", "a step of %d s is not positive; write a duration such as 10s", r.Step)
	case r.Step > 0 && r.End.Sub(r.Start) > time.Duration(r.Step)*mostSlots*time.Second:
		return query.Invalid("step", "%s in slots of %d s are more than %d slots; ask for longer ones, or a shorter range", r.End.Sub(r.Start), r.Step, mostSlots)
	}
	if r.Classes == 0 {
		r.Classes = 20
	}
	return nil
}

// Read reads leaves from a store. Requests that failed are left out and counted.
func Read(ctx context.Context, st store.Store, r Request) (*api.Leaves, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	of := append(slices.Clone(r.Matchers), labels.MustNewMatcher(labels.MatchEqual, series.LabelService, r.Service))
	if r.Operation != "" {
		of = append(of, labels.MustNewMatcher(labels.MatchEqual, series.LabelOperation, r.Operation))
	}
	ask := query.RequestsRequest{
		Selection: query.Selection{Start: r.Start, End: r.End, Matchers: of},
		Grid:      query.Grid{Step: r.Step}, By: []string{series.LabelOperation}, Measure: store.Buckets,
	}
	if r.Step == 0 {
		ask.Grid.Width = usualSlots
	}
	found, err := query.Requests(ctx, st, ask)
	if err != nil {
		return nil, err
	}
	g := &gathered{step: found.Step, start: found.Start, n: int((found.End - found.Start) / found.Step)}
	if err := g.addRequested(found); err != nil {
		return nil, err
	}
	if len(g.classes) == 0 {
		return nil, nothing(ctx, st, r)
	}
	if err := g.fold(r.Classes); err != nil {
		return nil, err
	}
	if r.Step == 0 {
		if err := g.thicken(); err != nil {
			return nil, err
		}
	}
	out, err := g.document(r.Service)
	if err != nil {
		return nil, err
	}
	out.Range = api.Range{Start: found.Start, End: min(found.End, found.Until)}
	out.Source = fmt.Sprintf("requests of %s from %s to %s, in slots of %s", r.Service, clock(out.Start), clock(out.End), time.Duration(g.step)*time.Second)
	if err := together(ctx, st, r, g, out); err != nil {
		return nil, err
	}
	return out, nil
}

func clock(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04:05Z") }

// nothing returns the error for missing leaves: no such service, or operation, or
// none in the range.
func nothing(ctx context.Context, st store.Store, r Request) error {
	found, err := query.Requests(ctx, st, query.RequestsRequest{
		Selection: query.Selection{Start: r.Start, End: r.End}, Whole: true, By: []string{series.LabelOperation}, Measure: store.Moments,
	})
	if err != nil {
		return err
	}
	var services, operations []string
	for _, g := range found.Groups {
		service := g.Labels.Get(series.LabelService)
		if !slices.Contains(services, service) {
			services = append(services, service)
		}
		if service == r.Service {
			operations = append(operations, g.Labels.Get(series.LabelOperation))
		}
	}
	missing := func(field, name string, known []string) error {
		hint := "widen the range, or send its spans"
		if len(known) > 0 {
			hint = query.Suggest(name, known)
		}
		return &query.Error{Code: query.CodeNotFound, Field: field, Message: fmt.Sprintf("there are no successful requests of %s %q from %s to %s; %s",
			field, name, clock(r.Start.Unix()), clock(r.End.Unix()), hint)}
	}
	if r.Operation != "" && slices.Contains(services, r.Service) {
		return missing("operation", r.Operation, operations)
	}
	return missing("service", r.Service, services)
}

// gathered holds leaves on their way to a document.
type gathered struct {
	start, step int64
	n           int
	classes     []*gatheredClass
}

type gatheredClass struct {
	name   string
	count  uint64
	failed uint64
	slots  []*hist.Histogram // nil where there are none
	whole  *hist.Histogram
}

func (g *gathered) addRequested(found *query.Requested) error {
	for _, group := range found.Groups {
		c := &gatheredClass{name: group.Labels.Get(series.LabelOperation), slots: make([]*hist.Histogram, g.n)}
		for i := range g.n {
			if h := group.Failed[i]; h != nil {
				c.failed += h.Count
			}
			h := group.Good[i]
			if h == nil || h.Count == 0 {
				continue
			}
			if h.Schema == hist.Explicit {
				return query.Invalid("service", "durations of %s came in buckets of their own; leaves are read of spans", c.name)
			}
			// Fine enough for any quantile, and few bounds for all slots together.
			slot := hist.New(hist.DefaultSchema)
			if err := slot.Merge(h); err != nil {
				return err
			}
			c.slots[i] = slot
			c.count += h.Count
		}
		if c.count > 0 {
			g.classes = append(g.classes, c)
		}
	}
	slices.SortStableFunc(g.classes, func(a, b *gatheredClass) int {
		switch {
		case a.count > b.count:
			return -1
		case a.count < b.count:
			return 1
		}
		return 0
	})
	return nil
}

// fold merges the rarest classes into one.
func (g *gathered) fold(most int) error {
	if len(g.classes) <= most {
		return nil
	}
	into := &gatheredClass{name: rest, slots: make([]*hist.Histogram, g.n)}
	for _, c := range g.classes[most-1:] {
		into.count, into.failed = into.count+c.count, into.failed+c.failed
		for i, h := range c.slots {
			if err := add(&into.slots[i], h); err != nil {
				return err
			}
		}
	}
	g.classes = append(g.classes[:most-1], into)
	return nil
}

// add merges h into a histogram, if there is one.
func add(into **hist.Histogram, h *hist.Histogram) error {
	switch {
	case h == nil:
		return nil
	case *into == nil:
		*into = h.Clone()
		return nil
	}
	return (*into).Merge(h)
}

// thicken merges slots until most have enough observations for a distribution of
// their own: fewer would only repeat what was drawn.
func (g *gathered) thicken() error {
	for _, longer := range []int64{10, 60, 600, 3600} {
		filled, all := 0, uint64(0)
		for _, c := range g.classes[:1] {
			for _, h := range c.slots {
				if h != nil {
					filled, all = filled+1, all+h.Count
				}
			}
		}
		if filled == 0 || all/uint64(filled) >= thin || g.n == 1 {
			return nil
		}
		if longer <= g.step || longer%g.step != 0 {
			continue
		}
		if err := g.join(longer); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathered) join(step int64) error {
	start := g.start - g.start%step
	n := int((g.start + int64(g.n)*g.step - start + step - 1) / step)
	for _, c := range g.classes {
		slots := make([]*hist.Histogram, n)
		for i, h := range c.slots {
			if err := add(&slots[(g.start+int64(i)*g.step-start)/step], h); err != nil {
				return err
			}
		}
		c.slots = slots
	}
	g.start, g.step, g.n = start, step, n
	return nil
}

// document returns the leaves as they are answered and written.
func (g *gathered) document(service string) (*api.Leaves, error) {
	out := &api.Leaves{Format: 1, Service: service, Step: g.step, Classes: []api.LeafClass{}, Warnings: []api.CompareWarning{}}
	schema := int8(hist.DefaultSchema)
	for _, c := range g.classes {
		for _, h := range c.slots {
			if err := add(&c.whole, h); err != nil {
				return nil, err
			}
		}
		schema = min(schema, c.whole.Schema)
	}
	edges := map[float64]bool{}
	for _, c := range g.classes {
		for i, h := range c.slots {
			if h == nil {
				continue
			}
			if h.Schema > schema { // coarser input is among the others
				same := hist.New(schema)
				if err := same.Merge(h); err != nil {
					return nil, err
				}
				c.slots[i] = same
			}
			for b := range c.slots[i].All() {
				edges[max(0, b.Lower)], edges[b.Upper] = true, true
			}
		}
	}
	index, bounds := map[float64]int{}, make([]float64, 0, len(edges))
	for e := range edges {
		bounds = append(bounds, e)
	}
	slices.Sort(bounds)
	for i, b := range bounds {
		index[b] = i
		out.Bounds = append(out.Bounds, api.Float(b))
	}
	for _, c := range g.classes {
		class := api.LeafClass{Class: c.name, Count: c.count, Failed: c.failed, Slots: []api.LeafSlot{}, Together: unknown, FanOut: nan}
		for i, h := range c.slots {
			if h == nil {
				continue
			}
			slot := api.LeafSlot{Time: g.start + int64(i)*g.step, Min: api.Float(h.Min), Max: api.Float(h.Max)}
			for b := range h.All() {
				slot.At, slot.Counts = append(slot.At, index[max(0, b.Lower)]), append(slot.Counts, b.Count)
			}
			class.Slots = append(class.Slots, slot)
		}
		out.Classes = append(out.Classes, class)
		if c.failed*100 > c.count+c.failed {
			out.Warnings = append(out.Warnings, api.CompareWarning{Code: "failed_leaves", Text: fmt.Sprintf("%d of %d requests of %s failed and are left out: if they took longer than others, so would a query", c.failed, c.count+c.failed, c.name)})
		}
	}
	return out, nil
}
