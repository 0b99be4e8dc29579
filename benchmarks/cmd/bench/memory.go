package main

import (
	"context"
	"fmt"
	"os"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/benchmarks/report"
	"tailscope/test/program"
	"tailscope/test/sender"
)

const (
	activeTenants    = 10_000
	activeOperations = 10
	activePerRequest = 200
)

// memory keeps 100,000 series active, each observed once in every slot, in
// real time, and looks at the memory of the server.
func memory(ctx context.Context, o *options, r *report.Report) error {
	slots := 6
	if o.quick {
		slots = 2
	}
	const seriesCount = activeTenants * activeOperations
	sec := r.Section("Memory at 100,000 active series", fmt.Sprintf(
		"%d tenants × %d operations of one service, each observed once in each of %d slots of 10 s, in real time; "+
			"resident memory of `tailscope serve` as the kernel counts it, everything included.",
		activeTenants, activeOperations, slots))
	dir, err := os.MkdirTemp(o.tmp, "run-")
	if err != nil {
		return err
	}
	p, err := program.StartTailscope(ctx, dir+"/data")
	if err != nil {
		return err
	}
	defer p.Kill()
	s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
	if err != nil {
		return err
	}
	defer s.Close()
	begin := time.Now()
	for slot := range slots {
		o.logf("slot %d of %d", slot+1, slots)
		requests := seriesCount / activePerRequest
		for i := range requests {
			if err := s.Send(ctx, activePayload(i*activePerRequest, time.Now())); err != nil {
				return err
			}
			due := begin.Add(time.Duration(slot)*10*time.Second + time.Duration(i+1)*10*time.Second/time.Duration(requests))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		u, err := p.Usage()
		if err != nil {
			return err
		}
		if slot > 0 { // the first has seen no flush yet
			sec.Add("resident", "tailscope", "MB", 0, float64(u.ResidentNow)/1e6)
		}
	}
	stopping, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	u, err := p.Stop(stopping)
	if err != nil {
		return err
	}
	sec.Add("peak", "tailscope", "MB", 400, float64(u.PeakBytes)/1e6)
	sec.Add("CPU", "tailscope", "CPU-s per million spans", 0, u.CPU().Seconds()/float64(slots*seriesCount)*1e6)
	return nil
}

// activePayload is one request: one span for each of the series from first on.
func activePayload(first int, now time.Time) []byte {
	str := func(k, v string) *common.KeyValue {
		return &common.KeyValue{Key: k, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}
	}
	spans := make([]*trace.Span, activePerRequest)
	for i := range spans {
		n := first + i
		spans[i] = &trace.Span{
			TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"),
			Name: "GET", Kind: trace.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(now.Add(-time.Duration(1+n%97) * time.Millisecond).UnixNano()), EndTimeUnixNano: uint64(now.UnixNano()),
			Attributes: []*common.KeyValue{
				str("tenant.id", fmt.Sprintf("tenant-%05d", n/activeOperations)),
				str("http.request.method", "GET"), str("http.route", fmt.Sprintf("/api/thing-%d", n%activeOperations)),
			},
		}
	}
	b, err := proto.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{str("service.name", "active"), str("service.instance.id", "one")}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: spans}},
	}}})
	if err != nil {
		panic(err) // cannot happen: every string is ASCII
	}
	return b
}
