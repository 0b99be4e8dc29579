package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
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

	mu       sync.Mutex
	learner  *route.Learner[operation]
	revision uint64 // of the record that the learner goes by; 0 for none
}

// operation is a learned operation. The hash is that of its name.
type operation struct {
	name string
	hash uint64
}

// savedRoutes holds the variables of a service that is not in memory, in their saved form.
type savedRoutes struct {
	variables []byte
	revision  uint64
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
			s.revision = had.revision
			r.drop(service)
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
	if r.services[service] == s { // else evicted meanwhile
		r.counted(s, nodes)
	}
}

// counted is count. The caller holds mu.
func (r *routes) counted(s *serviceRoutes, nodes int) {
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
	r.put(service, savedRoutes{variablesOf(s), s.revision, s.learner.Changed})
}

// put keeps the saved form of a service that is not in memory. The caller holds mu.
func (r *routes) put(service string, saved savedRoutes) {
	r.drop(service)
	if n := len(saved.variables); n > 0 && r.bytes+n <= maxSavedRoutes {
		r.bytes += n
		r.saved[service] = saved
	}
}

// drop drops the saved form of a service. The caller holds mu.
func (r *routes) drop(service string) {
	r.bytes -= len(r.saved[service].variables)
	delete(r.saved, service)
}

// variablesOf returns the variables of a service in their saved form, or nil if it has
// none. The caller holds s.mu.
func variablesOf(s *serviceRoutes) []byte { return encodeVariables(s.learner.Variables()) }

func encodeVariables(vs []route.Variable) []byte {
	if len(vs) == 0 {
		return nil
	}
	b, err := json.Marshal(vs)
	if err != nil {
		return nil // does not happen: they are texts
	}
	return b
}

// routesKind is the kind of the records that hold what was learned, by service. Servers that
// share a store share them: of two that learn a place at once the first that writes has learned
// it, and the other goes by that and adds what it has learned beside.
const routesKind = "routes"

// load reads what was saved, by any server.
func (r *routes) load(ctx context.Context, from store.Records) error {
	err := from.ListRecords(ctx, routesKind, "", func(x store.Record) error {
		if !ofServer.MatchString(x.Key) {
			r.adopt(&x)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("learned routes: %w", err)
	}
	return nil
}

// ofServer matches the beginning of keys of versions in which each server of a store but the
// first learned for itself (store.OwnRecords).
var ofServer = regexp.MustCompile(`^@[0-9a-f]{16}/`)

// shareOwn adds what servers learned for themselves to what all share, and deletes it there. It
// is called after load, before anything is learned.
func (r *routes) shareOwn(ctx context.Context, in store.Records) error {
	var old []store.RecordWrite
	err := in.ListRecords(ctx, routesKind, "@", func(x store.Record) error {
		if prefix := ofServer.FindString(x.Key); prefix != "" {
			r.mu.Lock()
			defer r.mu.Unlock()
			service := x.Key[len(prefix):]
			had := r.saved[service]
			r.put(service, savedRoutes{joinVariables(had.variables, x.Value), had.revision, true})
			old = append(old, store.RecordWrite{Key: x.Key, IfRevision: store.AnyRevision})
		}
		return nil
	})
	if err == nil && len(old) > 0 {
		if err = r.save(ctx, in); err == nil {
			_, err = in.PutRecords(ctx, routesKind, old...)
		}
	}
	return err
}

// joinVariables returns the variables of both saved forms, in theirs; a malformed one has none.
func joinVariables(a, b []byte) []byte {
	both := route.NewTree[struct{}]()
	for _, saved := range [][]byte{a, b} {
		var vs []route.Variable
		if json.Unmarshal(saved, &vs) == nil {
			both.Restore(vs)
		}
	}
	return encodeVariables(both.Variables())
}

// adopt has a service go by what is recorded of it.
func (r *routes) adopt(x *store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var vs []route.Variable
	if s := r.services[x.Key]; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.revision >= x.Revision {
			return
		}
		s.revision = x.Revision
		if json.Unmarshal(x.Value, &vs) == nil {
			s.learner.Restore(vs)
			r.counted(s, s.learner.Nodes())
		}
		return
	}
	had := r.saved[x.Key]
	if had.revision >= x.Revision {
		return
	}
	now := savedRoutes{variables: append([]byte(nil), x.Value...), revision: x.Revision}
	if had.unsaved && json.Unmarshal(x.Value, &vs) == nil {
		now.variables, now.unsaved = joinVariables(had.variables, x.Value), true
	}
	r.put(x.Key, now)
}

// save writes what was learned since the last call that succeeded.
func (r *routes) save(ctx context.Context, to store.Records) (err error) {
	for range 3 {
		writes := r.unsaved()
		if len(writes) == 0 {
			return nil
		}
		var revision uint64
		revision, err = to.PutRecords(ctx, routesKind, writes...)
		r.written(writes, revision, err)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		if err := r.load(ctx, to); err != nil { // what another server was first to learn
			return err
		}
	}
	return fmt.Errorf("save learned routes: %w", err)
}

// written notes that what unsaved returned has a revision, or is still unsaved.
func (r *routes) written(writes []store.RecordWrite, revision uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range writes {
		if s := r.services[w.Key]; s != nil {
			s.mu.Lock()
			s.learner.Changed = s.learner.Changed || err != nil
			s.revision = max(s.revision, revision)
			s.mu.Unlock()
		} else if had, ok := r.saved[w.Key]; ok {
			had.unsaved = had.unsaved || err != nil
			had.revision = max(had.revision, revision)
			r.saved[w.Key] = had
		}
	}
}

// unsaved returns what was learned since the last call, which counts as saved then.
func (r *routes) unsaved() (writes []store.RecordWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(service string, variables []byte, revision uint64) {
		writes = append(writes, store.RecordWrite{Key: service, Value: variables, IfRevision: revision})
	}
	for name, s := range r.services {
		s.mu.Lock()
		if s.learner.Changed {
			s.learner.Changed = false
			add(name, variablesOf(s), s.revision)
		}
		s.mu.Unlock()
	}
	for name, had := range r.saved {
		if had.unsaved {
			had.unsaved = false
			r.saved[name] = had
			add(name, had.variables, had.revision)
		}
	}
	return writes
}

// saveUntil saves what is learned as it is learned, until done, and reads what other servers
// learned if they share the store. After a failure it waits before it tries again.
func (r *routes) saveUntil(done <-chan struct{}, to store.Records, shared bool, log *slog.Logger, wait time.Duration) {
	var others <-chan time.Time
	if shared {
		tick := time.NewTicker(store.ReadEvery)
		defer tick.Stop()
		others = tick.C
	}
	failing := false
	for {
		var err error
		select {
		case <-done:
			return
		case <-others:
			err = r.load(context.Background(), to)
		case <-r.changed:
		}
		if err == nil {
			err = r.save(context.Background(), to)
		}
		if err != nil && !failing {
			log.Warn("learned routes wait until their records can be read and written; tried every few seconds", "error", err)
		}
		if failing = err != nil; failing {
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
