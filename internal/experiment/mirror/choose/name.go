package choose

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/route"
	"tailscope/internal/series"
)

// maxName bounds the name of an operation or tenant, in bytes.
const maxName = 200

// namer names operations and tenants.
type namer struct {
	rules      []route.Rule
	ruled      *memo[string] // operations by rule, by method and path; empty if none matches
	operations operations
	tenant     source
	tenants    table
}

func (n *namer) compile(o *Options) error {
	var errs []error
	for _, text := range o.Operations {
		rule, err := route.ParseRule(text, "^GET /shop/[a-z]+$=GET /shop/{name}")
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("operation: %w", err))
		case strings.HasPrefix(text, "^/"):
			errs = append(errs, fmt.Errorf("operation: %q never matches, as the method stands before the path: write ^[A-Z]+ %s", text, text[1:]))
		}
		n.rules = append(n.rules, rule)
	}
	if len(n.rules) > 0 {
		n.ruled = newMemo[string]()
	}
	tenant, err := parseTenant(o.Tenant)
	errs = append(errs, err)
	n.tenant = tenant
	n.operations.init(cmp.Or(max(o.MaxOperations, 0), 500))
	n.tenants.max = cmp.Or(max(o.MaxTenants, 0), 1000)
	return errors.Join(errs...)
}

func (n *namer) nameRequest(r *Request, path, query []byte) pair.Names {
	return pair.Names{Operation: n.operation(r.Method, path), Tenant: n.tenantOf(r, path, query)}
}

// operation names a request by the first rule that matches, else by its path
// without ids.
func (n *namer) operation(method, path []byte) string {
	m := route.Method(method)
	if len(n.rules) > 0 {
		if name, ok := n.byRule(route.Methods[m], path); ok {
			return name
		}
	}
	if route.IsStatic(path) {
		return static[m]
	}
	var space [2 * maxName]byte
	return n.operations.ofPath(m, route.AppendPath(space[:0], path))
}

// buffers hold the texts that regular expressions are matched against. Package regexp
// lets them escape, so each would be allocated.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (n *namer) byRule(method string, path []byte) (name string, ok bool) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := append(append(append((*buffer)[:0], method...), ' '), path...)
	*buffer = b
	if name, ok = n.ruled.get(b); ok {
		return name, name != ""
	}
	for i := range n.rules {
		named, match := n.rules[i].Append(b, b)
		if match {
			*buffer = named
			name = n.operations.named(named[len(b):])
			break
		}
	}
	n.ruled.put(b, name)
	return name, name != ""
}

func (n *namer) tenantOf(r *Request, path, query []byte) string {
	value := n.tenant.find(r, path, query)
	if len(value) == 0 {
		return ""
	}
	var space [maxName]byte
	if n.tenant.kind == fromQuery || n.tenant.kind == fromPlace && !n.tenant.place.Host() {
		value = unescape(space[:0], value, n.tenant.kind == fromQuery)
	}
	return n.tenants.name(value)
}

// unescape replaces %xx, and + by a space in queries. Malformed escapes stay.
func unescape(dst, s []byte, query bool) []byte {
	if strings.IndexByte(view(s), '%') < 0 && !(query && strings.IndexByte(view(s), '+') >= 0) {
		return s
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+' && query:
			c = ' '
		case c == '%' && i+2 < len(s) && unhex(s[i+1]) < 16 && unhex(s[i+2]) < 16:
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}

// table holds names. It grows up to max names and then no more.
type table struct {
	max    int
	mu     sync.Mutex
	names  atomic.Pointer[map[string]string] // never changed, but replaced
	folded atomic.Uint64
}

// name returns the name for a text, or _other if there are too many names.
func (t *table) name(text []byte) string {
	if len(text) > maxName {
		text = text[:maxName] // so that what is kept is short
	}
	names := t.names.Load()
	if names != nil {
		if name, ok := (*names)[string(text)]; ok {
			return name
		}
		if len(*names) >= t.max {
			t.folded.Add(1)
			return series.Other
		}
	}
	return t.add(string(text))
}

func (t *table) add(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	grown := map[string]string{}
	if names := t.names.Load(); names != nil {
		if name, ok := (*names)[text]; ok {
			return name
		}
		if len(*names) >= t.max {
			t.folded.Add(1)
			return series.Other
		}
		for k, v := range *names {
			grown[k] = v
		}
	}
	name := cut(text)
	grown[text] = name
	t.names.Store(&grown)
	return name
}
