package choose

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"tailscope/internal/route"
	"tailscope/internal/series"
)

// operations holds the names of operations: at most max of them at any time, and four
// times as many in all of a session, because names that were given remain as series.
//
// Paths without ids are placed in a tree that learns where names hardly ever come
// again, such as those of articles; there {name} stands for them. A path whose name
// is cached is placed one time in samples, so that the tree knows which names come
// often.
type operations struct {
	max    int
	known  *memo[known] // by method and path without ids
	epoch  atomic.Uint32
	folded atomic.Uint64

	mu    sync.Mutex
	tree  *route.Tree[*byMethod]
	exact map[string]string // those that no path was placed for
	count int               // names
	given int               // names, with those that places that became variables had
}

type known struct {
	name  string
	epoch uint32
}

type byMethod [route.NumMethods]string

const samples = 64

// static are the names of requests for files of the page, by method.
var static = func() (names byMethod) {
	for i, m := range route.Methods {
		names[i] = m + " " + route.StaticFiles
	}
	return names
}()

func (o *operations) init(max int) {
	o.max, o.known, o.exact = max, newMemo[known](), map[string]string{}
	o.tree = route.NewTree[*byMethod]()
	o.tree.Sampled = true
}

// ofPath names requests of a method, an index of route.Methods, and a path
// without ids.
func (o *operations) ofPath(method int, path []byte) string {
	var space [2 * maxName]byte
	text := append(append(append(space[:0], route.Methods[method]...), ' '), path...)
	epoch := o.epoch.Load()
	if k, ok := o.known.get(text); ok && k.epoch == epoch && rand.Uint32()%samples != 0 {
		return o.counted(k.name)
	}
	name := o.place(method, path)
	o.known.put(text, known{name, epoch})
	return o.counted(name)
}

func (o *operations) counted(name string) string {
	if name == series.Other {
		o.folded.Add(1)
	}
	return name
}

func (o *operations) place(method int, path []byte) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.tree.Place(path, true)
	if o.tree.Changed {
		o.recount()
	}
	if n.Value != nil && n.Value[method] != "" {
		return n.Value[method]
	}
	if !o.hasCapacity() {
		return series.Other
	}
	if n.Value == nil {
		n.Value = new(byMethod)
	}
	p := n.Path
	if p == "" {
		p = "/"
	}
	n.Value[method] = cut(route.Methods[method] + " " + p)
	return n.Value[method]
}

// hasCapacity reserves one more name, if the bound allows it. Needs mu.
func (o *operations) hasCapacity() bool {
	if o.count >= o.max || o.given >= 4*o.max {
		return false
	}
	o.count++
	o.given++
	return true
}

// recount forgets the names of places that became variables, and what was cached.
// Needs mu.
func (o *operations) recount() {
	o.tree.Changed = false
	o.epoch.Add(1)
	o.count = len(o.exact)
	o.tree.All(func(n *route.Node[*byMethod]) {
		if n.Value == nil {
			return
		}
		for _, name := range n.Value {
			if name != "" {
				o.count++
			}
		}
	})
}

// named returns the name itself, or _other if there are too many.
func (o *operations) named(text []byte) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, ok := o.exact[string(text)]
	switch {
	case ok:
	case !o.hasCapacity():
		name = series.Other
	default:
		name = cut(string(text))
		o.exact[string(text)] = name
	}
	return o.counted(name)
}

// cut makes a text fit for a label: valid, and not longer than maxName.
func cut(text string) string {
	if len(text) > maxName {
		text = text[:maxName]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
