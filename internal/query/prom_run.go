package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"tailscope/internal/figure"
	"tailscope/internal/store"
)

// The engine counts its samples, of sampleCost bytes each: 16, and what slices
// grow ahead. A histogram counts as many samples as it takes the bytes of. That
// memory is reserved before the engine begins: first little, and all that a
// question may have when that did not do. What was selected is kept meanwhile.
const (
	sampleCost    = 24
	firstSamples  = 8 // the engine tries with an eighth
	leastSamples  = 10_000
	engineShare   = 2 // of a question's memory the engine has a half
	pointsOfShare = 4 // and a subquery's points a quarter of that: its result, and what it is made of
)

// sizedEngine is an engine with the samples that it may hold.
type sizedEngine struct {
	*promql.Engine
	samples int
}

func (e sizedEngine) bytes() int64 { return int64(e.samples) * sampleCost }

// maxPoints returns the most points that a subquery may make.
func (e *PromEngine) maxPoints() int64 {
	return int64(e.engines[len(e.engines)-1].samples) / pointsOfShare
}

// promQuery runs a prepared query. It is a promql.Query.
type promQuery struct {
	promql.Query // of the engine that ran last
	make         func(sizedEngine, storage.Queryable) (promql.Query, error)
	engines      []sizedEngine
	source       storage.Queryable
	timeout      time.Duration
	cancel       func()
}

func (e *PromEngine) newQuery(source storage.Queryable, make func(sizedEngine, storage.Queryable) (promql.Query, error)) (promql.Query, error) {
	q, err := make(e.engines[0], source)
	if err != nil {
		return nil, err
	}
	return &promQuery{Query: q, make: make, engines: e.engines, source: source, timeout: e.o.Timeout, cancel: func() {}}, nil
}

// Exec implements promql.Query.
func (q *promQuery) Exec(ctx context.Context) (res *promql.Result) {
	defer func() { // no text of a query may stop the program, also where a check asks it
		if v := recover(); v != nil {
			res = &promql.Result{Err: fmt.Errorf("the query broke: %v; please report it", v)}
		}
	}()
	ctx, q.cancel = context.WithTimeout(ctx, q.timeout)
	defer q.cancel()
	budget := store.BudgetOf(ctx)
	if s, ok := q.source.(*promQueryable); ok {
		s.kept = &promKept{ctx: ctx, sets: map[string]*promSet{}}
		defer func() { s.kept = nil }()
	}
	for i, e := range q.engines {
		if i > 0 {
			q.Query.Close()
			next, err := q.make(e, q.source)
			if err != nil {
				return &promql.Result{Err: err}
			}
			q.Query = next
		}
		if err := budget.Reserve(e.bytes()); err != nil {
			return &promql.Result{Err: AsError(err)}
		}
		res = q.Query.Exec(ctx)
		var many promql.ErrTooManySamples
		if !errors.As(res.Err, &many) {
			// What the result takes stays reserved until the question ends.
			return res
		}
		budget.Release(e.bytes())
		res.Err = tooManySamples(e, q.Statement())
	}
	return res
}

// tooManySamples says what the engine e cannot hold of a query. The engine ends at
// its bound, and does not know how many samples there would have been.
func tooManySamples(e sizedEngine, st parser.Statement) error {
	advice := "match fewer series, or shorten the range in brackets"
	if s, ok := st.(*parser.EvalStmt); ok && s.Interval > 0 {
		advice = fmt.Sprintf("each series has one or more for each of %s steps: write step=%s, match fewer series, or shorten the range",
			figure.Thousands(int64(s.End.Sub(s.Start)/s.Interval)+1), durationText(roundedStep(2*s.Interval.Milliseconds())))
	}
	return tooMany("query", "the query holds more than %s samples at once, which fill the %d MiB of its memory; %s", figure.Thousands(e.samples), e.bytes()>>20, advice)
}

// Cancel implements promql.Query.
func (q *promQuery) Cancel() { q.cancel() }
