package spec

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/strictyaml"
)

// Instance returns the check for one series of Each: $label is replaced by the series'
// value of each label in By. Values come from whoever sends spans. They are quoted in a
// string of an expression, meant literally in a regular expression and escaped in a URL.
// A value that could change what is asked of whom is an error.
// A check without Each is its own instance.
func (c *Check) Instance(series map[string]string) (*Check, error) {
	if c.Each == nil || c.plan == nil {
		return c, nil
	}
	values := map[string]string{}
	for _, name := range c.Each.By {
		values[name] = series[name]
	}
	r := newReader(Options{})
	out := r.decodeCheck(c.plan, values)
	if r.problems.Len() > 0 {
		return nil, fmt.Errorf("check %s for %v: %w", c.Name, values, r.problems.Sorted()[0])
	}
	out.Receivers, out.DependsOn, out.Tolerance, out.Schedule = c.Receivers, c.DependsOn, c.Tolerance, c.Schedule
	return out, nil
}

// Labels returns the $labels in an expression.
func Labels(expression string) []string {
	var names []string
	for _, m := range dollar.FindAllStringSubmatch(macro.ReplaceAllString(expression, ""), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// Fill replaces each $label of a profile's expression as Instance does in a check's.
// Without series it writes an example, so that the expression can be parsed.
func Fill(expression string, series map[string]string) (string, error) {
	var b strings.Builder
	end := 0
	for _, at := range dollar.FindAllStringSubmatchIndex(expression, -1) {
		name := expression[at[2]:at[3]]
		v, ok := series[name]
		if series == nil {
			v, ok = example, true
		}
		if !ok {
			return "", fmt.Errorf("$%s in %s is not a label of each", name, expression)
		}
		quoted, refused := intoExpression(expression[:at[0]], v)
		if refused != "" {
			return "", fmt.Errorf("$%s cannot be replaced in %s: %s", name, expression, refused)
		}
		b.WriteString(expression[end:at[0]])
		b.WriteString(quoted)
		end = at[1]
	}
	return b.String() + expression[end:], nil
}

// example stands for a label's value in a definition, which is parsed before any series
// is known. Queries and texts for people keep their
// $label.
const example = "example_value"

var dollar = regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_]*)`)

// substitute replaces $label in the places where that is safe and refuses it
// elsewhere. by are the labels, values theirs; nil stands for examples.
func (r *reader) substitute(n *node, by []string, values map[string]string) *node {
	value := func(path []string, name string) string {
		switch {
		case values != nil:
			return values[name]
		case len(path) == 1 && path[0] != "value", path[0] == "labels", path[len(path)-1] == "series":
			return "$" + name
		}
		return example
	}
	return n.Transform(nil, func(path []string, s *node) {
		if !strings.Contains(s.Text, "$") || len(path) == 0 || path[0] == "each" {
			return
		}
		where := strings.Join(path, ".")
		how := howOf(where)
		if how == nil {
			for _, at := range dollar.FindAllStringSubmatchIndex(s.Text, -1) {
				if name := s.Text[at[2]:at[3]]; slices.Contains(by, name) {
					hint := "only descriptions, names, expressions, series, addresses, headers, arguments and environments know labels"
					if strings.HasSuffix(where, "shell") {
						hint = "a value could be a command: give it by env, such as env: {" + strings.ToUpper(name) + ": $" + name + "}, and write \"$" + strings.ToUpper(name) + `" in quotes`
					}
					r.problem(s.Within(at[0]), hint, "$%s is not replaced in %s", name, where)
				}
			}
			return
		}
		original := s.Text
		for from := 0; ; {
			at := dollar.FindStringSubmatchIndex(s.Text[from:])
			if at == nil {
				break
			}
			start, end := from+at[0], from+at[1]
			name := s.Text[from+at[2] : from+at[3]]
			if !slices.Contains(by, name) {
				r.problem(s.Within(start), strictyaml.Suggest(name, by), "each has no label %s in by", name)
			}
			v, refused := how(s.Text[:start], value(path, name))
			if refused != "" {
				r.problem(s.Within(start), refused, "$%s cannot be replaced here by %q", name, value(path, name))
				return
			}
			s.Replace(start, end-start, v)
			from = start + len(v)
		}
		if where == "value.command.args.*" && strings.HasPrefix(original, "$") && strings.HasPrefix(s.Text, "-") {
			r.problem(s.At, "write --option=$label, or -- before it", "the argument %q would be an option", s.Text)
		}
	})
}

// how quotes a value for its place, after the text before it, or returns why it is
// refused.
type how func(before, value string) (replaced, refused string)

func howOf(where string) how {
	switch where {
	case "value", "value.expression", "value.query.series", "value.promql", "threshold.of":
		return intoExpression
	case "value.http.url":
		return intoURL
	case "value.tcp.address", "value.tls.address", "value.tls.server_name":
		return intoAddress
	case "description", "host", "service", "item", "value.command.args.*":
		return asIs
	}
	for _, prefix := range []string{"labels.", "value.http.headers.", "value.command.env.", "aliases."} {
		if strings.HasPrefix(where, prefix) && strings.Count(where, ".") == strings.Count(prefix, ".") {
			return asIs
		}
	}
	return nil
}

func asIs(_, value string) (string, string) {
	if strings.ContainsAny(value, "\x00\r\n") {
		return "", "a value with line breaks goes nowhere"
	}
	return value, ""
}

var hostname = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

func intoAddress(_, value string) (string, string) {
	if !hostname.MatchString(value) {
		return "", "only the name of a host can stand in an address"
	}
	return value, ""
}

func intoURL(before, value string) (string, string) {
	_, rest, ok := strings.Cut(before, "://")
	switch {
	case !ok:
		return "", "write out which protocol it is"
	case !strings.ContainsAny(rest, "/?#"):
		return intoAddress(before, value)
	case strings.ContainsAny(rest, "?#"):
		return url.QueryEscape(value), ""
	case value == "." || value == "..":
		return "", "it would name another path"
	}
	return url.PathEscape(value), ""
}

// intoExpression quotes a value for the string literal that it is within, or
// makes it one. After =~ and !~ it means itself.
func intoExpression(before, value string) (string, string) {
	quote, opened := byte(0), len(before)
	scan(before, func(i int, q byte) {
		if q != 0 && quote == 0 {
			opened = i
		}
		quote = q
	})
	if quote == 0 {
		opened = len(before)
	}
	if op := strings.TrimRight(before[:opened], " \t\n"); strings.HasSuffix(op, "=~") || strings.HasSuffix(op, "!~") {
		value = regexp.QuoteMeta(value)
	}
	quoted := strconv.QuoteToASCII(value)
	switch inner := quoted[1 : len(quoted)-1]; quote {
	case 0:
		return quoted, ""
	case '"':
		return inner, ""
	case '\'':
		return strings.NewReplacer(`\\`, `\\`, `\"`, `"`, `'`, `\'`).Replace(inner), ""
	}
	return "", "write the string in double quotes"
}
