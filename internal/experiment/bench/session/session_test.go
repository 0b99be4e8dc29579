package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a set of two queries in turn, the second of which answers 404 and
// wants it.
type fixed struct {
	recorded bool
	rows     uint64 // 0: no end
}

func (f fixed) Source(loop, _ int) (load.Source, error) { return &turns{at: loop}, nil }
func (f fixed) Checker() load.Checker                   { return nil }
func (f fixed) Queries() []string                       { return []string{"home", "gone"} }
func (f fixed) Tenants() []string                       { return []string{"acme"} }
func (f fixed) Checks() []string                        { return nil }
func (f fixed) Accepts(query, status int) bool          { return status < 400 || query == 1 && status == 404 }
func (f fixed) RanOut() string                          { return "" }
func (f fixed) Recorded() bool                          { return f.recorded }
func (f fixed) Notes() []string                         { return nil }
func (f fixed) Lasts(d time.Duration) error {
	if d > time.Hour {
		return errors.New("it lasts an hour")
	}
	return nil
}
func (f fixed) Enough(n uint64) error {
	if f.rows > 0 && n > f.rows {
		return fmt.Errorf("%d rows are not enough for %d requests", f.rows, n)
	}
	return nil
}

type turns struct{ at int }

func (s *turns) Next(r *load.Request) bool {
	q := s.at % 2
	s.at++
	*r = load.Request{Query: q, Tenant: q - 1, Path: [...]string{"/", "/gone"}[q]}
	return true
}

// lax allows for machines that do other work while tests run.
var lax = tally.Limits{Late: time.Hour, Busiest: 2, Starved: 2, Host: 2}

func target(t *testing.T, h http.HandlerFunc) *url.URL {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func quick(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/gone" {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = w.Write([]byte("hello"))
}

func constant(rate float64, d time.Duration) bench.Plan {
	return bench.Plan{Arrivals: bench.Even, Phases: []bench.Phase{{Name: "load", From: rate, To: rate, For: d}}, Seed: 7}
}

// server records the points and reports of a run.
type server struct {
	mu      sync.Mutex
	away    bool
	counts  map[string]float64 // of series' observations, by family
	labels  map[string]bool
	reports []api.BenchResult
}

func (s *server) Put(_ context.Context, points []series.Point) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("it is away")
	}
	if s.counts == nil {
		s.counts, s.labels = map[string]float64{}, map[string]bool{}
	}
	for _, p := range points {
		s.labels[p.Family+p.Labels.String()] = true
		if p.Kind == series.Counter {
			s.counts[p.Family] += p.Value
		} else {
			s.counts[p.Family] += float64(p.Hist.Count)
		}
	}
	return nil
}

func (s *server) report(_ context.Context, r *api.BenchResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, *r)
	return nil
}

func TestRun(t *testing.T) {
	srv := &server{away: true}
	moments, back := 0, make(chan struct{})
	var first atomic.Bool
	begins := func(w http.ResponseWriter, r *http.Request) {
		if first.CompareAndSwap(false, true) { // the run goes on until the server is back
			select {
			case <-back:
			case <-r.Context().Done():
			}
		}
		quick(w, r)
	}
	o := Options{
		Name: "home", Service: "shop", Variant: "new", Experiment: "x1", Target: target(t, begins), Set: fixed{}, Plan: constant(400, 500*time.Millisecond),
		Limits: lax, Sink: srv, Report: srv.report, Labels: map[string]string{"instance": "here"}, Every: 50 * time.Millisecond,
		Load: load.Options{Connections: 8, Timeout: 30 * time.Second},
		Progress: func(m Moment) {
			if moments++; moments == 4 {
				srv.mu.Lock()
				srv.away = false
				srv.mu.Unlock()
				close(back)
			}
		},
	}
	for _, text := range []string{"p(97.5) < 10m", "errors < 1%", "p(50){gone} > 1h"} {
		th, err := threshold.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Thresholds = append(o.Thresholds, th)
	}
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := out.Result
	if a := r.Account; a.Due != 200 || a.Answered != 200 || a.Errors != 0 || a.Statuses["404"] != 100 {
		t.Errorf("account %+v", a)
	}
	if !r.Valid || r.Aborted != "" || r.Asked != 400 || math.Abs(float64(r.Rate)-400) > 1e-6 && float64(r.End-r.Start) <= 0.5 || r.Variant != "new" || r.Seed != 7 {
		t.Errorf("result %+v", r)
	}
	if !out.Missed || !r.Thresholds[0].Met || !r.Thresholds[1].Met || r.Thresholds[2].Met || math.IsNaN(float64(r.Thresholds[0].Value)) {
		t.Errorf("thresholds %+v", r.Thresholds)
	}
	if len(out.Series) != 2 || out.Series[0].Latency.Count != 100 || out.Series[1].Uncorrected.Count != 100 || out.Latency.Count != 200 {
		t.Errorf("series %+v", out.Series)
	}
	for _, s := range out.Series {
		if s.Query == "gone" && (s.Tenant != "acme" || s.Status != "ok") || s.Query == "home" && s.Tenant != "" {
			t.Errorf("series %s of %q: %s", s.Query, s.Tenant, s.Status)
		}
	}
	if out.Trouble != "" {
		t.Errorf("trouble %s", out.Trouble)
	}
	want := map[string]float64{FamilyDuration: 200, FamilyService: 200, FamilyFirstByte: 200, FamilyBytes: 200, FamilyRequests: 200, FamilyLate: 200}
	if fmt.Sprint(srv.counts) != fmt.Sprint(want) {
		t.Errorf("the server has %v, want %v", srv.counts, want)
	}
	if l := `bench_duration_seconds{experiment="x1", instance="here", operation="gone", service="shop", status="ok", tenant="acme", variant="new"}`; !srv.labels[l] {
		t.Errorf("no %s among %v", l, srv.labels)
	}
	if n := len(srv.reports); n < 1 || math.IsNaN(float64(srv.reports[n-1].End)) {
		t.Errorf("%d reports, the last without an end", n)
	}
	if moments < 4 {
		t.Errorf("%d moments", moments)
	}
}

// A target that stalls makes requests wait: their latency counts from when they were
// due, and the generator is not at fault.
func TestStall(t *testing.T) {
	var n atomic.Int64
	u := target(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 20 {
			time.Sleep(300 * time.Millisecond)
		}
		_, _ = w.Write([]byte("hello"))
	})
	out, err := Run(t.Context(), Options{Target: u, Set: fixed{}, Plan: constant(200, 500*time.Millisecond), Limits: lax, Load: load.Options{Connections: 1, Loops: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r := out.Result
	if r.Account.Answered != 100 || r.Account.Dropped+r.Account.Unsent != 0 {
		t.Errorf("account %+v", r.Account)
	}
	// Some 60 requests were due during the stall; one of them was sent before it.
	if due, sent := float64(r.Latency.Quantiles["0.75"]), float64(r.Uncorrected.Quantiles["0.9"]); due < 0.1 || sent > due/2 {
		t.Errorf("p75 from when due %v, p90 from when sent %v", due, sent)
	}
	if p := float64(r.Generator.Blocked.Quantiles["0.75"]); p < 0.1 {
		t.Errorf("blocked p75 %v", p)
	}
}

func TestEnds(t *testing.T) {
	slow := target(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	abort, err := threshold.Parse("errors < 1%, abort after 100ms")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Target: slow, Set: fixed{}, Plan: constant(200, time.Minute), Limits: lax, Every: 20 * time.Millisecond, Load: load.Options{Timeout: time.Second}}
	for _, c := range []struct {
		name   string
		change func(o *Options, end context.CancelFunc)
		want   string
	}{
		{"a threshold", func(o *Options, _ context.CancelFunc) { o.Thresholds = []threshold.Threshold{abort} }, "the threshold errors < 1%, abort after 100ms was missed after"},
		{"the caller", func(o *Options, end context.CancelFunc) {
			o.Progress = func(m Moment) {
				if m.Result.Account.Answered > 20 {
					end()
				}
			}
		}, "it was ended after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			o := o
			c.change(&o, end)
			out, err := Run(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			r := out.Result
			if !strings.Contains(r.Aborted, c.want) || r.Account.Answered == 0 || float64(r.End-r.Start) > 20 {
				t.Errorf("aborted %q, %d answered in %v s", r.Aborted, r.Account.Answered, r.End-r.Start)
			}
			if a := r.Account; a.Due != a.Sent+a.Dropped+a.Unsent || a.Sent != a.Answered+a.CutOff {
				t.Errorf("the account does not close: %+v", a)
			}
			if out.Missed != (len(r.Thresholds) > 0) || out.Missed && !r.Thresholds[0].Aborted {
				t.Errorf("thresholds %+v", r.Thresholds)
			}
		})
	}
}

func TestWarmUpIsLeftOut(t *testing.T) {
	var n atomic.Int64
	u := target(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= 60 { // cold: of 300/s for 0.2 s
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	out, err := Run(t.Context(), Options{Target: u, Set: fixed{}, Plan: constant(300, 200*time.Millisecond), WarmUp: 200 * time.Millisecond, Limits: lax, Load: load.Options{Connections: 1, Loops: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if r := out.Result; r.Account.Due != 60 || r.Account.Errors != 0 || r.WarmUp == nil || r.WarmUp.Requests != 60 {
		t.Errorf("account %+v, warm-up %+v", r.Account, r.WarmUp)
	}
}

// What is wrong is said before anything is sent.
func TestRefused(t *testing.T) {
	sent := atomic.Int64{}
	u := target(t, func(http.ResponseWriter, *http.Request) { sent.Add(1) })
	nobody := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	unknown, err := threshold.Parse("p(99){hoem} < 1s")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(o *Options)
		want   string
	}{
		{"no target", func(o *Options) { o.Target = nil }, "needs a target"},
		{"nobody there", func(o *Options) { o.Target = nobody }, "cannot be reached"},
		{"data that runs out", func(o *Options) { o.Set = fixed{rows: 5} }, "5 rows are not enough for 10 requests"},
		{"a rate of 0", func(o *Options) { o.Plan = constant(0, time.Second) }, "rate 0"},
		{"recorded without times", func(o *Options) { o.Plan = bench.Plan{Arrivals: bench.Recorded} }, "no times of their own"},
		{"times and a rate", func(o *Options) { o.Set = fixed{recorded: true} }, "leave the rate out"},
		{"a recording that is too short", func(o *Options) {
			o.Set, o.Plan, o.Duration = fixed{recorded: true}, bench.Plan{Arrivals: bench.Recorded}, 2*time.Hour
		}, "lasts an hour"},
		{"a warm-up before a recording", func(o *Options) {
			o.Set, o.Plan, o.WarmUp = fixed{recorded: true}, bench.Plan{Arrivals: bench.Recorded}, time.Second
		}, "no warm-up"},
		{"a threshold of nothing", func(o *Options) { o.Thresholds = []threshold.Threshold{unknown} }, "hoem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Target: u, Set: fixed{}, Plan: constant(100, 100*time.Millisecond), Limits: lax}
			c.change(&o)
			_, err := Run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if mistake := new(Mistake); errors.As(err, mistake) == (c.name == "nobody there") {
				t.Errorf("is it a mistake of whoever asked? %v", err)
			}
		})
	}
	if sent.Load() != 0 {
		t.Errorf("%d requests were sent", sent.Load())
	}
}

func TestDueBefore(t *testing.T) {
	p := bench.Plan{Phases: []bench.Phase{{From: 100, To: 100, For: time.Second}, {From: 100, To: 300, For: 2 * time.Second}, {From: 50, To: 50}}}
	for d, want := range map[time.Duration]float64{0: 0, 500 * time.Millisecond: 50, time.Second: 100, 2 * time.Second: 250, 3 * time.Second: 500, 5 * time.Second: 600} {
		if got := dueBefore(p, d); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", d, got, want)
		}
	}
}

func TestHostSeconds(t *testing.T) {
	busy, total := hostSeconds(procfs.CPUStat{User: 100, Nice: 5, System: 50, Idle: 800, Iowait: 45, IRQ: 1, SoftIRQ: 2, Steal: 7, Guest: 3, GuestNice: 3})
	if busy != 165 || total != 1010 {
		t.Errorf("got %v of %v", busy, total)
	}
}

// A run ends when its time is over although the target answers nothing, and its result
// says how many requests were not sent.
func TestOverloadEndsOnTime(t *testing.T) {
	const length = 300 * time.Millisecond
	release := make(chan struct{})
	u := target(t, func(http.ResponseWriter, *http.Request) { <-release })
	time.AfterFunc(4*length, func() { close(release) })
	out, err := Run(t.Context(), Options{Target: u, Set: fixed{}, Plan: constant(1000, length), Limits: lax, Load: load.Options{Connections: 2, Loops: 1, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	if a := out.Result.Account; a.Due != 300 || a.Sent != 2 || a.Unsent != 298 || out.Result.Aborted != "" {
		t.Errorf("%+v, aborted %q", a, out.Result.Aborted)
	}
}
