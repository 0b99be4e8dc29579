package requests

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// compiler makes a Set of a Spec and collects every problem.
type compiler struct {
	spec     Spec
	set      *Set
	files    files
	problems Problems
	tenant   tenantRule
	tenants  names
	prefix   string // path of the base URL, without the slash at its end
	index    int    // of the query that is compiled, -1 if none is
	name     string // its name
}

// Compile makes a Set, or returns Problems, an error that lists everything wrong with
// the Spec. It reads all files, so that nothing is found out under load.
func Compile(s Spec) (*Set, error) {
	c := &compiler{spec: s, index: -1, set: &Set{seed: s.Seed, now: s.Now, http2: s.HTTP2}}
	c.files = files{dir: s.Dir, left: s.MaxBytes}
	if c.files.left <= 0 {
		c.files.left = 1 << 30
	}
	if s.Now == nil {
		c.set.now = time.Now
	}
	c.spec.MaxQueries, c.spec.MaxTenants = cmp.Or(max(s.MaxQueries, 0), 500), cmp.Or(max(s.MaxTenants, 0), 100)
	c.setBase()
	var err error
	if c.set.think, err = parseThink(s.Think); err != nil {
		c.wrong("think", err)
	}
	if c.tenant, err = parseTenantRule(s.Tenant); err != nil {
		c.wrong("tenant", err)
	}
	c.checkOnly()
	kinds := 0
	for _, is := range [...]bool{len(s.Queries) > 0, s.Targets != "", s.Record != nil, s.AccessLog != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		c.problem("", "there is nothing to send", "give a URL, queries, a file of targets, a recording or an access log")
	case kinds > 1:
		c.problem("", "requests come from more than one place", "give one of: queries, targets, a recording, an access log")
	case len(s.Queries) > 0:
		c.compileQueries()
	case s.Targets != "":
		c.compileTargets()
	case s.Record != nil:
		c.compileRecord()
	default:
		c.compileAccessLog()
	}
	if len(c.problems) == 0 && c.set.base == nil {
		c.problem("target", "no host is named", "say which, such as http://127.0.0.1:8080")
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	if c.set.checker != nil && len(c.set.checker.names) == 0 {
		c.set.checker = nil
	}
	return c.set, nil
}

// problem notes a problem of the query that is compiled.
func (c *compiler) problem(field, text, hint string) {
	c.problems = append(c.problems, Problem{Query: c.name, Index: c.index, Field: field, Text: text, Hint: hint})
}

// wrong notes an error whose text ends in its hint.
func (c *compiler) wrong(field string, err error) { c.problem(field, err.Error(), "") }

// inFile notes a problem of a file that a field names.
func (c *compiler) inFile(field string, p Problem) {
	p.Query, p.Index, p.Field = c.name, c.index, field
	c.problems = append(c.problems, p)
}

// checkOnly compiles the check of all queries, so that its problems are listed once.
func (c *compiler) checkOnly() {
	c.set.checker = &checker{}
	for _, f := range c.set.checker.add(0, &c.spec.Check) {
		c.problem(f.field, f.text, f.hint)
	}
	c.set.checker = &checker{}
}

func (c *compiler) setBase() {
	if c.spec.Base == "" {
		return
	}
	u, text, hint := parseBase(c.spec.Base)
	if text != "" {
		c.problem("target", text, hint)
		return
	}
	c.prefix = strings.TrimSuffix(u.EscapedPath(), "/")
	c.set.base = &url.URL{Scheme: u.Scheme, Host: u.Host}
}

func parseBase(text string) (u *url.URL, fault, hint string) {
	u, err := url.Parse(text)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%q is not a URL: %v", text, err), "write it as http://127.0.0.1:8080"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Sprintf("%q does not begin with http:// or https://", text), "write http://" + strings.TrimPrefix(text, u.Scheme+"://")
	case u.Hostname() == "":
		return nil, fmt.Sprintf("%q names no host", text), "write it as http://127.0.0.1:8080"
	case u.User != nil:
		return nil, "a password in the URL would be shown in results", "set the header Authorization instead"
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Sprintf("%q has more than a path", text), "put the query into the requests"
	}
	return u, "", ""
}

// localTarget returns the path and query of a target, which may be a URL of the
// base's host. host is the Host field to send.
func (c *compiler) localTarget(target string) (local, fault, hint string) {
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		return c.prefix + target, "", ""
	}
	scheme, rest, _ := strings.Cut(target, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	u, fault, hint := parseBase(scheme + "://" + rest[:end])
	if fault != "" {
		return "", fault, hint
	}
	if b := c.set.base; b == nil {
		c.set.base = u
	} else if b.Scheme != u.Scheme || !strings.EqualFold(b.Host, u.Host) {
		return "", fmt.Sprintf("%s://%s is another host than %s", u.Scheme, u.Host, b), "load goes to one host: leave it out, or run one for each host"
	}
	if local = rest[end:]; local == "" || local[0] != '/' {
		local = "/" + local
	}
	return local, "", ""
}

// splitRequest splits METHOD TARGET or TARGET.
func splitRequest(text string) (method, target string) {
	text = strings.TrimSpace(text)
	if method, target, ok := strings.Cut(text, " "); ok && validName(method) && strings.ToUpper(method) == method {
		return method, strings.TrimSpace(target)
	}
	return "GET", text
}
