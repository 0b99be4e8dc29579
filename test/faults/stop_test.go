//go:build servers

package faults

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/test/program"
	"tailscope/test/sender"
)

var distinct = flag.Int("distinct", 60_000, "values of each kind of label that TestStopAfterExplosion sends; the campaign sends 1,000,000")

// TestStopAfterExplosion sends many distinct values of each of eight kinds of
// label, leaves 100,000 traces open and stops the program. Nothing acknowledged
// is lost, stopping takes at most ten seconds, and what is refused meanwhile is
// refused for about as long as its slots are open.
func TestStopAfterExplosion(t *testing.T) {
	ctx, data := t.Context(), filepath.Join(t.TempDir(), "data")
	start := func() *program.Tailscope {
		p, err := program.StartTailscope(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	begun := time.Now()
	p := start()
	spans, points := sender.HTTP("http://"+p.OTLPHTTP+"/v1/traces", ""), sender.HTTP("http://"+p.OTLPHTTP+"/v1/metrics", "")
	var acknowledged uint64
	var longest time.Duration // without an answer that took anything
	last := time.Now()
	send := func(to sender.Sender, payload []byte, n int) {
		for {
			err := to.Send(ctx, payload)
			var status *sender.StatusError
			switch {
			case err == nil:
				acknowledged += uint64(n)
			case errors.Is(err, sender.ErrPartial) && n == 0: // names of metrics beyond the bound
			case errors.As(err, &status) && (status.Status == http.StatusServiceUnavailable || status.Status == http.StatusTooManyRequests):
				time.Sleep(50 * time.Millisecond)
				continue
			default:
				t.Fatal(err)
			}
			longest = max(longest, time.Since(last))
			last = time.Now()
			return
		}
	}
	const perRequest = 2000
	for _, k := range []struct {
		kind string
		set  func(v string, r *[]*commonpb.KeyValue, s *tracepb.Span)
	}{
		{"tenants", func(v string, _ *[]*commonpb.KeyValue, s *tracepb.Span) {
			s.Attributes = append(s.Attributes, text("tenant.id", v))
		}},
		{"operations", func(v string, _ *[]*commonpb.KeyValue, s *tracepb.Span) { s.Name = v }},
		{"versions", func(v string, r *[]*commonpb.KeyValue, _ *tracepb.Span) { *r = append(*r, text("service.version", v)) }},
		{"variants", func(v string, _ *[]*commonpb.KeyValue, s *tracepb.Span) {
			s.Attributes = append(s.Attributes, text("variant", v))
		}},
		{"instances", func(v string, r *[]*commonpb.KeyValue, _ *tracepb.Span) {
			*r = append(*r, text("service.instance.id", v))
		}},
		{"services", func(v string, r *[]*commonpb.KeyValue, _ *tracepb.Span) { (*r)[0] = text("service.name", v) }},
		{"all at once", func(v string, r *[]*commonpb.KeyValue, s *tracepb.Span) {
			*r = []*commonpb.KeyValue{text("service.name", v), text("service.version", v), text("service.instance.id", v)}
			s.Name, s.Attributes = v, []*commonpb.KeyValue{text("tenant.id", v), text("variant", v)}
		}},
		{"names of metrics", nil},
		{"open traces", func(string, *[]*commonpb.KeyValue, *tracepb.Span) {}},
	} {
		began, n := time.Now(), *distinct
		if k.kind == "open traces" {
			n = 100_000
		}
		longest = 0
		for i := 0; i < n; i += perRequest {
			if k.set == nil {
				send(points, namesPayload(i, perRequest), 0)
				continue
			}
			var m collectortrace.ExportTraceServiceRequest
			for j := range perRequest {
				r := []*commonpb.KeyValue{text("service.name", "shop")}
				s := childSpan(k.kind, i+j)
				k.set(fmt.Sprintf("%s-%d", k.kind, i+j), &r, s)
				m.ResourceSpans = append(m.ResourceSpans, &tracepb.ResourceSpans{Resource: &resourcepb.Resource{Attributes: r}, ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{s}}}})
			}
			b, err := proto.Marshal(&m)
			if err != nil {
				t.Fatal(err)
			}
			send(spans, b, perRequest)
		}
		t.Logf("%s: %d in %v, at most %v without an acknowledgement", k.kind, n, time.Since(began).Round(time.Millisecond), longest.Round(time.Millisecond))
		if longest > 25*time.Second { // two generations, and some for the machine
			t.Errorf("%s: nothing was taken for %v", k.kind, longest)
		}
	}
	within, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := p.Stop(within); err != nil {
		t.Errorf("stop: %v\n%s", err, lastLines(p.Log(), 20))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v, want at most 10s\n%s", took, lastLines(p.Log(), 20))
	} else {
		t.Logf("stopped in %v", took.Round(time.Millisecond))
	}
	p = start()
	var stored uint64
	for deadline := time.Now().Add(time.Minute); stored != acknowledged && time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		status, body, err := fetch(ctx, p.URL+"/api/v1/distribution", url.Values{"family": {series.SpanDuration},
			"start": {strconv.FormatInt(begun.Add(-15*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)}})
		if err != nil || status != http.StatusOK {
			continue
		}
		var r api.DistributionResponse
		if err := json.Unmarshal(body, &r); err != nil {
			t.Fatal(err)
		}
		stored = 0
		for _, g := range r.Groups {
			stored += g.Count
		}
	}
	if stored != acknowledged || acknowledged == 0 {
		t.Errorf("%d spans are stored, %d were acknowledged", stored, acknowledged)
	}
}

// childSpan returns a span of a trace of its own, whose root does not come.
func childSpan(kind string, i int) *tracepb.Span {
	now := uint64(time.Now().UnixNano())
	id := binary.LittleEndian.AppendUint64(nil, uint64(i)+1)
	trace := binary.LittleEndian.AppendUint64(append([]byte(nil), id...), uint64(len(kind)))
	return &tracepb.Span{TraceId: trace, SpanId: id, ParentSpanId: []byte("parentid"), Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: now - 5e6, EndTimeUnixNano: now}
}

// namesPayload is one request with gauges of many names.
func namesPayload(from, n int) []byte {
	var list []*metricspb.Metric
	for i := range n {
		list = append(list, &metricspb.Metric{Name: fmt.Sprint("names.of.metrics.", from+i), Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
			DataPoints: []*metricspb.NumberDataPoint{{TimeUnixNano: uint64(time.Now().UnixNano()), Value: &metricspb.NumberDataPoint_AsInt{AsInt: 1}}}}}})
	}
	b, err := proto.Marshal(&collectormetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "shop")}}, ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: list}}}}})
	if err != nil {
		panic(err)
	}
	return b
}
