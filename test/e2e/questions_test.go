//go:build servers

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/test/sender"
)

// worstQuestions take much time or memory. Only the first few are refused for
// their text alone.
var worstQuestions = []string{
	`/prometheus/api/v1/query?query=max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1ms])`,
	`/prometheus/api/v1/query?query=max_over_time(max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1s])[1d:1s])`,
	`/prometheus/api/v1/query?query=max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1s])`,
	`/prometheus/api/v1/query?query=avg_over_time(count(rate(span_duration_seconds{tenant=~".%2B"}[1m]))[1h:10s])`,
	`/prometheus/api/v1/query?query={__name__=~".%2B"}`,
	`/prometheus/api/v1/query_range?query={__name__=~".%2B",tenant=~".%2B"}&start=START&end=END&step=10`,
	`/prometheus/api/v1/query_range?query=sum by (tenant,operation) (rate(span_duration_seconds[1m]))&start=START&end=END&step=1`,
	`/prometheus/api/v1/query_range?query=avg_over_time(span_duration_seconds{tenant=~".%2B"}[30m])&start=START&end=END&step=1`,
	`/prometheus/api/v1/query_range?query=label_replace(label_replace(rate(span_duration_seconds{tenant=~".%2B"}[1m]),"a","$1-$1-$1","tenant","(.*)"),"b","$1-$1-$1","a","(.*)")&start=START&end=END&step=1`,
	`/prometheus/api/v1/query_range?query=sort_desc(topk(1e9, quantile_over_time(0.9, histogram_quantile(0.5, rate(span_duration_seconds{tenant=~".%2B"}[1m]))[20m:10s])))&start=START&end=END&step=10`,
	`/prometheus/api/v1/series?match[]={__name__=~".%2B"}&match[]={tenant=~".%2B"}`,
	`/prometheus/api/v1/label/tenant/values`,
	`/prometheus/api/v1/query_exemplars?query=span_duration_seconds&start=START&end=END`,
}

// worstOfThePage are questions of the JSON API.
var worstOfThePage = []string{
	`/api/v1/heatmap?start=now-400d&match={tenant=~".%2B"}&width=11000&rows=500`,
	`/api/v1/heatmap?start=now-1h&step=10s&match={tenant=~".%2B"}`,
	`/api/v1/operations?start=now-400d&limit=1000`,
	`/api/v1/timeline?start=now-1h&step=10s&by=tenant,operation`,
	`/api/v1/distribution?start=now-1h&by=tenant,operation,service&buckets=true`,
	`/api/v1/labels?start=now-1h&limit=20000`,
	`/api/v1/tenants?start=now-400d&limit=1000`,
	`/api/v1/breakdown?start=now-400d&match={service="crowd"}`,
	`/api/v1/explain?start=now-1h&match={service="crowd"}&low=0.05`,
	`/api/v1/compare?match={service="crowd"}&a=now-4m/now-2m&b=now-2m/now`,
}

// crowdWaves is in how many slots of the last minutes the crowd has requests.
const crowdWaves = 5

// crowd fills a server with tenants of five operations each, and waits until
// they can be asked for.
func crowd(t *testing.T, s *server, tenants int) {
	t.Helper()
	snd := sender.HTTP("http://"+s.OTLPHTTP+"/v1/traces", "")
	defer snd.Close()
	const each = 500
	var payloads [][]byte
	for from := 0; from < tenants; from += each {
		for op := range 5 {
			for wave := range crowdWaves {
				payloads = append(payloads, crowdPayload(t, fmt.Sprintf("/op/%c", 'a'+op), from, each, time.Duration(wave+1)*time.Minute))
			}
		}
	}
	again := func(error) (time.Duration, bool) { return 50 * time.Millisecond, true }
	if _, _, err := sender.All(t.Context(), snd, payloads, 4, again); err != nil {
		t.Fatal(err)
	}
	want := uint64(5 * tenants * crowdWaves)
	eventually(t, time.Minute, func() string {
		if n := s.count("span_duration_seconds", `{service="crowd"}`); n < want {
			return fmt.Sprintf("%d of %d spans are visible", n, want)
		}
		return ""
	})
}

// crowdPayload is one request of n tenants each, that long ago.
func crowdPayload(t *testing.T, route string, from, n int, ago time.Duration) []byte {
	t.Helper()
	now := uint64(time.Now().Add(-ago).UnixNano())
	list := make([]*tracepb.Span, 0, n)
	for i := range n {
		id := []byte(fmt.Sprintf("%s%011d", route, from+i))
		list = append(list, &tracepb.Span{
			TraceId: id[len(id)-16:], SpanId: id[len(id)-8:], Name: "GET " + route, Kind: tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: now - uint64(i%100+1)*1e6, EndTimeUnixNano: now,
			Attributes: slices.Concat(strAttrs("tenant.id", fmt.Sprintf("tenant-%d", from+i)), strAttrs("http.route", route), strAttrs("http.request.method", "GET")),
		})
	}
	b, err := proto.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: strAttrs("service.name", "crowd")},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: list}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ask returns the status of an answer and its beginning.
func (s *server) ask(path string) (int, string, error) {
	now := time.Now().Unix()
	path = strings.NewReplacer("START", fmt.Sprint(now-3600), "END", fmt.Sprint(now), " ", "%20", `"`, "%22", "{", "%7B", "}", "%7D", "$", "%24").Replace(path)
	res, err := http.Get(s.URL + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	head, err := io.ReadAll(io.LimitReader(res.Body, 300))
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return res.StatusCode, string(head), err
}

// asking asks all questions again and again, so many at once, until stopped. It
// counts the answers by status.
func (s *server) asking(questions []string, atOnce int) (stop func() map[int]int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var next atomic.Int64
	var over atomic.Bool
	answers := map[int]int{}
	for range atOnce {
		wg.Go(func() {
			for !over.Load() {
				status, _, err := s.ask(questions[int(next.Add(1)-1)%len(questions)])
				if err != nil {
					status = -1
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	return func() map[int]int { over.Store(true); wg.Wait(); return answers }
}

// Whatever is asked, and by however many, questions take no more memory than
// their share, and each is answered or refused.
func TestQuestionsKeepToTheirMemory(t *testing.T) {
	const share = 512 << 20 // a third of the bound is the questions'
	s := start(t, "--limits-memory", "1536MiB")
	crowd(t, s, 20_000)
	for _, q := range slices.Concat(worstQuestions, worstOfThePage) {
		begun := time.Now()
		status, head, err := s.ask(q)
		if took := time.Since(begun); err != nil || status >= 500 && status != http.StatusServiceUnavailable || took > 40*time.Second {
			t.Errorf("%s: %d %v after %v: %s", q, status, err, took, head)
		} else {
			t.Logf("%d after %4dms: %.90s: %.150s", status, took.Milliseconds(), q, head)
		}
	}
	before, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	stop := s.asking(slices.Concat(worstQuestions, worstOfThePage), 16)
	time.Sleep(20 * time.Second)
	answers := stop()
	after, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	base := int64(200 << 20) // of a server with 100,000 series and their index
	t.Logf("resident %d MiB before, peak %d MiB; answers by status %v", before.ResidentNow>>20, after.PeakBytes>>20, answers)
	if after.PeakBytes > base+share {
		t.Errorf("resident memory peaked at %d MiB, want at most %d MiB and the questions' %d MiB", after.PeakBytes>>20, base>>20, share>>20)
	}
	if answers[-1] > 0 || answers[200] == 0 || answers[500] > 0 {
		t.Errorf("answers by status: %v", answers)
	}
}

// paced sends requests of 100 spans, 100 a second, each when it is due, and
// returns how many were accepted in time and how long they took.
func paced(t *testing.T, s *server, length time.Duration) (perSecond float64, took []time.Duration) {
	t.Helper()
	snd, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
	if err != nil {
		t.Fatal(err)
	}
	defer snd.Close()
	payload := crowdPayload(t, "/op/a", 0, 100, 0)
	const every = 10 * time.Millisecond
	begun := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ctx, cancel := context.WithDeadline(t.Context(), begun.Add(length+time.Second))
	defer cancel()
	var next atomic.Int64
	for range 8 {
		wg.Go(func() {
			for {
				due := begun.Add(time.Duration(next.Add(1)-1) * every)
				if due.Sub(begun) >= length {
					return
				}
				time.Sleep(time.Until(due))
				if err := snd.Send(ctx, payload); err != nil {
					continue
				}
				mu.Lock()
				took = append(took, time.Since(due))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return float64(len(took)) / length.Seconds(), took
}

func quantileOf(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

// While eight of the worst questions run, again and again, ingest keeps its
// rate and the page is answered. The machine may be busy with other things, so
// it is measured up to three times.
func TestQuestionsLeaveIngestAndThePage(t *testing.T) {
	s := start(t, "--limits-memory", "1536MiB")
	crowd(t, s, 20_000)
	const length = 15 * time.Second
	for try := 1; ; try++ {
		alone, base := paced(t, s, length)
		stop := s.asking(worstQuestions, 8)
		over := make(chan struct{})
		pages := make(chan []time.Duration)
		go func() {
			var took []time.Duration
			for i := 0; ; i++ {
				select {
				case <-over:
					pages <- took
					return
				case <-time.After(200 * time.Millisecond):
				}
				begun := time.Now()
				path := []string{"/api/v1/services?start=now-1h", "/api/v1/status", "/api/v1/heatmap?start=now-1h"}[i%3]
				if status, head, err := s.ask(path); err != nil || status != http.StatusOK {
					t.Errorf("%s: %d %v %s", path, status, err, head)
				}
				took = append(took, time.Since(begun))
			}
		}()
		beside, busy := paced(t, s, length)
		close(over)
		page := <-pages
		answers := stop()
		slices.Sort(page)
		t.Logf("ingest %.1f/s alone (p50 %v, p99 %v), %.1f/s beside questions (p50 %v, p99 %v); page p50 %v, p99 %v of %d; questions by status %v",
			alone, quantileOf(base, 0.5), quantileOf(base, 0.99), beside, quantileOf(busy, 0.5), quantileOf(busy, 0.99), quantileOf(page, 0.5), quantileOf(page, 0.99), len(page), answers)
		enough := beside >= 0.95*alone && quantileOf(page, 0.95) < 2*time.Second
		if enough || try == 3 {
			if !enough {
				t.Errorf("ingest kept %.0f %% of its rate, want 95 %%; 95 %% of the page's answers came within %v, want 2s", 100*beside/alone, quantileOf(page, 0.95))
			}
			return
		}
	}
}
