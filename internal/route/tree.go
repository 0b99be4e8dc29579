package route

import (
	"slices"
	"strings"
)

// Bounds of a Tree.
const (
	maxNodes    = 20_000
	maxChildren = 200 // names at one place before it is taken for a variable
	enough      = 200 // requests after which names that came less than three times on average make a variable
)

// Tree learns which places of paths hold names that hardly ever come again. A
// segment that IsID leads to {id}, any other to the child of its name; once too
// many names were seen at a place it is a variable, and new names lead to
// {name}. That never turns back, so that a route keeps its name. It is bounded,
// and not for concurrent use.
type Tree[T any] struct {
	// Changed says that a place became a variable. Whoever takes note of it sets
	// it back.
	Changed bool
	// Sampled says that not all requests are placed: then a place is a variable
	// only because it has many names, not because they came seldom.
	Sampled bool

	root  *Node[T]
	nodes int
}

// Node is a place in the tree.
type Node[T any] struct {
	Path  string // the route, empty for the root
	Value T      // the caller's; lost when the node is merged into a variable

	children map[string]*Node[T]
	ids      *Node[T] // {id}
	vars     *Node[T] // {name}; not nil: the place is a variable
	count    uint64
}

// NewTree returns an empty tree.
func NewTree[T any]() *Tree[T] { return &Tree[T]{root: &Node[T]{}, nodes: 1} }

// Place walks to the node of a path. It returns nil if there is none and
// nothing shall be learned.
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
	// What a request brings is shown to people and is the name of a series.
	return &Node[T]{Path: n.Path + "/" + strings.ToValidUTF8(segment, "\uFFFD")}
}

// collapse makes a place a variable. Names that take a good part of its
// requests stay; what is known below the others is put together.
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

// merge adds what is known below from to what is known below to.
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

// Variable is a place that was learned to be one, as it is saved.
type Variable struct {
	Path []string `json:"path"` // segments that lead there
	Keep []string `json:"keep,omitempty"`
}

// Variables lists what must not be forgotten: the places that are variables.
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

// Restore makes the places variables again.
func (t *Tree[T]) Restore(vs []Variable) {
	for _, v := range vs {
		n := t.root
		for _, s := range v.Path {
			n = t.child(n, s)
		}
		for _, name := range v.Keep {
			t.child(n, name)
		}
		if n.vars == nil {
			n.vars = t.add(n, "{name}")
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
