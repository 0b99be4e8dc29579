//go:build servers

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"tailscope/test/program"
)

var generateFor = flag.Duration("generate", time.Minute, "how long telemetrygen sends, to each of: directly, through a Collector")

const (
	genWorkers  = 2
	genChildren = 4
)

// generate runs telemetrygen and returns how many items of the kind each
// worker says it has made.
func generate(t *testing.T, args ...string) []int {
	t.Helper()
	path, err := program.Build(t.Context(), "telemetrygen")
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--otlp-insecure", "--workers", strconv.Itoa(genWorkers), "--timeout", "60s")
	ctx, cancel := context.WithTimeout(t.Context(), *generateFor+2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("telemetrygen %v: %v\n%s", args, err, tail(out.String(), 40))
	}
	var made []int
	for _, m := range generated.FindAllStringSubmatch(out.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		made = append(made, n)
	}
	if len(made) != genWorkers {
		t.Fatalf("telemetrygen %v: %d workers told how much they made, want %d\n%s", args, len(made), genWorkers, tail(out.String(), 40))
	}
	return made
}

var generated = regexp.MustCompile(`(?:traces|metrics) generated\s.*"(?:traces|metrics)": (\d+)`)

// TestTelemetrygen lets the Collector's own load tool send for a while,
// directly and through a Collector, and holds what is stored against what was
// made: nothing may be missing and nothing may be there twice.
func TestTelemetrygen(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"direct", "collector"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			endpoint := s.OTLPGRPC
			var c *program.Collector
			if way == "collector" {
				var err error
				c, err = program.StartCollector(t.Context(), filepath.Join(t.TempDir(), "collector.log"), "forward", s.OTLPGRPC)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if t.Failed() {
						t.Logf("collector log:\n%s", tail(c.Log(), 40))
					}
				}()
				endpoint = c.OTLPGRPC
			}
			// The rate keeps the tool's own queue from dropping, which would look
			// like a loss of ours.
			begin := time.Now()
			spans, metrics := 0, map[string]uint64{}
			for _, n := range generate(t, "traces", "--otlp-endpoint", endpoint, "--duration", generateFor.String(),
				"--rate", "2000", "--child-spans", strconv.Itoa(genChildren)) {
				spans += n * (1 + genChildren)
			}
			// The SDK's sums are of whole numbers: worker by worker 0+1+…+(n-1).
			const each = 2000
			wantSum := 0.0
			kinds := []struct{ kind, name string }{{"Histogram", "gen.explicit"}, {"ExponentialHistogram", "gen.expo"}, {"Sum", "gen.sum"}, {"Gauge", "gen.gauge"}}
			for _, k := range kinds {
				for _, n := range generate(t, "metrics", "--otlp-endpoint", endpoint, "--metrics", strconv.Itoa(each), "--rate", "1000",
					"--metric-type", k.kind, "--otlp-metric-name", k.name, "--aggregation-temporality", "delta") {
					metrics[k.kind] += uint64(n)
					if k.kind == "Sum" {
						wantSum += float64(n) * float64(n-1) / 2
					}
				}
			}
			if c != nil { // what the Collector still holds is sent before it ends
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := c.Stop(ctx); err != nil {
					t.Errorf("%v\n%s", err, tail(c.Log(), 40))
				}
			}
			t.Logf("telemetrygen made %d spans and %v data points in %v", spans, metrics, time.Since(begin).Round(time.Second))

			const sel = `{service="telemetrygen"}`
			s.awaitCount("span_duration_seconds", sel, uint64(spans))
			traces := uint64(spans / (1 + genChildren))
			if got := s.count("span_duration_seconds", `{service="telemetrygen",kind="client"}`); got != traces {
				t.Errorf("%d client spans, %d were sent", got, traces)
			}
			// A fixed distribution: every span but the parents lasts 123 µs.
			g := one(t, s.distribution("span_duration_seconds", `{service="telemetrygen",kind="server"}`, "q", "0.5"))
			if g.Min != 123e-6 || g.Max != 123e-6 {
				t.Errorf("server spans last %v to %v, all were sent with 123 µs", g.Min, g.Max)
			}

			// Explicit histograms hold ten observations each, with known sums.
			s.awaitCount("gen_explicit", sel, 10*metrics["Histogram"])
			g = one(t, s.distribution("gen_explicit", sel, "q", "0.5"))
			sums := []float64{3940, 4455, 5337, 4477, 4670, 5670, 5091, 3420, 5917, 3988}
			cycle := 0.0
			for _, v := range sums {
				cycle += v
			}
			if want := cycle / 10 * float64(metrics["Histogram"]); float64(g.Sum) != want {
				t.Errorf("gen_explicit: sum %v, sent %v", g.Sum, want)
			}
			// Exponential ones hold ten to twenty-nine, drawn at random.
			n := metrics["ExponentialHistogram"]
			var got uint64
			for deadline := time.Now().Add(visibleWithin); time.Now().Before(deadline); pause(t, 100*time.Millisecond) {
				if now := s.count("gen_expo", sel); now == got && now >= 10*n {
					break
				} else {
					got = now
				}
			}
			if got < 10*n || got >= 30*n {
				t.Errorf("gen_expo: %d observations in %d points of 10 to 29", got, n)
			}
			s.awaitValue("gen_sum_total", sel, wantSum)
			s.awaitValue("gen_gauge", sel, each-1)
			refused := s.metric("tailscope_ingest_rejected_total") + s.metric("tailscope_ingest_requests_refused_total")
			if refused > 0 {
				t.Errorf("%v items were refused", refused)
			}
			u, err := s.Usage()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("stored %d spans, %d + %d histogram observations; server: %v CPU, %d MiB at most",
				spans, 10*metrics["Histogram"], got, u.CPU(), u.PeakBytes>>20)
			if t.Failed() {
				fmt.Println(tail(s.Log(), 20))
			}
		})
	}
}
