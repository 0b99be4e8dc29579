package chstore

import (
	"encoding/hex"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", `\0`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// quote returns a string literal.
func quote(s string) string { return "'" + escapes.Replace(s) + "'" }

func quoteAll(ss []string) string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = quote(s)
	}
	return strings.Join(out, ",")
}

// list joins numbers by commas.
func list[T ~int32 | ~int64 | ~uint32 | ~uint64](vs []T) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 {
			b.WriteByte(',')
		}
		if v < 0 {
			b.WriteString(strconv.FormatInt(int64(v), 10))
		} else {
			b.WriteString(strconv.FormatUint(uint64(v), 10))
		}
	}
	return b.String()
}

// fixed returns a literal of 16 bytes.
func fixed(b []byte) string { return "toFixedString(unhex('" + hex.EncodeToString(b) + "'), 16)" }

// label returns the value of a label in a row of the table series, empty if there is none.
func label(name string) string {
	return "values[indexOf(names, " + quote(name) + ")]"
}

// condition returns what a label set satisfies all matchers as, beginning with AND; empty
// for none.
func condition(matchers []*labels.Matcher) (string, error) {
	var b strings.Builder
	for _, m := range matchers {
		c, err := matches(m)
		if err != nil {
			return "", err
		}
		b.WriteString(" AND " + c)
	}
	return b.String(), nil
}

func matches(m *labels.Matcher) (string, error) {
	value := label(m.Name)
	switch m.Type {
	case labels.MatchEqual:
		return value + " = " + quote(m.Value), nil
	case labels.MatchNotEqual:
		return value + " != " + quote(m.Value), nil
	}
	c := ""
	if set := m.SetMatches(); len(set) > 0 {
		c = value + " IN (" + quoteAll(set) + ")"
	} else {
		re, err := expression(m.Value)
		if err != nil {
			return "", fmt.Errorf("matcher %s: %w", m, err)
		}
		c = "match(" + value + ", " + quote(re) + ")"
	}
	if m.Type == labels.MatchNotRegexp {
		c = "NOT " + c
	}
	return c, nil
}

// expression returns a regular expression as the database's engine reads it, RE2 in C++:
// anchored, and written out anew from how Go has read it, since Go accepts more.
func expression(s string) (string, error) {
	re, err := syntax.Parse(s, syntax.Perl|syntax.DotNL)
	if err != nil {
		return "", err
	}
	return `\A(?:` + re.String() + `)\z`, nil
}

// idBytes is a series' identity as it is stored: big-endian, so that text of it reads as
// series.ID does elsewhere.
func idBytes(id series.ID) (b [16]byte) {
	for i := range 8 {
		b[i], b[8+i] = byte(id.Hi>>(56-8*i)), byte(id.Lo>>(56-8*i))
	}
	return b
}

// groupNames returns the labels to group by, each once and sorted.
func groupNames(by []string) []string { return slices.Compact(slices.Sorted(slices.Values(by))) }

// labelsOf returns a label set of names, sorted, and values; empty ones are absent.
func labelsOf(b *labels.ScratchBuilder, names, values []string) labels.Labels {
	b.Reset()
	for i, n := range names {
		if values[i] != "" {
			b.Add(n, values[i])
		}
	}
	return b.Labels()
}
