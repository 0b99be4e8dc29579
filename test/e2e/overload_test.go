//go:build servers

package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"tailscope/test/sender"
)

// retryWish returns how long a refusal asks its sender to wait, in the words of
// its protocol, or an error if it does not ask for that.
func retryWish(err error) (time.Duration, error) {
	var over *sender.StatusError
	if errors.As(err, &over) {
		after, bad := strconv.Atoi(over.Header.Get("Retry-After"))
		if bad != nil || after <= 0 || over.Status != http.StatusTooManyRequests && over.Status != http.StatusServiceUnavailable {
			return 0, fmt.Errorf("%w: want 429 or 503 with Retry-After, which is %q", err, over.Header.Get("Retry-After"))
		}
		return time.Duration(after) * time.Second, nil
	}
	if st, ok := status.FromError(err); ok && (st.Code() == codes.ResourceExhausted || st.Code() == codes.Unavailable) {
		for _, d := range st.Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok && r.RetryDelay.AsDuration() > 0 {
				return r.RetryDelay.AsDuration(), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: want RESOURCE_EXHAUSTED or UNAVAILABLE with RetryInfo", err)
}

// offers sends equal requests by both protocols, and keeps the ledger.
type offers struct {
	t        *testing.T
	s        *server
	payloads [2][]byte // over gRPC, over HTTP
	senders  [2][]sender.Sender
	names    [2]string

	next           atomic.Int64
	acked, refused [2]atomic.Int64
}

const spansOfLoad = 4000 // of each request: much more work to take than to send

func newOffers(t *testing.T, s *server) *offers {
	l := &offers{t: t, s: s, names: [2]string{"gRPC", "HTTP"}}
	l.payloads[0] = crowdPayload(t, "/op/a", 0, spansOfLoad, 0)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(l.payloads[0]); err != nil || z.Close() != nil {
		t.Fatal("gzip: ", err)
	}
	l.payloads[1] = packed.Bytes()
	for range 4 { // one connection of gRPC carries 256 requests at a time
		g, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
		if err != nil {
			t.Fatal(err)
		}
		l.senders[0] = append(l.senders[0], g)
		l.senders[1] = append(l.senders[1], sender.HTTP("http://"+s.OTLPHTTP+"/v1/traces", "gzip"))
	}
	t.Cleanup(func() {
		for p := range l.senders {
			for _, snd := range l.senders[p] {
				snd.Close()
			}
		}
	})
	return l
}

// send sends one request, by the protocols in turn, and reports whether it was
// acknowledged. Whatever is neither that nor refused with a wish to retry fails
// the test.
func (l *offers) send() bool {
	n := l.next.Add(1)
	p := int(n % 2)
	// Not a context that ends: a request cut off half-way is neither taken nor refused.
	err := l.senders[p][n/2%int64(len(l.senders[p]))].Send(l.t.Context(), l.payloads[p])
	if err == nil {
		l.acked[p].Add(1)
		return true
	}
	l.refused[p].Add(1)
	if _, err := retryWish(err); err != nil {
		l.t.Errorf("%s: %v", l.names[p], err)
	}
	return false
}

func (l *offers) sums() (acked, refused int64) {
	return l.acked[0].Load() + l.acked[1].Load(), l.refused[0].Load() + l.refused[1].Load()
}

// capacity returns how many requests a second are acknowledged of senders that
// wait for each answer.
func (l *offers) capacity(senders int, length time.Duration) float64 {
	before, _ := l.sums()
	begun := time.Now()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for time.Since(begun) < length {
				if !l.send() {
					pause(l.t, 10*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	after, _ := l.sums()
	return float64(after-before) / time.Since(begun).Seconds()
}

// offer begins rate requests a second, whatever became of those before, and
// returns when all are answered: how many a second were begun, and how long after
// the last of them its answer came.
func (l *offers) offer(rate float64, length time.Duration) (offered float64, drained time.Duration) {
	const most = 2000 // under way: beyond, the rate is not kept
	var wg sync.WaitGroup
	under := make(chan struct{}, most)
	begun := time.Now()
	n := 0
	for ; time.Since(begun) < length; n++ {
		time.Sleep(time.Until(begun.Add(time.Duration(float64(n) / rate * 1e9))))
		under <- struct{}{}
		wg.Go(func() {
			l.send()
			<-under
		})
	}
	ended := time.Now()
	wg.Wait()
	return float64(n) / ended.Sub(begun).Seconds(), time.Since(ended)
}

// usual sends ten requests a second for a while, one after the other, and asks a
// question after each. It returns how many were refused and the median time of
// those that were acknowledged.
func (l *offers) usual(length time.Duration) (refused int, median time.Duration) {
	var took []time.Duration
	for begun := time.Now(); time.Since(begun) < length; pause(l.t, 100*time.Millisecond) {
		at := time.Now()
		if !l.send() {
			refused++
			continue
		}
		took = append(took, time.Since(at))
		if code, _, body, err := l.s.fetch("/api/v1/distribution", map[string]string{"match": `{service="crowd"}`, "start": "now-5m", "end": "now"}); err != nil || code != http.StatusOK {
			l.t.Errorf("a question is answered %d %v %s", code, err, body)
		}
	}
	slices.Sort(took)
	return refused, quantileOf(took, 0.5)
}

// Three times what a server can take, by both protocols: what is too much is
// refused with a wish to retry, what is acknowledged is stored exactly once, and
// within ten seconds a usual sender is served as before. The machine may be busy
// with other things, so what depends on time is measured up to three times.
func TestThreeTimesTheLoad(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1") // of the server: the rest of the machine is the senders'
	s := start(t, "--limits-memory", "1536MiB", "--ingest-flush", "1s")
	l := newOffers(t, s)
	best := l.capacity(16, 3*time.Second) // the first are slower: it learns the series
	const within = 10 * time.Second
	for try := 1; ; try++ {
		_, before := l.usual(3 * time.Second)
		can := max(best, l.capacity(16, 4*time.Second))
		acked, refused := l.sums()
		offered, drained := l.offer(3*can, 8*time.Second)
		stopped := time.Now().Add(-drained)
		flooded, turned := l.sums()

		taken := float64(flooded-acked) / 8
		best = max(can, taken) // which is what it can take, if the measurement was disturbed

		// Windows of a second, until one is as before the flood.
		var back time.Duration
		var after time.Duration
		told := 0
		for back == 0 && time.Since(stopped) < 2*within {
			began := time.Since(stopped)
			told, after = l.usual(time.Second)
			if told == 0 && after <= 2*before+2*time.Millisecond {
				back = max(began, 1)
			}
		}
		t.Logf("takes %.0f requests of %d spans a second, offered %.0f (%.1f times): %.0f acknowledged and %.0f refused a second; the last answer after %v; back after %v: p50 %v, before %v",
			can, spansOfLoad, offered, offered/can, taken, float64(turned-refused)/8, drained.Round(time.Millisecond), back.Round(time.Millisecond), after, before)
		// Senders that share the machine with much else may not get as far, and what
		// was taken in a quiet moment says nothing of a busy one: the last try asks for
		// an overload alone, of what was taken in the flood itself.
		times, of := 2.9, best
		if try == 3 {
			times, of = 1.5, taken
		}
		ok := offered >= times*of && turned > refused && flooded > acked && back > 0 && back <= within
		if !ok && try < 3 && !t.Failed() {
			continue
		}
		if !ok {
			t.Errorf("want at least %v times the load offered, some of it refused, some taken, and the usual sender served as before within %v", times, within)
		}
		break
	}
	for p, name := range l.names {
		t.Logf("%s: %d acknowledged, %d refused", name, l.acked[p].Load(), l.refused[p].Load())
		if l.refused[p].Load() == 0 || l.acked[p].Load() == 0 {
			t.Errorf("%s: %d acknowledged, %d refused: want some of both", name, l.acked[p].Load(), l.refused[p].Load())
		}
	}
	counted := s.metric("tailscope_ingest_requests_refused_total", "reason", "overloaded")
	acked, refused := l.sums()
	if counted != float64(refused) {
		t.Errorf("/metrics counts %v requests refused as overloaded, %d were", counted, refused)
	}
	s.awaitCount("span_duration_seconds", `{service="crowd"}`, uint64(acked)*spansOfLoad)
}

// Names of metrics without end, and spans from 1970, are refused in part, counted
// by reason, and cost neither the rest of their requests nor anybody else.
func TestNamesAndSpansAreBounded(t *testing.T) {
	t.Parallel()
	const names, each = 150_000, 1000
	const bound = 5000 // limits.families
	s := start(t)
	conn, err := grpc.NewClient(s.OTLPGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	metrics := collectormetrics.NewMetricsServiceClient(conn)
	own := s.metric("tailscope_active_series")
	begun := time.Now()
	rejected := int64(0)
	for from := 0; from < names; from += each {
		now := uint64(time.Now().UnixNano())
		var list []*metricspb.Metric
		for i := range each {
			list = append(list, &metricspb.Metric{Name: fmt.Sprintf("name.%06d", from+i), Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
				DataPoints: []*metricspb.NumberDataPoint{{TimeUnixNano: now, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: 1}}}}}})
		}
		r, err := metrics.Export(t.Context(), &collectormetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
			Resource: &resourcepb.Resource{Attributes: strAttrs("service.name", "names")}, ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: list}}}}})
		if err != nil {
			t.Fatal(err)
		}
		rejected += r.GetPartialSuccess().GetRejectedDataPoints()
	}
	took := time.Since(begun)
	if rejected < names-bound || rejected == names {
		t.Errorf("of %d points of as many names %d were refused, want all but at most %d", names, rejected, bound)
	}
	if counted := s.metric("tailscope_ingest_rejected_total", "signal", "points", "reason", "too_many_families"); counted != float64(rejected) {
		t.Errorf("/metrics counts %v points refused as too_many_families, %d were", counted, rejected)
	}

	var spans collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(crashPayload(t, "shop", 20, 2), &spans); err != nil {
		t.Fatal(err)
	}
	spans.ResourceSpans[0].ScopeSpans[0].Spans[7].StartTimeUnixNano = 1e9 // since 1970
	r, err := collectortrace.NewTraceServiceClient(conn).Export(t.Context(), &spans)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.GetPartialSuccess(); p.GetRejectedSpans() != 1 || !strings.Contains(p.GetErrorMessage(), "longest_span") {
		t.Errorf("answered %v, want one span refused and limits.longest_span named", r)
	}
	if counted := s.metric("tailscope_ingest_rejected_total", "signal", "spans", "reason", "too_long"); counted != 1 {
		t.Errorf("/metrics counts %v spans refused as too_long, want 1", counted)
	}
	s.awaitCount("span_duration_seconds", `{service="shop"}`, 19)
	if g := one(t, s.distribution("span_duration_seconds", `{service="shop"}`, "q", "0.99")); g.Max > 1 {
		t.Errorf("the longest of spans of at most 20 ms took %v s", g.Max)
	}
	// What was taken is visible, and soon: one generation took 57 s once.
	eventually(t, visibleWithin, func() string {
		if n := s.metric("tailscope_active_series") - own; n < 1 || n > bound+1000 {
			return fmt.Sprintf("%v series are active", n)
		}
		return ""
	})
	t.Logf("%d names in %v: %d refused; %s", names, took.Round(time.Millisecond), rejected, r.GetPartialSuccess().GetErrorMessage())
}
