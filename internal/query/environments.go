package query

import (
	"context"
	"fmt"
	"strings"

	"tailscope/internal/figure"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Together returns a sentence that names the environments of a selection if it names
// none and has several, which an answer then takes together; else "".
func Together(ctx context.Context, st store.Store, sel Selection) (string, error) {
	if named(sel.Matchers, series.LabelEnvironment) {
		return "", nil
	}
	by := []string{series.LabelEnvironment}
	r, err := resolve(ctx, st, sel, nil)
	if err != nil {
		return "", err
	}
	if r.q.View, err = viewFor(r.info.Name, sel.Matchers, by); err != nil {
		return "", err
	}
	some, err := st.LabelValues(ctx, r.q.Family, r.q.View, series.LabelEnvironment, r.q.Matchers, r.q.Start, r.q.End)
	if err != nil || len(some) == 0 {
		return "", err
	}
	r.q.By, r.q.Measure = by, store.Moments
	res, err := st.Query(ctx, r.q)
	if err != nil {
		return "", err
	}
	type part struct {
		name  string
		count uint64
	}
	var parts []part
	total := uint64(0)
	for _, g := range res.Groups {
		if n := groupCount(g); n > 0 {
			parts = append(parts, part{g.Labels.Get(series.LabelEnvironment), n})
			total += n
		}
	}
	if len(parts) < 2 {
		return "", nil
	}
	const few = 5
	var words []string
	most := parts[0]
	for i, p := range parts {
		name := p.name
		if name == "" {
			name = "without one"
		}
		if i < few {
			words = append(words, fmt.Sprintf("%s (%s)", name, figure.Percent(float64(p.count)/float64(total))))
		}
		if p.name != "" && (most.name == "" || p.count > most.count) {
			most = p
		}
	}
	if more := len(parts) - few; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%d environments are taken together: %s; name one: environment=%s", len(parts), strings.Join(words, ", "), quote(most.name)), nil
}
