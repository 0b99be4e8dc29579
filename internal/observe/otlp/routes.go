package otlp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/internal/route"
	"tailscope/internal/store"
)

// routes holds what was learned of the routes of each service that sends requests without
// http.route. A service is learned by one request of OTLP at a time, for as many spans as
// are pending; spans that have a route never come here.
type routes struct {
	seed    uint64
	changed chan struct{} // holds a value while something is to be saved

	mu       sync.Mutex
	services map[string]*serviceRoutes
	saved    map[string]savedRoutes // of services that are not in memory
	bytes    int                    // of saved
	nodes    int                    // of services
	asked    uint64                 // look-ups so far
}

// Bounds of routes. Of services beyond them those used longest ago leave memory, except
// for the places that were learned to be variables.
const (
	maxRouteServices = 1 << 10
	maxRouteNodes    = 100_000
	maxSavedRoutes   = 4 << 20 // bytes; what was learned beyond is forgotten
)

// serviceRoutes holds what was learned of one service.
type serviceRoutes struct {
	used  uint64 // the last look-up; guarded, like nodes, by routes.mu
	nodes int

	mu      sync.Mutex
	learner *route.Learner[operation]
}

// operation is a learned operation. The hash is that of its name.
type operation struct {
	name string
	hash uint64
}

// savedRoutes holds the variables of a service that is not in memory, in their saved form.
type savedRoutes struct {
	variables []byte
	unsaved   bool
}

// requestPath is the path of a pending request whose route is learned.
type requestPath struct {
	path           string
	method, status int
	operation      *operation // once it is known
}

func newRoutes(seed uint64) *routes {
	return &routes{
		seed: seed, changed: make(chan struct{}, 1),
		services: map[string]*serviceRoutes{}, saved: map[string]savedRoutes{},
	}
}

// learn sets the operations of requests of a service, and learns from them in their order.
func (r *routes) learn(service string, list []requestPath) {
	s, known := r.of(service)
	s.mu.Lock()
	for i := range list {
		p := &list[i]
		p.operation = s.learner.Operation(p.method, bytesOf(p.path), p.status)
	}
	nodes, changed := s.learner.Nodes(), s.learner.Changed
	s.mu.Unlock()
	if nodes != known {
		r.count(service, s, nodes)
	}
	if changed {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// of returns the routes of a service, and of how many nodes they were.
func (r *routes) of(service string) (s *serviceRoutes, nodes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if s = r.services[service]; s == nil {
		s = &serviceRoutes{learner: route.NewLearner(func(name string) *operation {
			return &operation{name, xxh3.HashStringSeed(name, r.seed)}
		})}
		if had, ok := r.saved[service]; ok {
			var vs []route.Variable
			if json.Unmarshal(had.variables, &vs) == nil {
				s.learner.Restore(vs)
				s.learner.Changed = had.unsaved
			}
			delete(r.saved, service)
			r.bytes -= len(had.variables)
		}
		r.services[service] = s
	}
	s.used = r.asked
	return s, s.nodes
}

// count records how many nodes a service has, and evicts others beyond the bounds.
func (r *routes) count(service string, s *serviceRoutes, nodes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.services[service] != s {
		return // evicted meanwhile
	}
	r.nodes += nodes - s.nodes
	s.nodes = nodes
	for len(r.services) > maxRouteServices || r.nodes > maxRouteNodes && len(r.services) > 1 {
		var oldest string
		for name, x := range r.services {
			if x != s && (oldest == "" || x.used < r.services[oldest].used) {
				oldest = name
			}
		}
		r.evict(oldest)
	}
}

// evict drops a service from memory, except for its variables. The caller holds mu.
func (r *routes) evict(service string) {
	s := r.services[service]
	delete(r.services, service)
	r.nodes -= s.nodes
	s.mu.Lock()
	defer s.mu.Unlock()
	r.put(service, variablesOf(s), s.learner.Changed)
}

// put keeps the saved form of a service that is not in memory. The caller holds mu.
func (r *routes) put(service string, variables []byte, unsaved bool) {
	if len(variables) > 0 && r.bytes+len(variables) <= maxSavedRoutes {
		r.bytes += len(variables)
		r.saved[service] = savedRoutes{variables, unsaved}
	}
}

// variablesOf returns the variables of a service in their saved form, or nil if it has
// none. The caller holds s.mu.
func variablesOf(s *serviceRoutes) []byte {
	vs := s.learner.Variables()
	if len(vs) == 0 {
		return nil
	}
	b, err := json.Marshal(vs)
	if err != nil {
		return nil // does not happen: they are texts
	}
	return b
}

// routesKind is the kind of the records that hold what was learned, by service.
const routesKind = "routes"

// load reads what was saved.
func (r *routes) load(ctx context.Context, from store.Records) error {
	err := from.ListRecords(ctx, routesKind, "", func(x store.Record) error {
		r.put(x.Key, append([]byte(nil), x.Value...), false)
		return nil
	})
	if err != nil {
		return fmt.Errorf("learned routes: %w", err)
	}
	return nil
}

// save writes what was learned since the last call that succeeded.
func (r *routes) save(ctx context.Context, to store.Records) error {
	writes := r.unsaved()
	if len(writes) == 0 {
		return nil
	}
	_, err := to.PutRecords(ctx, routesKind, writes...)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range writes {
		if s := r.services[w.Key]; s != nil {
			s.mu.Lock()
			s.learner.Changed = true
			s.mu.Unlock()
		} else if had, ok := r.saved[w.Key]; ok {
			had.unsaved = true
			r.saved[w.Key] = had
		}
	}
	return fmt.Errorf("save learned routes: %w", err)
}

// unsaved returns what was learned since the last call, which counts as saved then.
func (r *routes) unsaved() (writes []store.RecordWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(service string, variables []byte) {
		writes = append(writes, store.RecordWrite{Key: service, Value: variables, IfRevision: store.AnyRevision})
	}
	for name, s := range r.services {
		s.mu.Lock()
		if s.learner.Changed {
			s.learner.Changed = false
			add(name, variablesOf(s))
		}
		s.mu.Unlock()
	}
	for name, had := range r.saved {
		if had.unsaved {
			had.unsaved = false
			r.saved[name] = had
			add(name, had.variables)
		}
	}
	return writes
}

// saveUntil saves what is learned as it is learned, until done. After a failure it waits
// before it tries again.
func (r *routes) saveUntil(done <-chan struct{}, to store.Records, log *slog.Logger, wait time.Duration) {
	for {
		select {
		case <-done:
			return
		case <-r.changed:
		}
		if err := r.save(context.Background(), to); err != nil {
			log.Warn("learned routes are not saved yet; they are tried again", "error", err)
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
		}
	}
}

// releasePaths drops references to the payload.
func (d *decoder) releasePaths() {
	clear(d.paths)
	d.paths = d.paths[:0]
}
