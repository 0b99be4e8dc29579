// Package accesslog makes requests of the lines of access logs, which is how a
// team without instrumentation starts.
//
// A line becomes what an instrumented service would have sent: a request span
// that ends when the line was written, a client span for each attempt at an
// upstream, and the time spent in a queue before. They go in by the same door:
// durations to the aggregator, whole traces to the assembler.
//
// A Format says where in a line what stands; it is compiled once, from nginx's
// own log_format syntax or from the names of a JSON log's fields. Routes are
// told by rules or learned (routes.go, learn.go). A Source joins a format,
// rules and a tenant into what one log means. An Ingester takes blocks of
// lines of a source; Follower feeds it from files that grow and are rotated,
// and its import handler from whole files sent over HTTP.
//
// Parsing a line allocates nothing. Lines that cannot be used are counted by
// reason, and the first of them are kept to be shown, with line and column.
package accesslog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"tailscope/internal/route"
)

// Config describes one log as an operator writes it. It says the same in the
// file of settings, in the flags of an import and in its address.
type Config struct {
	Format  string   // auto, combined, tailscope, json, caddy, traefik, envoy, json:KEY=FIELD,…, or a log_format; empty is auto
	Service string   // needed
	Tenant  string   // host, host:REGEX, path:REGEX or field:NAME; empty: none
	Version string   // a variable or field; empty: none
	Variant string   // likewise
	Routes  []string // REGEX=NAME, the first that matches wins; NAME may use $1 and ${name}
}

// Source is a compiled Config. It is read-only once made.
type Source struct {
	Service string
	auto    bool // the format is told by the first line
	format  *Format
	config  Config
	tenant  tenantRule
	rules   []route.Rule
}

// Compile checks a Config and returns every problem at once.
func (c Config) Compile() (*Source, error) {
	s := &Source{Service: c.Service, config: c}
	var errs []error
	if c.Service == "" {
		errs = append(errs, errors.New("service: a name is needed, such as shop"))
	}
	var err error
	if s.tenant, err = parseTenant(c.Tenant); err != nil {
		errs = append(errs, fmt.Errorf("tenant: %w", err))
	}
	for _, text := range c.Routes {
		r, err := route.ParseRule(text, "^/shop/[a-z]+/$=/shop/{name}")
		if err != nil {
			errs = append(errs, fmt.Errorf("route: %w", err))
		}
		s.rules = append(s.rules, r)
	}
	if c.Format == "" || c.Format == "auto" {
		s.auto = true
	} else if s.format, err = s.compile(c.Format); err != nil {
		errs = append(errs, fmt.Errorf("format: %w", err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

func (s *Source) compile(spec string) (*Format, error) {
	return compileFormat(spec, wanted{s.tenant.field, s.config.Version, s.config.Variant})
}

// ForLines returns the source with its format settled: an automatic one is
// told by the first lines of the log. The error says what to configure.
func (s *Source) ForLines(first []byte) (*Source, error) {
	if !s.auto {
		return s, nil
	}
	spec, err := detect(first)
	if err != nil {
		return nil, err
	}
	out := *s
	out.auto = false
	if out.format, err = s.compile(spec); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	return &out, nil
}

// FormatName is what lines are read as, for people.
func (s *Source) FormatName() string {
	if s.format == nil {
		return "auto"
	}
	return s.format.name
}

type tenantFrom uint8

const (
	noTenant tenantFrom = iota
	tenantHost
	tenantPath
	tenantField
)

type tenantRule struct {
	from  tenantFrom
	re    *regexp.Regexp // nil with tenantHost: the first label
	field string
}

func parseTenant(text string) (tenantRule, error) {
	kind, rest, more := strings.Cut(text, ":")
	compile := func(from tenantFrom) (tenantRule, error) {
		re, err := regexp.Compile(rest)
		if err != nil {
			return tenantRule{}, err
		}
		if re.NumSubexp() < 1 {
			return tenantRule{}, fmt.Errorf("%q has no group: put what names the tenant into brackets, as in %s", rest, `path:^/t/([^/]+)/`)
		}
		return tenantRule{from: from, re: re}, nil
	}
	switch {
	case text == "":
		return tenantRule{}, nil
	case kind == "host" && !more:
		return tenantRule{from: tenantHost}, nil
	case kind == "host" && rest != "":
		return compile(tenantHost)
	case kind == "path" && rest != "":
		return compile(tenantPath)
	case kind == "field" && rest != "":
		return tenantRule{from: tenantField, field: strings.TrimPrefix(rest, "$")}, nil
	}
	return tenantRule{}, fmt.Errorf("%q is none of host, host:REGEX, path:REGEX, field:NAME", text)
}

// of returns the tenant of a request, empty if there is none.
func (r *tenantRule) of(rec *record) []byte {
	switch r.from {
	case tenantHost:
		host := rec.host
		if i := lastColon(host); i >= 0 {
			host = host[:i]
		}
		if r.re == nil {
			return firstLabel(host)
		}
		return group(r.re, host)
	case tenantPath:
		return group(r.re, rec.path)
	case tenantField:
		return rec.tenant
	}
	return nil
}

// firstLabel is acme of acme.example.com; an address has none, nor has a name
// of one label.
func firstLabel(host []byte) []byte {
	dot, letters := -1, false
	for i, c := range host {
		if c == '.' && dot < 0 {
			dot = i
		}
		letters = letters || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	if dot <= 0 || !letters || host[0] == '[' {
		return nil
	}
	return host[:dot]
}

// lastColon is where the port of a host begins, -1 without one.
func lastColon(host []byte) int {
	for i := len(host) - 1; i >= 0; i-- {
		switch c := host[i]; {
		case c == ':':
			return i
		case c < '0' || c > '9':
			return -1
		}
	}
	return -1
}

// group is the first group of the first match.
func group(re *regexp.Regexp, b []byte) []byte {
	m := re.FindSubmatchIndex(b)
	for i := 2; i+1 < len(m); i += 2 {
		if m[i] >= 0 {
			return b[m[i]:m[i+1]]
		}
	}
	return nil
}
