// Package accesslog turns lines of access logs into requests, for teams without
// instrumentation.
//
// A line becomes what an instrumented service would have sent: a request span that ends
// when the line was written, a client span for each attempt at an upstream, and the time
// spent in a queue before. They take the same way as received spans: durations go to the
// aggregator, whole traces to the assembler.
//
// A Format maps the parts of a line to their meaning; it is compiled once, from nginx's
// own log_format syntax or from the field names of a JSON log. Routes follow rules or
// are learned (routes.go, learn.go). A Source joins a format, rules and a tenant. An
// Ingester ingests blocks of lines of a source; Follower feeds it from files that grow
// and are rotated, and ImportHandler from whole files sent over HTTP.
//
// Parsing a line allocates nothing. Lines that cannot be used are counted by reason, and
// the first of them are kept for display, with line and column.
package accesslog

import (
	"errors"
	"fmt"
	"strings"

	"tailscope/internal/route"
)

// Config describes one log as an operator configures it. It has the same form in the
// configuration file, in the flags of an import and in its URL.
type Config struct {
	Format  string   // auto, combined, tailscope, one of textNames, json, caddy, traefik, envoy, json:KEY=FIELD,…, or a log_format; empty is auto
	Service string   // required
	Tenant  string   // host, host:REGEX, path:REGEX or field:NAME; empty: none
	Version string   // a variable or field; empty: none
	Variant string   // likewise
	Routes  []string // REGEX=NAME; the first that matches counts; NAME may use $1 and ${name}
}

// Source is a compiled Config. It is immutable.
type Source struct {
	Service string
	auto    bool // the first line determines the format
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

// ForLines returns the source with a fixed format: the first lines of the log determine
// an automatic one. The error states what to configure.
func (s *Source) ForLines(first []byte) (*Source, error) {
	if !s.auto {
		return s, nil
	}
	spec, err := detectFormat(first)
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

// FormatName returns the name of the format, for display.
func (s *Source) FormatName() string {
	if s.format == nil {
		return "auto"
	}
	return s.format.name
}

// tenantRule is the part of a record that names its tenant: a field of its own, or a
// part of the host or path.
type tenantRule struct {
	place *route.Place // nil: not in the host or path
	field string
}

func parseTenant(text string) (tenantRule, error) {
	if text == "" {
		return tenantRule{}, nil
	}
	if field, ok := strings.CutPrefix(text, "field:"); ok && field != "" {
		return tenantRule{field: strings.TrimPrefix(field, "$")}, nil
	}
	place, ok, err := route.ParsePlace(text)
	if !ok {
		err = fmt.Errorf("%q is not one of host, host:REGEX, path:REGEX, field:NAME", text)
	}
	if err != nil {
		return tenantRule{}, err
	}
	return tenantRule{place: &place}, nil
}

// tenantOf returns the tenant of a record, as a slice of the record.
func (r *tenantRule) tenantOf(rec *record) []byte {
	switch {
	case r.place != nil:
		return r.place.Name(rec.host, rec.path)
	case r.field != "":
		return rec.tenant
	}
	return nil
}
