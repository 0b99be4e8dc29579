package expr

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"tailscope/hist"
)

// value is a number or a null. A poisoned null, which Bischeck's arithmetic makes of a
// null, nulls the whole expression; a plain null is left out of lists.
type value struct {
	v    float64
	null nullness
}

type nullness uint8

const (
	present nullness = iota
	null
	poison
)

// evaluation is one run of a program, with memory that the next one uses again.
// What grows by a part of an expression shrinks again before it is left.
type evaluation struct {
	ctx     context.Context
	history History
	at      time.Time
	vars    map[string]float64
	nulls   Nulls
	program *Program
	looked  int // samples

	samples []Sample
	most    int // of samples ever
	values  []float64
	merged  *hist.Histogram

	trace  bool
	steps  []Step
	step   int // the latest, -1 if it was left out
	depth  int
	length int // of the steps' texts together
}

var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

func (p *Program) eval(ctx context.Context, h History, at time.Time, o EvalOptions) (Result, error) {
	e := evaluations.Get().(*evaluation)
	r, err := e.run(ctx, p, h, at, o)
	if e.release() {
		evaluations.Put(e)
	}
	return r, err
}

func (e *evaluation) run(ctx context.Context, p *Program, h History, at time.Time, o EvalOptions) (Result, error) {
	e.ctx, e.history, e.at, e.vars, e.nulls, e.trace, e.program = ctx, h, at, o.Vars, o.Nulls, o.Steps, p
	v, err := e.number(p.root)
	r := Result{Value: v.v, Null: v.null != present, Steps: inOrder(e.steps)}
	if err != nil || r.Null {
		r.Value, r.Null = math.NaN(), true
	}
	return r, err
}

// release drops references to what others own, and reports whether the memory is little
// enough to be kept.
func (e *evaluation) release() bool {
	const keep = 1 << 14
	if e.most > keep || cap(e.values) > keep {
		return false
	}
	clear(e.samples[:e.most])
	*e = evaluation{samples: e.samples[:0], values: e.values[:0], merged: e.merged}
	return true
}

// number evaluates a part that is one number.
func (e *evaluation) number(n *node) (value, error) {
	if !e.trace || n.op == opNumber || n.op == opNull {
		return e.compute(n)
	}
	i := e.begin(n)
	v, err := e.compute(n)
	e.end(i, v, err)
	return v, err
}

func (e *evaluation) compute(n *node) (value, error) {
	switch n.op {
	case opNumber:
		return value{v: n.number}, nil
	case opNull:
		return value{null: null}, nil
	case opVariable:
		v, ok := e.vars[n.name]
		if !ok {
			v = math.NaN()
		}
		return e.leaf(v), nil
	case opSelect:
		return e.one(n)
	case opCall, opIf:
		return e.call(n)
	}
	a, err := e.number(n.args[0])
	if err != nil {
		return value{}, err
	}
	b := value{}
	if len(n.args) > 1 {
		if b, err = e.number(n.args[1]); err != nil {
			return value{}, err
		}
	}
	if a.null|b.null != present {
		return value{null: e.computed()}, nil
	}
	return finite(operate(n.op, a.v, b.v)), nil
}

// computed is the null that arithmetic and comparisons make of a null.
func (e *evaluation) computed() nullness {
	if e.program.old {
		return poison
	}
	return null
}

func operate(o op, a, b float64) float64 {
	switch o {
	case opNegate:
		return -a
	case opAdd:
		return a + b
	case opSubtract:
		return a - b
	case opMultiply:
		return a * b
	case opDivide:
		return a / b
	case opModulo:
		return math.Mod(a, b)
	case opPower:
		return math.Pow(a, b)
	}
	var yes bool
	switch o {
	case opNot:
		yes = a == 0
	case opLess:
		yes = a < b
	case opLessEqual:
		yes = a <= b
	case opGreater:
		yes = a > b
	case opGreaterEqual:
		yes = a >= b
	case opEqual:
		yes = a == b
	case opUnequal:
		yes = a != b
	case opAnd:
		yes = a != 0 && b != 0
	case opOr:
		yes = a != 0 || b != 0
	}
	if yes {
		return 1
	}
	return 0
}

// finite makes null of what is not a finite number, such as 1/0.
func finite(v float64) value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return value{null: null}
	}
	return value{v: v}
}

// leaf returns a value that was looked up; under zero a null is 0.
func (e *evaluation) leaf(v float64) value {
	r := finite(v)
	if r.null != present && e.nulls == Zero {
		return value{}
	}
	return r
}

// look appends what n selects to the samples and returns it. The caller cuts
// e.samples back to where they were.
func (e *evaluation) look(n *node) ([]Sample, error) {
	mark := len(e.samples)
	samples, err := e.history.Look(e.ctx, n.selector, e.at, e.samples)
	if err != nil {
		return nil, err
	}
	e.samples = samples
	e.most = max(e.most, len(samples))
	e.looked += len(samples) - mark
	if e.looked > MaxSamples {
		return nil, e.fail(n, fmt.Sprintf("this looks up more than %d samples", MaxSamples), "ask for less of the past, or for the value of a check that does")
	}
	return samples[mark:], nil
}

// one evaluates a selector of one sample.
func (e *evaluation) one(n *node) (value, error) {
	mark := len(e.samples)
	samples, err := e.look(n)
	if err != nil {
		return value{}, err
	}
	e.samples = e.samples[:mark]
	v := math.NaN()
	if len(samples) > 0 {
		s := &samples[0]
		if s.Dist != nil {
			return value{}, e.fail(n, n.selector.Text+" is a distribution, not a number", "write p99("+n.selector.Text+"), or avg, count, above …")
		}
		if !s.Null {
			v = s.Value
		}
		if e.trace {
			e.found(n, s)
		}
	}
	return e.leaf(v), nil
}

// call evaluates a function.
func (e *evaluation) call(n *node) (value, error) {
	policy := e.nulls
	defer func() { e.nulls = policy }()
	f := n.function
	if f.Null == NeverNull {
		e.nulls = Skip // so that what is not there is seen as null
	}
	switch {
	case f.shape == takesBranches:
		return e.branch(n)
	case f.shape == takesAny:
		return e.special(n, policy)
	case f.number != nil:
		return e.callNumbers(n)
	case n.old != nil:
		return e.oldTrend(n)
	case f.timed != nil:
		return e.callTimed(n)
	}
	return e.list(n)
}

func (e *evaluation) branch(n *node) (value, error) {
	c, err := e.number(n.args[0])
	switch {
	case err != nil:
		return value{}, err
	case c.null != present:
		return value{null: e.computed()}, nil
	case c.v != 0:
		return e.number(n.args[1])
	}
	return e.number(n.args[2])
}

// special evaluates the functions that look at nulls themselves, and rand.
func (e *evaluation) special(n *node, policy Nulls) (value, error) {
	if len(n.args) == 0 {
		return value{v: random(e.at.UnixNano(), n.start)}, nil
	}
	a, err := e.number(n.args[0])
	switch {
	case err != nil:
		return value{}, err
	case len(n.args) == 1:
		if a.null == present {
			return value{v: 0}, nil
		}
		return value{v: 1}, nil
	case a.null == present:
		return a, nil
	}
	e.nulls = policy
	return e.number(n.args[1])
}

// random is the first output of SplitMix64 seeded by the moment and the place.
func random(nanos int64, place int) float64 {
	x := uint64(nanos) + uint64(place+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) * 0x1p-53
}

// callNumbers evaluates a function of single numbers.
func (e *evaluation) callNumbers(n *node) (value, error) {
	mark := len(e.values)
	defer func() { e.values = e.values[:mark] }()
	missing := present
	for _, a := range n.args {
		v, err := e.number(a)
		if err != nil {
			return value{}, err
		}
		missing |= v.null
		e.values = append(e.values, v.v)
	}
	switch {
	case missing == present:
		return finite(n.function.number(e.values[mark:])), nil
	case n.function.Name == "multNull" || n.function.Name == "divNull":
		return value{null: null}, nil // the ones that Bischeck's lists leave out
	}
	return value{null: e.computed()}, nil
}

// parameter evaluates a call's parameter.
func (e *evaluation) parameter(n *node) ([]*node, value, error) {
	values, parameter, fixed := n.split()
	if parameter == nil || parameter.op == opText {
		return values, value{v: fixed}, nil
	}
	v, err := e.number(parameter)
	return values, v, err
}

// list evaluates a function of lists, or of distributions.
func (e *evaluation) list(n *node) (value, error) {
	args, parameter, err := e.parameter(n)
	if err != nil {
		return value{}, err
	}
	mark := len(e.values)
	defer func() { e.values = e.values[:mark] }()
	g := gathered{parameter: parameter}
	for _, a := range args {
		if err := e.gather(n, a, &g); err != nil {
			return value{}, err
		}
	}
	v := e.values[mark:]
	f := n.function
	switch {
	case g.dist != nil && len(v) > g.zeros:
		return value{}, e.fail(n, n.name+" of distributions and numbers together", "measure the distribution first: avg(p99(a[0]), b[0])")
	case g.poisoned:
		return value{null: poison}, nil
	case g.parameter.null != present, g.nulls > 0 && e.nulls != Skip:
		return value{null: null}, nil
	case g.dist != nil:
		return finite(f.dist(g.dist, g.parameter.v)), nil
	case len(v) == 0 && f.shape == takesValues && f.Name == "count":
		return value{}, nil
	case len(v) == 0:
		return value{null: null}, nil
	}
	return finite(f.list(e, v, g.parameter.v)), nil
}

// gathered holds the values of a list function's arguments besides evaluation.values.
type gathered struct {
	parameter value
	nulls     int
	zeros     int // values that are 0 because there is none
	poisoned  bool
	dist      *hist.Histogram
	merged    bool // dist is evaluation.merged
}

func (e *evaluation) gather(call, a *node, g *gathered) error {
	if a.op != opSelect {
		v, err := e.number(a)
		if err != nil {
			return err
		}
		e.add(v, g)
		return nil
	}
	mark := len(e.samples)
	step := e.beginList(a)
	samples, err := e.look(a)
	if err != nil {
		e.end(step, value{null: null}, err)
		return err
	}
	for i := range samples {
		s := &samples[i]
		switch {
		case s.Dist != nil && !s.Null:
			if err := e.merge(call, a, s.Dist, g); err != nil {
				return err
			}
		case e.nulls == Zero && (s.Null || finite(s.Value).null != present):
			g.zeros++
			e.add(value{}, g)
		case s.Null:
			e.add(value{null: null}, g)
		default:
			e.add(finite(s.Value), g)
		}
	}
	if len(samples) == 0 {
		e.add(e.leaf(math.NaN()), g)
	}
	e.endList(step, a, samples)
	e.samples = e.samples[:mark]
	return nil
}

func (e *evaluation) add(v value, g *gathered) {
	if v.null == present {
		e.values = append(e.values, v.v)
		return
	}
	g.nulls++
	g.poisoned = g.poisoned || v.null == poison
}

// merge adds a distribution to those gathered.
func (e *evaluation) merge(call, a *node, d *hist.Histogram, g *gathered) error {
	if call.function.dist == nil {
		return e.fail(a, fmt.Sprintf("%s is a distribution, and there is no %s of one", a.selector.Text, call.name),
			"write p99("+a.selector.Text+"), or avg, min, max, sum, count, above, below")
	}
	if g.dist == nil {
		g.dist = d
		return nil
	}
	if !g.merged {
		if e.merged == nil {
			e.merged = hist.New(hist.MaxSchema)
		}
		e.merged.Reset(hist.MaxSchema)
		if err := e.merged.Merge(g.dist); err != nil {
			return fmt.Errorf("merge %s: %w", a.selector.Text, err)
		}
		g.dist, g.merged = e.merged, true
	}
	if err := g.dist.Merge(d); err != nil {
		return fmt.Errorf("merge %s: %w", a.selector.Text, err)
	}
	return nil
}

// callTimed evaluates a function of samples with their times.
func (e *evaluation) callTimed(n *node) (value, error) {
	values, parameter, err := e.parameter(n)
	if err != nil {
		return value{}, err
	}
	mark := len(e.samples)
	defer func() { e.samples = e.samples[:mark] }()
	points, missing, err := e.lookUpPoints(n, values[0])
	if err != nil || missing && e.nulls == Strict {
		return value{null: null}, err
	}
	return finite(n.function.timed(points, e.at, parameter.v)), nil
}

// lookUpPoints looks up numbers with their times, leaving out nulls.
func (e *evaluation) lookUpPoints(call, a *node) (points []Sample, missing bool, err error) {
	step := e.beginList(a)
	samples, err := e.look(a)
	if err != nil {
		e.end(step, value{null: null}, err)
		return nil, false, err
	}
	e.endList(step, a, samples)
	points = samples[:0]
	for i := range samples {
		s := samples[i]
		switch {
		case s.Dist != nil:
			return nil, false, e.fail(a, fmt.Sprintf("%s is of distributions, and there is no %s of them", a.selector.Text, call.name), "store a quantile of them as a check, and ask for that")
		case s.Null || finite(s.Value).null != present:
			missing = true
		default:
			points = append(points, s)
		}
	}
	return points, missing || len(points) == 0, nil
}

func (e *evaluation) fail(n *node, message, hint string) error {
	return newError(e.program.source, n.start, message, hint)
}
