package otlp

import (
	"strings"
	"sync"

	"tailscope/internal/agg"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
)

// group is what spans have in common that differ in the tenant alone. There are few, so
// that a span of a tenant that is new to its group is resolved without being read again.
type group struct {
	target agg.Group
	name   traces.Name // without a tenant
	epoch  uint32      // the assembler's, when name was resolved
	entry  bool        // see spanFields.entry
}

// groups caches groups by the hash of what decides them.
type groups struct {
	mu    sync.RWMutex
	known map[uint64]group
}

const maxGroups = 1 << 14

func (g *groups) get(h uint64) (group, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	of, ok := g.known[h]
	return of, ok
}

func (g *groups) put(h uint64, of group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxGroups {
		g.known = make(map[uint64]group)
	}
	g.known[h] = of
}

// missing is a pending span that is not in the cache.
type missing struct {
	pending int // its index
	group   group
}

// resolveMissing resolves the pending spans that have no target, and adds them to the
// cache.
func (d *decoder) resolveMissing() error {
	d.missing, d.members = d.missing[:0], d.members[:0]
	for i := range d.pending {
		if d.targets[i].target != 0 {
			continue
		}
		p := &d.pending[i]
		of, ok := d.r.groups.get(p.group)
		if !ok || of.epoch != d.names {
			var err error
			if of, err = d.newGroup(p); err != nil {
				return err
			}
		}
		tenant, err := d.tenant(p)
		if err != nil {
			return err
		}
		d.missing = append(d.missing, missing{i, of})
		d.members = append(d.members, agg.Member{Group: of.target, Tenant: tenant})
	}
	for stale := len(d.missing) > 0; stale; {
		stale = false
		d.r.sink.Resolve(d.members)
		for i := range d.members {
			if m, x := &d.members[i], &d.missing[i]; m.Target == 0 {
				stale = true
				var err error
				if x.group, err = d.newGroup(&d.pending[x.pending]); err != nil {
					return err
				}
				m.Group = x.group.target
			}
		}
	}
	for i := range d.missing {
		m, x := &d.members[i], &d.missing[i]
		to := resolved{m.Target, x.group.name}
		// Only requests have tenants in the breakdown: otherwise there would be as many names
		// as combinations of operation and tenant.
		if d.r.assembler != nil && x.group.entry && m.Tenant != "" {
			tenant := m.Tenant
			if m.Folded {
				tenant = series.Other
			}
			to.name = d.r.assembler.OfTenant(to.name, tenant)
		}
		d.targets[x.pending] = to
		d.r.cache.put(d.tables.epoch, d.pending[x.pending].hash, to)
	}
	return nil
}

// newGroup resolves the group of a pending span, and adds it to the cache.
func (d *decoder) newGroup(p *pending) (group, error) {
	var s spanFields
	if err := d.read(p.message, &s); err != nil {
		return group{}, err
	}
	d.present = d.attrs.Mask
	d.attrs.Mask = semconv.Select(s.of, d.attrs.Mask)
	var component string
	d.operation, component = semconv.Operation(d.operation[:0], s.of, &d.attrs)
	d.identify(&s, component)
	of := group{target: d.r.sink.SpanGroup(&d.id), epoch: d.names, entry: s.entry()}
	if d.r.assembler != nil {
		of.name = d.name(&s)
	}
	d.r.groups.put(p.group, of)
	return of, nil
}

// tenant returns the tenant of a pending span, valid as long as the payload, or else that of its
// resource.
func (d *decoder) tenant(p *pending) (string, error) {
	switch {
	case p.tenant == "":
		return d.res.attrs.Get(semconv.Tenant), nil
	case !p.unstable:
		return fitLabel(p.tenant), nil
	}
	var s spanFields
	if err := d.read(p.message, &s); err != nil {
		return "", err
	}
	return strings.Clone(fitLabel(d.attrs.Get(semconv.Tenant))), nil
}
