package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

func benchReport(t *testing.T, r *api.BenchResult, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Bench(r).Write(&b, FormatOf(format)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBenchReports(t *testing.T) {
	r := reporttest.Bench(t)
	reporttest.Golden(t, "bench.txt", benchReport(t, r, "text"))
	reporttest.Golden(t, "bench.md", benchReport(t, r, "md"))
	reporttest.Golden(t, "bench.html", benchReport(t, r, "html"))
	again := new(api.BenchResult)
	text := benchReport(t, r, "json")
	if err := json.Unmarshal([]byte(text), again); err != nil || benchReport(t, again, "json") != text || again.Latency.Count != 8800 {
		t.Errorf("JSON is not the result: %v", err)
	}
}

// A run that says little of its target says so first, in every format; a closed
// loop says what its latencies leave out, and shows no others.
func TestBenchReportsInvalidAndClosed(t *testing.T) {
	r := reporttest.Bench(t)
	r.Valid, r.Invalid = false, []string{"the generator sent late: <by far>; ask for less"}
	r.Plan.Arrivals, r.Asked = "closed", api.Float(math.NaN())
	for format, figure := range map[string]string{"text": "\np99 ", "md": "| p99 ", "html": ">p99<"} {
		got := benchReport(t, r, format)
		at := strings.Index(got, BenchInvalid)
		if late := strings.Index(got, "sent late"); at < 0 || late < at || strings.Index(got, figure) < late {
			t.Errorf("%s: where is it said that it is invalid?\n%s", format, got)
		}
		if !strings.Contains(got, "leave out the waiting") {
			t.Errorf("%s: where is it said that the loop is closed?", format)
		}
		if format != "text" && strings.Contains(got, "<by far>") {
			t.Errorf("%s: text is not escaped", format)
		}
		if format == "text" && strings.Contains(got, "from when due") {
			t.Errorf("a closed loop has no latency from when requests were due:\n%s", got)
		}
	}
}

// The page needs nothing else, and runs nothing.
func TestBenchPageIsWhole(t *testing.T) {
	r := reporttest.Bench(t)
	r.Name, r.Events[2].Name = `<script>alert(1)</script>`, `"><img src=x>`
	got := benchReport(t, r, "html")
	for _, s := range []string{"<script", "<img", "<link", " href=", "@import", "url("} {
		if strings.Contains(got, s) {
			t.Errorf("the page has %s", s)
		}
	}
	if n := strings.Count(got, "<svg"); n != 6 { // percentiles, time, rate, lateness, two readings
		t.Errorf("%d charts", n)
	}
}

func TestReading(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{{5e6, "bytes", "5 MB"}, {0.0021, "seconds", "2.10 ms"}, {0.0021, "seconds/s", "2.10 ms/s"}, {12, "", "12"}, {0.5, "cores", "0.5"}, {3e6, "bytes/s", "3 MB/s"}, {math.NaN(), "bytes", "-"}} {
		if got := reading(api.Float(c.value), c.unit); got != c.want {
			t.Errorf("%g %s: got %s, want %s", c.value, c.unit, got, c.want)
		}
	}
}
