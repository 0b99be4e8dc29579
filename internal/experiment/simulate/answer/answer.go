// Package answer plays a simulation from a file, layout by layout, and writes the
// result: the figures, a sentence on them, and what a reader has to mind.
//
// The first layout is the reference for the others. Whether one is better is judged
// by the intervals of both: a difference within them is not called a gain.
package answer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/measured"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/figure"
	"tailscope/internal/query"
)

// Options configures a run.
type Options struct {
	Now     func() time.Time // default time.Now
	Workers int              // cores; 2 if 0; what comes out does not depend on it
	// Most bounds the leaves that are simulated, counted as Work does; 0 is no bound.
	Most float64
	// Progress is called with the number of layouts that are done, and of all,
	// whenever one begins or is done, one call at a time.
	Progress func(done, of int, name string)
	Command  string // that makes it again
}

// Bounds of the layouts whose work is kept, and of the units of each.
const (
	mostWatched = 10
	watched     = 200
)

// Work returns the number of leaves that a simulation has to play; one that is
// simulated event by event counts as ten.
func Work(s *spec.Spec) float64 {
	all := 0.0
	for i := range s.Layouts {
		l := &s.Layouts[i]
		each := 1.0
		if l.Cores > 0 || l.Hedge.After > 0 || l.Hedge.Quantile > 0 || l.Arrivals == simulate.Closed || l.Pick == simulate.Least {
			each = 10
		}
		all += each * float64(s.Queries) * 1.1 * float64(l.InShards()+4)
	}
	return all
}

// Play plays every layout. It returns the context's error, one that wraps
// simulate.ErrInvalid, or one about too much work.
func Play(ctx context.Context, s *spec.Spec, m *measured.Measured, o Options) (*api.Simulation, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if work := Work(s); o.Most > 0 && work > o.Most {
		return nil, query.Invalid("file", "these layouts and queries are the work of %.2g leaves, more than the %.2g that are simulated here; write fewer with queries: 20k, vary fewer values, or run tailscope simulate FILE on a machine of your own", work, o.Most)
	}
	begin := o.Now()
	out := &api.Simulation{
		Format: 1, Name: s.Name, Service: m.Service, Command: o.Command, File: s.Text, Seed: s.Seed, Start: api.UnixTime(begin), Variable: s.Variable,
		Leaves: m.Leaves, Layouts: []api.SimulationLayout{}, Warnings: slices.Clone(m.Warnings),
	}
	w := &warner{spec: s, measured: m, out: out}
	w.before()
	results, err := playAll(ctx, s, m, o)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		w.after(r)
		out.Layouts = append(out.Layouts, r.SimulationLayout)
	}
	w.last()
	if out.Warnings == nil {
		out.Warnings = []api.CompareWarning{}
	}
	end := o.Now()
	out.End, out.Seconds = api.UnixTime(end), api.Float(end.Sub(begin).Seconds())
	out.Headline = headline(s, out.Layouts)
	return out, nil
}

// Bounds of all layouts that are played at the same time: the queries in memory, and
// the distributions, which take up to 64 KB each.
const (
	mostQueries = 4_000_000
	mostTables  = 4000
)

// playAll plays layouts, as many at once as there are cores: one that is simulated
// event by event uses only one. The result does not depend on it.
func playAll(ctx context.Context, s *spec.Spec, m *measured.Measured, o Options) ([]*simulate.Result, error) {
	workers := o.Workers
	if workers <= 0 {
		workers = 2
	}
	tables := 1
	for _, c := range m.Model.Classes {
		tables += len(c.Sizes[0].Slots)
	}
	together := max(1, min(workers, len(s.Layouts), int(mostQueries/max(1, s.Queries)), mostTables/tables))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(together)
	shown, results := watch(s), make([]*simulate.Result, len(s.Layouts))
	var lock sync.Mutex
	done := 0
	progress := func(more int, name string) {
		lock.Lock()
		defer lock.Unlock()
		done += more
		if o.Progress != nil {
			o.Progress(done, len(s.Layouts), name)
		}
	}
	for i := range s.Layouts {
		work.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			l := &s.Layouts[i]
			progress(0, l.Name)
			run := simulate.Options{Queries: s.Queries, Seed: s.Seed, Workers: (workers + together - 1) / together}
			if shown[i] {
				run.Units = watched
			}
			r, err := simulate.Run(ctx, m.Model, l.Layout, run)
			if err != nil {
				return err
			}
			r.Curve, r.Latency = l.Curve, nil // which would be kept for all layouts
			results[i] = r
			progress(1, l.Name)
			return nil
		})
	}
	return results, work.Wait()
}

// watch chooses the layouts whose work is kept: the first and the last of each curve,
// and some between at equal distances.
func watch(s *spec.Spec) []bool {
	out := make([]bool, len(s.Layouts))
	n := len(out)
	if n <= mostWatched {
		for i := range out {
			out[i] = true
		}
		return out
	}
	left := mostWatched
	take := func(i int) {
		if left > 0 && !out[i] {
			out[i] = true
			left--
		}
	}
	for i := range s.Layouts {
		if i == 0 || i == n-1 || s.Layouts[i].Curve != s.Layouts[i-1].Curve || s.Layouts[i].Curve != s.Layouts[i+1].Curve {
			take(i)
		}
	}
	for k := range mostWatched {
		take(k * (n - 1) / (mostWatched - 1))
	}
	return out
}

// QuantileKey returns the key of q in Quantiles, or of the nearest below that they
// have.
func QuantileKey(q float64) string {
	best := "0.5"
	for _, k := range []struct {
		name string
		q    float64
	}{{"0.75", 0.75}, {"0.9", 0.9}, {"0.95", 0.95}, {"0.99", 0.99}, {"0.999", 0.999}} {
		if k.q <= q+1e-12 {
			best = k.name
		}
	}
	return best
}

// headline compares the layouts in a sentence, by the quantile of the simulation.
func headline(s *spec.Spec, layouts []api.SimulationLayout) string {
	key := QuantileKey(s.Asks)
	name := "p" + map[string]string{"0.5": "50", "0.75": "75", "0.9": "90", "0.95": "95", "0.99": "99", "0.999": "99.9"}[key]
	value := func(l *api.SimulationLayout) api.ScalingValue { return l.Quantiles[key] }
	var stable []*api.SimulationLayout
	for i := range layouts {
		if layouts[i].Stable && !math.IsNaN(float64(value(&layouts[i]).Value)) {
			stable = append(stable, &layouts[i])
		}
	}
	switch {
	case len(stable) == 0 && len(layouts) == 1:
		return layouts[0].Name + " cannot keep up: " + layouts[0].Why
	case len(stable) == 0:
		return fmt.Sprintf("none of %d layouts can keep up: %s", len(layouts), layouts[len(layouts)-1].Why)
	}
	first := stable[0]
	v := value(first)
	out := fmt.Sprintf("%s of queries is %s%s with %s", name, figure.Seconds(float64(v.Value)), interval(v), first.Name)
	best := first
	for _, l := range stable {
		if b := value(l); float64(b.High) < float64(v.Low) && b.Value < value(best).Value {
			best = l
		}
	}
	switch b := value(best); {
	case best != first:
		out += fmt.Sprintf("; surely lower, and lowest, with %s: %s%s, %.0f %% less", best.Name, figure.Seconds(float64(b.Value)), interval(b), 100*(1-float64(b.Value/v.Value)))
	case len(stable) > 1 && math.IsNaN(float64(v.Low)):
		out += "; too few queries for its interval, so of no other layout it is sure that it is faster: simulate more"
	case len(stable) > 1:
		out += fmt.Sprintf("; no other of %d layouts is surely faster", len(stable))
	}
	if flats := stairs(s, layouts, key); len(flats) > 0 {
		curve := ""
		if c := layouts[0].Curve; c != "" {
			curve = ", " + c + ","
		}
		out += fmt.Sprintf("; %s %s%s nothing is gained", strings.Join(flats, " and "), s.Variable, curve)
	}
	if n := len(layouts) - len(stable); n > 0 {
		out += fmt.Sprintf("; %d of %d layouts cannot keep up", n, len(layouts))
	}
	return out
}

// flat is the relative fall of a quantile that counts as a gain.
const flat = 0.05

// long is the growth of the varied key over which a stretch without gain is named.
const long = 1.2

// stairs finds the stretches of the first curve without a gain, although the varied
// key grows: from 4 to 7 nodes.
func stairs(s *spec.Spec, layouts []api.SimulationLayout, key string) (out []string) {
	if !slices.Contains([]string{"nodes", "threads", "cores", "aggregator.nodes"}, s.Variable) {
		return nil
	}
	value := func(i int) float64 { return float64(layouts[i].Quantiles[key].Value) }
	same := func(i, j int) bool {
		a, b := &layouts[i], &layouts[j]
		return a.Stable && b.Stable && a.X > 0 && b.X > layouts[j-1].X && a.Curve == layouts[0].Curve && b.Curve == a.Curve && value(j) >= (1-flat)*value(i)
	}
	var flats [][2]int
	for i := 0; i < len(layouts); {
		j := i
		for j+1 < len(layouts) && same(i, j+1) {
			j++
		}
		if float64(layouts[j].X/layouts[i].X) >= long {
			flats = append(flats, [2]int{i, j})
		}
		i = max(j, i+1)
	}
	for k, f := range flats {
		// Adjacent stretches without a step between are a slow gain.
		if k > 0 && flats[k-1][1] == f[0] || k+1 < len(flats) && f[1] == flats[k+1][0] {
			continue
		}
		out = append(out, fmt.Sprintf("from %g to %g", layouts[f[0]].X, layouts[f[1]].X))
	}
	return out[:min(3, len(out))]
}

func interval(v api.ScalingValue) string {
	if math.IsNaN(float64(v.Low)) || math.IsNaN(float64(v.High)) {
		return ""
	}
	return fmt.Sprintf(" (95 %% interval %s … %s)", figure.Seconds(float64(v.Low)), figure.Seconds(float64(v.High)))
}
