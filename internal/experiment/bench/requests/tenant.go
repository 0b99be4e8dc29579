package requests

import (
	"fmt"
	"strings"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/route"
)

// tenantRule says which part of a request names its tenant.
type tenantRule struct {
	header, column string
	place          *route.Place
}

func parseTenantRule(text string) (t tenantRule, err error) {
	if text == "" {
		return t, nil
	}
	place, ok, err := route.ParsePlace(text)
	if err != nil {
		return t, fmt.Errorf("%q: %w", text, err)
	}
	if ok {
		t.place = &place
		return t, nil
	}
	kind, name, _ := strings.Cut(text, ":")
	switch name = strings.TrimSpace(name); {
	case kind == "header" && validName(name):
		t.header = name
	case kind == "column" && name != "":
		t.column = name
	default:
		return t, fmt.Errorf("%q is not a place of a tenant (hint: write header:NAME, column:NAME, host, host:REGEX or path:REGEX)", text)
	}
	return t, nil
}

// templateOf returns the template of the header field that names the tenant, or nil.
func (t *tenantRule) templateOf(fields []field) *template {
	if t.header == "" {
		return nil
	}
	return fieldNamed(fields, t.header)
}

// named returns the tenant of a request that does not depend on data.
func (t *tenantRule) named(host, target string, fields []load.Field) string {
	switch {
	case t.header != "":
		return valueOfField(fields, t.header)
	case t.place != nil:
		path, _, _ := strings.Cut(target, "?")
		return string(t.place.Name([]byte(host), []byte(path)))
	}
	return ""
}
