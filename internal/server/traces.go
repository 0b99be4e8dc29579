package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/observe/otlp"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
)

// closeTraces bounds the time for breaking down open traces when the server stops.
const closeTraces = 2 * time.Second

// openAssembler starts the assembly of traces. It starts after the aggregator and before
// the receivers, so that when it closes, the breakdown of open traces still reaches the
// aggregator.
func (s *Server) openAssembler() error {
	c := s.cfg.Traces
	if s.shares.Traces == 0 {
		return nil
	}
	memory := s.shares.Traces
	if s.cluster != nil {
		memory -= memory / forwardShare
	}
	a, err := traces.New(traces.Options{
		Sink:        traceSink{s.agg},
		Keeper:      s.store,
		MemoryBytes: memory,
		Grace:       c.Grace,
		Idle:        c.Idle,
		KeepAge:     c.Keep,
		Now:         s.now,
		Leapt:       s.leapt,
		Logger:      s.log.With("part", "traces"),
	})
	if err != nil {
		return fmt.Errorf("start the assembly of traces: %w", err)
	}
	s.traces = a
	s.started("traces", func(ctx context.Context) error {
		before := a.Stats()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTraces)
		defer cancel()
		err := a.Close(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // their spans are counted, and journalled
			s.log.Warn("stopping without waiting for open traces", "after", closeTraces, "error", err)
			err = nil
		}
		if after := a.Stats(); after.Incomplete > before.Incomplete {
			s.log.Info("open traces are broken down as they are", "traces", after.Incomplete-before.Incomplete)
		}
		return err
	})
	s.metrics.registry.MustRegister(newPartCollector(a.Stats, traceReadings))
	s.health.watch(lossProblems(a.Stats, s.now))
	return nil
}

// assembler returns s.traces for the receivers, or nil if traces are disabled.
func (s *Server) assembler() otlp.Assembler {
	if s.traces == nil {
		return nil
	}
	return s.traces
}

// traceSink commits breakdowns and traces to the aggregator.
type traceSink struct{ *agg.Aggregator }

func (s traceSink) NewBatch() traces.Batch { return traceBatch{s.Aggregator.NewDerivedBatch()} }

func (s traceSink) SelfGroup(request *traces.Identity, component string, failed bool) traces.Group {
	id := agg.SpanIdentity{
		Service: request.Service, Operation: request.Operation, Component: component, Kind: request.Kind, Status: "ok",
		Version: request.Version, Variant: request.Variant, Instance: request.Instance,
		Environment: request.Environment,
	}
	if failed {
		id.Status = "error"
	}
	if request.Kind == "client" || request.Kind == "producer" {
		id.Instance = "" // the span that was called does not name its own instance
	}
	return traces.Group(s.Aggregator.SelfGroup(&id))
}

func (s traceSink) SeriesTarget(x series.Series) traces.Target {
	return traces.Target(s.Aggregator.SeriesTarget(x))
}

type traceBatch struct{ *agg.Batch }

func (b traceBatch) Observe(t traces.Target, endNanos, durationNanos int64, weight uint32) {
	b.Batch.Observe(agg.Target(t), endNanos, durationNanos, weight)
}

func (b traceBatch) Group(g traces.Group) int { return b.Batch.Group(agg.Group(g)) }

func (b traceBatch) Distribution(t traces.Target, timeNanos int64, h *hist.Histogram) {
	b.Batch.Distribution(agg.Target(t), timeNanos, h)
}

// Commit does not report what was refused: spans that are too old or too new were
// refused, and counted, when they arrived.
func (b traceBatch) Commit(ctx context.Context) error {
	_, err := b.Batch.Commit(ctx)
	return err
}

var traceReadings = []reading[traces.Stats]{
	{"tailscope_trace_spans_total", "Spans put into traces.", counts, func(s traces.Stats) float64 { return float64(s.Spans) }},
	{"tailscope_trace_spans_late_total", "Spans left out because their trace had been closed.", counts, func(s traces.Stats) float64 { return float64(s.Late) }},
	{"tailscope_trace_spans_too_many_total", "Spans left out because their trace had too many.", counts, func(s traces.Stats) float64 { return float64(s.TooMany) }},
	{"tailscope_trace_spans_invalid_total", "Spans left out for want of a trace id or because they end before they start.", counts, func(s traces.Stats) float64 { return float64(s.Invalid) }},
	{"tailscope_trace_spans_no_room_total", "Spans left out for want of memory.", counts, func(s traces.Stats) float64 { return float64(s.NoSpace) }},
	{"tailscope_trace_spans_duplicate_total", "Spans that came more than once.", counts, func(s traces.Stats) float64 { return float64(s.Duplicates) }},
	{"tailscope_trace_spans_orphaned_total", "Spans whose parent never came.", counts, func(s traces.Stats) float64 { return float64(s.Orphans) }},
	{"tailscope_traces_closed_total", "Traces closed.", counts, func(s traces.Stats) float64 { return float64(s.Closed) }},
	{"tailscope_traces_closed_at_once_total", "Traces closed as soon as they came, whole.", counts, func(s traces.Stats) float64 { return float64(s.AtOnce) }},
	{"tailscope_traces_incomplete_total", "Traces closed without their root, early, or with spans missing.", counts, func(s traces.Stats) float64 { return float64(s.Incomplete) }},
	{"tailscope_traces_rootless_total", "Traces closed without their root.", counts, func(s traces.Stats) float64 { return float64(s.Rootless) }},
	{"tailscope_traces_closed_early_total", "Traces closed before their time for want of memory.", counts, func(s traces.Stats) float64 { return float64(s.ClosedEarly) }},
	{"tailscope_traces_left_out_total", "Traces left out whole, memory being near its bound; those put together count for them.", counts, func(s traces.Stats) float64 { return float64(s.LeftOutTraces) }},
	{"tailscope_trace_spans_left_out_total", "Spans of traces left out whole.", counts, func(s traces.Stats) float64 { return float64(s.LeftOutSpans) }},
	{"tailscope_traces_one_in", "Of so many traces that begin one is put together and counts for all; 1 unless memory is near its bound.", level, func(s traces.Stats) float64 { return float64(s.OneIn) }},
	{"tailscope_trace_requests_total", "Requests broken down.", counts, func(s traces.Stats) float64 { return float64(s.Requests) }},
	{"tailscope_trace_requests_lost_total", "Requests whose breakdown was given up because it could not be handed over.", counts, func(s traces.Stats) float64 { return float64(s.LostRequests) }},
	{"tailscope_trace_calls_skewed_total", "Calls whose times were moved because clocks disagree.", counts, func(s traces.Stats) float64 { return float64(s.Skewed) }},
	{"tailscope_trace_queues_skewed_total", "Requests that started before they were queued, because clocks disagree.", counts, func(s traces.Stats) float64 { return float64(s.QueueSkewed) }},
	{"tailscope_trace_names_folded_total", "Identities that lost some of their names for want of memory.", counts, func(s traces.Stats) float64 { return float64(s.FoldedNames) }},
	{"tailscope_trace_parts_folded_total", "Times a part of the breakdown was counted as _other.", counts, func(s traces.Stats) float64 { return float64(s.FoldedParts) }},
	{"tailscope_trace_texts_left_out_total", "Statements left out for want of memory.", counts, func(s traces.Stats) float64 { return float64(s.LeftOutTexts) }},
	{"tailscope_trace_commit_failures_total", "Failed attempts to hand the breakdown over.", counts, func(s traces.Stats) float64 { return float64(s.CommitErrors) }},
	{"tailscope_traces_kept_total", "Traces kept whole.", counts, func(s traces.Stats) float64 { return float64(s.Kept) }},
	{"tailscope_traces_keep_failures_total", "Failed attempts to keep traces.", counts, func(s traces.Stats) float64 { return float64(s.KeepErrors) }},
	{"tailscope_traces_keep_lost_total", "Traces not kept after such failures, or for want of memory.", counts, func(s traces.Stats) float64 { return float64(s.LostKept + s.LeftOutKept) }},
	{"tailscope_traces_open", "Traces not closed yet.", level, func(s traces.Stats) float64 { return float64(s.OpenTraces) }},
	{"tailscope_trace_spans_open", "Spans of traces not closed yet.", level, func(s traces.Stats) float64 { return float64(s.OpenSpans) }},
	{"tailscope_trace_bytes", "Bytes of open traces and their tables, bounded by traces.memory.", level, func(s traces.Stats) float64 { return float64(s.MemoryBytes) }},
}
