package agg

import "tailscope/internal/series"

// Group numbers the part of an identity that the spans of all tenants share. It is valid
// until the values of identities are bounded anew. 0 is not a group.
type Group uint64

// SpanGroup returns the group of an identity in family span_duration_seconds. It replaces the
// values of id by those that they are counted under, except for the tenant.
func (a *Aggregator) SpanGroup(id *SpanIdentity) Group { return a.group(series.SpanDuration, id) }

// SelfGroup is SpanGroup in family span_self_seconds: the identity of a request, and the
// component that a part of its time was spent in. Bounds on names and views are those of
// span_duration_seconds. Tenants in it are observed by Batch.ObserveMember.
func (a *Aggregator) SelfGroup(id *SpanIdentity) Group { return a.group(series.SpanSelf, id) }

func (a *Aggregator) group(family string, id *SpanIdentity) Group {
	key := keyOf(family, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.reg.group(family, id, key.group)
	g.rename(id)
	return Group(a.reg.turns)<<32 | Group(g.number+1)
}

// Member is a tenant in a group. Resolve sets the fields after Tenant.
type Member struct {
	Group  Group
	Tenant string // empty for none; not retained
	Target Target // 0: the group is not valid any more
	Folded bool   // the tenant is counted under series.Other

	group *group
	key   spanKey
}

// Resolve resolves members, which costs much less than resolving their identities. The
// look-ups of all of them wait for memory together.
func (a *Aggregator) Resolve(list []Member) {
	for i := range list {
		m := &list[i]
		if i > 0 && m.Tenant == list[i-1].Tenant {
			m.key = list[i-1].key
		} else {
			m.key.setTenant(m.Tenant)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r, pressed := a.reg, a.pressed()
	for i := range list {
		m := &list[i]
		m.Target, m.group = 0, r.numberedBy(m.Group)
		if m.group != nil {
			m.key.group = m.group.key
			m.key.target = m.key.group.Plus(m.key.label)
		}
	}
	r.prefetch(list)
	for i := range list {
		m := &list[i]
		if m.group == nil {
			continue
		}
		n := r.lookup.Find(r.keys, m.key.target)
		if n == 0 {
			n = r.member(m.group, m.Tenant, &m.key, pressed)
		}
		m.Target, m.Folded, m.group = a.ofSpan(n), r.targets.at(n).foldsTenant(m.Tenant), nil
	}
}

// numberedBy returns a group, or nil if it is not valid any more.
func (r *registry) numberedBy(g Group) *group {
	if n := int(uint32(g)); uint32(g>>32) == r.turns && 0 < n && n <= len(r.numbered) {
		return r.numbered[n-1]
	}
	return nil
}

// prefetch loads what resolving members looks up. Its loads do not wait for each other.
func (r *registry) prefetch(list []Member) {
	sum := uint64(0)
	for i := range list {
		m := &list[i]
		if m.group != nil {
			sum += r.lookup.Slot(m.key.target) + r.byID.Slot(m.group.full.Plus(m.key.label))
		}
	}
	r.fetched = sum
}
