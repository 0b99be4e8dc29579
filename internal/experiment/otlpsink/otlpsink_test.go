package otlpsink

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"tailscope/hist"
	"tailscope/internal/series"
)

func points(n int) []series.Point {
	var out []series.Point
	for range n {
		out = append(out, series.Point{Family: "mirror_requests_total", Kind: series.Counter, TimeNanos: 1700000000e9, Value: 1, Labels: labels.FromStrings("service", "shop", "outcome", "mirrored")})
	}
	return out
}

// What becomes of points under each of a server's answers: an error keeps them
// where they are, nil has them gone.
func TestAnswers(t *testing.T) {
	message := func(m proto.Message) string {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		name    string
		status  int
		body    string
		wantErr string // empty: none
		want    Stats  // but for LastError
	}{
		{"taken", 200, "", "", Stats{Points: 3}},
		{"some taken", 200, message(&collector.ExportMetricsServiceResponse{PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 2, ErrorMessage: "too old"}}), "", Stats{Points: 1, Rejected: 2}},
		{"taken, with an answer that is none", 200, "\xff", "", Stats{Points: 3}},
		{"overloaded", 429, message(&status.Status{Message: "wait"}), "429 Too Many Requests: wait", Stats{Failures: 1}},
		{"stopping", 503, "", "503 Service Unavailable", Stats{Failures: 1}},
		{"not a server of ours", 404, "<html>", "404 Not Found", Stats{Failures: 1}},
		{"never", 400, message(&status.Status{Message: "malformed"}), "", Stats{Rejected: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Encoding") != "gzip" {
					t.Errorf("got %s %v", r.URL, r.Header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer srv.Close()
			s := New(Options{Address: func(context.Context) (string, error) { return srv.URL + "/v1/metrics", nil }, HTTP: srv.Client(), Log: slog.New(slog.DiscardHandler)})
			err := s.Put(t.Context(), points(3))
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got error %v, want %q", err, c.wantErr)
			}
			got := s.Stats()
			if (got.LastError == "") != (c.status == 200) {
				t.Errorf("last error %q", got.LastError)
			}
			if got.LastError = ""; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The address is asked for again after a failure: a server may come back at
// another port. What is lost after it was sent may have been taken; what could not
// be sent was not.
func TestAddressIsFoundAgain(t *testing.T) {
	taken := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { taken++ }))
	defer srv.Close()
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer breaks.Close()
	const gone = "http://127.0.0.1:1"
	addresses := []string{"", gone, breaks.URL, srv.URL}
	s := New(Options{HTTP: srv.Client(), Address: func(context.Context) (string, error) {
		a := addresses[0]
		addresses = addresses[1:]
		if a == "" {
			return "", errors.New("the server is away")
		}
		return a, nil
	}})
	for i, fails := range []bool{true, true, true, false, false} {
		if err := s.Put(t.Context(), points(2)); (err != nil) != fails {
			t.Errorf("put %d: %v", i, err)
		}
	}
	if got := s.Stats(); got != (Stats{Points: 4, Failures: 3, Uncertain: 1}) || taken != 2 {
		t.Errorf("got %+v, %d taken", got, taken)
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	s := New(Options{})
	if err := s.Put(t.Context(), []series.Point{{Family: "f", Kind: series.Gauge}}); err == nil || !strings.Contains(err.Error(), "cannot be sent") {
		t.Errorf("got %v", err)
	}
	if err := s.Put(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Buckets with bounds of their own, and raw samples, keep what they say.
func TestOtherForms(t *testing.T) {
	h, err := hist.NewExplicit([]float64{1, 2})
	if err == nil {
		err = errors.Join(h.Record(0.5), h.Record(5), h.Record(5))
	}
	if err != nil {
		t.Fatal(err)
	}
	ls := labels.FromStrings("service", "shop", "queue", "a")
	b, err := Encode("test", []series.Point{
		{Family: "sizes", Labels: ls, Hist: h, TimeNanos: 1700000005e9},
		{Family: "length", Labels: ls, Kind: series.Gauge, Sampled: true, TimeNanos: 1700000005e9, Value: -3},
		{Family: "done_total", Labels: ls, Kind: series.Counter, Sampled: true, TimeNanos: 1700000005e9, Value: 7},
	})
	var out collector.ExportMetricsServiceRequest
	if err := errors.Join(err, proto.Unmarshal(b, &out)); err != nil {
		t.Fatal(err)
	}
	m := out.ResourceMetrics[0].ScopeMetrics[0].Metrics
	if d := m[0].GetHistogram().GetDataPoints(); len(d) != 1 || d[0].Count != 3 || len(d[0].BucketCounts) != 3 || d[0].BucketCounts[0] != 1 || d[0].BucketCounts[2] != 2 || d[0].GetSum() != 10.5 {
		t.Errorf("sizes: %v", m[0])
	}
	if d := m[1].GetGauge().GetDataPoints(); len(d) != 1 || d[0].GetAsDouble() != -3 {
		t.Errorf("length: %v", m[1])
	}
	if s := m[2].GetSum(); len(s.GetDataPoints()) != 1 || s.DataPoints[0].GetAsDouble() != 7 || !s.IsMonotonic || s.AggregationTemporality != 2 {
		t.Errorf("done_total: %v", m[2])
	}
}

// A family of which there are points of several forms loses none: it is a metric of each.
func TestSeveralForms(t *testing.T) {
	h, err := hist.NewExplicit([]float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	at := series.Point{Family: "f", Labels: labels.FromStrings("service", "shop"), TimeNanos: 1700000005e9, Value: 1}
	var all []series.Point
	for range 2 {
		for _, kind := range []series.Kind{series.Gauge, series.Counter} {
			p := at
			p.Kind, p.Sampled = kind, true
			all = append(all, p)
		}
		for _, hist := range []*hist.Histogram{nil, h, hist.New(5)} {
			p := at
			if p.Hist = hist; hist == nil {
				p.Kind = series.Counter
			}
			all = append(all, p)
		}
	}
	b, err := Encode("test", all)
	var out collector.ExportMetricsServiceRequest
	if err := errors.Join(err, proto.Unmarshal(b, &out)); err != nil {
		t.Fatal(err)
	}
	m := out.ResourceMetrics[0].ScopeMetrics[0].Metrics
	if len(m) != 5 {
		t.Fatalf("%d metrics: %v", len(m), m)
	}
	for _, x := range m {
		n := len(x.GetGauge().GetDataPoints()) + len(x.GetSum().GetDataPoints()) + len(x.GetHistogram().GetDataPoints()) + len(x.GetExponentialHistogram().GetDataPoints())
		if x.Name != "f" || n != 2 {
			t.Errorf("%d points in %v", n, x)
		}
	}
}
