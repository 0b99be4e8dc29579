package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/series"
	"tailscope/test/program"
)

// SoakOptions of a soak.
type SoakOptions struct {
	For       time.Duration
	KillEvery time.Duration // default a fifteenth of For, at least 20 s, at most 4 min
	Rate      float64       // spans a second; default Share of what a calibration finds
	Share     float64       // default 0.7
	Dir       string        // for data, logs and configuration
	Logf      func(format string, args ...any)
}

// Sample is the server's usage at a moment.
type Sample struct {
	At         time.Duration      // since the soak began
	Life       int                // since which start, from 0
	Age        time.Duration      // since that start
	Resident   float64            // bytes
	Parts      map[string]float64 // bytes of what Resident is made of, by name
	Goroutines float64
}

// SoakResult is the result of a soak.
type SoakResult struct {
	Capacity, Rate float64 // spans a second
	Took           time.Duration
	Kills          int
	Spans          uint64 // acknowledged
	Unknown        uint64 // observations in requests without an answer
	Refused        int64  // requests
	LogLines       int64
	Difference     Difference
	Samples        []Sample
	Starts         []time.Duration // from each start after a kill until /readyz
	Asked          map[string]*Asked
}

// Asked counts questions.
type Asked struct{ Answered, Failed atomic.Int64 }

// Soak runs the program for long at a share of its capacity and kills it again
// and again, with questions, the page, a mirror and checks at once. The ledger
// is compared at every restart and at the end. The last quarter goes without a
// kill, to see whether anything grows.
func Soak(ctx context.Context, o SoakOptions) (*SoakResult, error) {
	if o.Share == 0 {
		o.Share = 0.7
	}
	if o.KillEvery == 0 {
		o.KillEvery = min(max(o.For/15, 20*time.Second), 4*time.Minute)
	}
	s := &soak{o: o, res: &SoakResult{Asked: map[string]*Asked{}}, begun: time.Now()}
	for _, name := range []string{"PromQL", "distribution", "page", "mirror"} {
		s.res.Asked[name] = &Asked{}
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	defer s.primary.Close()
	if err := s.calibrate(ctx); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return s.res, err
	}
	return s.res, nil
}

type soak struct {
	o       SoakOptions
	res     *SoakResult
	begun   time.Time
	args    []string
	primary *httptest.Server
	log     *accessLog
	bounds  []map[Line]Bounds // of each life that has ended

	server atomic.Pointer[program.Tailscope]
}

// prepare writes the configuration: fixed addresses, since a mirror and the
// questions go on while the server is away.
func (s *soak) prepare() error {
	s.primary = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok": 17}`) }))
	config, checks := filepath.Join(s.o.Dir, "tailscope.yaml"), filepath.Join(s.o.Dir, "checks.yaml")
	if err := os.WriteFile(config, []byte(followConfig(filepath.Join(s.o.Dir, "access.log"))), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(checks, fmt.Appendf(nil, `
templates:
  often: {every: 2s, soft: 2 of 3}
checks:
  web: {template: often, value: {http: {url: "%s/", json: ok}}}
  port: {template: often, value: {tcp: {address: %q}}}
  twice: {after: web, value: '{check="web"}[0] * 2'}
`, s.primary.URL, strings.TrimPrefix(s.primary.URL, "http://")), 0o644); err != nil {
		return err
	}
	s.args = []string{"--config", config, "--checks", checks}
	for _, flag := range []string{"--listen", "--otlp-grpc", "--otlp-http"} {
		addr, err := freeAddress()
		if err != nil {
			return err
		}
		s.args = append(s.args, flag, addr)
	}
	return nil
}

// freeAddress returns an address that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// calibrate finds what the program takes from two closed workers of each kind,
// on a directory of its own.
func (s *soak) calibrate(ctx context.Context) error {
	s.res.Rate = s.o.Rate
	if s.o.Rate > 0 {
		return nil
	}
	t, err := program.StartTailscope(ctx, filepath.Join(s.o.Dir, "calibration"))
	if err != nil {
		return err
	}
	defer t.Kill()
	l, err := startLoad(ctx, t, "calibration", 2, 0)
	if err != nil {
		return err
	}
	long := min(max(s.o.For/60, 10*time.Second), time.Minute)
	if err := backoff.Sleep(ctx, long/2); err != nil { // generations, traces: a steady state
		return err
	}
	before := l.spans.Load()
	if err := backoff.Sleep(ctx, long); err != nil {
		return err
	}
	s.res.Capacity = float64(l.spans.Load()-before) / long.Seconds()
	l.end()
	s.res.Rate = s.o.Share * s.res.Capacity
	if s.res.Capacity == 0 {
		return errors.New("the program took nothing")
	}
	s.o.Logf("capacity %.0f spans/s, going on at %.0f", s.res.Capacity, s.res.Rate)
	return nil
}

func (s *soak) start(ctx context.Context) (*program.Tailscope, error) {
	t, err := program.StartTailscope(ctx, filepath.Join(s.o.Dir, "data"), s.args...)
	if err != nil {
		return nil, err
	}
	s.server.Store(t)
	return t, nil
}

func (s *soak) run(ctx context.Context) (err error) {
	if s.log, err = writeLog(ctx, filepath.Join(s.o.Dir, "access.log"), 200); err != nil {
		return err
	}
	defer func() { s.log.stop(); s.log.done.Wait() }()
	t, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer func() { s.server.Load().Kill() }()
	around, stopAround := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer func() { stopAround(); asking.Wait() }()
	if status, body, err := fetch(ctx, t.URL+"/", nil); err != nil || status != http.StatusOK {
		return fmt.Errorf("the page: status %d, %w\n%.200s\nhint: make build puts it into the program", status, cmp.Or(err, errors.New("not served")), body)
	}
	if err := s.ask(around, &asking); err != nil {
		return err
	}
	ends := s.begun.Add(time.Since(s.begun) + s.o.For)
	for life := 0; ; life++ {
		born := time.Now()
		l, err := startLoad(ctx, t, fmt.Sprint(life), 2, s.res.Rate)
		if err != nil {
			return err
		}
		last := time.Until(ends) < s.o.For/4+s.o.KillEvery/2
		until := born.Add(s.o.KillEvery*3/4 + rand.N(s.o.KillEvery/2))
		if last {
			until = ends
		}
		if err := s.watch(ctx, t, life, born, until); err != nil {
			return err
		}
		if !last {
			t.Kill()
			s.res.Kills++
		}
		s.bounds = append(s.bounds, l.end())
		c := l.ledger.Counts()
		s.res.Unknown += c.Unknown
		s.res.Spans += uint64(l.spans.Load())
		s.res.Refused += l.refused.Load()
		if last {
			break
		}
		away := time.Now()
		if t, err = s.start(ctx); err != nil {
			return fmt.Errorf("after kill %d: %w", s.res.Kills, err)
		}
		s.res.Starts = append(s.res.Starts, time.Since(away))
		d, err := awaitAgreement(ctx, t, s.bounds[life], s.begun, time.Minute)
		if err != nil || !d.Ok() {
			s.res.Difference = d
			return errors.Join(err, fmt.Errorf("life %d: %v", life, d))
		}
		s.o.Logf("%s: life %d ended, ready again in %s, ledger equal; %d spans acknowledged so far", time.Since(s.begun).Round(time.Second), life, s.res.Starts[len(s.res.Starts)-1].Round(time.Millisecond), s.res.Spans)
	}
	stopAround()
	asking.Wait()
	logged, err := s.log.end(s.res.Kills)
	if err != nil {
		return err
	}
	s.res.LogLines = s.log.lines.Load()
	// What was read is flushed, and nothing changes by starting once more.
	if _, err := t.Stop(ctx); err != nil {
		return err
	}
	if t, err = s.start(ctx); err != nil {
		return err
	}
	all := logged
	for _, b := range s.bounds {
		for line, v := range b {
			all[line] = v
		}
	}
	s.res.Difference, err = awaitAgreement(ctx, t, all, s.begun, 2*time.Minute)
	s.res.Took = time.Since(s.begun)
	if err == nil && !s.res.Difference.Ok() {
		err = errors.New(s.res.Difference.String())
	}
	if _, serr := t.Stop(ctx); err == nil {
		err = serr
	}
	return err
}

// watch samples a life until it ends.
func (s *soak) watch(ctx context.Context, t *program.Tailscope, life int, born, until time.Time) error {
	every := min(max(s.o.KillEvery/40, time.Second), 5*time.Second)
	for time.Now().Before(until) {
		if err := backoff.Sleep(ctx, min(every, time.Until(until))); err != nil {
			return err
		}
		select {
		case <-t.Done():
			return fmt.Errorf("the program ended by itself:\n%s", lastLines(t.Log(), 40))
		default:
		}
		u, err := t.Usage()
		if err != nil {
			return err
		}
		m, err := metrics(ctx, t)
		if err != nil {
			continue // too busy to say
		}
		runtime := m["go_memstats_sys_bytes"] - m["go_memstats_heap_released_bytes"]
		parts := map[string]float64{"pages of files": float64(u.FilesNow), "Go's runtime": runtime, "rest, of C": float64(u.ResidentNow-u.FilesNow) - runtime,
			"live heap": m["tailscope_live_heap_bytes"], "heap in use": m["go_memstats_heap_inuse_bytes"]}
		for name, v := range m {
			if of, ok := strings.CutPrefix(name, `tailscope_memory_bytes{heap="`); ok {
				heap, part, _ := strings.Cut(strings.TrimSuffix(of, `"}`), `",part="`)
				if heap == "c" {
					part += " (of C)"
				}
				parts[part] = v
			}
		}
		s.res.Samples = append(s.res.Samples, Sample{At: time.Since(s.begun), Life: life, Age: time.Since(born), Resident: float64(u.ResidentNow), Parts: parts, Goroutines: m["go_goroutines"]})
	}
	return nil
}

func lastLines(s string, n int) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-n):], "\n")
}

// ask keeps asking, fetches the page and sends through a mirror, until ctx is done.
func (s *soak) ask(ctx context.Context, wg *sync.WaitGroup) error {
	repeat := func(name string, every time.Duration, do func() error) {
		wg.Go(func() {
			for backoff.Sleep(ctx, every) == nil {
				if do() == nil {
					s.res.Asked[name].Answered.Add(1)
				} else if ctx.Err() == nil {
					s.res.Asked[name].Failed.Add(1)
				}
			}
		})
	}
	get := func(path string, params url.Values) error {
		status, body, err := fetch(ctx, s.server.Load().URL+path, params)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: status %d: %.200s", path, status, body)
		}
		return err
	}
	repeat("PromQL", 500*time.Millisecond, func() error {
		now := time.Now().Unix()
		return get("/prometheus/api/v1/query_range", url.Values{"query": {`histogram_quantile(0.99, sum by (service) (rate(span_duration_seconds[1m])))`},
			"start": {fmt.Sprint(now - 1800)}, "end": {fmt.Sprint(now)}, "step": {"15"}})
	})
	repeat("distribution", 500*time.Millisecond, func() error {
		now := time.Now().Unix()
		return get("/api/v1/distribution", url.Values{"family": {series.SpanDuration}, "by": {"operation"}, "start": {fmt.Sprint(now - 900)}, "end": {fmt.Sprint(now)}})
	})
	repeat("page", time.Second, func() error { return get("/", nil) })
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	path, err := program.Build(ctx, "tailscope")
	if err != nil {
		return err
	}
	m, err := program.Start(filepath.Join(s.o.Dir, "mirror.log"), nil, path, "mirror", "--listen", addr,
		"--primary", s.primary.URL, "--candidate", s.primary.URL, "--set", "mirror.allow_same=true", "--to", s.server.Load().URL)
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	wg.Go(func() { <-ctx.Done(); m.Kill() })
	through := func() error {
		status, _, err := fetch(ctx, "http://"+addr+"/", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	}
	for range 100 { // until it listens
		if err = through(); err == nil {
			break
		}
		if err := backoff.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("mirror: %w\n%s", err, m.Log())
	}
	repeat("mirror", 10*time.Millisecond, through)
	return nil
}
