package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

// Read reads a file. With any problem the spec is nil, and the problems are complete.
func Read(name string, content []byte) (*Spec, []strictyaml.Problem) {
	var p strictyaml.Problems
	tree := strictyaml.Parse(name, content, &p, "what layouts share goes under layout")
	if tree == nil || p.Len() > 0 {
		return nil, p.Sorted()
	}
	var raw file
	d := &strictyaml.Decoder{Problems: &p, Leaves: leaves}
	d.Decode("simulation", tree, &raw)
	s := &raw.Spec
	s.Text = string(content)
	r := &reader{d: d, problems: &p, spec: s, top: d.Node(&raw).At}
	r.leaves(raw.Leaves)
	(&layouts{reader: r, raw: &raw}).read()
	if p.Len() > 0 {
		return nil, p.Sorted()
	}
	return s, nil
}

type reader struct {
	d        *strictyaml.Decoder
	problems *strictyaml.Problems
	spec     *Spec
	top      strictyaml.Place
}

// add notes a problem at a field, or at a place if the field is missing.
func (r *reader) add(field any, otherwise strictyaml.Place, hint, format string, args ...any) {
	if n := r.d.Node(field); n != nil {
		otherwise = n.At
	}
	r.problems.Add(otherwise, hint, format, args...)
}

func (r *reader) leaves(raws []leaf) {
	if len(raws) == 0 && r.problems.Len() == 0 {
		r.problems.Add(r.top, "write leaves: [{from: {service: solr}}] or leaves: [{from: {takes: 5ms}}]", "leaves has no entry")
		return
	}
	if n := len(raws); n > mostLeaves {
		r.problems.Add(r.top, "leave out the rarest", "%d entries of leaves are more than %d", n, mostLeaves)
		return
	}
	names := map[string]bool{}
	for i := range raws {
		raw := &raws[i]
		if r.d.Node(raw) == nil {
			continue
		}
		l := &raw.Leaf
		l.At = r.d.Node(raw).At
		for _, field := range []*float64{&l.Weight, &l.Together} {
			if !r.d.OK(field) {
				*field = nan
			}
		}
		if l.Name != "" && names[l.Name] {
			r.add(&raw.Name, l.At, "give each class a name of its own", "two classes are named %s", l.Name)
		}
		names[l.Name] = true
		for j := range raw.From.All {
			if f := raw.From.All[j]; r.from(f, len(raw.From.All) > 1) {
				l.From = append(l.From, f.From)
			}
		}
		slices.SortStableFunc(l.From, func(a, b From) int { return a.Shards - b.Shards })
		for j := 1; j < len(l.From); j++ {
			if l.From[j].Shards == l.From[j-1].Shards {
				r.problems.Add(l.From[j].At, "measure at another number of shards, or leave one out", "two sources of a class are of %d shards", l.From[j].Shards)
			}
		}
		if r.d.Given(&raw.Fixed) && len(l.From) > 1 {
			r.add(&raw.Fixed, l.At, "leave it out", "what does not shrink follows from the sizes that were measured")
		}
		r.spec.Leaves = append(r.spec.Leaves, *l)
	}
}

// from checks a source, and makes the distribution that it may have.
func (r *reader) from(raw *from, several bool) bool {
	f := &raw.From
	f.At = r.d.Node(raw).At
	before := r.problems.Len()
	const write = "write one of {service: solr}, {file: leaf.json} and {takes: 5ms}"
	switch given := count(f.Service != "", f.File != "", raw.Takes != nil); {
	case given == 0:
		r.problems.Add(f.At, write, "from says nothing of where durations are from")
	case given > 1:
		r.problems.Add(f.At, write, "from names two sources")
	}
	for _, of := range []struct {
		field      any
		key, needs string
		ok         bool
	}{
		{&raw.Operation, "operation", "service", f.Service != ""}, {&raw.Match, "match", "service", f.Service != ""}, {&raw.Since, "since", "service", f.Service != ""},
		{&raw.Start, "start", "service", f.Service != ""}, {&raw.End, "end", "service", f.Service != ""}, {&raw.Every, "every", "service", f.Service != ""},
		{&raw.Query, "query", "file", f.File != ""},
	} {
		if r.d.Given(of.field) && !of.ok {
			r.add(of.field, f.At, "leave it out", "%s is of a %s, which is not given", of.key, of.needs)
		}
	}
	if r.d.Given(&raw.Since) && r.d.Given(&raw.Start) {
		r.add(&raw.Since, f.At, "keep one of the two", "since and start both say where to begin")
	}
	if f.Since < 0 || r.d.OK(&raw.Since) && f.Since == 0 {
		r.add(&raw.Since, f.At, "write one such as 1h", "since is nothing")
	}
	if several && !r.d.OK(&raw.Shards) {
		r.problems.Add(f.At, "write shards: 8 beside each source", "several sources of one class are of several numbers of shards, and this one does not say of how many")
	}
	if raw.Takes != nil {
		f.Takes, f.Said = r.takes(raw.Takes)
		if f.Takes != nil && f.Takes.Max() == 0 {
			r.problems.Add(r.d.Node(raw.Takes).At, "write how long, such as 5ms", "leaves that take no time have nothing to be simulated")
		}
	}
	return r.problems.Len() == before
}

func count(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// takes returns the distribution that is written down, and its description.
func (r *reader) takes(raw *takes) (*simulate.Distribution, string) {
	at := r.top
	if n := r.d.Node(raw); n != nil {
		at = n.At
	}
	if n := count(r.d.Given(&raw.Constant), r.d.Given(&raw.Exponential), raw.Lognormal != nil, raw.Quantiles != nil); n != 1 {
		r.problems.Add(at, "write one of constant, exponential, lognormal and quantiles", "%d distributions are given", n)
		return nil, ""
	}
	wrong := func(field any, err error) (*simulate.Distribution, string) {
		r.add(field, at, "", "%v", err)
		return nil, ""
	}
	switch l := raw.Lognormal; {
	case r.d.Given(&raw.Constant):
		return simulate.Constant(raw.Constant), "always " + r.d.S(&raw.Constant)
	case r.d.Given(&raw.Exponential):
		if r.d.OK(&raw.Exponential) && raw.Exponential == 0 {
			return wrong(&raw.Exponential, fmt.Errorf("a mean of 0 is not a distribution: write one such as 5ms"))
		}
		return simulate.Exponential(raw.Exponential), "exponential, mean " + r.d.S(&raw.Exponential)
	case l != nil:
		median, p99 := l.Median, l.P99
		if !r.d.OK(&l.Median) || !r.d.OK(&l.P99) { // which is said
			return nil, ""
		}
		if !(median > 0 && p99 >= median) {
			return wrong(&l.P99, fmt.Errorf("p99 is below the median, or that is nothing: write {median: 4ms, p99: 30ms}"))
		}
		const z99 = 2.3263478740408408
		sigma := math.Log(p99/median) / z99
		d, err := simulate.FromInverse(func(p float64) float64 {
			return median * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*p-1))
		})
		if err != nil {
			return wrong(&l.P99, err)
		}
		return d, "log-normal, median " + r.d.S(&l.Median) + ", p99 " + r.d.S(&l.P99)
	}
	type point struct {
		p, x float64
		node *node
	}
	var points []point
	for name, x := range raw.Quantiles {
		n := r.d.Node(&raw.Quantiles).Get(name)
		q := quantile(map[string]float64{"max": 1}[name])
		if name != "min" && name != "max" {
			if err := q.ReadText(name); err != nil {
				r.problems.Add(n.At, "", "quantiles: %v", err)
				return nil, ""
			}
		}
		points = append(points, point{float64(q), x, n})
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.p, b.p) })
	var p, x []float64
	var said []string
	for _, of := range points {
		p, x = append(p, of.p), append(x, of.x)
		said = append(said, of.node.Text)
		if n := len(x); n > 1 && x[n-1] < x[n-2] {
			r.problems.Add(of.node.At, "", "quantiles do not rise: %s comes after a longer one", of.node.Text)
			return nil, ""
		}
	}
	if len(p) < 2 || p[0] != 0 || p[len(p)-1] != 1 {
		r.problems.Add(at, "write {quantiles: {min: 1ms, p50: 4ms, p99: 30ms, max: 90ms}}", "quantiles need min and max")
		return nil, ""
	}
	d, err := simulate.FromQuantiles(p, x)
	if err != nil {
		return wrong(nil, err)
	}
	return d, "by quantiles, " + strings.Join(said, " ")
}
