package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/backoff"
	"tailscope/internal/series"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// What real senders send: spans by gRPC and HTTP, histograms by HTTP, and lines
// of an access log that the program follows.
const (
	familyWait     = "faults_wait_seconds"
	logService     = "log"
	spansInRequest = 200 // in traces of four
	inHistogram    = 50  // observations
	// logBlock is the amount that a crash may repeat, by docs/access-logs.md.
	logBlock = 2 << 20
)

// load sends until it is stopped; services carry the name of the stretch, so
// that each stretch is a line of its own in the ledger.
type load struct {
	ledger  *Ledger
	stop    context.CancelFunc
	done    sync.WaitGroup
	spans   atomic.Int64 // acknowledged
	refused atomic.Int64 // requests
}

// startLoad sends to a server as fast as it answers, with workers of each
// kind, or at a rate of spans a second if that is not 0.
func startLoad(ctx context.Context, t *program.Tailscope, stretch string, workers int, rate float64) (*load, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &load{ledger: NewLedger(), stop: stop}
	grpc, err := sender.GRPC(t.OTLPGRPC, sender.Traces)
	if err != nil {
		stop()
		return nil, err
	}
	context.AfterFunc(ctx, func() { l.done.Wait(); _ = grpc.Close() })
	web, waits := sender.HTTP("http://"+t.OTLPHTTP+"/v1/traces", ""), sender.HTTP("http://"+t.OTLPHTTP+"/v1/metrics", "")
	each := rate / float64(2*workers*spansInRequest) // requests a second of a worker
	for i := range workers {
		for _, k := range []struct {
			name string
			to   sender.Sender
		}{{"grpc-", grpc}, {"http-", web}} {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			l.worker(ctx, each, func() {
				service := k.name + stretch
				l.send(ctx, k.to, spansPayload(rng, service), Line{Family: series.SpanDuration, Service: service}, spansInRequest)
			})
		}
		if i == 0 {
			l.worker(ctx, min(each, 10), func() {
				service := "wait-" + stretch
				l.send(ctx, waits, waitsPayload(service), Line{Family: familyWait, Service: service}, inHistogram)
			})
		}
	}
	return l, nil
}

// worker calls send at a rate, or as often as it returns, until ctx is done.
func (l *load) worker(ctx context.Context, rate float64, send func()) {
	l.done.Go(func() {
		next := time.Now()
		for ctx.Err() == nil {
			if rate > 0 {
				next = next.Add(time.Duration(float64(time.Second) / rate))
				if behind := time.Since(next); behind > time.Second {
					next = next.Add(behind) // the server was away: what was due then is not made up for
				}
				if backoff.Sleep(ctx, time.Until(next)) != nil {
					return
				}
			}
			send()
		}
	})
}

func (l *load) send(ctx context.Context, s sender.Sender, payload []byte, line Line, n uint64) {
	r := l.ledger.Begin(map[Line]uint64{line: n})
	// What is on its way when the load stops still gets its answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.Send(ctx, payload)
	var status *sender.StatusError
	switch {
	case err == nil:
		r.Acknowledged()
		if line.Family == series.SpanDuration {
			l.spans.Add(int64(n))
		}
	case errors.As(err, &status):
		r.Refused()
		l.refused.Add(1)
		fallthrough
	default: // no answer: it may be stored or not
		_ = backoff.Sleep(ctx, 20*time.Millisecond)
	}
}

// end stops sending, waits for the answers and returns what may be stored.
func (l *load) end() map[Line]Bounds {
	l.stop()
	l.done.Wait()
	return l.ledger.Bounds(l.ledger.Mark(), l.ledger.Mark())
}

func text(k, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
}

// spansPayload is one request: traces of a root and three children.
func spansPayload(rng *rand.Rand, service string) []byte {
	now := uint64(time.Now().UnixNano())
	var list []*tracepb.Span
	var trace, root []byte
	for i := range spansInRequest {
		id := binary.LittleEndian.AppendUint64(nil, rng.Uint64()|1)
		took := uint64(1e6 + rng.ExpFloat64()*20e6)
		s := &tracepb.Span{SpanId: id, Name: fmt.Sprint("step ", i%4), Kind: tracepb.Span_SPAN_KIND_INTERNAL, EndTimeUnixNano: now, StartTimeUnixNano: now - took}
		if i%4 == 0 {
			trace, root = binary.LittleEndian.AppendUint64(append([]byte(nil), id...), rng.Uint64()), id
			route := fmt.Sprint("/r", rng.IntN(10))
			s.Kind, s.Name = tracepb.Span_SPAN_KIND_SERVER, "GET "+route
			s.StartTimeUnixNano -= 50e6
			s.Attributes = []*commonpb.KeyValue{text("tenant.id", fmt.Sprint("t", rng.IntN(50))), text("http.route", route), text("http.request.method", "GET")}
		} else {
			s.ParentSpanId = root
		}
		s.TraceId = trace
		list = append(list, s)
	}
	b, err := proto.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", service)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: list}},
	}}})
	if err != nil {
		panic(err) // a message of our own making
	}
	return b
}

// waitsPayload is one request with a delta histogram.
func waitsPayload(service string) []byte {
	now := uint64(time.Now().UnixNano())
	sum := 1.0
	b, err := proto.Marshal(&collectormetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", service)}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: []*metricspb.Metric{{Name: "faults.wait", Unit: "s", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
			DataPoints: []*metricspb.HistogramDataPoint{{StartTimeUnixNano: now - 1e9, TimeUnixNano: now, Count: inHistogram, Sum: &sum,
				ExplicitBounds: []float64{0.01, 0.1}, BucketCounts: []uint64{10, 30, 10}}},
		}}}}}},
	}}})
	if err != nil {
		panic(err)
	}
	return b
}

// accessLog is a log that is written to while the program follows it.
type accessLog struct {
	path  string
	lines atomic.Int64
	size  atomic.Int64
	stop  context.CancelFunc
	done  sync.WaitGroup
	err   error
}

// writeLog writes lines of the recommended format, so many a second.
func writeLog(ctx context.Context, path string, rate int) (*accessLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	a := &accessLog{path: path, stop: stop}
	a.done.Go(func() {
		defer f.Close()
		for i := 0; backoff.Sleep(ctx, time.Second/time.Duration(rate)) == nil; i++ {
			now := time.Now()
			n, err := fmt.Fprintf(f, `10.0.0.9 - - [%s] "GET /cart/%d HTTP/1.1" 200 512 "-" "curl/8" %d.%03d 0.100 "-" "-" "-" "-" "-" "-" "acme.example.com" "-" "-" "-"`+"\n",
				now.UTC().Format("02/Jan/2006:15:04:05 -0700"), i, now.Unix(), now.UnixMilli()%1000)
			if err != nil {
				a.err = err
				return
			}
			a.lines.Add(1)
			a.size.Add(int64(n))
		}
	})
	return a, nil
}

// end stops writing and returns what may be stored after so many crashes, each
// of which may repeat a block.
func (a *accessLog) end(crashes int) (map[Line]Bounds, error) {
	a.stop()
	a.done.Wait()
	n := uint64(a.lines.Load())
	if n == 0 || a.err != nil {
		return nil, errors.Join(errors.New("no access log was written"), a.err)
	}
	block := uint64(logBlock/(a.size.Load()/int64(n)) + 1)
	return map[Line]Bounds{{Family: series.SpanDuration, Service: logService}: {n, n + uint64(crashes)*min(block, n)}}, nil
}

// followConfig returns a configuration in which the program follows the log.
func followConfig(path string) string {
	return fmt.Sprintf("access_logs:\n  - path: %s\n    service: %s\n    start: beginning\n", path, logService)
}
