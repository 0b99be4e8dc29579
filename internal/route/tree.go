package route

import (
	"slices"
	"strings"
)

// Bounds of a Tree.
const (
	maxNodes    = 20_000
	maxChildren = 200 // names at one place from which it is a variable
	enough      = 200 // requests from which a place whose names came less than three times on average is a variable
)

// Tree learns at which places of paths nearly every name is new. A segment that IsID
// accepts leads to {id}, any other to the child of its name. A place that has had too
// many names becomes a variable: new names then lead to {name}. A variable stays one, so
// that a route keeps its name. The tree is bounded and is not for concurrent use.
type Tree[T any] struct {
	// Changed reports that a place became a variable. The caller resets it.
	Changed bool
	// Sampled makes a place a variable only for many names, not for rare ones. Set it
	// when not all requests are placed.
	Sampled bool

	root  *Node[T]
	nodes int
}

// Node is a place in the tree.
type Node[T any] struct {
	Path  string // the route, empty for the root
	Value T      // owned by the caller; lost when the node is merged into a variable

	children map[string]*Node[T]
	ids      *Node[T] // child of {id}
	vars     *Node[T] // child of {name}; the place is a variable if it is not nil
	count    uint64
}

// NewTree returns an empty tree.
func NewTree[T any]() *Tree[T] { return &Tree[T]{root: &Node[T]{}, nodes: 1} }

// Nodes returns the number of nodes.
func (t *Tree[T]) Nodes() int { return t.nodes }

// Place returns the node of a path. It returns nil if there is none and learn is false.
func (t *Tree[T]) Place(path []byte, learn bool) *Node[T] {
	n := t.root
	n.count++
	for range MaxSegments {
		var segment []byte
		if segment, path = Next(path); len(segment) == 0 {
			break
		}
		next := n.children[string(segment)]
		switch {
		case next != nil:
		case IsID(segment) || string(segment) == "{id}":
			if n.ids == nil {
				if !learn {
					return nil
				}
				n.ids = t.add(n, "{id}")
			}
			next = n.ids
		case n.vars != nil:
			next = n.vars
		case !learn:
			return nil
		case t.nodes >= maxNodes:
			t.collapse(n)
			next = n.vars
		default:
			next = t.add(n, string(segment))
			if n.children == nil {
				n.children = map[string]*Node[T]{}
			}
			n.children[string(segment)] = next
			if c := len(n.children); c > maxChildren || !t.Sampled && n.count >= enough && n.count < 3*uint64(c) {
				t.collapse(n)
				if next = n.children[string(segment)]; next == nil {
					next = n.vars
				}
			}
		}
		next.count++
		n = next
	}
	return n
}

func (t *Tree[T]) add(n *Node[T], segment string) *Node[T] {
	t.nodes++
	// The segment comes from a request, and becomes part of a series' name.
	return &Node[T]{Path: n.Path + "/" + strings.ToValidUTF8(segment, "\uFFFD")}
}

// collapse makes a place a variable. Names with a good part of its requests keep their
// nodes; the others are merged.
func (t *Tree[T]) collapse(n *Node[T]) {
	t.Changed = true
	if n.vars == nil {
		n.vars = t.add(n, "{name}")
	}
	for name, c := range n.children {
		if c.count >= 10 && c.count*50 >= n.count {
			continue
		}
		delete(n.children, name)
		t.nodes -= size(c)
		t.merge(n.vars, c)
	}
}

func size[T any](n *Node[T]) int {
	if n == nil {
		return 0
	}
	s := 1 + size(n.ids) + size(n.vars)
	for _, c := range n.children {
		s += size(c)
	}
	return s
}

// merge adds the subtree of from to that of to.
func (t *Tree[T]) merge(to, from *Node[T]) {
	to.count += from.count
	if from.ids != nil {
		if to.ids == nil {
			to.ids = t.add(to, "{id}")
		}
		t.merge(to.ids, from.ids)
	}
	if from.vars != nil {
		if to.vars == nil {
			to.vars = t.add(to, "{name}")
		}
		t.merge(to.vars, from.vars)
	}
	for name, c := range from.children {
		if to.vars != nil && to.children[name] == nil {
			t.merge(to.vars, c)
			continue
		}
		if to.children == nil {
			to.children = map[string]*Node[T]{}
		}
		if to.children[name] == nil {
			to.children[name] = t.add(to, name)
		}
		t.merge(to.children[name], c)
	}
	if len(to.children) > maxChildren && to.vars == nil {
		t.collapse(to)
	}
}

// Variable is a place that was learned to be a variable, in its saved form.
type Variable struct {
	Path []string `json:"path"` // segments that lead to it
	Keep []string `json:"keep,omitempty"`
}

// Variables returns the places that are variables, for Restore.
func (t *Tree[T]) Variables() []Variable {
	var out []Variable
	var walk func(n *Node[T], path []string)
	walk = func(n *Node[T], path []string) {
		if n.vars != nil {
			v := Variable{Path: slices.Clone(path)}
			for name := range n.children {
				v.Keep = append(v.Keep, name)
			}
			slices.Sort(v.Keep)
			out = append(out, v)
			walk(n.vars, append(path, "{name}"))
		}
		if n.ids != nil {
			walk(n.ids, append(path, "{id}"))
		}
		for name, c := range n.children {
			walk(c, append(path, name))
		}
	}
	walk(t.root, nil)
	slices.SortFunc(out, func(a, b Variable) int { return slices.Compare(a.Path, b.Path) })
	return out
}

// Restore makes the given places variables as they are in another tree, whose Variables they
// are: no names but those that are kept there have nodes of their own. Places that are variables
// in this tree alone stay variables.
func (t *Tree[T]) Restore(vs []Variable) {
	for _, v := range vs {
		n := t.root
		for _, s := range v.Path {
			if n.vars != nil && n.children[s] == nil && s != "{id}" {
				n = n.vars
			} else {
				n = t.child(n, s)
			}
		}
		for _, name := range v.Keep {
			t.child(n, name)
		}
		if n.vars == nil {
			n.vars = t.add(n, "{name}")
		}
		for name, c := range n.children {
			if !slices.Contains(v.Keep, name) {
				delete(n.children, name)
				t.nodes -= size(c)
				t.merge(n.vars, c)
			}
		}
	}
}

func (t *Tree[T]) child(n *Node[T], segment string) *Node[T] {
	switch segment {
	case "{id}":
		if n.ids == nil {
			n.ids = t.add(n, segment)
		}
		return n.ids
	case "{name}":
		if n.vars == nil {
			n.vars = t.add(n, segment)
		}
		return n.vars
	}
	if n.children == nil {
		n.children = map[string]*Node[T]{}
	}
	if n.children[segment] == nil {
		n.children[segment] = t.add(n, segment)
	}
	return n.children[segment]
}

// All calls yield with every node.
func (t *Tree[T]) All(yield func(*Node[T])) {
	var walk func(n *Node[T])
	walk = func(n *Node[T]) {
		if n == nil {
			return
		}
		yield(n)
		walk(n.ids)
		walk(n.vars)
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(t.root)
}
