package accesslog

import "tailscope/internal/route"

// maxRules bounds the operations of one service that are named by rules.
const maxRules = 2_000

// Operations that are not routes.
const (
	invalidRequest = "invalid request" // not HTTP at all
	notFound       = "{not found}"     // 404 where no route is known
)

// operation is a method and a route, under which requests are counted.
type operation struct {
	name   string
	number uint32
	count  uint64
}

// byMethod holds the operations of one route.
type byMethod [route.NumMethods]*operation

// router names operations. It is not for concurrent use.
type router struct {
	tree       *route.Tree[byMethod]
	operations []*operation
	byName     map[string]*operation
	special    [route.NumMethods][3]*operation
	invalid    *operation
	ruled      map[string]*operation
	scratch    []byte
}

func newRouter() *router {
	return &router{tree: route.NewTree[byMethod](), byName: map[string]*operation{}, ruled: map[string]*operation{}}
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

// operationOf returns the operation of a request, and learns from the request unless it was not
// found: what scanners ask for is not a route.
func (r *router) operationOf(rec *record, rules []route.Rule) *operation {
	if len(rec.path) == 0 {
		if r.invalid == nil {
			r.invalid = r.operation(invalidRequest)
		}
		return r.invalid
	}
	m := route.Method(rec.method)
	for i := range rules {
		if o := r.byRule(&rules[i], m, rec.path); o != nil {
			return o
		}
	}
	if route.IsStatic(rec.path) {
		return r.specially(m, 0, route.StaticFiles)
	}
	n := r.tree.Place(rec.path, rec.status != 404 && rec.status != 400 && rec.status != 405)
	if n == nil {
		return r.specially(m, 1, notFound)
	}
	o := n.Value[m]
	if o == nil {
		o = r.operation(route.Methods[m] + " " + pathOr(n.Path))
		n.Value[m] = o
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
		o = r.operation(route.Methods[m] + " " + name)
		r.special[m][which] = o
	}
	return o
}

func (r *router) byRule(rule *route.Rule, m int, path []byte) *operation {
	var match bool
	if r.scratch, match = rule.Append(append(append(r.scratch[:0], route.Methods[m]...), ' '), path); !match {
		return nil
	}
	if o := r.ruled[string(r.scratch)]; o != nil {
		return o
	}
	if len(r.ruled) >= maxRules { // a group that matches every value
		return r.specially(m, 2, "_other")
	}
	o := r.operation(string(r.scratch))
	r.ruled[o.name] = o
	return o
}
