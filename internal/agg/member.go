package agg

import "tailscope/internal/series"

// Group numbers the part of an identity that the self times of all tenants share. It is valid
// until the values of identities are bounded anew. 0 is not a group.
type Group uint64

// SelfGroup returns the group of an identity in family span_self_seconds: the identity of a
// request, and the component that a part of its time was spent in. It replaces the values of
// id by those that they are counted under, except for the tenant. Bounds on names and views
// are those of span_duration_seconds. Tenants in it are observed by Batch.ObserveMember.
func (a *Aggregator) SelfGroup(id *SpanIdentity) Group {
	key := keyOf(series.SpanSelf, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.reg.group(series.SpanSelf, id, key.group)
	g.rename(id)
	return Group(a.reg.turns)<<32 | Group(g.number+1)
}

// numberedBy returns a group, or nil if it is not valid any more.
func (r *registry) numberedBy(g Group) *group {
	if n := int(uint32(g)); uint32(g>>32) == r.turns && 0 < n && n <= len(r.numbered) {
		return r.numbered[n-1]
	}
	return nil
}

// Member is a tenant of a service.
type Member struct {
	Target Target // of a span of the service
	Tenant string // empty for none; not retained
	Folded bool   // set by Fold: the tenant is counted under series.Other
}

// Fold decides which tenants keep their names in their services: those that have them, and
// others within the bound and while memory is not short.
func (a *Aggregator) Fold(list []Member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, pressed := a.reg, a.pressed()
	for i := range list {
		m := &list[i]
		m.Folded = false
		s := r.services[r.targets.get(m.Target.index()).service]
		if s == nil || m.Tenant == "" || m.Tenant == series.Other {
			continue
		}
		if m.Folded = !s.tenants.keeps(tenantHash(m.Tenant), pressed); m.Folded {
			r.foldedTens++
			r.pressed = r.pressed || pressed
		}
	}
}
