package cli

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
	"tailscope/internal/scaling"
)

// lawFixture is a law of stored requests, of which two steps are left out.
func lawFixture(t *testing.T) *api.ScalingResponse {
	t.Helper()
	var points []scaling.Point
	for i := range 40 {
		n := 0.5 + 0.6*float64(i)
		rate := 20 * n / (1 + (n-1)*(0.04+0.002*n)) * (1 + 0.01*math.Sin(float64(3*i)))
		points = append(points, scaling.Point{N: n, Rate: rate, Mean: n / rate, Time: float64(1778313600 + 60*i)})
	}
	points[0].Left, points[1].Left = true, true
	law, err := scaling.Fit(points, scaling.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &api.ScalingResponse{Range: api.Range{Start: 1778313600, End: 1778316000}, Step: 60, Law: law.API("stored"), Points: scaling.APIPoints(points),
		Warnings: []api.CompareWarning{{Code: "law", Text: "2 of 40 steps of 60s have fewer than 20 requests, or border on ones without any, and are left out: longer steps have more"}}}
}

func TestCapacityFit(t *testing.T) {
	for file, format := range map[string]string{"capacity-fit.txt": "text", "capacity-fit.md": "markdown", "capacity-fit.csv": "csv", "capacity-fit.json": "json"} {
		srv, asked := answering(t, lawFixture(t))
		out, stderr, code := run(t, "capacity", "fit", "--service", "shop", "--operation", "GET /cart", "--since", "7d", "--step", "10m", "--width", "70", "--format", format, "--server", srv.URL)
		if code != exitOK || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", format, code, stderr)
		}
		reporttest.Golden(t, file, out)
		if want := `GET /api/v1/scaling end=now&match={service="shop",operation="GET /cart"}&start=now-7d&step=10m`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
}

// Marks part the range: what each gave of the whole comes first.
func TestCapacityFitByConfiguration(t *testing.T) {
	r := lawFixture(t)
	r.Sentence, r.CPU, r.Memory = "with one mix of operations the mean went from 96 ms to 54 ms: −42 ms with cache", "process.cpu.time", "process.memory.usage"
	quantiles := map[string]api.Float{"p50": 0.05, "p95": 0.2, "p99": 0.4}
	r.Configurations = []api.ScalingConfiguration{
		{Range: api.Range{Start: 1778313600, End: 1778314800}, Requests: 12000, Rate: 10, Mean: 0.098, Quantiles: quantiles, Errors: 0.001, Apdex: 0.91, CPU: 3, Memory: 2e9},
		{Range: api.Range{Start: 1778314860, End: 1778316000}, Name: "cache", Requests: 22800, Rate: 20, Mean: 0.055, Quantiles: quantiles, Errors: 0, Apdex: 0.99, CPU: 2, Memory: api.Float(math.NaN()),
			Change: &api.ScalingChange{Before: 0.096, After: 0.054, Sentence: "the mean is 44 % faster (95 % interval 40 … 47 %)"}},
	}
	srv, _ := answering(t, r)
	out, stderr, code := run(t, "capacity", "fit", "--service", "shop", "--width", "100", "--format", "text", "--server", srv.URL)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	reporttest.Golden(t, "capacity-fit-marks.txt", out)
}

func TestCapacityFitWithoutLaw(t *testing.T) {
	srv, _ := answering(t, &api.ScalingResponse{Step: 60, Points: []api.ScalingPoint{}, Warnings: []api.CompareWarning{{Code: "law", Text: "no request was seen in this range: ask for a longer one"}}})
	_, stderr, code := run(t, "capacity", "fit", "--service", "shop", "--server", srv.URL)
	want := "tailscope: scaling is not fitted: no request was seen in this range: ask for a longer one\nhint: tailscope capacity URL raises load step by step and fits the law to that\n"
	if code != exitFailed || stderr != want {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
}

func TestCapacityFitOfAFile(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, text, want, wrong string }{
		{"good", "# by hand\nusers,throughput\n1,64.9\n18,995.9\n36,1652.4\n72,1853.2\n108,1828.9\n144,1775\n216,1702.2\n", "peaks at 1,884 requests/s", ""},
		{"heading", "a,b\n1,2\n", "", `line 1: "a,b" names no concurrency or no rate`},
		{"not a number", "concurrency,rate\n1,2\n2,fast\n", "", `line 3: rate is "fast", not a number of 0 or more`},
		{"infinite", "concurrency,rate\n1,Inf\n", "", `line 2: rate is "Inf"`},
		{"idle", "concurrency,rate\n0,2\n", "", "line 2: a concurrency of 0"},
		{"ragged", "concurrency,rate\n1,2,3\n", "", "line 2: wrong number of fields"},
		{"few", "concurrency,rate\n1,2\n", "", "too little data: 1 points at 1 concurrencies"},
		{"empty", "", "", "line 1: EOF"},
	} {
		path := filepath.Join(dir, "points.csv")
		if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, stderr, code := run(t, "capacity", "fit", path)
		if tc.wrong == "" && (code != exitOK || !strings.Contains(out, tc.want)) || tc.wrong != "" && (code == exitOK || !strings.Contains(stderr, tc.wrong)) {
			t.Errorf("%s: exit code %d, %q, %q", tc.name, code, out, stderr)
		}
	}
	for _, args := range []string{"fit", "fit x.csv --service shop", "fit a b", "fit --service shop --level 95", "fit --service shop --format xml"} {
		if _, stderr, code := run(t, append([]string{"capacity"}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("%s: exit code %d, %q", args, code, stderr)
		}
	}
}
