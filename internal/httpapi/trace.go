package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/observe/traces"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// trace answers one kept trace with the figures that Analyse works out.
func (s *server) trace(ctx context.Context, in *api.TraceRequest) (*api.TraceResponse, error) {
	t, err := s.keptTrace(ctx, in.ID)
	if errors.Is(err, store.ErrNoTrace) {
		return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: s.notKept(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	out := traceResponse(t, traces.Analyse(t))
	out.TraceID = strings.ToLower(in.ID)
	if s.TraceLink != "" {
		out.Link = strings.ReplaceAll(s.TraceLink, "{trace_id}", out.TraceID)
	}
	return out, nil
}

// keptTrace reads a trace by its id of 32 hex digits. The error wraps store.ErrNoTrace if it
// is not kept.
func (s *server) keptTrace(ctx context.Context, hexID string) (*traces.Trace, error) {
	var id store.TraceID
	if n, err := hex.Decode(id[:], []byte(hexID[:min(len(hexID), 32)])); err != nil || n != len(id) || len(hexID) != 32 {
		return nil, query.Invalid("id", "%s is not the id of a trace; write its 32 hex digits, as /api/v1/traces answers them", quote(hexID))
	}
	kept, err := s.Store.Trace(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := traces.Decode(kept.Data)
	if err != nil {
		return nil, fmt.Errorf("trace %x: %w", id, err)
	}
	return t, nil
}

// notKept says which traces are kept and for how long.
func (s *server) notKept() string {
	text := "no such trace is kept; kept are the slowest and a failed request of each operation every 10 s, and one request for each minute and bucket of durations"
	if s.TraceKept > 0 {
		text += ", for " + keptFor(s.TraceKept) + " at most"
	}
	return text + "; ask /api/v1/traces for those there are"
}

func keptFor(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

func traceResponse(t *traces.Trace, a *traces.Analysis) *api.TraceResponse {
	out := &api.TraceResponse{
		Start: unixSeconds(a.Start), Duration: nanos(a.End - a.Start), Complete: t.Complete, LeftOut: t.LeftOut,
		Spans: make([]api.TraceSpan, 0, len(a.Order)), Components: make([]api.TraceComponent, 0, len(a.Components)), Skews: traceSkews(a.Skews),
	}
	place := make([]int, len(t.Spans)) // in the answer
	for j := range place {
		place[j] = -1
	}
	for i, j := range a.Order {
		place[j] = i
	}
	for _, j := range a.Order {
		s, f := &t.Spans[j], &a.Spans[j]
		row := api.TraceSpan{
			SpanID: hex.EncodeToString(s.ID[:]), Parent: -1, Depth: f.Depth,
			Service: s.Service, Operation: s.Operation, Component: s.Component, Kind: s.Kind, Tenant: s.Tenant, Instance: s.Instance,
			Failed: s.Failed, Request: f.Request, Orphan: f.Orphan, Async: f.Async,
			Start: nanos(s.Start + f.Shift - a.Start), Duration: nanos(s.End - s.Start), Self: nanos(f.Self), Critical: nanos(f.Critical),
			Shifted: nanos(f.Shift), Text: s.Text, Detail: s.Detail,
		}
		if f.Parent >= 0 {
			row.Parent = place[f.Parent]
		}
		// What the breakdown takes for the skew of a clock is no queue here either.
		if waited := s.Start - s.Queued; s.Queued > 0 && waited > 0 && waited <= traces.MaxQueue {
			row.Queue = nanos(waited)
		}
		for _, p := range f.Path {
			row.Path = append(row.Path, float64(nanos(p[0]-a.Start)), float64(nanos(p[1]-a.Start)))
		}
		out.Spans = append(out.Spans, row)
	}
	for _, c := range a.Components {
		out.Components = append(out.Components, api.TraceComponent{Component: c.Component, Self: nanos(c.Self), Critical: nanos(c.Critical)})
	}
	return out
}

func nanos(n int64) api.Float { return api.Float(float64(n) / 1e9) }

// unixSeconds keeps the microseconds, which a float64 of today has room for.
func unixSeconds(n int64) api.Float { return api.Float(float64(n/1000) / 1e6) }

// traceSkews gathers moved calls by whose clocks disagree.
func traceSkews(list []traces.Skew) []api.Skew {
	type key struct {
		service, peer string
		ahead         bool
	}
	by := map[key][]int64{}
	for _, s := range list {
		k := key{s.Service, s.Peer, s.Ahead}
		by[k] = append(by[k], s.Nanos)
	}
	var out []api.Skew
	for k, ns := range by {
		slices.Sort(ns)
		direction := "behind"
		if k.ahead {
			direction = "ahead"
		}
		out = append(out, api.Skew{
			Service: k.service, Peer: k.peer, Direction: direction, Calls: uint64(len(ns)), Median: nanos(ns[(len(ns)-1)/2]), Max: nanos(ns[len(ns)-1]),
		})
	}
	slices.SortFunc(out, func(a, b api.Skew) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Service, b.Service), strings.Compare(a.Peer, b.Peer), strings.Compare(a.Direction, b.Direction))
	})
	return out
}
