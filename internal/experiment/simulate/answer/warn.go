package answer

import (
	"tailscope/internal/figure"

	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/measured"
	"tailscope/internal/experiment/simulate/spec"
)

// warner collects what has to be minded, once for many layouts.
type warner struct {
	spec     *spec.Spec
	measured *measured.Measured
	out      *api.Simulation
	notes    []note
	unstable []string
	why      string
	busy     float64
}

// note is a warning and its layouts. Texts with the same key differ in figures only:
// the first layout's is shown.
type note struct {
	code, key, text string
	differ          bool
	layouts         []string
}

func (w *warner) warn(code, format string, args ...any) {
	w.out.Warnings = append(w.out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// addNote notes a warning of a layout, once for all layouts that have it.
func (w *warner) addNote(layout, code, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.like(layout, code, text, text)
}

func (w *warner) like(layout, code, key, text string) {
	for i := range w.notes {
		if n := &w.notes[i]; n.code == code && n.key == key {
			n.differ = n.differ || n.text != text
			n.layouts = append(n.layouts, layout)
			return
		}
	}
	w.notes = append(w.notes, note{code, key, text, false, []string{layout}})
}

var figures = regexp.MustCompile(`[0-9][0-9.e+-]*`)

// before warns of what the file leaves out.
func (w *warner) before() {
	for i := range w.spec.Layouts {
		l := &w.spec.Layouts[i]
		switch {
		case l.Threads == 0 && !l.Keys["cores"]:
			w.addNote(l.Name, "no_limit", "neither threads nor cores of a node are said, so no leaf ever waits: write threads: 4 and cores: 4")
		case l.Threads > 1 && !l.Keys["cores"]:
			w.addNote(l.Name, "no_cores", "cores are not said, so each of %d threads has one of its own: write cores: %d if that is so, or as many as there are", l.Threads, l.Threads)
		case l.Cores > 0 && float64(l.Threads) > l.Cores:
			w.addNote(l.Name, "threads", "%d threads share %g cores of a node, so leaves slow each other once more than that run: that is simulated, with all of a leaf's time on a core but what waits says; if leaves were measured while as many ran, they have it in them twice: measure them one at a time, or write cores: %d", l.Threads, l.Cores, l.Threads)
		case l.Cores > 0 && l.Threads == 0:
			w.addNote(l.Name, "threads", "threads are not said, so any number of leaves share %g cores of a node: write threads: 4 if they take turns", l.Cores)
		}
		w.size(l)
	}
}

// size warns of leaves that were measured at other sizes of shards.
func (w *warner) size(l *spec.Layout) {
	shards := float64(l.InShards())
	far := map[string][]string{} // classes by where they were measured
	for _, c := range w.measured.Model.Classes {
		least, most := c.Sizes[0].Shards, c.Sizes[len(c.Sizes)-1].Shards
		if least > 0 && (shards > 2*most || shards < least/2) {
			far[between(least, most)] = append(far[between(least, most)], c.Name)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(far)) {
		w.addNote(l.Name, "extrapolated", "leaves of %s were measured at %s, less than half or more than twice as many: how their time follows their size is a guess so far away", measured.Names(far[at]), at)
	}
}

func between(least, most float64) string {
	if least == most {
		return fmt.Sprintf("%g shards", least)
	}
	return fmt.Sprintf("%g to %g shards", least, most)
}

// after checks the result of a layout, and removes figures that were not observed.
func (w *warner) after(r *simulate.Result) {
	for _, text := range r.Warnings {
		w.like(r.Name, "simulation", figures.ReplaceAllString(text, "#"), text)
	}
	if !r.Stable {
		w.unstable = append(w.unstable, r.Name)
		w.why = r.Why
	}
	w.busy = max(w.busy, zeroIfNone(r.Utilisation))
	for _, name := range slices.Sorted(maps.Keys(r.Quantiles)) {
		if q := probability(name); q > w.spec.Asks {
			w.beyond(r, name, q)
		}
	}
}

func zeroIfNone(v api.Float) float64 {
	if math.IsNaN(float64(v)) {
		return 0
	}
	return float64(v)
}

func probability(name string) float64 {
	var q float64
	if _, err := fmt.Sscanf(name, "%g", &q); err != nil {
		return 1
	}
	return q
}

// beyond removes a quantile that hardly any observation reaches, and warns of one
// that few do.
func (w *warner) beyond(r *simulate.Result, name string, q float64) {
	need := simulate.Needs(q, r.Shards)
	for i, c := range w.measured.Model.Classes {
		n := w.measured.Leaves[i].Observations
		if n == 0 || n >= need || c.Weight < 1-q {
			continue
		}
		none := api.Float(math.NaN())
		if n < need/10 {
			r.Quantiles[name], r.NoQueue[name] = api.ScalingValue{Value: none, Low: none, High: none}, none
			w.like(r.Name, "beyond", "out "+name, fmt.Sprintf("%s of queries is left out: it takes %d observations of leaves of %s, and there are %d", figure.Percentile(q), need, c.Name, n))
		} else {
			w.like(r.Name, "beyond", "few "+name, fmt.Sprintf("%s of queries rests on the few slowest of %d leaves of %s: %d would be enough", figure.Percentile(q), n, c.Name, need))
		}
		return
	}
}

// last adds the last notes.
func (w *warner) last() {
	if len(w.unstable) > 0 {
		w.warn("unstable", "%s cannot keep up: %s; lower the rate, or give more nodes, threads, cores or speed", named(w.unstable, len(w.spec.Layouts)), w.why)
	}
	for _, n := range w.notes {
		switch {
		case len(w.spec.Layouts) == 1:
			w.warn(n.code, "%s", n.text)
		case n.differ:
			w.warn(n.code, "%s: %s; so it is, with other figures, of %s", n.layouts[0], n.text, more(len(n.layouts)-1))
		default:
			w.warn(n.code, "%s: %s", named(n.layouts, len(w.spec.Layouts)), n.text)
		}
	}
	stored := slices.ContainsFunc(w.spec.Leaves, func(l spec.Leaf) bool {
		return slices.ContainsFunc(l.From, func(f spec.From) bool { return f.Service != "" })
	})
	if stored && w.busy > 0.5 {
		w.warn("measured_waiting", "what leaves waited for a thread where they were measured is in their durations, and is simulated once more: at %.0f %% utilisation that makes queries look slower than they would be; measure leaves when there is little load", 100*w.busy)
	}
}

func more(n int) string {
	if n == 1 {
		return "one more layout"
	}
	return fmt.Sprintf("%d more layouts", n)
}

// named lists layouts: of many the first and their number.
func named(layouts []string, of int) string {
	switch n := len(layouts); {
	case n == of && of > 1:
		return "every layout"
	case n > 4:
		return fmt.Sprintf("%s and %d more layouts", strings.Join(layouts[:3], "; "), n-3)
	}
	return strings.Join(layouts, "; ")
}
