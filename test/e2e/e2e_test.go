//go:build servers

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/test/program"
)

// flushFlag makes what arrived visible soon, so that tests need not wait.
const flushFlag = "--ingest-flush=200ms"

// visibleWithin bounds how long acknowledged data may take to become visible;
// generous, since the machine may be busy.
const visibleWithin = 15 * time.Second

// server is a running Tailscope and the test that owns it.
type server struct {
	*program.Tailscope
	t     testing.TB
	start time.Time // before anything was sent
}

// start runs a server in a directory of its own until the test ends.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "data"), args...)
}

func startIn(t testing.TB, data string, args ...string) *server {
	t.Helper()
	p, err := program.StartTailscope(t.Context(), data, append([]string{flushFlag}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{p, t, time.Now()}
	t.Cleanup(func() {
		select {
		case <-p.Done(): // the test stopped or killed it
			return
		default:
		}
		if t.Failed() {
			t.Logf("server log:\n%s", tail(p.Log(), 60))
		}
		s.stop()
	})
	return s
}

// stop asks the server to end, as an operator would, and fails the test if it
// does not end well.
func (s *server) stop() program.Usage {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	u, err := s.Stop(ctx)
	if err != nil {
		s.t.Errorf("%v\n%s", err, tail(s.Log(), 60))
	}
	return u
}

func tail(s string, lines int) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-lines):], "\n")
}

// fetch asks the API and returns status and body.
func (s *server) fetch(path string, params map[string]string) (int, http.Header, []byte, error) {
	q := url.Values{}
	for k, v := range params {
		q.Set(k, v)
	}
	u := s.URL + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, u, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, b, err
}

// get asks the API and decodes its answer; anything but 200 fails the test.
func get[T any](s *server, path string, params map[string]string) T {
	s.t.Helper()
	var out T
	status, _, body, err := s.fetch(path, params)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	if status != http.StatusOK {
		s.t.Fatalf("GET %s %v: status %d: %s", path, params, status, body)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		s.t.Fatalf("GET %s: %v: %s", path, err, body)
	}
	return out
}

// distribution asks for a family's distribution since before the test began.
// Extra parameters are pairs of name and value.
func (s *server) distribution(family, match string, extra ...string) api.DistributionResponse {
	s.t.Helper()
	p := map[string]string{
		"family": family, "match": match,
		"start": strconv.FormatInt(s.start.Add(-15*time.Minute).Unix(), 10),
		"end":   strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10),
	}
	for i := 0; i < len(extra); i += 2 {
		p[extra[i]] = extra[i+1]
	}
	return get[api.DistributionResponse](s, "/api/v1/distribution", p)
}

// count returns how many observations of the selection are visible, 0 while the
// family is unknown.
func (s *server) count(family, match string) uint64 {
	s.t.Helper()
	status, _, body, err := s.fetch("/api/v1/distribution", map[string]string{
		"family": family, "match": match,
		"start": strconv.FormatInt(s.start.Add(-15*time.Minute).Unix(), 10),
		"end":   strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if status == http.StatusNotFound || status == http.StatusBadRequest {
		return 0 // nothing of the family or its labels has arrived yet
	}
	if status != http.StatusOK {
		s.t.Fatalf("distribution of %s%s: status %d: %s", family, match, status, body)
	}
	var r api.DistributionResponse
	if err := json.Unmarshal(body, &r); err != nil {
		s.t.Fatal(err)
	}
	n := uint64(0)
	for _, g := range r.Groups {
		n += g.Count
	}
	return n
}

// awaitCount waits until exactly want observations are visible, then makes
// sure that it stays so once everything has been flushed.
func (s *server) awaitCount(family, match string, want uint64) {
	s.t.Helper()
	got := uint64(0)
	for deadline := time.Now().Add(visibleWithin); time.Now().Before(deadline); {
		if got = s.count(family, match); got >= want {
			break
		}
		pause(s.t, 50*time.Millisecond)
	}
	if got == want {
		pause(s.t, 500*time.Millisecond) // more than a flush interval
		got = s.count(family, match)
	}
	if got != want {
		s.t.Fatalf("%s%s holds %d observations, %d were sent", family, match, got, want)
	}
}

// pause waits for another process; there is nothing here to be notified by.
func pause(t testing.TB, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// ingestCounter sums the samples of one of the server's own metrics, over the
// label values given as pairs.
func (s *server) metric(name string, pairs ...string) float64 {
	s.t.Helper()
	_, _, body, err := s.fetch("/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(body)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		labels, value, _ := cutLast(rest, " ")
		matches := true
		for i := 0; i < len(pairs); i += 2 {
			matches = matches && strings.Contains(labels, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
		}
		if matches {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatalf("/metrics: %q: %v", line, err)
			}
			sum += v
		}
	}
	return sum
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// asked are the quantiles every comparison looks at.
var asked = []float64{0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}

func askedParam() string {
	var b strings.Builder
	for i, q := range asked {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatFloat(q, 'g', -1, 64))
	}
	return b.String()
}

// sameDistribution compares an answer with the values that were sent: count
// exactly; sum, min and max to rounding; each quantile within the stated
// error of an order statistic that bounds it. It returns the largest error.
func sameDistribution(t testing.TB, what string, g api.DistributionGroup, sent []float64) float64 {
	t.Helper()
	sent = slices.Sorted(slices.Values(sent))
	n := len(sent)
	if g.Count != uint64(n) {
		t.Errorf("%s: count %d, %d were sent", what, g.Count, n)
		return math.NaN()
	}
	sum := 0.0
	for _, v := range sent {
		sum += v
	}
	near := func(field string, got api.Float, want, rel float64) {
		if math.Abs(float64(got)-want) > rel*math.Abs(want)+1e-12 {
			t.Errorf("%s: %s %v, sent %v", what, field, got, want)
		}
	}
	near("sum", g.Sum, sum, 1e-9)
	near("mean", g.Mean, sum/float64(n), 1e-9)
	near("min", g.Min, sent[0], 1e-9)
	near("max", g.Max, sent[n-1], 1e-9)
	if !(g.Error > 0) {
		t.Errorf("%s: stated error %v", what, g.Error)
	}
	worst := 0.0
	for text, got := range g.Quantiles {
		q, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Errorf("%s: quantile named %q", what, text)
			continue
		}
		// The q-quantile lies between the order statistics around rank q·n,
		// whichever of the usual definitions is taken.
		low := sent[max(0, int(math.Ceil(q*float64(n)))-2)]
		high := sent[min(n-1, int(math.Floor(q*float64(n)))+1)]
		e := 0.0
		switch v := float64(got); {
		case v < low:
			e = (low - v) / low
		case v > high:
			e = (v - high) / high
		case math.IsNaN(v):
			e = math.Inf(1)
		}
		worst = max(worst, e)
		if e > float64(g.Error)+1e-9 {
			t.Errorf("%s: q=%v is %v, exact is %v..%v: off by %.4f, stated %.4f", what, q, got, low, high, e, float64(g.Error))
		}
	}
	if len(g.Quantiles) == 0 {
		t.Errorf("%s: no quantiles", what)
	}
	return worst
}

// one returns the only group of an answer.
func one(t testing.TB, r api.DistributionResponse) api.DistributionGroup {
	t.Helper()
	if len(r.Groups) != 1 {
		t.Fatalf("%d groups, want one: %+v", len(r.Groups), r.Groups)
	}
	return r.Groups[0]
}
