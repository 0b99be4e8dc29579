package measured

import (
	"tailscope/internal/figure"

	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/query"
	"tailscope/internal/strictyaml"
)

// Sources provide leaves. Either may be nil: a leaf that needs it is then a problem
// with a hint.
type Sources struct {
	Store  func(ctx context.Context, f spec.From) (*api.Leaves, error)
	File   func(name string) ([]byte, error)
	NoFile string // the hint without files
}

// Measured holds the times of leaves.
type Measured struct {
	Model    simulate.Model
	Leaves   []api.SimulationLeaf // of the model's classes
	Service  string               // of the first leaves out of a store, or empty
	Warnings []api.CompareWarning
}

// Load reads the leaves of a simulation. A problem of theirs is reported at the place
// that asks for them; an error is one of a server that could not be asked.
func Load(ctx context.Context, s *spec.Spec, from Sources) (*Measured, []strictyaml.Problem, error) {
	l := &loader{spec: s, from: from, out: &Measured{}}
	for i := range s.Leaves {
		if err := l.entry(ctx, &s.Leaves[i]); err != nil {
			return nil, nil, err
		}
	}
	if l.problems.Len() == 0 {
		l.weights()
	}
	if l.problems.Len() == 0 {
		l.moments()
		l.enough()
	}
	if l.problems.Len() > 0 {
		return nil, l.problems.Sorted(), nil
	}
	for _, c := range l.classes {
		l.out.Model.Classes = append(l.out.Model.Classes, c.Class)
		l.out.Leaves = append(l.out.Leaves, c.leaf())
	}
	return l.out, nil, nil
}

type loader struct {
	spec     *spec.Spec
	from     Sources
	problems strictyaml.Problems
	classes  []*class
	out      *Measured
}

// class is a class of the model with its origin.
type class struct {
	simulate.Class
	entry *spec.Leaf
	at    []source // by size
}

func (l *loader) warn(code, format string, args ...any) {
	w := api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(l.out.Warnings, w) {
		l.out.Warnings = append(l.out.Warnings, w)
	}
}

// read returns the classes of one source.
func (l *loader) read(ctx context.Context, f spec.From, name string) ([]source, error) {
	wrong := func(hint, format string, args ...any) ([]source, error) {
		l.problems.Add(f.At, hint, format, args...)
		return nil, nil
	}
	switch {
	case f.Takes != nil:
		if name == "" {
			name = "queries"
		}
		return []source{given(name, f.Said, f.Takes)}, nil
	case f.File != "":
		if l.from.File == nil {
			return wrong(l.from.NoFile, "the file %s is not read here", f.File)
		}
		content, err := l.from.File(f.File)
		if err != nil {
			return wrong("write the path of a file, from the directory of this one", "%v", err)
		}
		found, err := ofFile(filepath.Base(f.File), content)
		if err != nil {
			return wrong("", "%s: %v", f.File, err)
		}
		if f.Query == "" {
			return found, nil
		}
		var names []string
		for _, s := range found {
			if names = append(names, s.name); s.name == f.Query {
				return []source{s}, nil
			}
		}
		return wrong(strictyaml.Suggest(f.Query, names), "%s has no query %s", f.File, f.Query)
	}
	if l.from.Store == nil {
		return wrong("", "leaves of %s are in a server's store", f.Service)
	}
	doc, err := l.from.Store(ctx, f)
	if err != nil {
		if e := query.AsError(err); e != nil && (e.Code == query.CodeInvalid || e.Code == query.CodeNotFound) {
			return wrong("", "%s", e.Message)
		}
		return nil, err
	}
	if l.out.Service == "" {
		l.out.Service = doc.Service
	}
	for _, w := range doc.Warnings {
		l.warn(w.Code, "%s", w.Text)
	}
	found, err := ofLeaves(doc)
	if err != nil {
		return wrong("", "leaves of %s: %v", f.Service, err)
	}
	return found, nil
}

// entry makes the classes of one entry: those that all its sources have.
func (l *loader) entry(ctx context.Context, e *spec.Leaf) error {
	var sizes [][]source
	for _, f := range e.From {
		found, err := l.read(ctx, f, e.Name)
		if err != nil || found == nil {
			return err
		}
		sizes = append(sizes, found)
	}
	if len(sizes) == 0 {
		return nil
	}
	for _, first := range sizes[0] {
		c := &class{entry: e, at: []source{first}}
		for k := 1; k < len(sizes); k++ {
			i := slices.IndexFunc(sizes[k], func(s source) bool { return s.name == first.name })
			if i < 0 && len(sizes[0]) == 1 && len(sizes[k]) == 1 {
				i = 0
			}
			if i < 0 {
				l.problems.Add(e.From[k].At, "name one query of each, or measure the same ones", "class %s was not measured at %d shards", first.name, e.From[k].Shards)
				return nil
			}
			c.at = append(c.at, sizes[k][i])
		}
		c.Class = simulate.Class{Name: first.name, Fixed: e.Fixed, Waits: e.Waits, Before: e.Before, After: e.After}
		if e.Name != "" && len(sizes[0]) == 1 {
			c.Name = e.Name
		} else if e.Name != "" {
			c.Name = e.Name + " " + first.name
		}
		l.likeness(c)
		l.classes = append(l.classes, c)
	}
	return nil
}

// likeness sets the correlation of a query's leaves: as it is written, or as it was
// estimated.
func (l *loader) likeness(c *class) {
	if !math.IsNaN(c.entry.Together) {
		c.Together = c.entry.Together
		return
	}
	for _, s := range c.at {
		if v := float64(s.together.Value); !math.IsNaN(v) {
			c.Together = v
			return
		}
	}
	if c.at[0].step > 0 || c.at[0].count > 0 {
		l.warn("not_together", "leaves of one query are taken to be no more alike than their class and moment make them, as nothing says how alike they are: send their traces, or write together: 0.2; likeness makes the tail of a fan-out shorter")
	}
}

// weights shares queries among classes.
func (l *loader) weights() {
	said, counted, total := 0, uint64(0), 0.0
	for _, c := range l.classes {
		if !math.IsNaN(c.entry.Weight) {
			said++
		}
		counted += c.at[0].count
	}
	for _, c := range l.classes {
		switch {
		case said > 0 && said < len(l.classes) && math.IsNaN(c.entry.Weight):
			l.problems.Add(c.entry.At, "write weight: 20%", "other entries say how many queries they are of, and this one does not")
			return
		case said > 0: // of an entry with several classes as they were counted
			all, classes := uint64(0), 0.0
			for _, o := range l.classes {
				if o.entry == c.entry {
					all, classes = all+o.at[0].count, classes+1
				}
			}
			c.Weight = c.entry.Weight / classes
			if all > 0 {
				c.Weight = c.entry.Weight * float64(c.at[0].count) / float64(all)
			}
		case counted == 0:
			c.Weight = 1
		case c.at[0].count == 0:
			l.problems.Add(c.entry.At, "write weight: 20% for each entry", "%s is written down, others were counted: nothing says how many queries are of which", c.Name)
			return
		default:
			c.Weight = float64(c.at[0].count)
		}
		total += c.Weight
	}
	for _, c := range l.classes {
		c.Weight /= total
	}
}

// moments sets what changes from slot to slot, if all sources with slots have the
// same.
func (l *loader) moments() {
	var grid *source
	same := l.spec.Moments != spec.None
	for _, c := range l.classes {
		for i := range c.at {
			s := &c.at[i]
			switch {
			case s.step == 0:
			case grid == nil:
				grid = s
			case s.step != grid.step || s.start != grid.start || len(s.slots) != len(grid.slots):
				if same {
					l.warn("moments", "leaves were measured at different times: what changes from moment to moment is left out")
				}
				same = false
			}
		}
	}
	if grid == nil || len(grid.slots) < 2 {
		same = false
	}
	var used []int // slots with any queries: others would be played as if they had some
	if same {
		for t := range grid.slots {
			for _, c := range l.classes {
				if c.at[0].step > 0 && c.at[0].counts[t] > 0 {
					used = append(used, t)
					break
				}
			}
		}
		if same = len(used) > 1; same {
			l.out.Model.Every = float64(grid.step)
			l.rates(used)
		}
	}
	var unsized []string
	for _, c := range l.classes {
		c.Sizes = nil
		for i := range c.at {
			s, size := &c.at[i], simulate.Size{}
			if len(c.entry.From) > i {
				size.Shards = float64(c.entry.From[i].Shards)
			}
			if size.Shards == 0 && l.resized() {
				size.Shards = float64(l.spec.Layouts[0].Shards)
				unsized = append(unsized, c.Name)
			}
			if size.Slots = []*simulate.Distribution{s.whole}; same && s.step > 0 {
				size.Slots = pick(s.slots, used)
			}
			c.Sizes = append(c.Sizes, size)
		}
	}
	if len(unsized) > 0 {
		n := l.spec.Layouts[0].Shards
		l.warn("size", "it is not said at how many shards leaves of %s were measured: %d are taken for it, as the first layout has, and a leaf takes its part of that at others; write shards: %d beside its source, and fixed: 2ms if some of its time does not shrink", Names(unsized), n, n)
	}
}

// Names lists classes: of many the first and their number.
func Names(classes []string) string {
	if n := len(classes); n > 4 {
		return fmt.Sprintf("%s and %d more classes", strings.Join(classes[:3], ", "), n-3)
	}
	return strings.Join(classes, ", ")
}

// resized reports whether any layout has shards of another size than the first class
// was given for.
func (l *loader) resized() bool {
	return slices.ContainsFunc(l.spec.Layouts, func(o spec.Layout) bool { return o.InShards() != l.spec.Layouts[0].Shards })
}

func pick[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for i, t := range at {
		out[i] = list[t]
	}
	return out
}

// rates sets arrival rates by class and in all, as they were measured.
func (l *loader) rates(used []int) {
	if l.spec.Moments != spec.All {
		return
	}
	rates := make([]float64, len(used))
	whole := true // all classes were counted by slot
	for _, c := range l.classes {
		s := &c.at[0]
		if s.step == 0 {
			whole = false
			continue
		}
		c.Weights = pick(s.counts, used)
		for i := range used {
			c.Weights[i] *= c.Weight / float64(s.count) // adds up to the weight
			rates[i] += c.Weights[i]
		}
	}
	l.out.Model.Rates = rates
	if whole {
		return
	}
	for i := range rates { // one that was not keeps its share of each moment
		for _, c := range l.classes {
			if c.at[0].step > 0 {
				continue
			}
			if c.Weights == nil {
				c.Weights = make([]float64, len(used))
			}
			c.Weights[i] = c.Weight / float64(len(used))
			rates[i] += c.Weights[i]
		}
	}
}

// enough refuses leaves with too few observations for the quantile of the simulation:
// those of one source at once, by the class with the fewest.
func (l *loader) enough() {
	most := l.spec.Largest()
	need := simulate.Needs(l.spec.Asks, most)
	name, leaf := figure.Percentile(l.spec.Asks), math.Pow(l.spec.Asks, 1/float64(most))
	text := func(classes []string, n uint64) string {
		least := "there are "
		if len(classes) > 1 {
			least = "the one with the fewest has "
		}
		return fmt.Sprintf("%s of queries that ask %d leaves is decided by the slowest %.2g %% of leaves, and of %s %s%s observations, of which %.2g are that slow", name, most, 100*(1-leaf), Names(classes), least, grouped(n), float64(n)*(1-leaf))
	}
	type few struct {
		classes []string
		n       uint64
	}
	found, rare, weight := map[strictyaml.Place]*few{}, few{}, 0.0
	note := func(f *few, name string, n uint64) {
		if len(f.classes) == 0 || n < f.n {
			f.n = n
		}
		if !slices.Contains(f.classes, name) {
			f.classes = append(f.classes, name)
		}
	}
	for _, c := range l.classes {
		for i := range c.at {
			n := c.at[i].count
			if n == 0 || n >= need {
				continue
			}
			if c.Weight < (1-l.spec.Asks)/2 { // too rare to decide it
				if !slices.Contains(rare.classes, c.Name) {
					weight += c.Weight
				}
				note(&rare, c.Name, n)
				continue
			}
			at := c.entry.At
			if i < len(c.entry.From) {
				at = c.entry.From[i].At
			}
			if found[at] == nil {
				found[at] = &few{}
			}
			note(found[at], c.Name, n)
		}
	}
	for at, f := range found {
		hint := "measure " + grouped(need)
		if len(f.classes) > 1 {
			hint += " of each, or name the operation that matters"
		}
		if q := l.answerable(f.n, most); q > 0 {
			hint += ", or write asks: " + figure.Percentile(q)
		}
		l.problems.Add(at, hint, "%s", text(f.classes, f.n))
	}
	switch {
	case len(rare.classes) == 0:
	case weight >= (1-l.spec.Asks)/2:
		l.warn("few_observations", "%s; each is rare, but all of them are %.2g %% of queries, enough to move %s: measure %s of each", text(rare.classes, rare.n), 100*weight, name, grouped(need))
	case len(rare.classes) == 1:
		l.warn("few_observations", "%s; it is too rare a class to matter much", text(rare.classes, rare.n))
	default:
		l.warn("few_observations", "%s; they are too rare to matter much", text(rare.classes, rare.n))
	}
}

// answerable returns the highest quantile that n observations are enough for, or 0.
func (l *loader) answerable(n uint64, shards int) float64 {
	for _, q := range []float64{0.99, 0.95, 0.9, 0.75, 0.5} {
		if q < l.spec.Asks && simulate.Needs(q, shards) <= n {
			return q
		}
	}
	return 0
}

// leaf returns a class for the answer.
func (c *class) leaf() api.SimulationLeaf {
	s := c.at[0]
	out := api.SimulationLeaf{
		Class: c.Name, Weight: api.Float(c.Weight), Source: s.said, Observations: s.count, Slots: len(c.Sizes[0].Slots),
		Shards: api.Float(c.Sizes[0].Shards), Latency: s.latency, Together: api.Float(c.Together),
	}
	if c.Sizes[0].Shards == 0 {
		out.Shards = nan
	}
	if len(c.at) > 1 {
		out.Source = ""
		for i, s := range c.at {
			if i > 0 {
				out.Source += "; "
			}
			out.Source += fmt.Sprintf("of %g shards %s", c.Sizes[i].Shards, s.said)
		}
	}
	if c.at[0].traces >= fewestTraces && math.IsNaN(c.entry.Together) {
		out.Source += fmt.Sprintf("; together out of %d traces, %.2f (%.2f–%.2f)", s.traces, float64(s.together.Value), float64(s.together.Low), float64(s.together.High))
	}
	return out
}
