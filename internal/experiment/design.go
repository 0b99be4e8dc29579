package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/units"

	"tailscope/internal/figure"
	"tailscope/internal/judge/rounds"
	"tailscope/internal/strictyaml"
)

// mostSettings bounds designs: every round measures each of them.
const mostSettings = 64

// designer derives the settings of a file, and collects its mistakes.
type designer struct {
	raw      *file
	dec      *strictyaml.Decoder
	problems *strictyaml.Problems
	x        *Experiment
	control  map[string]string
	order    []string // names of variables, as the control has them
}

func (d *designer) add(at strictyaml.Place, hint, format string, args ...any) {
	d.problems.Add(at, hint, format, args...)
}

func (d *designer) design() {
	r := d.raw
	node := d.dec.Node(r).Get("control")
	if node == nil {
		return // said
	}
	d.control = map[string]string{}
	for _, f := range node.Fields {
		if !variableName(f.Key) {
			d.add(f.At, "write letters, digits and _", "%q is not a name of a variable", f.Key)
		}
		d.control[f.Key] = r.Control[f.Key]
		d.order = append(d.order, f.Key)
	}
	if len(d.order) == 0 {
		d.add(node.At, "write the value that the variable has now: {workers: 8}", "the control has no variable")
		return
	}
	ways := 0
	for _, given := range []bool{len(r.Variants) > 0, d.dec.Given(&r.Sweep), len(r.Factors) > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		d.add(d.dec.Node(r).At, "write variants: [{NAME: VALUE}], or sweep: [VALUE, VALUE]", "the experiment has nothing beside the control")
		return
	case ways > 1:
		d.add(d.dec.Node(r).At, "keep one of variants, sweep and factors", "settings are given in more than one way")
		return
	}
	switch {
	case len(r.Factors) > 0:
		d.factorial()
	case r.Design == Factorial:
		d.add(d.dec.Node(&r.Design).At, "write factors: {NAME: [VALUE, …], NAME: [VALUE, …]}", "a factorial design needs factors")
	default:
		d.designSingle()
	}
	if len(d.x.Settings) > mostSettings { // one more than that: the rest was not looked at
		d.add(d.dec.Node(r).At, "leave some out: every round measures each", "there are more than %d settings", mostSettings)
		d.x.Settings = d.x.Settings[:mostSettings]
	}
}

// first returns the first n elements of a list.
func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

func variableName(s string) bool {
	for i, c := range s {
		if c != '_' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && (i == 0 || !(c >= '0' && c <= '9')) {
			return false
		}
	}
	return s != ""
}

// designSingle designs one variable: variants, or a sweep.
func (d *designer) designSingle() {
	r := d.raw
	if !d.dec.Given(&r.Variable) {
		d.add(d.dec.Node(r).At, "write variable: "+d.order[0], "the experiment does not say which variable changes")
		return
	}
	name := r.Variable
	if _, ok := d.control[name]; !ok {
		d.add(d.dec.Node(&r.Variable).At, strictyaml.Suggest(name, d.order), "the control has no variable %s", name)
		return
	}
	d.x.Variable, d.x.Design = name, OneVariable
	d.setting(d.control[name], name)
	if d.dec.Given(&r.Sweep) {
		d.x.Design = Sweep
		d.sweep(name)
		return
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		var changes []string
		value, at := "", strictyaml.Place{}
		if d.dec.Node(v) != nil {
			at = d.dec.Node(v).At
		}
		known := true
		for _, p := range v.values {
			old, ok := d.control[p.name]
			if !ok {
				d.add(p.at, strictyaml.Suggest(p.name, d.order), "the control has no variable %s, so that nobody knows what this is held against", p.name)
				known = false
				continue
			}
			if !equal(p.value, old) {
				changes = append(changes, p.name)
			}
			if p.name == name {
				value, at = p.value, p.at
			}
		}
		switch {
		case !known:
		case len(changes) > 1:
			d.add(at, "change one variable at a time, or write design: factorial and factors, which measures every combination", "this setting changes %s at once", figure.Listed(changes))
		case len(changes) == 0:
			d.add(at, "change its "+name+", or leave it out", "this setting is equal to the control")
		case changes[0] != name:
			d.add(at, fmt.Sprintf("write variable: %s, or change %s", changes[0], name), "this setting changes %s, but the variable is %s", changes[0], name)
		case d.has(value):
			d.add(at, "leave it out", "%s=%s is there twice", name, value)
		default:
			d.setting(value, name)
		}
	}
}

func (d *designer) has(value string) bool {
	return slices.ContainsFunc(d.x.Settings, func(s Setting) bool { return equal(s.Values[d.x.Variable], value) })
}

func (d *designer) setting(value, name string) {
	if len(d.x.Settings) > mostSettings {
		return
	}
	values := map[string]string{}
	for k, v := range d.control {
		values[k] = v
	}
	values[name] = value
	d.x.Settings = append(d.x.Settings, Setting{Name: name + "=" + value, Values: values, X: place(value)})
}

// sweep designs a sweep, which includes the control's value.
func (d *designer) sweep(name string) {
	r := &d.raw.Sweep
	var values []string
	if r.list != nil {
		for _, t := range first(r.list.values, mostSettings+1) {
			if slices.ContainsFunc(values, func(v string) bool { return equal(v, t.text) }) {
				d.add(t.at, "leave it out", "%s=%s is there twice", name, t.text)
			}
			values = append(values, t.text)
		}
	} else {
		o := r.of
		if !d.dec.OK(&o.From) || !d.dec.OK(&o.To) || !d.dec.OK(&o.Steps) {
			return // said
		}
		from, to, geometric := o.From, o.To, o.Scale == "geometric"
		switch {
		case !(from < to):
			d.add(d.dec.Node(&o.From).At, "write the least value first", "a sweep from %s to %s has no values", d.dec.S(&o.From), d.dec.S(&o.To))
			return
		case geometric && from <= 0:
			d.add(d.dec.Node(&o.From).At, "begin above 0, or write scale: linear", "equal ratios do not begin at %s", d.dec.S(&o.From))
			return
		}
		whole := from == math.Trunc(from) && to == math.Trunc(to)
		if d.dec.Given(&o.Whole) {
			whole = o.Whole
		}
		for _, v := range steps(from, to, o.Steps, geometric, whole) {
			values = append(values, strconv.FormatFloat(v, 'g', 12, 64))
		}
	}
	for _, v := range values {
		if !d.has(v) {
			d.setting(v, name)
		}
	}
	if len(d.x.Settings) < 2 {
		d.add(d.dec.Node(r).At, "add another value", "the sweep has nothing but the control's %s=%s", name, d.control[name])
	}
}

// steps returns n values from one to another; rounded, each of them once.
func steps(from, to float64, n int, geometric, whole bool) []float64 {
	var out []float64
	for i := range n {
		at := float64(i) / float64(n-1)
		v := from + (to-from)*at
		if geometric {
			v = from * math.Pow(to/from, at)
		}
		if whole {
			v = math.Round(v)
		}
		if i == n-1 {
			v = to
		}
		if len(out) == 0 || v > out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}

// factorial designs every combination of the factors' values and the control's.
func (d *designer) factorial() {
	r := d.raw
	at := d.dec.Node(r).Get("factors").At
	if r.Design != Factorial {
		d.add(at, "write design: factorial if that is meant, or change one variable at a time", "factors change more than one variable at once")
		return
	}
	if d.dec.Given(&r.Variable) {
		d.add(d.dec.Node(&r.Variable).At, "leave it out", "a factorial design has no one variable")
	}
	for _, f := range d.dec.Node(r).Get("factors").Fields {
		old, ok := d.control[f.Key]
		if !ok {
			d.add(f.At, strictyaml.Suggest(f.Key, d.order), "the control has no variable %s", f.Key)
			continue
		}
		factor := rounds.Factor{Name: f.Key, Levels: []string{old}}
		for _, t := range first(r.Factors[f.Key].values, mostSettings+1) {
			switch v := t.text; {
			case equal(v, old):
				d.add(t.at, "leave it out: the control's value is always measured", "%s=%s is the control's", f.Key, v)
			case slices.ContainsFunc(factor.Levels, func(l string) bool { return equal(l, v) }):
				d.add(t.at, "leave it out", "%s=%s is there twice", f.Key, v)
			default:
				factor.Levels = append(factor.Levels, v)
			}
		}
		d.x.Factors = append(d.x.Factors, factor)
	}
	if len(d.x.Factors) < 2 {
		d.add(at, "name two variables or more, or write variable and variants", "a factorial design has several factors")
		return
	}
	count := 1
	var names []string
	for _, f := range d.x.Factors {
		names = append(names, f.Name)
		if count *= len(f.Levels); count > mostSettings {
			d.add(at, fmt.Sprintf("leave values out: every round measures each of at most %d combinations", mostSettings), "the factors have too many combinations")
			return
		}
	}
	d.x.Design, d.x.Variable = Factorial, strings.Join(names, " × ")
	for n := range count {
		at, rest := make([]int, len(d.x.Factors)), n
		s := Setting{Values: map[string]string{}, X: math.NaN()}
		for k, v := range d.control {
			s.Values[k] = v
		}
		for i := len(at) - 1; i >= 0; i-- {
			f := d.x.Factors[i]
			at[i], rest = rest%len(f.Levels), rest/len(f.Levels)
			s.Values[f.Name] = f.Levels[at[i]]
		}
		var parts []string
		for i, f := range d.x.Factors {
			parts = append(parts, f.Name+"="+f.Levels[at[i]])
		}
		s.Name = strings.Join(parts, " ")
		d.x.Settings, d.x.levels = append(d.x.Settings, s), append(d.x.levels, at)
	}
}

// place returns the place of a value on an axis: a number, a duration in seconds or a
// size in bytes; NaN if it is none of these.
func place(value string) float64 {
	x, _ := placed(value)
	return x
}

// placed returns the place of a value and its unit.
func placed(value string) (x float64, of string) {
	if f, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(f, 0) {
		return f, "number"
	}
	if d, err := time.ParseDuration(value); err == nil {
		return d.Seconds(), "duration"
	}
	if n, err := units.ParseStrictBytes(value); err == nil {
		return float64(n), "size"
	}
	return math.NaN(), ""
}

// equal reports whether two values are the same, however they are written: 8 and 8.0,
// 500ms and 0.5s.
func equal(a, b string) bool {
	x, of := placed(a)
	y, and := placed(b)
	return a == b || x == y && of == and
}
