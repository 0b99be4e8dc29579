//go:build servers

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/test/program"
)

// sentSpan and sentMetrics are what a client says it has sent.
type sentSpan struct {
	Kind, Tenant, Status string
	Nanos                int64
}

type sentMetrics struct {
	Wait   []float64 // seconds, an exponential histogram
	Size   []float64 // bytes, an explicit-bucket histogram
	Orders map[string]float64
	Depth  float64
	Conns  float64
}

type sentAll struct {
	Service string
	Spans   []sentSpan
	Metrics map[string]sentMetrics // by temporality
}

// python returns an interpreter that has the OpenTelemetry SDK.
func python(t *testing.T) string {
	t.Helper()
	return pythonWith(t, "testdata/requirements.txt")
}

// pythonWith returns an interpreter that has the packages which the file of
// requirements pins, installed once into the cache directory.
func pythonWith(t *testing.T, requirements string) string {
	t.Helper()
	req, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, fmt.Sprintf("python-%x", sha256.Sum256(req))[:24])
	bin := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, "installed")); err == nil {
		return bin
	}
	_ = os.RemoveAll(dir)
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", requirements},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestPythonSDK(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t)
			endpoint := "http://" + s.OTLPHTTP
			if protocol == "grpc" {
				endpoint = s.OTLPGRPC
			}
			out := filepath.Join(t.TempDir(), "sent.json")
			begin := time.Now()
			cmd := exec.CommandContext(t.Context(), interpreter, "testdata/send.py", protocol, endpoint, "6000", out)
			var text bytes.Buffer
			cmd.Stdout, cmd.Stderr = &text, &text
			if err := cmd.Run(); err != nil {
				t.Fatalf("send.py: %v\n%s", err, text.Bytes())
			}
			if text.Len() > 0 {
				t.Errorf("send.py complained:\n%s", text.Bytes())
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			var sent sentAll
			if err := json.Unmarshal(b, &sent); err != nil {
				t.Fatal(err)
			}
			t.Logf("sent %d spans and %d+%d histogram observations in %v", len(sent.Spans),
				len(sent.Metrics["delta"].Wait), len(sent.Metrics["cumulative"].Wait), time.Since(begin).Round(time.Millisecond))
			checkAll(t, s, sent, "e2e_"+protocol)
		})
	}
}

// checkAll compares everything a client has sent with what the API answers.
// Metrics are named prefix_temporality_….
func checkAll(t *testing.T, s *server, sent sentAll, prefix string) {
	t.Helper()
	checkSpans(t, s, sent)
	for temporality, m := range sent.Metrics {
		t.Run("metrics="+temporality, func(t *testing.T) {
			checkMetrics(t, s, sent.Service, prefix+"_"+temporality, m)
		})
	}
}

func checkSpans(t *testing.T, s *server, sent sentAll) {
	t.Helper()
	service := fmt.Sprintf("{service=%q}", sent.Service)
	s.awaitCount("span_duration_seconds", service, uint64(len(sent.Spans)))

	key := func(kind, tenant, status string) string { return kind + "/" + tenant + "/" + status }
	groups := map[string][]float64{}
	var all, servers []float64
	for _, sp := range sent.Spans {
		v := float64(sp.Nanos) / 1e9
		groups[key(sp.Kind, sp.Tenant, sp.Status)] = append(groups[key(sp.Kind, sp.Tenant, sp.Status)], v)
		all = append(all, v)
		if sp.Kind == "server" {
			servers = append(servers, v)
		}
	}
	worst := 0.0
	for _, c := range []struct {
		name, match string
		values      []float64
	}{
		{"all spans", service, all},
		{"server spans", fmt.Sprintf(`{service=%q,kind="server"}`, sent.Service), servers},
	} {
		r := s.distribution("span_duration_seconds", c.match, "q", askedParam())
		worst = max(worst, sameDistribution(t, c.name, one(t, r), c.values))
	}
	r := s.distribution("span_duration_seconds", service, "by", "kind,tenant,status", "q", askedParam())
	if len(r.Groups) != len(groups) {
		t.Errorf("%d groups by kind, tenant and status, %d were sent", len(r.Groups), len(groups))
	}
	for _, g := range r.Groups {
		k := key(g.Labels["kind"], g.Labels["tenant"], g.Labels["status"])
		worst = max(worst, sameDistribution(t, k, g, groups[k]))
	}
	t.Logf("%d spans in %d groups: counts exact, worst quantile off by %.4f (stated %.4f)",
		len(all), len(groups), worst, float64(r.Groups[0].Error))

	// What the semantic conventions say became labels.
	for _, want := range []struct{ match string }{
		{fmt.Sprintf(`{service=%q,kind="server",operation="GET /cart/{id}",version="2.0.1"}`, sent.Service)},
		{fmt.Sprintf(`{service=%q,kind="client",component="db"}`, sent.Service)},
	} {
		if got := s.count("span_duration_seconds", want.match); got != uint64(len(servers)) {
			t.Errorf("%s holds %d spans, %d were sent", want.match, got, len(servers))
		}
	}
	// No literal of any SQL text was kept.
	labels := get[api.LabelsResponse](s, "/api/v1/labels", map[string]string{
		"family": "span_duration_seconds", "match": service, "start": "now-1h", "end": "now+1m"})
	for _, l := range labels.Labels {
		if l.Name == "operation" && l.Total != 2 {
			t.Errorf("%d operations, want GET /cart/{id} and SELECT cart: %+v", l.Total, l.Values)
		}
	}
}

func checkMetrics(t *testing.T, s *server, service, prefix string, m sentMetrics) {
	t.Helper()
	sel := fmt.Sprintf("{service=%q}", service)
	for _, h := range []struct {
		family string
		values []float64
	}{
		{prefix + "_wait_seconds", m.Wait},
		{prefix + "_size_bytes", m.Size},
	} {
		s.awaitCount(h.family, sel, uint64(len(h.values)))
		g := one(t, s.distribution(h.family, fmt.Sprintf(`{service=%q,tenant="t1"}`, service), "q", "0.1,0.5,0.9,0.95,0.99"))
		worst := 0.0
		if h.family == prefix+"_size_bytes" {
			worst = checkExplicit(t, h.family, g, h.values)
		} else {
			worst = sameDistribution(t, h.family, withoutExtremes(t, g, h.values), h.values)
		}
		t.Logf("%s: %d observations exact, worst quantile off by %.4f (stated %.4f)", h.family, g.Count, worst, float64(g.Error))
	}
	for tenant, want := range m.Orders {
		s.awaitValue(prefix+"_orders_total", fmt.Sprintf(`{service=%q,tenant=%q}`, service, tenant), want)
	}
	s.awaitValue(prefix+"_depth", sel, m.Depth)
	s.awaitValue(prefix+"_conns", sel, m.Conns)
}

// withoutExtremes leaves out minimum and maximum: those of a cumulative histogram
// cover the time since its stream began, which differences cannot undo. Stated ones
// must bound what was sent.
func withoutExtremes(t *testing.T, g api.DistributionGroup, sent []float64) api.DistributionGroup {
	t.Helper()
	low, high := slices.Min(sent), slices.Max(sent)
	for _, e := range []struct {
		name      string
		got, want float64
	}{{"min", float64(g.Min), low}, {"max", float64(g.Max), high}} {
		if math.Abs(e.got-e.want) > (float64(g.Error)+1e-9)*e.want { // false if it is not stated
			t.Errorf("%s %v, sent %v, stated error %v", e.name, e.got, e.want, g.Error)
		}
	}
	g.Min, g.Max = api.Float(low), api.Float(high)
	return g
}

// checkExplicit compares a histogram of explicit buckets: exact in count and
// sum, and in quantiles only as far as its buckets go, which the stated error
// has to admit. Without a maximum there is no bound above the last bucket's,
// and the error is null.
func checkExplicit(t *testing.T, what string, g api.DistributionGroup, sent []float64) float64 {
	t.Helper()
	if float64(g.Error) < 0.3 { // the buckets double in width
		t.Errorf("%s: stated error %v is better than its buckets", what, g.Error)
	}
	g = withoutExtremes(t, g, sent)
	if math.IsNaN(float64(g.Error)) {
		if g.Error = api.Float(math.Inf(1)); slices.Max(sent) <= 6400 {
			t.Errorf("%s: no error stated, though every bucket has bounds", what)
		}
	}
	return sameDistribution(t, what, g, sent)
}

// awaitValue waits until the latest sample of the one number series that
// matches is want.
func (s *server) awaitValue(family, match string, want float64) {
	s.t.Helper()
	var last string
	for deadline := time.Now().Add(visibleWithin); time.Now().Before(deadline); pause(s.t, 50*time.Millisecond) {
		status, _, body, err := s.fetch("/api/v1/nearest", map[string]string{
			"family": family, "match": match, "time": strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)})
		if err != nil {
			s.t.Fatal(err)
		}
		last = string(body)
		var r api.NearestResponse
		if status != 200 || json.Unmarshal(body, &r) != nil || len(r.Series) == 0 {
			continue
		}
		if len(r.Series) != 1 {
			s.t.Fatalf("%s%s: %d series, want one: %s", family, match, len(r.Series), body)
		}
		if v := r.Series[0].Value; v != nil && float64(*v) == want {
			return
		}
	}
	s.t.Errorf("%s%s is not %v: %s", family, match, want, last)
}
