package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
	"tailscope/internal/route"
	"tailscope/internal/series"
)

// Bounds of a service's tables, which are cleared beyond them.
const (
	maxTargets = 1 << 17
	maxValues  = 1 << 16
)

// service holds the state of one service: its routes, and the series that its requests
// are counted under. All files of the service share it.
type service struct {
	feeds, used uint64 // files being read, and the last look-up; guarded by the Ingester's mu

	mu       sync.Mutex
	name     string
	router   *router
	shared   time.Time // when the router was last shared with other servers
	revision uint64    // of the record that it goes by

	values   map[string]uint32 // numbers of tenants, versions, variants and addresses, from 1
	texts    []string
	upstream map[string]*operation // by method and group
	scratch  []byte

	epoch, traceEpoch uint32
	targets           map[targetKey]target
	counters          map[sizeKey]*counter
	sequences         []sequence
}

type targetKey struct {
	op                             *operation
	tenant, version, variant, addr uint32
	client, failed                 bool
}

// target holds the targets of an observation. It is valid while the epochs last.
type target struct {
	span agg.Target
	name traces.Name
}

// maxServices bounds the services in memory. Those with a file being read stay beyond
// it: as many as are followed, and maxImports.
const maxServices = 64

// evictService evicts the service that was not used for longest, if no file of it is
// being read, and saves what was learned of it. The caller holds mu.
func (in *Ingester) evictService() {
	var oldest *service
	for _, s := range in.services {
		if s.feeds == 0 && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest != nil {
		delete(in.services, oldest.name)
	}
}

// release records that a file of the service is no longer read.
func (in *Ingester) release(s *service) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s.feeds--
}

// service returns the service of that name, with what was learned of it before. It stays
// in memory until release.
func (in *Ingester) service(ctx context.Context, name string) (*service, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked++
	if s := in.services[name]; s != nil {
		s.feeds, s.used = s.feeds+1, in.asked
		return s, nil
	}
	s := &service{
		feeds: 1, used: in.asked,
		name: name, router: newRouter(), values: map[string]uint32{}, texts: []string{""},
		upstream: map[string]*operation{}, targets: map[targetKey]target{}, counters: map[sizeKey]*counter{},
	}
	if err := in.loadService(ctx, s); err != nil {
		return nil, err
	}
	if len(in.services) >= maxServices {
		in.evictService()
	}
	in.services[name] = s
	return s, nil
}

func (s *service) restoreRoutes(value []byte) error {
	var vs []route.Variable
	if err := json.Unmarshal(value, &vs); err != nil {
		return fmt.Errorf("saved routes of %s: %w", s.name, err)
	}
	s.router.routes.Restore(vs)
	return nil
}

func routesKey(service string) string { return "routes/" + service + "\x00" }

// learned returns what was learned since the last call, to be saved.
func (s *service) learned() (value []byte, changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.router.routes.Changed {
		return nil, false, nil
	}
	if value, err = json.Marshal(s.router.routes.Variables()); err != nil {
		return nil, false, fmt.Errorf("saved routes of %s: %w", s.name, err)
	}
	s.router.routes.Changed = false
	return value, true, nil
}

// dropTargets drops targets that are no longer valid. The caller holds mu.
func (s *service) dropTargets(epoch uint32, t Traces) {
	traceEpoch := uint32(0)
	if t != nil {
		traceEpoch = t.Epoch()
	}
	if len(s.values) > maxValues {
		clear(s.values) // numbers are assigned anew, so nothing may refer to the old ones
		clear(s.targets)
		clear(s.counters)
		s.texts = s.texts[:1]
	}
	if epoch != s.epoch || traceEpoch != s.traceEpoch || len(s.targets)+len(s.counters) > maxTargets {
		clear(s.targets)
		clear(s.counters)
		s.epoch, s.traceEpoch = epoch, traceEpoch
	}
}

// value returns the number of a text. The caller holds mu.
func (s *service) value(b []byte) uint32 {
	if len(b) == 0 {
		return 0
	}
	if n, ok := s.values[string(b)]; ok {
		return n
	}
	text := strings.ToValidUTF8(string(b[:min(len(b), 128)]), "\uFFFD")
	n := uint32(len(s.texts))
	s.texts = append(s.texts, text)
	s.values[string(b)] = n
	return n
}

// target resolves a key. The caller holds mu.
func (in *Ingester) target(s *service, k targetKey) target {
	if t, ok := s.targets[k]; ok {
		return t
	}
	id := agg.SpanIdentity{
		Service: s.name, Operation: k.op.name, Component: series.ComponentApp, Kind: "server", Status: "ok",
		Tenant: s.texts[k.tenant], Version: s.texts[k.version], Variant: s.texts[k.variant], Instance: s.texts[k.addr],
	}
	if k.client {
		id.Component, id.Kind = series.ComponentExternal, "client"
	}
	if k.failed {
		id.Status = "error"
	}
	t := target{span: in.o.Sink.NamedTarget(&id)}
	if in.o.Traces != nil {
		t.name = in.o.Traces.Name(&traces.Identity{
			Service: id.Service, Operation: id.Operation, Component: id.Component, Kind: id.Kind,
			Tenant: id.Tenant, Version: id.Version, Variant: id.Variant, Instance: id.Instance,
		})
	}
	s.targets[k] = t
	return t
}

// call returns the operation of attempts at a group of upstreams. The caller holds mu.
func (s *service) call(method, name, addr []byte) *operation {
	s.scratch = append(append(s.scratch[:0], route.Methods[route.Method(method)]...), ' ')
	s.scratch = appendGroup(s.scratch, name, addr)
	if o := s.upstream[string(s.scratch)]; o != nil {
		return o
	}
	if len(s.upstream) >= maxRules {
		s.scratch = append(s.scratch[:0], "_other"...)
		if o := s.upstream["_other"]; o != nil {
			return o
		}
	}
	o := &operation{name: strings.ToValidUTF8(string(s.scratch), "\uFFFD")}
	s.upstream[string(s.scratch)] = o
	return o
}

func indexNewline(b []byte) int { return bytes.IndexByte(b, '\n') }
