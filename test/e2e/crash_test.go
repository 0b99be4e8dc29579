//go:build servers

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/test/sender"
)

var crashes = flag.Int("crashes", envInt("TAILSCOPE_CRASHES", 100), "how often TestKill kills the server")

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// TestKill kills the server with SIGKILL in the middle of a load, again and
// again on the same directory, and holds what is stored against what was
// acknowledged, round by round:
//
//	acknowledged ≤ stored ≤ acknowledged + in flight
//
// A request is one unit of the journal, so a part of one is never stored.
func TestKill(t *testing.T) {
	t.Parallel()
	const (
		workers     = 8
		spansEach   = 20
		tenantsEach = 5
	)
	data := filepath.Join(t.TempDir(), "data")
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	type round struct{ acked, inFlight int64 }
	var rounds []round
	var acked, inFlight, extra, lost int64

	// check compares the rounds from first on with what is stored; nil if it agrees.
	check := func(s *server, first int) error {
		stored := make([]int64, len(rounds))
		for _, g := range s.distribution("span_duration_seconds", `{service=~"crash-.*"}`, "by", "service").Groups {
			i, err := strconv.Atoi(g.Labels["service"][len("crash-"):])
			if err != nil || i >= len(rounds) {
				return fmt.Errorf("a service that never was: %v", g.Labels)
			}
			stored[i] = int64(g.Count)
		}
		for i := first; i < len(rounds); i++ {
			r := rounds[i]
			if stored[i] < r.acked*spansEach || stored[i] > (r.acked+r.inFlight)*spansEach || stored[i]%spansEach != 0 {
				return fmt.Errorf("round %d: %d spans stored, %d acknowledged, %d in flight", i, stored[i], r.acked*spansEach, r.inFlight*spansEach)
			}
		}
		return nil
	}
	// settle waits until what was replayed is visible and agrees.
	settle := func(s *server, first int) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); pause(t, 20*time.Millisecond) {
			if err = check(s, first); err == nil {
				return
			}
		}
		t.Fatalf("%v\nserver log:\n%s", err, tail(s.Log(), 40))
	}

	begin := time.Now()
	for n := range *crashes {
		s := startIn(t, data)
		s.start = begin
		if n > 0 {
			settle(s, n-1)
		}
		payload := crashPayload(t, fmt.Sprintf("crash-%d", n), spansEach, tenantsEach)
		snd, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
		if err != nil {
			t.Fatal(err)
		}
		var started, done atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					started.Add(1)
					if snd.Send(t.Context(), payload) != nil {
						return
					}
					done.Add(1)
				}
			})
		}
		// Long enough that some rounds meet a flush in the act.
		pause(t, time.Duration(10+rng.IntN(300))*time.Millisecond)
		s.Kill()
		wg.Wait()
		_ = snd.Close()
		r := round{done.Load(), started.Load() - done.Load()}
		if r.inFlight > workers {
			t.Fatalf("%d requests in flight of %d workers", r.inFlight, workers)
		}
		rounds = append(rounds, r)
		acked, inFlight = acked+r.acked, inFlight+r.inFlight
	}
	// Once more, everything at once: no round may have been counted again by
	// a later replay.
	s := startIn(t, data)
	s.start = begin
	settle(s, 0)
	pause(t, time.Second)
	if err := check(s, 0); err != nil {
		t.Fatal(err)
	}
	stored := int64(s.count("span_duration_seconds", `{service=~"crash-.*"}`))
	extra = stored - acked*spansEach
	lost = max(0, -extra)
	t.Logf("%d kills in %v: %d spans acknowledged, %d in flight when killed, %d stored: %d lost, %d of those in flight kept",
		len(rounds), time.Since(begin).Round(time.Second), acked*spansEach, inFlight*spansEach, stored, lost, extra)
	if acked == 0 || inFlight == 0 {
		t.Errorf("nothing was tried: %d acknowledged, %d in flight", acked, inFlight)
	}
}

// crashPayload is one request of a service.
func crashPayload(t *testing.T, service string, spans, tenants int) []byte {
	t.Helper()
	str := func(k, v string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
	}
	now := uint64(time.Now().UnixNano())
	var list []*tracepb.Span
	for i := range spans {
		list = append(list, &tracepb.Span{
			TraceId: []byte("0123456789abcdef"), SpanId: []byte{1, 2, 3, 4, 5, 6, 7, byte(i)},
			Name: "GET /", Kind: tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: now - uint64(i+1)*1e6, EndTimeUnixNano: now,
			Attributes: []*commonpb.KeyValue{str("tenant.id", fmt.Sprintf("t%d", i%tenants)), str("http.route", "/"), str("http.request.method", "GET")},
		})
	}
	b, err := proto.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{str("service.name", service)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: list}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
