package probe

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tailscope/internal/guard/check/event"
)

func perfText(all []event.Perf) string {
	var parts []string
	for _, p := range all {
		parts = append(parts, fmt.Sprintf("%s=%v%s w%v c%v %v..%v", p.Label, p.Value, p.Unit, p.Warning, p.Critical, p.Low, p.High))
	}
	return strings.ReplaceAll(strings.Join(parts, "\n"), "NaN", "-")
}

// Outputs are those of the Monitoring Plugins Development Guidelines and of the
// Nagios plugin API, and some that plugins write nevertheless.
func TestParseOutput(t *testing.T) {
	for _, c := range []struct{ out, text, perf string }{
		{"DISK OK - free space: / 3326 MB (56%);", "DISK OK - free space: / 3326 MB (56%);", ""},
		{"DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968", "DISK OK - free space: / 3326 MB (56%);", "/=2643MB w5948 c5958 0..5968"},
		{"DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968\n/ 15272 MB (77%);\n/boot 68 MB (69%); | /boot=68MB;88;93;0;98\n/home=69357MB;253404;253409;0;253414\n",
			"DISK OK - free space: / 3326 MB (56%);",
			"/=2643MB w5948 c5958 0..5968\n/boot=68MB w88 c93 0..98\n/home=69357MB w253404 c253409 0..253414"},
		{"PING ok - Packet loss = 0%, RTA = 0.80 ms | percent_packet_loss=0 rta=0.80", "PING ok - Packet loss = 0%, RTA = 0.80 ms", "percent_packet_loss=0 w- c- -..-\nrta=0.8 w- c- -..-"},
		{"x|'a b'=1 'c''d'=2s 'e=f'=3c;;@10:20", "x", "a b=1 w- c- -..-\nc'd=2s w- c- -..-\ne=f=3c w- c10 -..-"},
		{"x|time=0.001s;;;0.000;10.000 size=1KB;~:5;10:", "x", "time=0.001s w- c- 0..10\nsize=1KB w5 c10 -..-"},
		{"x|a=-1.5e3 b=.5 c=5. d=+2%", "x", "a=-1500 w- c- -..-\nb=0.5 w- c- -..-\nc=5 w- c- -..-\nd=2% w- c- -..-"},
		{"x|a=U b=1", "x", "a=- w- c- -..-\nb=1 w- c- -..-"},
		{"x|junk a=1 =2 b= c=1,5 d=1.2.3 'e'f=1 g=2", "x", "a=1 w- c- -..-\ng=2 w- c- -..-"},
		{"x|'never ends=1 a=2", "x", ""},
		{"x| \t a=1\r\n", "x", "a=1 w- c- -..-"},
		{"x|a=1;bad;10:5;no;Inf", "x", "a=1 w- c- -..-"},
		{"x|a=1;2;3;4;5;6;7", "x", "a=1 w2 c3 4..5"},
		{"x|load1=0.5;5.0;10.0;0;", "x", "load1=0.5 w5 c10 0..-"},
		{"", "", ""},
		{"|", "", ""},
		{"|a=1", "", "a=1 w- c- -..-"},
	} {
		text, perf := parseOutput(c.out)
		if text != c.text || perfText(perf) != c.perf {
			t.Errorf("%q:\ngot  %q\n%s\nwant %q\n%s", c.out, text, perfText(perf), c.text, c.perf)
		}
	}
	if _, perf := parseOutput("x|" + strings.Repeat("a=1 ", 1000)); len(perf) != maxPerf {
		t.Errorf("%d values are kept, want %d", len(perf), maxPerf)
	}
}

// The table of examples in section 2.5 of the guidelines, and our own edges.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		s         string
		good, bad []float64
		outer     float64
	}{
		{"10", []float64{0, 5, 10}, []float64{-1, 11}, 10},
		{"10:", []float64{10, 1e9}, []float64{9, -3}, 10},
		{"~:10", []float64{-1e9, 10}, []float64{11}, 10},
		{"~:5", []float64{5}, []float64{5.1}, 5},
		{"10:20", []float64{10, 15, 20}, []float64{9, 21}, 20},
		{"@10:20", []float64{9, 21}, []float64{10, 15, 20}, 10},
		{"@10", []float64{-1, 11}, []float64{0, 10}, 0},
		{"@~:10", []float64{11}, []float64{-1e9, 10}, 10},
		{"-5:-1", []float64{-3}, []float64{0, -6}, -1},
		{":7", []float64{0, 7}, []float64{-1, 8}, 7},
		{"~:", []float64{-1e300, 1e300}, nil, math.NaN()},
		{"0.5:1e3", []float64{0.5, 1000}, []float64{0.4}, 1000},
	} {
		r, err := parseRange(c.s)
		if err != nil {
			t.Errorf("%s: %v", c.s, err)
			continue
		}
		for _, v := range c.good {
			if r.bad(v) {
				t.Errorf("%s alerts on %v", c.s, v)
			}
		}
		for _, v := range c.bad {
			if !r.bad(v) {
				t.Errorf("%s does not alert on %v", c.s, v)
			}
		}
		if got := r.outer(); got != c.outer && !(math.IsNaN(got) && math.IsNaN(c.outer)) {
			t.Errorf("%s meets %v first, want %v", c.s, got, c.outer)
		}
	}
	for _, s := range []string{"", "@", "20:10", "a", "1:b", "~", "NaN", "1:Inf", "1:2:3", "@@1"} {
		if r, err := parseRange(s); err == nil {
			t.Errorf("%q is read as %+v", s, r)
		}
	}
}

// Whatever a plugin writes, values are finite or NaN, labels are never empty, and
// what is printed as it should be is read back.
func FuzzPerf(f *testing.F) {
	f.Add("x | /=2643MB;5948;5958;0;5968\nmore | 'a ''b'=1s;@1:2;~:3;;")
	f.Add("'a=1 'b'=2 c=U;;;1e999;")
	f.Add("a=1e5e b=1e+ c=--1")
	f.Fuzz(func(t *testing.T, out string) {
		_, perf := parseOutput(out)
		if len(perf) > maxPerf {
			t.Fatalf("%d values", len(perf))
		}
		var again strings.Builder
		for _, p := range perf {
			for _, v := range []float64{p.Value, p.Warning, p.Critical, p.Low, p.High} {
				if math.IsInf(v, 0) {
					t.Fatalf("%q: infinite in %+v", out, p)
				}
			}
			if p.Label == "" || strings.ContainsAny(p.Label, "\n") || strings.ContainsAny(p.Unit, "; \t\n0123456789") {
				t.Fatalf("%q: label %q, unit %q", out, p.Label, p.Unit)
			}
			value := "U"
			if !math.IsNaN(p.Value) {
				value = fmt.Sprintf("%g%s", p.Value, p.Unit)
			}
			fmt.Fprintf(&again, "'%s'=%s ", strings.ReplaceAll(p.Label, "'", "''"), value)
		}
		back := parsePerf(again.String())
		if len(back) != len(perf) {
			t.Fatalf("%q: %d values, %d read back of %q", out, len(perf), len(back), again.String())
		}
		for i := range back {
			if back[i].Label != perf[i].Label || back[i].Value != perf[i].Value && !math.IsNaN(perf[i].Value) {
				t.Fatalf("%q: %+v read back as %+v", out, perf[i], back[i])
			}
		}
	})
}
