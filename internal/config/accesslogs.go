package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// AccessLog is one log that the server follows; see docs/access-logs.md.
type AccessLog struct {
	Path    string   // a file, or a pattern
	Format  string   // empty: told by the lines
	Service string   //
	Tenant  string   // host, host:REGEX, path:REGEX or field:NAME
	Version string   // a variable or field
	Variant string   //
	Routes  []string // REGEX=NAME
	Whole   bool     // begin at the beginning at the first start, not at the end
}

// accessLogsKey is the one key whose value is a list of mappings: it can be
// said in the file only.
const accessLogsKey = "access_logs"

// fields are the keys of one log.
func (l *AccessLog) fields() []Setting {
	t := func(p *string) func(*Config) Value { return func(*Config) Value { return text{p} } }
	return []Setting{
		{"path", "", t(&l.Path)}, {"service", "", t(&l.Service)}, {"format", "", t(&l.Format)}, {"tenant", "", t(&l.Tenant)},
		{"version", "", t(&l.Version)}, {"variant", "", t(&l.Variant)},
		{"routes", "", func(*Config) Value { return list{&l.Routes} }},
	}
}

// accessLogs reads the list.
func (r *fileReader) accessLogs(n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if _, null := n.(*ast.NullNode); !null {
			r.fail(n, "%s: write a list, each entry with a path and a service", accessLogsKey)
		}
		return
	}
	r.config.AccessLogs = nil
	for i, item := range seq.Values {
		r.config.AccessLogs = append(r.config.AccessLogs, AccessLog{})
		r.accessLog(fmt.Sprintf("%s[%d]", accessLogsKey, i), item, &r.config.AccessLogs[i])
	}
}

func (r *fileReader) accessLog(name string, n ast.Node, l *AccessLog) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		r.fail(n, "%s: write key: value below it", name)
		return
	}
	fields := l.fields()
next:
	for _, v := range values {
		key := keyText(v.Key)
		if key == "start" {
			switch t, _ := scalar(v.Value); t {
			case "beginning":
				l.Whole = true
			case "end":
				l.Whole = false
			default:
				r.fail(v.Value, "%s.start: %q is neither beginning nor end", name, t)
			}
			continue
		}
		known := []string{"start"}
		for _, f := range fields {
			if f.Key == key {
				f.Key = name + "." + key
				r.setting(f, v.Value)
				continue next
			}
			known = append(known, f.Key)
		}
		best := known[0]
		for _, k := range known {
			if distance(key, k) < distance(key, best) {
				best = k
			}
		}
		r.fail(v.Key, "unknown key %s.%s: did you mean %s?", name, key, best)
	}
}

// validateAccessLogs says what each entry lacks; what formats, tenants and
// routes mean is looked at when the server starts.
func (c *Config) validateAccessLogs(bad func(key, format string, args ...any)) {
	seen := map[string]int{}
	for i, l := range c.AccessLogs {
		key := fmt.Sprintf("%s[%d]", accessLogsKey, i)
		if l.Path == "" {
			bad(key+".path", "needs a file, such as /var/log/nginx/access.log")
		}
		if l.Service == "" {
			bad(key+".service", "needs a name, such as shop")
		}
		if first, ok := seen[l.Path]; ok && l.Path != "" {
			bad(key+".path", "%s is already followed by %s[%d]", l.Path, accessLogsKey, first)
		}
		seen[l.Path] = i
	}
}

func (c *Config) accessLogsYAML(b *strings.Builder) {
	if len(c.AccessLogs) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", accessLogsKey)
	for _, l := range c.AccessLogs {
		lead := "  - "
		for _, f := range l.fields() {
			v := f.Value(c)
			if v.String() == "" {
				continue
			}
			text := v.YAML()
			if items, ok := v.(list); ok { // regular expressions have commas
				text = fmt.Sprintf("[%s]", strings.Join(quoted(*items.p), ", "))
			}
			fmt.Fprintf(b, "%s%s: %s\n", lead, f.Key, text)
			lead = "    "
		}
		if l.Whole {
			fmt.Fprintf(b, "%sstart: beginning\n", lead)
		}
	}
}

func quoted(items []string) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = strconv.Quote(s)
	}
	return out
}
