package words

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/simulate"
	"tailscope/internal/strictyaml"
)

// Read reads a file. With any problem the spec is nil; problems are all there are.
func Read(name string, content []byte) (*Spec, []strictyaml.Problem) {
	var p strictyaml.Problems
	tree := strictyaml.Parse(name, content, &p, "what layouts share goes under layout")
	if tree == nil || p.Len() > 0 {
		return nil, p.Sorted()
	}
	var raw rawFile
	d := strictyaml.Decoder{Problems: &p, Kinds: kinds}
	d.Decode("simulation", tree, &raw)
	s := &Spec{Name: raw.Simulate.S(), Text: string(content), Asks: 0.99, Moments: raw.Moments.Or(All), Queries: 100_000, Seed: 1, Currency: raw.Currency.S()}
	if raw.Asks.OK {
		s.Asks = raw.Asks.Number
	}
	if raw.Queries.OK {
		s.Queries = uint64(raw.Queries.Int)
	}
	if raw.Seed.OK {
		s.Seed, _ = strconv.ParseUint(raw.Seed.S(), 10, 64)
	}
	r := &reader{problems: &p, spec: s, top: raw.Node.At}
	r.leaves(raw.Leaves)
	(&layouts{reader: r, d: &d, raw: &raw}).read()
	if p.Len() > 0 {
		return nil, p.Sorted()
	}
	return s, nil
}

type reader struct {
	problems *strictyaml.Problems
	spec     *Spec
	top      strictyaml.Place
}

// add notes a problem at a scalar, or at a place if it was not given.
func (r *reader) add(t text, otherwise strictyaml.Place, hint, format string, args ...any) {
	if t.Node != nil {
		otherwise = t.Node.At
	}
	r.problems.Add(otherwise, hint, format, args...)
}

func (r *reader) leaves(raws []rawLeaf) {
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
		if raw.Node == nil {
			continue
		}
		l := Leaf{Name: raw.Name.S(), Weight: nan, Together: nan, Fixed: raw.Fixed.Number, Waits: raw.Waits.Number, Before: raw.Before.cost(), After: raw.After.cost(), At: raw.Node.At}
		if raw.Weight.OK {
			l.Weight = raw.Weight.Number
		}
		if raw.Together.OK {
			l.Together = raw.Together.Number
		}
		if l.Name != "" && names[l.Name] {
			r.add(raw.Name, l.At, "give each class a name of its own", "two classes are named %s", l.Name)
		}
		names[l.Name] = true
		for j := range raw.From.All {
			if f, ok := r.from(&raw.From.All[j], len(raw.From.All) > 1); ok {
				l.From = append(l.From, f)
			}
		}
		slices.SortStableFunc(l.From, func(a, b From) int { return int(a.Shards - b.Shards) })
		for j := 1; j < len(l.From); j++ {
			if l.From[j].Shards == l.From[j-1].Shards {
				r.problems.Add(l.From[j].At, "measure at another number of shards, or leave one out", "two sources of a class are of %g shards", l.From[j].Shards)
			}
		}
		if raw.Fixed.Given() && len(l.From) > 1 {
			r.add(raw.Fixed, l.At, "leave it out", "what does not shrink follows from the sizes that were measured")
		}
		r.spec.Leaves = append(r.spec.Leaves, l)
	}
}

func (r *reader) from(raw *rawFrom, several bool) (From, bool) {
	f := From{
		Service: raw.Service.S(), Operation: raw.Operation.S(), Match: raw.Match.S(), Since: raw.Since.Duration, Every: raw.Every.Duration,
		Start: raw.Start.S(), End: raw.End.S(), File: raw.File.S(), Query: raw.Query.S(), Shards: float64(raw.Shards.Int), At: raw.Node.At,
	}
	before := r.problems.Len()
	const write = "write one of {service: solr}, {file: leaf.json} and {takes: 5ms}"
	switch given := count(f.Service != "", f.File != "", raw.Takes != nil); {
	case given == 0:
		r.problems.Add(f.At, write, "from says nothing of where durations are from")
	case given > 1:
		r.problems.Add(f.At, write, "from names two sources")
	}
	for _, of := range []struct {
		text
		key, needs string
		ok         bool
	}{
		{raw.Operation, "operation", "service", f.Service != ""}, {raw.Match, "match", "service", f.Service != ""}, {raw.Since, "since", "service", f.Service != ""},
		{raw.Start, "start", "service", f.Service != ""}, {raw.End, "end", "service", f.Service != ""}, {raw.Every, "every", "service", f.Service != ""},
		{raw.Query, "query", "file", f.File != ""},
	} {
		if of.Given() && !of.ok {
			r.add(of.text, f.At, "leave it out", "%s is of a %s, which is not given", of.key, of.needs)
		}
	}
	if raw.Since.Given() && raw.Start.Given() {
		r.add(raw.Since, f.At, "keep one of the two", "since and start both say where to begin")
	}
	if f.Since < 0 || raw.Since.OK && f.Since == 0 {
		r.add(raw.Since, f.At, "write one such as 1h", "since is nothing")
	}
	if several && !raw.Shards.OK {
		r.problems.Add(f.At, "write shards: 8 beside each source", "several sources of one class are of several numbers of shards, and this one does not say of how many")
	}
	if raw.Takes != nil {
		f.Takes, f.Said = r.takes(raw.Takes)
		if f.Takes != nil && f.Takes.Max() == 0 {
			r.problems.Add(raw.Takes.Node.At, "write how long, such as 5ms", "leaves that take no time have nothing to be simulated")
		}
	}
	return f, r.problems.Len() == before
}

func count(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// takes makes the distribution that is written down, and says it.
func (r *reader) takes(raw *rawTakes) (*simulate.Distribution, string) {
	at := r.top
	if raw.Node != nil {
		at = raw.Node.At
	}
	if n := count(raw.Constant.Given(), raw.Exponential.Given(), raw.Lognormal != nil, raw.Quantiles != nil); n != 1 {
		r.problems.Add(at, "write one of constant, exponential, lognormal and quantiles", "%d distributions are given", n)
		return nil, ""
	}
	wrong := func(t text, err error) (*simulate.Distribution, string) {
		r.add(t, at, "", "%v", err)
		return nil, ""
	}
	switch l := raw.Lognormal; {
	case raw.Constant.Given():
		return simulate.Constant(raw.Constant.Number), "always " + raw.Constant.S()
	case raw.Exponential.Given():
		if raw.Exponential.OK && raw.Exponential.Number == 0 {
			return wrong(raw.Exponential, fmt.Errorf("a mean of 0 is not a distribution: write one such as 5ms"))
		}
		return simulate.Exponential(raw.Exponential.Number), "exponential, mean " + raw.Exponential.S()
	case l != nil:
		median, p99 := l.Median.Number, l.P99.Number
		if !l.Median.OK || !l.P99.OK { // which is said
			return nil, ""
		}
		if !(median > 0 && p99 >= median) {
			return wrong(l.P99, fmt.Errorf("p99 is below the median, or that is nothing: write {median: 4ms, p99: 30ms}"))
		}
		const z99 = 2.3263478740408408
		sigma := math.Log(p99/median) / z99
		d, err := simulate.FromInverse(func(p float64) float64 {
			return median * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*p-1))
		})
		if err != nil {
			return wrong(l.P99, err)
		}
		return d, "log-normal, median " + l.Median.S() + ", p99 " + l.P99.S()
	}
	type point struct {
		p float64
		t text
	}
	var points []point
	for name, t := range raw.Quantiles {
		q := text{Number: map[string]float64{"max": 1}[name]}
		if name != "min" && name != "max" {
			if message, hint := readQuantile(&q, name); message != "" {
				r.add(t, at, hint, "quantiles: %s", message)
				return nil, ""
			}
		}
		points = append(points, point{q.Number, t})
	}
	slices.SortFunc(points, func(a, b point) int {
		if a.p < b.p {
			return -1
		}
		return 1
	})
	var p, x []float64
	var said []string
	for _, of := range points {
		p, x = append(p, of.p), append(x, of.t.Number)
		said = append(said, of.t.S())
		if n := len(x); n > 1 && x[n-1] < x[n-2] {
			return wrong(of.t, fmt.Errorf("quantiles do not rise: %s comes after a longer one", of.t.S()))
		}
	}
	if len(p) < 2 || p[0] != 0 || p[len(p)-1] != 1 {
		r.problems.Add(at, "write {quantiles: {min: 1ms, p50: 4ms, p99: 30ms, max: 90ms}}", "quantiles need min and max")
		return nil, ""
	}
	d, err := simulate.FromQuantiles(p, x)
	if err != nil {
		return wrong(text{}, err)
	}
	return d, "by quantiles, " + strings.Join(said, " ")
}

func (c *rawCost) cost() *simulate.Cost {
	if c == nil {
		return nil
	}
	return &simulate.Cost{Query: c.Query.Number, Leaf: c.Leaf.Number}
}

func (c *rawCost) or() simulate.Cost {
	if c == nil {
		return simulate.Cost{}
	}
	return *c.cost()
}
