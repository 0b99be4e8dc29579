package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

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
	counts := map[string]uint64{}
	for _, g := range res.Groups {
		counts[g.Labels.Get(series.LabelEnvironment)] += groupCount(g)
	}
	return togetherText(counts), nil
}

// EnvironmentCounts are how many spans each service sent, by kind and environment.
type EnvironmentCounts map[spansOf]map[string]uint64

type spansOf struct{ service, kind string }

// CountEnvironments counts the spans of all services by one question.
func CountEnvironments(ctx context.Context, st store.Store, start, end time.Time) (EnvironmentCounts, error) {
	by := []string{series.LabelService, series.LabelKind, series.LabelEnvironment}
	r, err := resolve(ctx, st, Selection{Start: start, End: end}, nil)
	if err != nil {
		return nil, err
	}
	if r.q.View, err = viewFor(r.info.Name, nil, by); err != nil {
		return nil, err
	}
	r.q.By, r.q.Measure = by, store.Moments
	res, err := st.Query(ctx, r.q)
	if err != nil {
		return nil, err
	}
	out := EnvironmentCounts{}
	for _, g := range res.Groups {
		k := spansOf{g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelKind)}
		if out[k] == nil {
			out[k] = map[string]uint64{}
		}
		out[k][g.Labels.Get(series.LabelEnvironment)] += groupCount(g)
	}
	return out, nil
}

// Together returns the sentence of the function Together for span families. exact is false
// if the matchers name further labels than the counts are kept by, so that the spans they
// select may be of fewer environments.
func (c EnvironmentCounts) Together(ms []*labels.Matcher) (text string, exact bool) {
	if named(ms, series.LabelEnvironment) {
		return "", true
	}
	exact = true
	counts := map[string]uint64{}
	for of, environments := range c {
		chosen := true
		for _, m := range ms {
			switch m.Name {
			case series.LabelService:
				chosen = chosen && m.Matches(of.service)
			case series.LabelKind:
				chosen = chosen && m.Matches(of.kind)
			default:
				exact = false
			}
		}
		for name, n := range environments {
			if chosen {
				counts[name] += n
			}
		}
	}
	return togetherText(counts), exact
}

// togetherText names the environments that have spans if there are several; else it is empty.
func togetherText(counts map[string]uint64) string {
	type part struct {
		name  string
		count uint64
	}
	var parts []part
	total := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > 0 {
			parts = append(parts, part{name, n})
			total += n
		}
	}
	if len(parts) < 2 {
		return ""
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
	return fmt.Sprintf("%d environments are taken together: %s; name one: environment=%s", len(parts), strings.Join(words, ", "), quote(most.name))
}
