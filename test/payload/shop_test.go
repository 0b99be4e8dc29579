package payload

import (
	"bytes"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestShop holds the shop's traces to what their documentation says.
func TestShop(t *testing.T) {
	const n = 2000
	requests := NewShop(1, Start).Requests(n, true)
	again := NewShop(1, Start).Requests(n, true)
	type place struct {
		span    *trace.Span
		request int
	}
	byTrace := map[string][]place{}
	size := 0
	for i, b := range requests {
		if !bytes.Equal(b, again[i]) {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		var r collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		size += len(b)
		for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
			byTrace[string(s.TraceId)] = append(byTrace[string(s.TraceId)], place{s, i})
		}
	}
	if len(byTrace) != n {
		t.Errorf("got %d traces, want %d", len(byTrace), n)
	}
	spread := 0
	for id, spans := range byTrace {
		byID := map[string]*trace.Span{}
		servers, roots, arrivals := 0, 0, map[int]bool{}
		for _, p := range spans {
			byID[string(p.span.SpanId)] = p.span
			arrivals[p.request] = true
			if p.span.Kind == trace.Span_SPAN_KIND_SERVER {
				servers++
			}
		}
		spread += len(arrivals)
		for _, p := range spans {
			if len(p.span.ParentSpanId) == 0 {
				roots++
				continue
			}
			parent := byID[string(p.span.ParentSpanId)]
			if parent == nil || p.span.StartTimeUnixNano < parent.StartTimeUnixNano || p.span.EndTimeUnixNano > parent.EndTimeUnixNano {
				t.Fatalf("trace %x: %v is not within its parent %v", id, p.span, parent)
			}
		}
		if len(byID) != ShopSpansPerTrace || servers != ShopRequestsPerTrace || roots != 1 {
			t.Fatalf("trace %x has %d spans, %d requests, %d roots", id, len(byID), servers, roots)
		}
	}
	t.Logf("%.0f bytes a span, %.2f exports a trace, %d exports", float64(size)/n/ShopSpansPerTrace, float64(spread)/n, len(requests))
	if spread < 3*n || spread > 3*n+n/20 {
		t.Errorf("%d traces arrive in %d exports, want three each, or now and then four", n, spread)
	}
	endless := NewShop(1, Start)
	endless.Headless, endless.Endless = true, 7
	ids := map[string]bool{}
	for _, b := range endless.Requests(n, true) {
		var r collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
			if ids[string(s.TraceId)] = true; len(s.ParentSpanId) == 0 {
				t.Fatalf("a headless shop sends the root %v", s)
			}
		}
	}
	if len(ids) != endless.Endless {
		t.Errorf("got %d endless traces, want %d", len(ids), endless.Endless)
	}
}
