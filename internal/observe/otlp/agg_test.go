package otlp

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/test/payload"
)

// countingStore adds up the observations of distributions by view.
type countingStore struct {
	dropStore
	mu     sync.Mutex
	counts map[series.View]uint64
	slots  []int64 // of distributions in the full view
}

func (s *countingStore) Put(_ context.Context, b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range b.Points {
		if b.Series[p.Series].Kind != series.Distribution {
			continue
		}
		m, err := hist.Moments(p.Data)
		if err != nil {
			return err
		}
		s.counts[b.Series[p.Series].View] += m.Count
		if b.Series[p.Series].View == series.Full {
			s.slots = append(s.slots, p.Slot)
		}
	}
	return nil
}

// Names of metrics beyond the bound are refused and counted by their reason;
// the others of the request are taken.
func TestTooManyFamilies(t *testing.T) {
	st := &countingStore{counts: map[series.View]uint64{}}
	a, err := agg.Open(t.Context(), st, agg.Options{Writer: "local", Dir: t.TempDir(), MaxFamilies: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	s := start(t, Options{Sink: Into(a)})
	var b strings.Builder
	for i := range 5 {
		fmt.Fprintf(&b, `,{"name":"m%d","gauge":{"dataPoints":[{"timeUnixNano":"%d","asDouble":1}]}}`, i, time.Now().UnixNano())
	}
	r := post(t, s, "/v1/metrics", "application/json", "", []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[`+b.String()[1:]+`]}]}]}`))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rejectedDataPoints":"3"`, "3 of metrics beyond the limit of names: put what varies into attributes, or raise limits.families"} {
		if !strings.Contains(strings.ReplaceAll(string(body), " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%d %s lacks %s", r.StatusCode, body, want)
		}
	}
	if want := (Rejected{"points", "too_many_families", 3}); !slices.Contains(s.Stats().Rejected, want) {
		t.Errorf("counted %+v, want %+v among them", s.Stats().Rejected, want)
	}
}

// The points of a histogram are of the time before them: those of (0 s, 10 s] lie in the
// slot of 0 s, as in a range of PromQL.
func TestHistogramAtBoundary(t *testing.T) {
	boundary := time.Now().Add(-time.Minute).Truncate(10 * time.Second)
	for _, temporality := range []int{delta, cumulative} {
		st := &countingStore{counts: map[series.View]uint64{}}
		a, err := agg.Open(t.Context(), st, agg.Options{Writer: "local", Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, Options{Sink: Into(a)})
		var b strings.Builder
		for i, after := range []time.Duration{-10 * time.Second, 0, 1} {
			fmt.Fprintf(&b, `,{"startTimeUnixNano":"1","timeUnixNano":"%d","count":"%d","sum":1,"bucketCounts":["%d"]}`, boundary.Add(after).UnixNano(), 3+i, 3+i)
		}
		r := post(t, s, "/v1/metrics", "application/json", "", fmt.Appendf(nil,
			`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"d","histogram":{"aggregationTemporality":%d,"dataPoints":[%s]}}]}]}]}`, temporality, b.String()[1:]))
		if r.StatusCode != 200 {
			t.Fatal(r.Status)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := []int64{boundary.Unix() - 20, boundary.Unix() - 10, boundary.Unix()}
		if temporality == cumulative { // the first is a baseline
			want = want[1:]
		}
		slices.Sort(st.slots)
		if !slices.Equal(st.slots, want) {
			t.Errorf("temporality %d: slots %d, want %d", temporality, st.slots, want)
		}
	}
}

// TestAggregator: through a real aggregator, every span is in every view once,
// by whichever way it came.
func TestAggregator(t *testing.T) {
	st := &countingStore{counts: map[series.View]uint64{}}
	ctx := context.Background()
	a, err := agg.Open(ctx, st, agg.Options{Writer: "local", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Sink: Into(a)})
	conn := dial(t, s)
	reqs := payload.TracesAt(5, 30, time.Now().Add(-time.Minute))
	var senders sync.WaitGroup
	for w := range 3 {
		senders.Go(func() {
			for i := w; i < len(reqs); i += 3 {
				if err := sendRaw(conn, exportTraces, reqs[i]); err != nil {
					t.Error(err)
				}
				if r := post(t, s, "/v1/traces", "application/x-protobuf", "gzip", zip(reqs[i])); r.StatusCode != 200 {
					t.Error(r.Status)
				}
			}
		})
	}
	senders.Wait()
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	const want = 2 * 30 * payload.SpansPerRequest
	for v, name := range map[series.View]string{series.Full: "full", series.Marginal: "marginal", series.Total: "total"} {
		if st.counts[v] != want {
			t.Errorf("%d observations in the %s view, want %d", st.counts[v], name, want)
		}
	}
	if n := s.Stats().Spans; n != want {
		t.Errorf("%d spans counted, want %d", n, want)
	}
}
