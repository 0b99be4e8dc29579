package spec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

// layouts merges the part that all share, the layout's own, and what is varied.
type layouts struct {
	*reader
	raw *file
}

func (l *layouts) read() {
	if l.problems.Len() > 0 { // a key that is wrong would be said of every layout
		return
	}
	of := l.raw.Layouts
	if len(of) == 0 {
		of = []shared{{}}
	}
	key, values := l.vary()
	if l.problems.Len() > 0 {
		return
	}
	if n := len(of) * max(1, len(values)); n > mostLayouts {
		l.problems.Add(l.top, "vary fewer values", "%d layouts are more than %d", n, mostLayouts)
		return
	}
	names := map[string]bool{}
	for i := range of {
		whole := merged(l.raw.Layout.Node, of[i].Node)
		name := ""
		if n := whole.Get("name"); n != nil {
			name = n.Text
		}
		if name == "" && len(of) > 1 {
			name = said(of[i].Node, i)
		}
		if names[name] {
			l.problems.Add(whole.At, "give each a name of its own", "two layouts are named %q", name)
		}
		names[name] = true
		if key == "" {
			l.readLayout(whole, name, "", math.NaN(), len(of) == 1)
			continue
		}
		for _, v := range values {
			of := clone(whole)
			set(of, strings.Split(key, "."), v)
			called := valueName(key, v.Text)
			if name != "" {
				called += ", " + name
			}
			l.readLayout(of, called, name, numberOf(v.Text), false)
		}
	}
	l.spec.Variable = key
}

// vary reads the varied key and its values.
func (l *layouts) vary() (key string, values []*node) {
	n := l.raw.Vary.Node
	if n == nil || n.Kind == strictyaml.Null {
		return "", nil
	}
	const example = "write one key and its values: {nodes: [1, 2, 4, 8]} or {nodes: 1..32}"
	if n.Kind != strictyaml.Mapping || len(n.Fields) != 1 {
		l.problems.Add(n.At, example, "vary is not one key")
		return "", nil
	}
	f := n.Fields[0]
	key = f.Key
	if !slices.Contains(scalars, key) {
		l.problems.Add(f.At, strictyaml.Suggest(key, scalars), "vary: %s is not a key of layouts that has one value", key)
		return "", nil
	}
	switch f.Value.Kind {
	case strictyaml.List:
		values = f.Value.Items
	case strictyaml.Scalar:
		low, high, ok := strings.Cut(f.Value.Text, "..")
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if !ok || errA != nil || errB != nil || a < 0 || b <= a || b > simulate.MaxShards {
			l.problems.Add(f.Value.At, example, "vary: %q is not a range", f.Value.Text)
			return "", nil
		}
		for _, v := range between(a, b) {
			values = append(values, &node{Kind: strictyaml.Scalar, Text: strconv.Itoa(v), At: f.Value.At})
		}
	}
	if len(values) == 0 {
		l.problems.Add(f.Value.At, example, "vary has no values of %s", key)
	}
	seen := map[string]bool{}
	for _, v := range values {
		if v.Kind != strictyaml.Scalar {
			l.problems.Add(v.At, example, "vary: a value of %s is more than one text", key)
			return "", nil
		}
		if seen[v.Text] {
			l.problems.Add(v.At, "leave it out", "vary has %s twice", v.Text)
		}
		seen[v.Text] = true
	}
	return key, values
}

// mostBetween is the longest range of whole numbers that are all taken.
const mostBetween = 64

// between returns all whole numbers of a range, or of a long one about equally many
// per doubling.
func between(a, b int) (out []int) {
	if b-a < mostBetween {
		for v := a; v <= b; v++ {
			out = append(out, v)
		}
		return out
	}
	for i := range mostBetween / 2 {
		share := float64(i) / (mostBetween/2 - 1)
		v := int(math.Round(math.Max(1, float64(a)) * math.Pow(float64(b)/math.Max(1, float64(a)), share)))
		if len(out) == 0 || v > out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}

// scalars are the keys of layouts that have one value; keys below others are joined
// by a dot.
var scalars = []string{
	"nodes", "shards", "split", "replicas", "pick", "threads", "cores", "speed", "neighbours", "overhead", "network", "rate", "arrivals", "users", "think", "price",
	"slow.nodes", "slow.times", "pause.every", "pause.lasts", "hedge.after", "hedge.quantile", "hedge.cancel", "hedge.alike", "cache.queries", "cache.leaves", "cache.takes",
	"aggregator.before.query", "aggregator.before.leaf", "aggregator.after.query", "aggregator.after.leaf", "aggregator.nodes", "aggregator.cores", "aggregator.speed",
}

// valueName returns a layout's name by its value: 6 nodes, rate 50, hedge.after 20ms.
func valueName(key, value string) string {
	if slices.Contains([]string{"nodes", "shards", "replicas", "threads", "cores", "users"}, key) {
		if value == "1" {
			return "1 " + strings.TrimSuffix(key, "s")
		}
		return value + " " + key
	}
	return key + " " + value
}

// numberOf returns a value as a number, a duration in seconds, or NaN.
func numberOf(s string) float64 {
	var v float64
	for _, is := range []string{"number", "quantile", "rate", "seconds of"} {
		if strictyaml.Set(&v, is, leaves, s) == nil {
			return v
		}
	}
	return nan
}

// said names a layout by its keys.
func said(n *node, i int) string {
	var parts []string
	if n != nil {
		for _, f := range n.Fields {
			if f.Value.Kind == strictyaml.Scalar {
				parts = append(parts, valueName(f.Key, f.Value.Text))
			} else {
				parts = append(parts, f.Key)
			}
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("layout %d", i+1)
	}
	return strings.Join(parts, ", ")
}

// merged returns base with the values of over.
func merged(base, over *node) *node {
	switch {
	case over == nil || over.Kind == strictyaml.Null:
		if base == nil {
			return &node{Kind: strictyaml.Mapping}
		}
		return clone(base)
	case base == nil || base.Kind != strictyaml.Mapping || over.Kind != strictyaml.Mapping:
		return clone(over)
	}
	out := clone(base)
	out.At = over.At
	for _, f := range over.Fields {
		out.With(strictyaml.Field{Key: f.Key, At: f.At, Value: merged(out.Get(f.Key), f.Value)})
	}
	return out
}

func clone(n *node) *node { return n.Transform(nil, func([]string, *node) {}) }

// set puts a value below a key of a key.
func set(n *node, path []string, value *node) {
	if len(path) > 1 {
		below := n.Get(path[0])
		if below == nil || below.Kind != strictyaml.Mapping {
			below = &node{Kind: strictyaml.Mapping, At: value.At}
		}
		set(below, path[1:], value)
		value = below
	}
	n.With(strictyaml.Field{Key: path[0], At: value.At, Value: value})
}

// readLayout reads a whole layout. If the file has only one, missing keys are named.
func (l *layouts) readLayout(n *node, name, curve string, x float64, only bool) {
	var raw layout
	before := l.problems.Len()
	if n.At.File == nil {
		n.At = l.top
	}
	what := "layout"
	if name != "" && !only {
		what = "layout " + name
	}
	l.d.Decode(what, n, &raw)
	if l.problems.Len() > before {
		return
	}
	out := Layout{Layout: raw.settled(l.reader), Curve: curve, At: n.At, Keys: map[string]bool{}}
	if name == "" {
		name = l.spec.Name
	}
	out.Name, out.X = name, x
	for _, f := range n.Fields {
		out.Keys[f.Key] = f.Value.Kind != strictyaml.Null
	}
	if l.problems.Len() > before {
		return
	}
	if out.Arrivals != simulate.Closed && !l.d.Given(&raw.Rate) {
		l.problems.Add(n.At, "write rate: 50, queries a second", "%s needs rate", what)
		return
	}
	if err := out.Validate(); err != nil {
		l.invalid(n, what, err)
		return
	}
	l.spec.Layouts = append(l.spec.Layouts, out)
}

// invalid reports an inconsistency at its key.
func (l *layouts) invalid(n *node, what string, err error) {
	for _, err := range split(err) {
		message := strings.TrimPrefix(err.Error(), simulate.ErrInvalid.Error()+": ")
		at := n.At
		about, _, _ := strings.Cut(message, ":")
		for _, f := range n.Fields {
			if words := strings.Fields(about); len(words) > 0 && (f.Key == words[0] || f.Key == words[len(words)-1]) {
				at = f.At
			}
		}
		l.problems.Add(at, "", "%s: %s", what, message)
	}
}

// split splits joined errors.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// settled returns the layout without the words for its zero values, and with its
// pauses.
func (raw *layout) settled(r *reader) simulate.Layout {
	l := raw.Layout
	if l.Split == "as given" {
		l.Split = simulate.AsGiven
	}
	if l.Pick == "random" {
		l.Pick = simulate.Random
	}
	if l.Arrivals == "poisson" {
		l.Arrivals = simulate.Poisson
	}
	if p := raw.Pause; p != nil {
		if l.Pause = p.Pause; p.Lasts != nil {
			l.Pause.Lasts, _ = r.takes(p.Lasts)
		}
	}
	return l
}
