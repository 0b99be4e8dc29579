package requests

import (
	"cmp"
	"slices"
	"strings"

	"tailscope/internal/route"
	"tailscope/internal/series"
)

// maxName is the longest name, in bytes.
const maxName = 200

// names numbers names. It keeps the heaviest and calls the others _other.
type names struct {
	number map[string]int
	texts  []string
	weight []float64
}

// add returns the number of a name, -1 if it is empty, and counts it.
func (n *names) add(text string, weight float64) int {
	if text == "" {
		return -1
	}
	if len(text) > maxName {
		text = text[:maxName]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	i, ok := n.number[text]
	if !ok {
		if n.number == nil {
			n.number = map[string]int{}
		}
		i = len(n.texts)
		n.number[text] = i
		n.texts, n.weight = append(n.texts, text), append(n.weight, 0)
	}
	n.weight[i] += weight
	return i
}

// bound keeps the most heaviest names, in the order in which they came, and
// returns the new number of each old one.
func (n *names) bound(most int) (kept []string, renumber func(int) int) {
	if len(n.texts) <= most {
		return n.texts, func(i int) int { return i }
	}
	byWeight := make([]int, len(n.texts))
	for i := range byWeight {
		byWeight[i] = i
	}
	slices.SortStableFunc(byWeight, func(a, b int) int { return cmp.Compare(n.weight[b], n.weight[a]) })
	heavy := slices.Sorted(slices.Values(byWeight[:most]))
	to := make([]int, len(n.texts))
	for i := range to {
		to[i] = most
	}
	for i, old := range heavy {
		to[old] = i
		kept = append(kept, n.texts[old])
	}
	return append(kept, series.Other), func(i int) int {
		if i < 0 {
			return i
		}
		return to[i]
	}
}

// operations name requests by method and path without ids. All paths are learned
// before the first is named, so that equal requests have equal names.
type operations struct {
	tree *route.Tree[struct{}]
}

func (o *operations) learn(target string) {
	if o.tree == nil {
		o.tree = route.NewTree[struct{}]()
	}
	path, _, _ := strings.Cut(target, "?")
	if !route.IsStatic([]byte(path)) {
		o.tree.Place([]byte(path), true)
	}
}

func (o *operations) name(method, target string) string {
	path, _, _ := strings.Cut(target, "?")
	method = route.Methods[route.Method([]byte(method))]
	if route.IsStatic([]byte(path)) {
		return method + " " + route.StaticFiles
	}
	if o.tree != nil {
		if n := o.tree.Place([]byte(path), false); n != nil {
			return method + " " + cmp.Or(n.Path, "/")
		}
	}
	return method + " " + string(route.AppendPath(nil, []byte(path)))
}

// nameOf names a query without a name: by method and path, with {word} for values to
// fill in.
func nameOf(method, target string) string {
	path, _, _ := strings.Cut(target, "?")
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(path, "{{")
		b.Write(route.AppendPath(nil, []byte(before)))
		if !ok {
			break
		}
		word, rest, _ := strings.Cut(after, "}}")
		word, _, _ = strings.Cut(word, "|")
		if strings.HasSuffix(before, "/") && before != "/" {
			b.WriteByte('/')
		}
		b.WriteString("{" + strings.TrimSpace(word) + "}")
		if path = rest; path == "" {
			break
		}
	}
	return method + " " + b.String()
}
