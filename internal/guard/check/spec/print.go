package spec

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"tailscope/internal/strictyaml"
)

// YAML returns the definition as a file without templates: those are merged in, macros
// are replaced, and what looks like a secret is not shown. Read reads it again as the same check. A check that was not read from a
// file prints nothing.
func (c *Check) YAML() string {
	if c.plan == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("checks:\n")
	root := &node{Kind: strictyaml.Mapping, Fields: []field{{Key: c.Name, Value: c.plan.node}}}
	printMapping(&b, root, "  ", nil)
	return b.String()
}

// printMapping writes the keys of a check in the order of its fields.
func printMapping(b *strings.Builder, n *node, indent string, path []string) {
	for _, f := range orderFields(n, path) {
		at := append(path[:len(path):len(path)], f.Key)
		fmt.Fprintf(b, "%s%s:", indent, scalarText(f.Key, true))
		switch f.Value.Kind {
		case strictyaml.Mapping:
			if len(f.Value.Fields) == 0 {
				b.WriteString(" {}\n")
				continue
			}
			b.WriteString("\n")
			printMapping(b, f.Value, indent+"  ", at)
		case strictyaml.List:
			items := make([]string, len(f.Value.Items))
			for i, item := range f.Value.Items {
				items[i] = scalarText(redactAddress(item.Text, at), !item.Quoted)
			}
			b.WriteString(" [" + strings.Join(items, ", ") + "]\n")
		case strictyaml.Null:
			b.WriteString("\n")
		default:
			b.WriteString(" " + scalarText(redactAddress(f.Value.Text, at), !f.Value.Quoted) + "\n")
		}
	}
}

var checkWords = strictyaml.Names(strictyaml.KeysOf(reflect.TypeFor[Check]()))

func orderFields(n *node, path []string) []field {
	if len(path) != 1 {
		return n.Fields
	}
	var out []field
	for _, w := range checkWords {
		for _, f := range n.Fields {
			if f.Key == w {
				out = append(out, f)
			}
		}
	}
	return out
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z_/$][A-Za-z0-9_ ./%+$-]*$|^[0-9]+(%|ms|[smhdw]| of [0-9]+)$`)
	notText   = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|~|y|n)$`)
	numeric   = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

// scalarText writes a scalar so that it is read as the same text.
func scalarText(s string, plain bool) string {
	switch {
	case numeric.MatchString(s):
		if plain {
			return s
		}
	case notText.MatchString(s):
		if plain {
			return s
		}
	case plainText.MatchString(s) && !strings.HasSuffix(s, " "):
		return s
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r > 0x7e {
			return strconv.Quote(s)
		}
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// redactAddress returns an address without what may be a secret.
func redactAddress(s string, path []string) string {
	if len(path) == 0 || path[len(path)-1] != "url" {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	changed := false
	if u.User != nil {
		u.User, changed = url.User("redacted"), true
	}
	q := u.Query()
	for k := range q {
		if secretName.MatchString(k) || strings.EqualFold(k, "key") || strings.EqualFold(k, "sig") {
			q.Set(k, "redacted")
			changed = true
		}
	}
	if !changed {
		return s
	}
	u.RawQuery = q.Encode()
	return u.String()
}
