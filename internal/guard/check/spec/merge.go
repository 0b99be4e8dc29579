package spec

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// plan is a check with its templates merged in and its macros replaced. The check is
// decoded from it, and again for each series that it is applied to.
type plan struct {
	name string
	at   place
	zone string
	node *node
	gap  time.Duration
}

// makePlan merges the templates of a check, nil if one is unknown.
func (r *reader) makePlan(name string, def defined[Check]) *plan {
	merged := &node{Kind: strictyaml.Mapping, At: def.at}
	var templates []string
	if !r.listTemplates(&templates, pointers(def.it.Templates), nil) {
		return nil
	}
	for _, t := range templates {
		if tn := r.all.Templates.of[t].node; tn.Kind == strictyaml.Mapping {
			merge(merged, tn)
		}
	}
	if def.node.Kind == strictyaml.Mapping {
		merge(merged, def.node)
	}
	merged.Without("template")
	return &plan{name: name, at: def.at, zone: r.zoneOf(def.at), node: r.replaceMacros(merged)}
}

// listTemplates lists templates in the order of merging, each after those that it
// builds on itself, and once. It is false if one is unknown or builds on itself;
// path are the templates that led here.
func (r *reader) listTemplates(out *[]string, templates []*string, path []string) bool {
	ok := true
	for _, t := range templates {
		name := *t
		def, known := r.all.Templates.of[name]
		at := slices.Index(path, name)
		switch {
		case !known:
			checkNamed(r, "template", []*string{t}, r.all.Templates.of) // says so
			ok = false
		case at >= 0:
			r.d.Wrong(t, "leave one of them out", "template goes in a circle: %s", join(append(slices.Clone(path[at:]), name)))
			return false
		case slices.Contains(*out, name):
		default:
			if !r.listTemplates(out, pointers(def.it.Templates), append(path[:len(path):len(path)], name)) {
				ok = false
			}
			*out = append(*out, name)
		}
	}
	return ok
}

// merge puts over on top of n: mappings merge, everything else replaces, and
// null takes away. Of what excludes each other the last one said stays.
func merge(n, over *node) {
	for _, f := range over.Fields {
		for _, group := range exclusive {
			for _, k := range group {
				if k == f.Key {
					for _, other := range group {
						if other != f.Key && over.Get(other) == nil {
							n.Without(other)
						}
					}
				}
			}
		}
		old := n.Get(f.Key)
		switch {
		case f.Value.Kind == strictyaml.Null:
			n.Without(f.Key)
		case old != nil && old.Kind == strictyaml.Mapping && f.Value.Kind == strictyaml.Mapping:
			c := *old
			c.Fields = append([]field(nil), old.Fields...)
			c.At = f.Value.At
			merge(&c, f.Value)
			n.With(field{Key: f.Key, At: f.At, Value: &c})
		default:
			n.With(f)
		}
	}
}

// exclusive are keys of which a check, or a source, has one.
var exclusive = [][]string{
	{"every", "cron", "after"},
	{"expression", "query", "promql", "http", "tcp", "tls", "command", "sql"},
}

var macro = regexp.MustCompile(`\$\$([A-Z]+)\$\$`)

// replaceMacros replaces the names that Bischeck has for a check's own parts. In an
// expression a dash within a name is quoted, for it joins names there.
func (r *reader) replaceMacros(n *node) *node {
	get := func(path ...string) string {
		at := n
		for _, p := range path {
			at = at.Get(p)
		}
		if at == nil {
			return ""
		}
		return at.Text
	}
	alias := func(key string) string {
		if a := get("aliases", key); a != "" {
			return a
		}
		return get(key)
	}
	values := map[string]string{
		"HOSTNAME": get("host"), "HOSTALIAS": alias("host"),
		"SERVICENAME": get("service"), "SERVICEALIAS": alias("service"),
		"SERVICEITEMNAME": get("item"), "SERVICEITEMALIAS": alias("item"),
		"ITEMNAME": get("item"), "ITEMALIAS": alias("item"),
	}
	known := names(values)
	return n.Transform(nil, func(path []string, s *node) {
		expression := isExpression(path)
		for from := 0; ; {
			at := macro.FindStringSubmatchIndex(s.Text[from:])
			if at == nil {
				return
			}
			start, end := from+at[0], from+at[1]
			name := s.Text[from+at[2] : from+at[3]]
			v, ok := values[name]
			if !ok {
				r.problem(s.Within(start), strictyaml.Suggest(name, known), "unknown macro $$%s$$", name)
				return
			}
			if v == "" || macro.MatchString(v) {
				r.problem(s.Within(start), "give the check host, service and item", "$$%s$$ stands for nothing here", name)
				return
			}
			if expression && !inString(s.Text[:start]) {
				v = strings.ReplaceAll(v, "-", `\-`)
			}
			s.Replace(start, end-start, v)
			from = start + len(v)
		}
	})
}

func isExpression(path []string) bool {
	switch strings.Join(path, ".") {
	case "value", "value.expression", "threshold.of":
		return true
	}
	return false
}

// inString reports whether text ends within a string literal.
func inString(text string) bool {
	q := byte(0)
	scan(text, func(_ int, quote byte) { q = quote })
	return q != 0
}

// scan calls f for each byte of an expression with the quote of the string
// literal that the byte is within, 0 outside of any. An opening quote is within,
// a closing one is not.
func scan(text string, f func(i int, quote byte)) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			quote = c
		case quote == 0 && c == '#':
			for ; i < len(text) && text[i] != '\n'; i++ {
				f(i, 0)
			}
			i--
			continue
		case quote != 0 && quote != '`' && c == '\\':
			f(i, quote)
			if i++; i == len(text) {
				return
			}
		case quote == c:
			quote = 0
		}
		f(i, quote)
	}
}
