package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
)

// Environments are looked for in the last day, again after ten minutes, and a minute after
// the store did not answer in time.
const (
	environmentsOver  = 24 * time.Hour
	environmentsStale = 10 * time.Minute
	environmentsRetry = time.Minute
	environmentsWait  = 2 * time.Second
)

// environments remembers the environments of all services, for checks that take several
// together.
type environments struct {
	mu     sync.Mutex
	until  time.Time // when they are asked for again; zero: never asked
	counts query.EnvironmentCounts
	texts  map[selection]string // of what was asked by itself
}

// selection is what a check reads, as text.
type selection struct{ family, matchers string }

// cautions returns, for each check, what speaks against taking its value at its word: that
// it is of several environments together. All checks are answered by one question; only one
// that names further labels than service and kind, of a service in several environments, is
// asked for by itself. What does not answer in time leaves checks without.
func (e *Engine) cautions(ctx context.Context, checks ...*instance) [][]string {
	ctx, cancel := context.WithTimeout(ctx, environmentsWait)
	defer cancel()
	k, now := &e.environments, e.o.Now()
	start := now.Add(-environmentsOver)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.until) || k.until.Sub(now) > environmentsStale { // the clock may be set back
		counts, err := query.CountEnvironments(ctx, e.o.Store, start, now)
		if k.until = now.Add(environmentsStale); err != nil {
			k.until = now.Add(environmentsRetry)
		}
		k.counts, k.texts = counts, map[selection]string{}
	}
	out := make([][]string, len(checks))
	for i, in := range checks {
		for _, of := range in.spans() {
			text, exact := k.counts.Together(of.matchers)
			if text != "" && !exact {
				text = e.together(ctx, of, start, now)
			}
			if text != "" && !slices.Contains(out[i], text) {
				out[i] = append(out[i], text)
			}
		}
	}
	return out
}

// together asks for the environments of one selection. Needs environments.mu.
func (e *Engine) together(ctx context.Context, of selected, start, end time.Time) string {
	key := selection{of.family, fmt.Sprint(of.matchers)}
	text, known := e.environments.texts[key]
	if known || ctx.Err() != nil {
		return text
	}
	text, err := query.Together(ctx, e.o.Store, query.Selection{Family: of.family, Matchers: of.matchers, Start: start, End: end})
	if err == nil || ctx.Err() == nil {
		e.environments.texts[key] = text
	}
	return text
}

// selected is what a value reads.
type selected struct {
	family   string
	matchers []*labels.Matcher
}

// spans returns what the value reads of spans, by a query or an expression.
func (in *instance) spans() (out []selected) {
	add := func(name string, ms []*labels.Matcher) {
		if name = family(name); query.IsSpanFamily(name) {
			out = append(out, selected{name, ms})
		}
	}
	switch v := &in.c.Value; {
	case v.Query != nil && in.d.grouped != nil:
		add(v.Query.Series.Family, in.query().Series.Matchers)
	case v.Query != nil:
		add(v.Query.Series.Family, v.Query.Series.Matchers)
	case v.Expr != nil:
		for _, s := range v.Expr.Selectors() {
			if s.Family != "" {
				add(s.Family, s.Matchers)
			}
		}
	}
	return out
}
