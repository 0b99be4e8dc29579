package query

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// TenantCache keeps summaries of all tenants for up to a minute, so that
// sorting, searching and turning pages read nothing more. Nil keeps nothing.
// It is safe for concurrent use.
type TenantCache struct {
	mu     sync.Mutex
	most   int64 // bytes
	held   int64
	byKey  map[string]*cachedTenants
	recent []string // keys, the last used at the end
}

type cachedTenants struct {
	ready   chan struct{} // closed once summary or err is set
	summary *tenantSummary
	err     error
	until   time.Time
	bytes   int64
}

// NewTenantCache returns a cache of about so many bytes.
func NewTenantCache(bytes int64) *TenantCache {
	return &TenantCache{most: bytes, byKey: map[string]*cachedTenants{}}
}

// tenantsKept is for how long a summary answers: a minute, or a slot if that
// is shorter.
func tenantsKept(slot int64) time.Duration {
	return min(time.Minute, time.Duration(slot)*time.Second)
}

// summary returns what r selects, read now or not long ago. Who asks for the
// same at the same time waits for the first.
func (c *TenantCache) summary(ctx context.Context, st store.Store, r TenantsRequest) (*tenantSummary, error) {
	if c == nil || r.Now.IsZero() || checkRange(r.Start, r.End) != nil {
		return newSummary(ctx, st, r)
	}
	slot := tenantSlot(Base(r.Start, r.End))
	key := tenantsKeyOf(r, slot)
	for {
		e, mine := c.entry(key, r.Now)
		if !mine {
			select {
			case <-e.ready:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if e.err == nil {
				return e.summary, nil
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			continue // the first may just have given up
		}
		s, err := newSummary(ctx, st, r)
		c.complete(key, e, s, err, r.Now.Add(tenantsKept(slot)))
		return s, err
	}
}

func newSummary(ctx context.Context, st store.Store, r TenantsRequest) (*tenantSummary, error) {
	s, err := readTenants(ctx, st, r)
	if err != nil {
		return nil, err
	}
	s.slow.turn = make(chan struct{}, 1)
	return s, nil
}

func tenantsKeyOf(r TenantsRequest, slot int64) string {
	start, end := align(r.Start, r.End, slot)
	family := r.Family
	if family == "" {
		family = series.SpanDuration
	}
	parts := []string{family, strconv.FormatInt(start, 10), strconv.FormatInt(end, 10)}
	for _, m := range r.Matchers {
		parts = append(parts, m.String())
	}
	slices.Sort(parts[3:])
	return strings.Join(parts, "\x00")
}

// entry returns what is kept under key; mine says that there was nothing, and
// the caller is to settle it.
func (c *TenantCache) entry(key string, now time.Time) (e *cachedTenants, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.byKey[key]; e != nil && (e.until.IsZero() || now.Before(e.until)) {
		if i := slices.Index(c.recent, key); i >= 0 {
			c.recent = append(slices.Delete(c.recent, i, i+1), key)
		}
		return e, false
	}
	c.drop(key)
	e = &cachedTenants{ready: make(chan struct{})}
	c.byKey[key] = e
	return e, true
}

func (c *TenantCache) complete(key string, e *cachedTenants, s *tenantSummary, err error, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.summary, e.err, e.until = s, err, until
	close(e.ready)
	if c.byKey[key] != e {
		return
	}
	if err != nil {
		delete(c.byKey, key)
		return
	}
	e.bytes = s.bytes()
	c.held += e.bytes
	c.recent = append(c.recent, key)
	for c.held > c.most && len(c.recent) > 0 {
		c.drop(c.recent[0])
	}
}

// drop forgets a settled entry.
func (c *TenantCache) drop(key string) {
	e := c.byKey[key]
	if e == nil {
		return
	}
	delete(c.byKey, key)
	c.held -= e.bytes
	c.recent = slices.DeleteFunc(c.recent, func(k string) bool { return k == key })
}
