package requests_test

import (
	"strings"
	"testing"
	"time"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
)

func specs(t testing.TB) map[string]requests.Spec {
	dir := write(t, map[string]string{"w.csv": "w,n\ntime & tide,1\n\"a\"\"b\",2\n", "targets": "/1\n/2\n"})
	now := func() time.Time { return time.Unix(1_772_366_400, 5e8) }
	return map[string]requests.Spec{
		"static": {Queries: []requests.Query{{Request: "http://h/cart"}}},
		"templates": {Base: "http://h", Dir: dir, Tenant: "column:n", Think: "exp 1s", Now: now, Queries: []requests.Query{
			{Request: "/a?q={{w}}&n={{random 100}}&t={{now}}", Data: "w.csv", Order: "shuffle", Weight: 3, Header: []load.Field{{Name: "X-Id", Value: "{{uuid}}"}}},
			{Request: "POST /b", Body: `{"w": "{{w}}", "k": {{seq}}, "at": "{{now rfc3339}}", "ms": {{now ms}}}`, Data: "w.csv", Order: "random"}}},
		"targets": {Base: "http://h", Dir: dir, Targets: "targets"},
	}
}

func TestNoAllocationPerRequest(t *testing.T) {
	for name, s := range specs(t) {
		src, err := compile(t, s).Source(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		var r load.Request
		for range 10 {
			src.Next(&r) // buffers grow
		}
		if n := testing.AllocsPerRun(1000, func() { src.Next(&r) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestBuiltInValues(t *testing.T) {
	set := compile(t, specs(t)["templates"])
	all := every(t, set, 1, 40)
	seen := map[string]bool{}
	for _, r := range all {
		wire := string(r.Wire)
		if set.Queries()[r.Query] == "POST /b" {
			if !strings.Contains(wire, `"at": "2026-03-01T12:00:00.500Z", "ms": 1772366400500}`) {
				t.Errorf("%q", wire)
			}
			continue
		}
		if !strings.Contains(wire, "&t=1772366400 ") {
			t.Errorf("%q", wire)
		}
		_, id, _ := strings.Cut(wire, "X-Id: ")
		if id, _, _ = strings.Cut(id, "\r\n"); len(id) != 36 || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || seen[id] {
			t.Errorf("%q", id)
		}
		seen[id] = true
		if r.Think <= 0 {
			t.Error("no time to think")
		}
	}
}

// Over HTTP/2 a request has no wire, and its strings stay as they are.
func TestPartsOfHTTP2(t *testing.T) {
	s := specs(t)["templates"]
	s.HTTP2 = true
	set := compile(t, s)
	src, err := set.Source(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var a, b load.Request
	src.Next(&a)
	path, id := strings.Clone(a.Path), strings.Clone(a.Header[0].Value)
	for range 10 {
		src.Next(&b)
	}
	if a.Wire != nil || a.Path != path || a.Header[0].Value != id || a.Header[0].Name != "X-Id" || a.Header[1] != (load.Field{Name: "User-Agent", Value: "tailscope-bench"}) {
		t.Errorf("%+v", a)
	}
	if !strings.HasPrefix(path, "/a?q=") {
		t.Error(path)
	}
}

func TestThinking(t *testing.T) {
	for _, c := range []struct {
		text      string
		low, high time.Duration
		mean      time.Duration
	}{
		{"20ms", 20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond},
		{"10ms..30ms", 10 * time.Millisecond, 30 * time.Millisecond, 20 * time.Millisecond},
		{"exp 20ms", 0, time.Second, 20 * time.Millisecond},
	} {
		set := compile(t, requests.Spec{Queries: []requests.Query{{Request: "http://h/"}}, Think: c.text})
		src, err := set.Source(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		const n = 20_000
		sum := time.Duration(0)
		for range n {
			var r load.Request
			src.Next(&r)
			if r.Think < c.low || r.Think > c.high {
				t.Fatalf("%s: %s", c.text, r.Think)
			}
			sum += r.Think
		}
		// Five standard errors of an exponential mean of 20,000.
		if mean := sum / n; (mean - c.mean).Abs() > c.mean*5/141 {
			t.Errorf("%s: mean %s", c.text, mean)
		}
	}
}

func TestRandomChoiceFollowsWeights(t *testing.T) {
	set := compile(t, requests.Spec{Base: "http://h", Random: true, Seed: 5, Queries: []requests.Query{{Request: "/a", Weight: 3}, {Request: "/b", Weight: 1}}})
	counts := [2]float64{}
	for _, r := range every(t, set, 2, 20_000) {
		counts[r.Query]++
	}
	if share := counts[0] / 40_000; share < 0.75-5*0.00217 || share > 0.75+5*0.00217 {
		t.Errorf("a share of %v", share)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, s := range specs(b) {
		b.Run(name, func(b *testing.B) {
			src, err := compile(b, s).Source(0, 1)
			if err != nil {
				b.Fatal(err)
			}
			var r load.Request
			b.ReportAllocs()
			for b.Loop() {
				src.Next(&r)
			}
		})
	}
}
