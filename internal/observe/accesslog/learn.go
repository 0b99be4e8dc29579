package accesslog

import "tailscope/internal/route"

// maxRules bounds the operations of one service that are named by rules.
const maxRules = 2_000

// invalidRequest is the operation of what is not HTTP at all.
const invalidRequest = "invalid request"

// operation is a method and a route, under which requests are counted.
type operation struct {
	name   string
	number uint32
	count  uint64
}

// router names operations. It is not for concurrent use.
type router struct {
	routes     *route.Learner[operation]
	operations []*operation
	byName     map[string]*operation
	ruled      map[string]*operation
	scratch    []byte
}

func newRouter() *router {
	r := &router{byName: map[string]*operation{}, ruled: map[string]*operation{}}
	r.routes = route.NewLearner(r.operation)
	return r
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

// operationOf returns the operation of a request: that of the first rule that matches, or
// else a learned one.
func (r *router) operationOf(rec *record, rules []route.Rule) *operation {
	if len(rec.path) == 0 {
		return r.operation(invalidRequest)
	}
	m := route.Method(rec.method)
	for i := range rules {
		if o := r.byRule(&rules[i], m, rec.path); o != nil {
			return o
		}
	}
	return r.routes.Operation(m, rec.path, rec.status)
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
		return r.operation(route.Methods[m] + " _other")
	}
	o := r.operation(string(r.scratch))
	r.ruled[o.name] = o
	return o
}
