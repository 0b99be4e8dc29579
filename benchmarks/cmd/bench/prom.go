package main

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"tailscope/benchmarks/report"
	"tailscope/hist"
)

// promStore is Prometheus' own database as a library, filled with the same
// distributions as counters, which is how it expects them.
type promStore struct {
	db     *tsdb.DB
	sums   []*hist.Histogram // by series: everything since the start
	refs   []storage.SeriesRef
	labels []labels.Labels
}

func openPromStore(dir string, n int) (*promStore, error) {
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	db.DisableCompactions() // until they are asked for
	p := &promStore{db: db, sums: make([]*hist.Histogram, n), refs: make([]storage.SeriesRef, n), labels: make([]labels.Labels, n)}
	for i := range n {
		p.sums[i] = hist.New(hist.DefaultSchema)
		service, tenant := serviceOf(i), tenantOf(i)
		if n != storeSeries {
			service, tenant = "svc-0", fmt.Sprintf("tenant-%05d", i)
		}
		p.labels[i] = labels.FromStrings(labels.MetricName, storeFamily,
			"service", service, "operation", "GET /api/v1/orders/{id}", "tenant", tenant)
	}
	return p, nil
}

func (p *promStore) append(ctx context.Context, at int64, pts []point) error {
	app := p.db.Appender(ctx)
	for _, pt := range pts {
		sum := p.sums[pt.series]
		if err := sum.Merge(pt.h); err != nil {
			return err
		}
		ref, err := app.AppendHistogram(p.refs[pt.series], p.labels[pt.series], at*1000, native(sum), nil)
		if err != nil {
			return err
		}
		p.refs[pt.series] = ref
	}
	return app.Commit()
}

// native is h as Prometheus' integer histogram: spans of used buckets and the
// differences between them.
func native(h *hist.Histogram) *histogram.Histogram {
	out := &histogram.Histogram{
		CounterResetHint: histogram.UnknownCounterReset, Schema: int32(h.Schema), ZeroThreshold: 1e-128,
		Count: h.Count, Sum: h.Sum, ZeroCount: h.ZeroCount,
	}
	last, end := int64(0), int32(0)
	for i, n := range h.Positive.Counts {
		if n == 0 {
			continue
		}
		index := h.Positive.Offset + int32(i)
		switch k := len(out.PositiveSpans); {
		case k > 0 && index == end:
			out.PositiveSpans[k-1].Length++
		case k > 0:
			out.PositiveSpans = append(out.PositiveSpans, histogram.Span{Offset: index - end, Length: 1})
		default:
			out.PositiveSpans = []histogram.Span{{Offset: index, Length: 1}}
		}
		out.PositiveBuckets = append(out.PositiveBuckets, int64(n)-last)
		last, end = int64(n), index+1
	}
	return out
}

// compact writes everything into blocks, as it would be some hours later.
func (p *promStore) compact(ctx context.Context, start, end time.Time) error {
	const block = tsdb.DefaultBlockDuration
	for from := start.UnixMilli() / block * block; from <= end.UnixMilli(); from += block {
		if err := p.db.CompactHead(tsdb.NewRangeHead(p.db.Head(), from, from+block-1)); err != nil {
			return err
		}
	}
	p.db.EnableCompactions()
	defer p.db.DisableCompactions()
	return p.db.Compact(ctx)
}

// size returns that of all blocks, indexes included.
func (p *promStore) size() (bytes int64, blocks int) {
	for _, b := range p.db.Blocks() {
		bytes += b.Size()
	}
	return bytes, len(p.db.Blocks())
}

// questions asks Prometheus' engine. One repetition is enough: it takes
// seconds, and varies little.
func (p *promStore) questions(ctx context.Context, o *options, sec *report.Section, start, end time.Time) error {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 30, Timeout: 5 * time.Minute, LookbackDelta: 5 * time.Minute})
	defer engine.Close()
	for _, q := range questionsOver(start, end) {
		ask := func() error {
			var pq promql.Query
			var err error
			if q.step == 0 {
				pq, err = engine.NewInstantQuery(ctx, p.db, nil, q.promQL, end)
			} else {
				pq, err = engine.NewRangeQuery(ctx, p.db, nil, q.promQL, start.Add(q.step), end, q.step)
			}
			if err != nil {
				return err
			}
			defer pq.Close()
			return pq.Exec(ctx).Err
		}
		err := repeat(ctx, min(o.reps, 3), ask, func(first bool, d time.Duration) {
			if !first {
				sec.Add(q.name, "prometheus", "ms", 0, ms(d))
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", q.promQL, err)
		}
	}
	for _, f := range sec.Figures {
		for _, pf := range sec.Figures {
			if f.Who == "tailscope" && pf.Who == "prometheus" && f.What == pf.What {
				f.Note += fmt.Sprintf("; prometheus takes %.0f times as long", pf.Median()/f.Median())
			}
		}
	}
	return nil
}

func (p *promStore) close() { _ = p.db.Close() }

// ownCPU returns the CPU time of this process so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
