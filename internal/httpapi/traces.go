package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/observe/traces"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

func (s *server) registerTraces(a huma.API) {
	get(s, a, "traces", "Requests of kept traces", s.traces)
	answerTo(s, a, "/api/v1/traces/{id}", "get-trace", "trace", "A kept trace, span by span", s.trace)
}

func (s *server) traces(ctx context.Context, in *api.TracesRequest) (*api.TracesResponse, error) {
	sel, err := s.span(in.Requests)
	if err != nil {
		return nil, err
	}
	r := query.TracesRequest{Selection: sel, Sort: in.Sort, Why: in.Why, Step: in.Step, Limit: in.Limit}
	if in.Time != "" {
		if r.Time, err = Time(in.Time).Parse("time", s.Now(), s.Now()); err != nil {
			return nil, err
		}
		if in.Start == "" && in.End == "" { // the range is around the moment
			r.Start, r.End = r.Time.Add(-defaultRange/2), r.Time.Add(defaultRange/2)
		}
	}
	if r.Min, err = inSeconds(in.Min, "min"); err != nil {
		return nil, err
	}
	if r.Max, err = inSeconds(in.Max, "max"); err != nil {
		return nil, err
	}
	if r.At, err = inSeconds(in.At, "at"); err != nil {
		return nil, err
	}
	out, err := query.Traces(ctx, s.Store, r)
	if err != nil {
		return nil, err
	}
	out.Link = s.TraceLink
	if in.Where {
		if err := s.sayWhere(ctx, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mostAnalysed bounds the spans that one list of requests analyses, those of a trace once for
// each of its requests: no more are known of the others than how long they took.
const mostAnalysed = 1_000_000

// sayWhere adds to each request its part with the longest critical path, and groups them by it.
func (s *server) sayWhere(ctx context.Context, out *api.TracesResponse) error {
	byTrace := map[string][]*api.TraceRow{}
	for i := range out.Traces {
		row := &out.Traces[i]
		byTrace[row.TraceID] = append(byTrace[row.TraceID], row)
	}
	left := mostAnalysed
	for i := range out.Traces {
		rows := byTrace[out.Traces[i].TraceID]
		delete(byTrace, out.Traces[i].TraceID)
		if len(rows) == 0 || left <= 0 {
			continue
		}
		t, err := s.keptTrace(ctx, rows[0].TraceID)
		if errors.Is(err, store.ErrNoTrace) || errors.Is(err, traces.ErrCorrupt) {
			continue // one that is gone meanwhile, or damaged, is listed without
		}
		if err != nil {
			return err
		}
		for _, row := range rows {
			if left -= len(t.Spans); left >= 0 {
				row.Longest = longestOf(t, row.SpanID)
			}
		}
	}
	type of struct{ service, operation, partService, part, component string }
	groups := map[of]*traceGroup{}
	for i := range out.Traces {
		row := &out.Traces[i]
		if row.Longest == nil {
			continue
		}
		k := of{row.Service, row.Operation, row.Longest.Service, row.Longest.Operation, row.Longest.Component}
		g := groups[k]
		if g == nil {
			g = &traceGroup{TraceGroup: api.TraceGroup{Service: row.Service, Operation: row.Operation, Longest: *row.Longest, Min: row.Duration}, tenants: map[string]bool{}}
			groups[k] = g
		}
		g.add(row)
	}
	for _, g := range groups {
		out.Groups = append(out.Groups, g.sum())
	}
	slices.SortFunc(out.Groups, func(a, b api.TraceGroup) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Max, a.Max), strings.Compare(a.Operation, b.Operation), strings.Compare(a.Longest.Operation, b.Longest.Operation), strings.Compare(a.Longest.Component, b.Longest.Component))
	})
	return nil
}

// traceGroup is a group that is being gathered.
type traceGroup struct {
	api.TraceGroup
	shares  []api.Float
	tenants map[string]bool
}

func (g *traceGroup) add(r *api.TraceRow) {
	g.Requests++
	if r.Failed {
		g.Failed++
	}
	g.Min, g.Max = min(g.Min, r.Duration), max(g.Max, r.Duration)
	g.shares = append(g.shares, r.Longest.Share)
	g.tenants[r.Tenant] = true
	g.Tenant = r.Tenant
}

// sum returns the group.
func (g *traceGroup) sum() api.TraceGroup {
	slices.Sort(g.shares)
	g.Longest.Share = g.shares[(len(g.shares)-1)/2]
	if g.Tenants = len(g.tenants); g.Tenants > 1 {
		g.Tenant = ""
	}
	return g.TraceGroup
}

// longestOf returns the part with the longest critical path within the request of a span, given
// as 16 hex digits; nil if the trace has no such request.
func longestOf(t *traces.Trace, span string) *api.TracePart {
	var id [8]byte
	if _, err := hex.Decode(id[:], []byte(span)); err != nil {
		return nil
	}
	a := traces.AnalyseRequest(t, id)
	if a.Root < 0 || t.Spans[a.Root].ID != id {
		return nil
	}
	root := &t.Spans[a.Root]
	critical := map[api.TracePart]int64{}
	for i := range t.Spans {
		if s := &t.Spans[i]; a.Spans[i].Critical > 0 {
			critical[api.TracePart{Service: s.Service, Operation: s.Operation, Component: s.Component, Itself: i == a.Root}] += a.Spans[i].Critical
		}
	}
	var out *api.TracePart
	longest := int64(0)
	for p, n := range critical {
		if out == nil || n > longest || n == longest && cmp.Or(strings.Compare(p.Operation, out.Operation), strings.Compare(p.Service, out.Service), strings.Compare(p.Component, out.Component)) < 0 {
			out, longest = &p, n
		}
	}
	if out != nil {
		out.Share = api.Float(float64(longest) / float64(max(root.End-root.Start, 1)))
	}
	return out
}
