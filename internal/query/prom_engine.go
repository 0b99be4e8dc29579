package query

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// PromOptions configures a PromEngine; the zero value of each field means its default.
type PromOptions struct {
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default discards
	Timeout time.Duration    // default 30 s
	// QuestionBytes is the memory of one query, of which the engine has a half;
	// default 256 MiB.
	QuestionBytes int64
	Lookback      time.Duration // default 5 min
	MaxSeries     int           // series one selector may read; default 200,000
}

// PromEngine runs PromQL over a store: Prometheus' own engine, fed with
// rewritten queries. It is a promql.QueryEngine.
type PromEngine struct {
	store   store.Store
	engines []sizedEngine // the last has all that a query may have
	parser  parser.Parser
	o       PromOptions
}

var _ promql.QueryEngine = (*PromEngine)(nil)

// defaultSubqueryStep is the step of a subquery that names none.
const defaultSubqueryStep = time.Minute

func noStep(int64) int64 { return defaultSubqueryStep.Milliseconds() }

// NewPromEngine returns an engine over st. It holds nothing that must be closed.
func NewPromEngine(st store.Store, o PromOptions) *PromEngine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.QuestionBytes <= 0 {
		o.QuestionBytes = DefaultQuestionBytes
	}
	if o.Lookback <= 0 {
		o.Lookback = 5 * time.Minute
	}
	if o.MaxSeries <= 0 {
		o.MaxSeries = 200_000
	}
	e := &PromEngine{store: cohortsOfStore(st), o: o, parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true})}
	samples := max(int(o.QuestionBytes/engineShare/sampleCost), leastSamples)
	for _, n := range []int{samples / firstSamples, samples} {
		e.engines = append(e.engines, sizedEngine{promql.NewEngine(promql.EngineOpts{
			Logger: o.Logger, MaxSamples: n, Timeout: o.Timeout, LookbackDelta: o.Lookback,
			NoStepSubqueryIntervalFn: noStep, EnableAtModifier: true, EnableNegativeOffset: true, Parser: e.parser,
		}), n})
	}
	return e
}

// DefaultQuestionBytes is the memory that a question may hold.
const DefaultQuestionBytes = 256 << 20

// Parser returns the parser of the engine's dialect.
func (e *PromEngine) Parser() parser.Parser { return e.parser }

// ParseExpr parses a query that is not too long and not too deep.
func (e *PromEngine) ParseExpr(qs string) (parser.Expr, error) {
	if err := CheckText("query", qs); err != nil {
		return nil, err
	}
	expr, err := e.parser.ParseExpr(qs)
	if err != nil {
		return nil, err
	}
	return expr, checkDepth(expr)
}

// Queryable returns the store as the engine sees it.
func (e *PromEngine) Queryable() storage.Queryable { return e.queryable(0) }

func (e *PromEngine) queryable(shift int64) *promQueryable {
	return &promQueryable{store: e.store, now: e.o.Now, maxSeries: e.o.MaxSeries, shift: shift}
}

// Instant prepares a query of one moment.
func (e *PromEngine) Instant(ctx context.Context, opts promql.QueryOpts, qs string, at time.Time) (promql.Query, error) {
	return e.NewInstantQuery(ctx, e.Queryable(), opts, qs, at)
}

// Range prepares a query of many moments.
func (e *PromEngine) Range(ctx context.Context, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	return e.NewRangeQuery(ctx, e.Queryable(), opts, qs, start, end, interval)
}

// NewInstantQuery implements promql.QueryEngine; q must come from Queryable.
func (e *PromEngine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, at time.Time) (promql.Query, error) {
	text, err := e.prepare(ctx, q, qs, at, at, 0)
	if err != nil {
		return nil, err
	}
	return e.newQuery(q, func(se sizedEngine, q storage.Queryable) (promql.Query, error) {
		return se.NewInstantQuery(ctx, q, opts, text, at)
	})
}

// NewRangeQuery implements promql.QueryEngine; q must come from Queryable.
func (e *PromEngine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	text, err := e.prepare(ctx, q, qs, start, end, interval)
	if err != nil {
		return nil, err
	}
	return e.newQuery(q, func(se sizedEngine, q storage.Queryable) (promql.Query, error) {
		return se.NewRangeQuery(ctx, q, opts, text, start, end, interval)
	})
}

// prepare parses and rewrites a query. Queries without a distribution are left
// as they were written.
func (e *PromEngine) prepare(ctx context.Context, source storage.Queryable, qs string, start, end time.Time, interval time.Duration) (string, error) {
	expr, err := e.ParseExpr(qs)
	if err != nil {
		return "", err
	}
	families, err := familiesByName(ctx, e.store)
	if err != nil {
		return "", err
	}
	r := &rewriter{
		families: families, start: start.UnixMilli(), end: end.UnixMilli(),
		interval: interval.Milliseconds(), noStep: noStep,
	}
	before := expr.String()
	if expr, err = r.rewrite(expr); err != nil {
		return "", err
	}
	steps := int64(1)
	if interval > 0 {
		steps += (r.end - r.start) / r.interval
	}
	c := counter{maxPoints: e.maxPoints(), noStep: noStep, histograms: r.histograms}
	if err := c.count(expr, r.end-r.start, steps); err != nil {
		return "", err
	}
	if s, ok := source.(*promQueryable); ok {
		s.grow, s.longer, s.top = c.growth, c.bytes, c.top
	}
	if text := expr.String(); text != before {
		return text, nil
	}
	return qs, nil
}

// Series lists the series that any of the selections matches and that hold
// something in [start, end], at most limit of them when limit > 0.
func (e *PromEngine) Series(ctx context.Context, start, end time.Time, selections [][]*labels.Matcher, limit int) ([]labels.Labels, bool, error) {
	q, err := e.Queryable().Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return nil, false, err
	}
	defer q.Close() //nolint:errcheck // holds nothing
	seen := map[string]bool{}
	out := []labels.Labels{}
	for _, ms := range selections {
		set := q.Select(ctx, true, &storage.SelectHints{Start: start.UnixMilli(), End: end.UnixMilli(), Func: seriesHint}, ms...)
		for set.Next() {
			l := set.At().Labels()
			if key := string(l.Bytes(nil)); !seen[key] {
				seen[key] = true
				out = append(out, l)
			}
		}
		if err := set.Err(); err != nil {
			return nil, false, err
		}
	}
	if limit > 0 && len(out) > limit {
		return out[:limit], true, nil
	}
	return out, false, nil
}

// seriesHint stands where a function's name would: only labels are wanted.
const seriesHint = "series"

// FamilyMetadata is what /metadata says about a family.
type FamilyMetadata struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// Metadata describes every family, or the one named.
func (e *PromEngine) Metadata(ctx context.Context, name string) (map[string][]FamilyMetadata, error) {
	all, err := e.store.Families(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]FamilyMetadata{}
	for _, f := range all {
		if name == "" || name == f.Name {
			out[f.Name] = []FamilyMetadata{{Type: promType(f.Kind), Unit: unitOf(f.Name)}}
		}
	}
	return out, nil
}

func familiesByName(ctx context.Context, st store.Store) (map[string]store.FamilyInfo, error) {
	all, err := st.Families(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]store.FamilyInfo, len(all))
	for _, f := range all {
		out[f.Name] = f
	}
	return out, nil
}

// promType is a kind as Prometheus' metadata spells it.
func promType(k series.Kind) string {
	if k == series.Distribution {
		return "histogram"
	}
	return KindName(k)
}
