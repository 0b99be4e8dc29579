package capacity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/search"
)

// stepWarnings returns what makes the answer less certain than it seems, from its
// steps.
func stepWarnings(c *api.Capacity) []api.CompareWarning {
	out := generatorWarnings(c)
	add := func(code, format string, args ...any) {
		out = append(out, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if failed := failedUnasked(c); failed > mostFailed {
		add("errors", "up to %.3g %% of a step's requests failed, and the objective does not limit that: what fails quickly looks fast (hint: add and errors < 1%% to it)", 100*failed)
	}
	if good, bad := contradiction(c); good != nil {
		add("changed", "%s looked kept and, later, %s broke: the target may have changed, or hang, since (hint: see whether it is well, and search again)",
			search.Amount(float64(good.X), c.Unit), search.Number(float64(bad.X)))
	}
	return out
}

// generatorWarnings says once, of all steps that do not count, why and what to do.
func generatorWarnings(c *api.Capacity) (out []api.CompareWarning) {
	type kind struct {
		why, hint string
		at        []string
	}
	var kinds []*kind
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Valid || s.Why == "" {
			continue
		}
		// The first of the steps with the same trouble stands for all: figures
		// differ.
		for _, why := range strings.Split(strings.ReplaceAll(s.Why, "); ", ")\n"), "\n") { // several end in parentheses
			why, hint, _ := strings.Cut(why, " (hint: ")
			hint = strings.TrimSuffix(hint, ")")
			i := slices.IndexFunc(kinds, func(k *kind) bool { return figure.ReplaceAllString(k.why, "") == figure.ReplaceAllString(why, "") })
			if i < 0 {
				i = len(kinds)
				kinds = append(kinds, &kind{why: why, hint: hint})
			}
			k := kinds[i]
			k.at = append(k.at, search.Number(float64(s.X)))
		}
	}
	for _, k := range kinds {
		text := fmt.Sprintf("the step at %s %s does not count: %s", k.at[0], search.Unit(k.at[0], c.Unit), k.why)
		if n := len(k.at); n > 1 {
			text = fmt.Sprintf("%d of %d steps do not count (%s %s), the first as %s", n, len(c.Steps), strings.Join(slices.Compact(k.at), ", "), c.Unit, k.why)
		}
		if k.hint != "" {
			text += " (hint: " + k.hint + ")"
		}
		out = append(out, api.CompareWarning{Code: "generator", Text: text})
	}
	return out
}

// figure matches what differs between steps with the same trouble.
var figure = regexp.MustCompile(`[0-9][0-9.,]*( ?(ns|µs|ms|s)\b)?`)

// mostFailed is the share of requests that may fail without a warning.
const mostFailed = 0.01

// failedUnasked returns the highest share of failed requests at a step that did not
// break, if the objective does not bound errors.
func failedUnasked(c *api.Capacity) float64 {
	most := 0.0
	if strings.Contains(c.Objective, "errors") {
		return 0
	}
	for i := range c.Steps {
		if s := &c.Steps[i]; s.Kept != search.Broken && float64(s.Errors) > most {
			most = float64(s.Errors)
		}
	}
	return most
}

// contradiction returns a step that looked kept and a later one, of clearly less
// load, that was stopped.
func contradiction(c *api.Capacity) (good, bad *api.CapacityStep) {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Stopped == "" || !s.Valid {
			continue
		}
		for j := range i {
			g := &c.Steps[j]
			easier := float64(g.X) >= 1.5*float64(s.X)
			if c.Unit == Servers {
				easier = float64(s.X) >= 1.5*float64(g.X)
			}
			if easier && g.Valid && g.Stopped == "" && g.Latency.Count >= 20 && within(g) {
				return g, s
			}
		}
	}
	return nil, nil
}
