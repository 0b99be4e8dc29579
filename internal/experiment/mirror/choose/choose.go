// Package choose decides which requests are copied, under which names they are
// counted, and how their copies are rewritten.
//
// All rules are text as operators write them, compiled once. Choosing a request
// allocates nothing once its operation and tenant are known, and the number of
// names is bounded whatever clients send.
package choose

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"tailscope/internal/experiment/mirror/pair"
)

// Options are the rules for which requests are copied and how they are named.
type Options struct {
	Share  float64 // of requests that pass the filters, 0 to 1
	Paused bool    // nothing is copied

	// By is the key that the share is chosen by, so that the same key is always in or
	// always out: header:NAME, cookie:NAME, query:NAME, tenant or address. Default
	// each request for itself. Requests without the key are out if the share is below
	// 1.
	By string

	Methods []string // copied; empty: all safe ones, and with Unsafe all
	Paths   []string // regular expressions, one of which has to match the path; empty: every path
	Headers []string // NAME: REGEX, all of which have to match
	Unsafe  bool     // methods too that may change something (RFC 9110 9.2.1)

	// Operations are REGEX=NAME: the first that matches "METHOD path", such as
	// "GET /cart/7", names the operation; $1 in the name is a group. Requests
	// that none matches are named by method and path, ids replaced by {id}.
	Operations []string
	// Tenant is the place of a tenant's name: header:NAME, cookie:NAME, query:NAME,
	// host (its first label), host:REGEX or path:REGEX, of which the first group is
	// taken. Default nowhere.
	Tenant string

	MaxOperations int // names of operations; default 500. What is beyond is _other
	MaxTenants    int // names of tenants; default 1,000. What is beyond is _other
}

// Request holds the parts of a request that rules read. Its slices are only read, and
// not retained.
type Request struct {
	Method []byte
	Target []byte // as in the request line: /path?query, http://host/path, or *
	Host   []byte
	Client netip.Addr // who connected
	Header Header
}

// Header looks up field lines.
type Header interface {
	// Lookup returns the value of the i-th field line, from 0, of the name in any
	// case. The value is valid until the request has been served.
	Lookup(name string, i int) (value []byte, ok bool)
}

// Decision says whether a request is copied, and how it is counted.
type Decision struct {
	Mirror bool
	Reason pair.Reason // why not, if not
	Names  pair.Names
	// Write reports whether the method may change something: a shadow that misses the
	// copy has diverged.
	Write bool
	// Missed reports whether a write was not copied though others of its kind are:
	// the session is paused, or the share is random.
	Missed bool
	// Key is a hash of the key that the share is chosen by, or random: copies of
	// equal keys can be sent to the same server.
	Key uint64
}

// Chooser decides by compiled rules. It is safe for concurrent use.
type Chooser struct {
	share   atomic.Uint64 // bits of the float64
	paused  atomic.Bool
	filters filters
	key     source
	names   namer
}

// New compiles the rules. Its error lists every wrong rule, and what to write
// instead.
func New(o Options) (*Chooser, error) {
	c := &Chooser{}
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	fail(c.SetShare(o.Share))
	c.SetPaused(o.Paused)
	fail(c.filters.compile(&o))
	key, err := parseKey(o.By)
	fail(err)
	c.key = key
	fail(c.names.compile(&o))
	if key.kind == fromTenant && o.Tenant == "" {
		fail(errors.New("by: tenant, but it is not said where the tenant is: add --tenant, such as header:X-Tenant"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// Choose decides about a request. It is called for every request, and retains nothing
// of it.
func (c *Chooser) Choose(r *Request) Decision {
	_, path, query := split(r.Target)
	d := Decision{Names: c.names.nameRequest(r, path, query), Write: !safe(r.Method)}
	if c.paused.Load() {
		d.Missed = d.Write && c.filters.pass(r, path, true) == pair.Chosen
		d.Reason = pair.Paused
		return d
	}
	if d.Reason = c.filters.pass(r, path, d.Write); d.Reason != pair.Chosen {
		return d
	}
	in := false
	if d.Key, in = c.draw(r, path, query); !in {
		d.Missed = d.Write && c.key.kind == nowhere // of a key that is out nothing is copied
		d.Reason = pair.Share
		return d
	}
	d.Mirror = true
	return d
}

// draw reports whether the request is in the share, and returns its key.
func (c *Chooser) draw(r *Request, path, query []byte) (key uint64, in bool) {
	share, known := c.Share(), true
	switch c.key.kind {
	case nowhere:
		key = rand.Uint64()
	case fromAddress:
		key, known = hashAddress(r)
	case fromTenant:
		value := c.names.tenant.find(r, path, query) // its name may be _other
		key, known = hashKey(value), len(value) > 0
	default:
		value := c.key.find(r, path, query)
		key, known = hashKey(value), len(value) > 0
	}
	if !known {
		return rand.Uint64(), share >= 1
	}
	return key, float64(key>>11)*0x1p-53 < share
}

// Share returns the share of requests that is copied.
func (c *Chooser) Share() float64 { return math.Float64frombits(c.share.Load()) }

// SetShare changes the share. With a key, a greater share only adds keys.
func (c *Chooser) SetShare(share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("share: %v is not from 0 to 1: write 0.25 for a quarter", share)
	}
	c.share.Store(math.Float64bits(share))
	return nil
}

// Paused reports whether nothing is copied.
func (c *Chooser) Paused() bool { return c.paused.Load() }

// SetPaused stops the copying, or resumes it.
func (c *Chooser) SetPaused(paused bool) { c.paused.Store(paused) }

// Folded returns the numbers of requests that were counted under _other, because
// there were too many operations or tenants.
func (c *Chooser) Folded() (operations, tenants uint64) {
	return c.names.operations.folded.Load(), c.names.tenants.folded.Load()
}
