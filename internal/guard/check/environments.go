package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
)

// Environments are looked for in the last day, again after ten minutes.
const (
	environmentsOver  = 24 * time.Hour
	environmentsStale = 10 * time.Minute
)

// environments remembers whether a check takes several environments together.
type environments struct {
	mu    sync.Mutex
	asked time.Time // zero: never
	texts []string
}

// cautions returns what speaks against taking the value of a check at its word: that it is
// of several environments together. An error leaves the check without.
func (e *Engine) cautions(ctx context.Context, in *instance) []string {
	k, now := &in.environments, e.o.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.asked.IsZero() && now.Sub(k.asked).Abs() < environmentsStale {
		return k.texts
	}
	var texts []string
	for _, of := range in.spans() {
		text, err := query.Together(ctx, e.o.Store, query.Selection{Family: of.family, Matchers: of.matchers, Start: now.Add(-environmentsOver), End: now})
		if err == nil && text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if ctx.Err() == nil {
		k.asked, k.texts = now, texts
	}
	return texts
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
