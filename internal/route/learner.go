package route

import "cmp"

// NotFound is the route of requests that were not found where no route is known.
const NotFound = "{not found}"

// Learner names requests by their method and the route that is learned from their paths,
// as a Tree does. Each operation has one O while its place is in the tree. A Learner is
// bounded like its tree, and is not for concurrent use.
type Learner[O any] struct {
	*Tree[*[NumMethods]*O]

	create           func(name string) *O
	static, notFound [NumMethods]*O
}

// NewLearner returns a Learner without routes. create makes the O of an operation.
func NewLearner[O any](create func(name string) *O) *Learner[O] {
	return &Learner[O]{Tree: NewTree[*[NumMethods]*O](), create: create}
}

// Operation returns the operation of a request by the index of its method in Methods. It
// learns from the request unless the status says that there is nothing under the path:
// what scanners ask for is not a route.
func (l *Learner[O]) Operation(method int, path []byte, status int) *O {
	if IsStatic(path) {
		return l.in(&l.static, method, StaticFiles)
	}
	n := l.Place(path, status != 404 && status != 400 && status != 405)
	if n == nil {
		return l.in(&l.notFound, method, NotFound)
	}
	if n.Value == nil {
		n.Value = new([NumMethods]*O)
	}
	return l.in(n.Value, method, cmp.Or(n.Path, "/"))
}

func (l *Learner[O]) in(of *[NumMethods]*O, method int, path string) *O {
	if of[method] == nil {
		of[method] = l.create(Methods[method] + " " + path)
	}
	return of[method]
}
