package accesslog

import (
	"slices"
	"strings"
)

// Bounds of what is learned of one service.
const (
	maxNodes    = 20_000
	maxChildren = 200 // names at one place before it is taken for a variable
	enough      = 200 // requests after which names that came less than three times on average make a variable
	maxSegments = 10  // what is deeper is cut off
	maxRules    = 2_000
)

// operation is what requests are counted under: a method and a route.
type operation struct {
	name   string
	number uint32
	count  uint64
}

// node is a place in the tree of paths. A segment that looks like an id leads
// to ids, any other to the child of its name; once too many names were seen at
// a place it is a variable, and new names lead to vars. That never turns back,
// so that a route keeps its name.
type node struct {
	path     string
	children map[string]*node
	ids      *node // {id}
	vars     *node // {name}; not nil: the place is a variable
	count    uint64
	ops      [len(methods)]*operation
}

// router names operations. It is not for concurrent use.
type router struct {
	root       *node
	nodes      int
	operations []*operation
	byName     map[string]*operation
	special    [len(methods)][3]*operation
	invalid    *operation
	ruled      map[string]*operation
	changed    bool // since it was last saved
	scratch    []byte
}

func newRouter() *router {
	return &router{root: &node{}, nodes: 1, byName: map[string]*operation{}, ruled: map[string]*operation{}}
}

func (r *router) operation(name string) *operation {
	if o := r.byName[name]; o != nil {
		return o
	}
	o := &operation{name: name, number: uint32(len(r.operations) + 1)}
	r.operations = append(r.operations, o)
	r.byName[name] = o
	return o
}

// of names the operation of a request, learning from it unless it was not
// found: what scanners ask for is no route.
func (r *router) of(rec *record, rules []rule) *operation {
	if len(rec.path) == 0 {
		if r.invalid == nil {
			r.invalid = r.operation(invalidRequest)
		}
		return r.invalid
	}
	m := methodOf(rec.method)
	for i := range rules {
		if o := r.byRule(&rules[i], m, rec.path); o != nil {
			return o
		}
	}
	if isStatic(rec.path) {
		return r.specially(m, 0, staticFiles)
	}
	n := r.place(rec.path, rec.status != 404 && rec.status != 400 && rec.status != 405)
	if n == nil {
		return r.specially(m, 1, notFound)
	}
	o := n.ops[m]
	if o == nil {
		o = r.operation(methods[m] + " " + pathOr(n.path))
		n.ops[m] = o
	}
	return o
}

func pathOr(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func (r *router) specially(m, which int, name string) *operation {
	o := r.special[m][which]
	if o == nil {
		o = r.operation(methods[m] + " " + name)
		r.special[m][which] = o
	}
	return o
}

func (r *router) byRule(rule *rule, m int, path []byte) *operation {
	r.scratch = append(append(r.scratch[:0], methods[m]...), ' ')
	if rule.expr {
		match := rule.re.FindSubmatchIndex(path)
		if match == nil {
			return nil
		}
		r.scratch = rule.re.Expand(r.scratch, []byte(rule.name), path, match)
	} else {
		if !rule.re.Match(path) {
			return nil
		}
		r.scratch = append(r.scratch, rule.name...)
	}
	if o := r.ruled[string(r.scratch)]; o != nil {
		return o
	}
	if len(r.ruled) >= maxRules { // a group that takes every value
		return r.specially(m, 2, "_other")
	}
	o := r.operation(string(r.scratch))
	r.ruled[o.name] = o
	return o
}

// place walks to the node of a path. It returns nil if there is none and
// nothing shall be learned.
func (r *router) place(path []byte, learn bool) *node {
	n := r.root
	n.count++
	depth := 0
	for i := 0; i < len(path); {
		if path[i] == '/' {
			i++
			continue
		}
		j := i
		for j < len(path) && path[j] != '/' {
			j++
		}
		segment := path[i:j]
		i = j
		if depth++; depth > maxSegments {
			break
		}
		next := n.children[string(segment)]
		switch {
		case next != nil:
		case isID(segment):
			if n.ids == nil {
				if !learn {
					return nil
				}
				n.ids = r.add(n, "{id}")
			}
			next = n.ids
		case n.vars != nil:
			next = n.vars
		case !learn:
			return nil
		case r.nodes >= maxNodes:
			r.collapse(n)
			next = n.vars
		default:
			next = r.add(n, string(segment))
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[string(segment)] = next
			if c := len(n.children); c > maxChildren || n.count >= enough && n.count < 3*uint64(c) {
				r.collapse(n)
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

func (r *router) add(n *node, segment string) *node {
	r.nodes++
	// What a request brings is shown to people and is the name of a series.
	return &node{path: n.path + "/" + strings.ToValidUTF8(segment, "\uFFFD")}
}

// collapse makes a place a variable. Names that take a good part of its
// requests stay; what is known below the others is put together.
func (r *router) collapse(n *node) {
	r.changed = true
	if n.vars == nil {
		n.vars = r.add(n, "{name}")
	}
	for name, c := range n.children {
		if c.count >= 10 && c.count*50 >= n.count {
			continue
		}
		delete(n.children, name)
		r.nodes -= size(c)
		r.merge(n.vars, c)
	}
}

func size(n *node) int {
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
func (r *router) merge(to, from *node) {
	to.count += from.count
	if from.ids != nil {
		if to.ids == nil {
			to.ids = r.add(to, "{id}")
		}
		r.merge(to.ids, from.ids)
	}
	if from.vars != nil {
		if to.vars == nil {
			to.vars = r.add(to, "{name}")
		}
		r.merge(to.vars, from.vars)
	}
	for name, c := range from.children {
		if to.vars != nil && to.children[name] == nil {
			r.merge(to.vars, c)
			continue
		}
		if to.children == nil {
			to.children = map[string]*node{}
		}
		if to.children[name] == nil {
			to.children[name] = r.add(to, name)
		}
		r.merge(to.children[name], c)
	}
	if len(to.children) > maxChildren && to.vars == nil {
		r.collapse(to)
	}
}

// variable is a place that was learned to be one, as it is saved.
type variable struct {
	Path []string `json:"path"` // segments that lead there
	Keep []string `json:"keep,omitempty"`
}

// variables lists what must not be forgotten: the places that are variables.
func (r *router) variables() []variable {
	var out []variable
	var walk func(n *node, path []string)
	walk = func(n *node, path []string) {
		if n.vars != nil {
			v := variable{Path: slices.Clone(path)}
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
	walk(r.root, nil)
	slices.SortFunc(out, func(a, b variable) int { return slices.Compare(a.Path, b.Path) })
	return out
}

// restore makes the places variables again.
func (r *router) restore(vs []variable) {
	for _, v := range vs {
		n := r.root
		for _, s := range v.Path {
			n = r.child(n, s)
		}
		for _, name := range v.Keep {
			r.child(n, name)
		}
		if n.vars == nil {
			n.vars = r.add(n, "{name}")
		}
	}
}

func (r *router) child(n *node, segment string) *node {
	switch segment {
	case "{id}":
		if n.ids == nil {
			n.ids = r.add(n, segment)
		}
		return n.ids
	case "{name}":
		if n.vars == nil {
			n.vars = r.add(n, segment)
		}
		return n.vars
	}
	if n.children == nil {
		n.children = map[string]*node{}
	}
	if n.children[segment] == nil {
		n.children[segment] = r.add(n, segment)
	}
	return n.children[segment]
}
