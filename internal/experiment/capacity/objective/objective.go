// Package objective reads and judges the objective that a system has to keep under
// rising load: conditions that are all upper limits.
//
//	p99 < 200ms and errors < 0.1%
//	p(95){search} < 80ms and mean < 30ms and max < 2s
//	p99 < 200ms and primary p99 < 300ms
//
// A condition is on the requests of the search, or on those of one query, or on
// those that a live system's own clients sent (primary). Whatever it is on becomes
// a ratio of two sums that grow with every batch: requests beyond the limit of
// requests, seconds of requests. That is all that judging needs, and it is done on
// batches and never on requests, which depend on each other wherever they queue.
//
// Nothing here reads a clock or does I/O.
package objective

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

// Primary is the part of the requests that live clients sent to the primary.
const Primary = "primary"

// Part names a part of the requests; the zero value is all of the search's.
type Part struct {
	Side  string // "" or Primary
	Query string // name, "" for all
}

// Condition is one upper limit.
type Condition struct {
	Text string // as it was written, without blanks around
	Part Part
	// Measure is quantile, mean, max or errors.
	Measure string
	// Quantile is in (0, 1), for the measure quantile.
	Quantile float64
	// Limit is in seconds, for errors a share in [0, 1).
	Limit float64
}

// Objective is kept if all its conditions are. It has at least one.
type Objective []Condition

// String returns the objective in the syntax of Parse.
func (o Objective) String() string {
	texts := make([]string, len(o))
	for i, c := range o {
		texts[i] = c.Text
	}
	return strings.Join(texts, " and ")
}

// Parts returns the parts of the conditions, each once.
func (o Objective) Parts() []Part {
	var parts []Part
	for _, c := range o {
		if !slices.Contains(parts, c.Part) {
			parts = append(parts, c.Part)
		}
	}
	return parts
}

// Queries returns the queries of the conditions, each once.
func (o Objective) Queries() []string {
	var names []string
	for _, c := range o {
		if q := c.Part.Query; q != "" && !slices.Contains(names, q) {
			names = append(names, q)
		}
	}
	return names
}

// Check returns an error if a condition names a query that does not exist.
func (o Objective) Check(queries []string) error {
	for _, c := range o {
		if c.Part.Query == "" || slices.Contains(queries, c.Part.Query) {
			continue
		}
		hint := strictyaml.Suggest(c.Part.Query, queries)
		if hint == "" {
			hint = fmt.Sprintf("there are %d; leave {%s} out for all of them", len(queries), c.Part.Query)
		}
		return fmt.Errorf("objective %q: there is no query %s (hint: %s)", c.Text, c.Part.Query, hint)
	}
	return nil
}

// Parse parses an objective. The error quotes the condition and says what to write
// instead.
func Parse(text string) (Objective, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("the objective is empty (hint: write one as p99 < 200ms and errors < 0.1%%)")
	}
	var o Objective
	for _, part := range split(text) {
		c, err := condition(part)
		if err != nil {
			return nil, fmt.Errorf("objective %q: %w", text, err)
		}
		if i := slices.IndexFunc(o, func(other Condition) bool { return other.same(c) }); i >= 0 {
			return nil, fmt.Errorf("objective %q: %q and %q are on the same (hint: leave the wider one out)", text, o[i].Text, c.Text)
		}
		o = append(o, c)
	}
	return o, nil
}

func (c Condition) same(o Condition) bool {
	return c.Part == o.Part && c.Measure == o.Measure && c.Quantile == o.Quantile
}

// split cuts at each "and" or comma outside braces.
func split(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case text[i] == '{':
			depth++
		case text[i] == '}':
			depth--
		case depth > 0:
		case text[i] == ',':
			parts, from = append(parts, text[from:i]), i+1
		case len(rest) >= 5 && strings.EqualFold(rest[1:4], "and") && blank(rest[0]) && blank(rest[4]):
			parts, from = append(parts, text[from:i]), i+4
			i += 3
		}
	}
	return append(parts, text[from:])
}

// or matches what would join conditions of which one must hold; names of queries may
// contain it.
var (
	or     = regexp.MustCompile(`(?i)\sor\s|\|\|`)
	braced = regexp.MustCompile(`\{[^}]*\}`)
)

func blank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' }

func condition(text string) (Condition, error) {
	text = strings.TrimSpace(text)
	c := Condition{Text: text}
	if or.MatchString(braced.ReplaceAllString(text, "{}")) {
		return c, errors.New("all of its conditions are to be kept (hint: and joins conditions; run two searches)")
	}
	rest := text
	if word, after, found := strings.Cut(text, " "); found && word == Primary {
		c.Part.Side, rest = Primary, strings.TrimSpace(after)
	}
	t, err := threshold.Parse(rest)
	if err != nil {
		return c, err
	}
	query, phase, tenant := t.Names()
	c.Part.Query = query
	if phase != "" || tenant != "" {
		return c, fmt.Errorf("%q: a condition of a search is on all requests or on a query's (hint: leave the braces out, or name a query)", text)
	}
	if _, aborts := t.Aborts(); aborts {
		return c, fmt.Errorf("%q: a search stops by itself once its objective is broken (hint: leave abort out)", text)
	}
	op, limit := t.Limit()
	c.Limit, c.Measure = limit, t.Measure()
	c.Quantile, _ = t.Quantile()
	switch c.Measure {
	case "quantile", "mean", "max", "errors":
	case "rate":
		return c, fmt.Errorf("%q: the rate is what is searched for (hint: bound it with --lowest and --highest)", text)
	default:
		return c, fmt.Errorf("%q: an objective is on a percentile, mean, max or errors (hint: such as p99 < 200ms and errors < 0.1%%)", text)
	}
	if op != "<" && op != "<=" {
		return c, fmt.Errorf("%q: an objective is an upper limit (hint: write < in place of %s)", text, op)
	}
	if c.Measure == "errors" && limit >= 1 {
		return c, fmt.Errorf("%q: no share of errors breaks it (hint: write errors < 1%%)", text)
	}
	return c, nil
}
