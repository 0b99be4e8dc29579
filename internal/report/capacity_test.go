package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

func TestCapacityReports(t *testing.T) {
	for _, format := range []string{"text", "md", "html", "json"} {
		var b bytes.Buffer
		if err := Capacity(reporttest.Capacity(t)).Write(&b, FormatOf(format)); err != nil {
			t.Fatal(err)
		}
		for _, want := range map[string][]string{
			"text": {"p99 < 200ms is kept up to 812", "nothing is left to do", "1,600/s", "broken, stopped", "not counted", "0.0 % … 0.20 %", "12.0 ms after that was seen", "throughput nears 4,500", "<the generator> was late", "again: tailscope capacity"},
			"md":   {"## capacity of shop", "| phase |", "## objective", "p99 < 200ms is kept", "&lt;the generator> was late", "again: `tailscope capacity http://shop --objective 'p99 < 200ms' --seed 1`"},
			"html": {"<h1>p99 &lt; 200ms is kept up to 812", "<svg", `class="heat"`, "&lt;the generator&gt; was late", "app resident bytes", "67.1 MB", "breaks first"},
			"json": {`"verdict": "found"`, `"stopped_after": 0.012`},
		}[format] {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, b.String())
			}
		}
		if format == "html" && strings.Count(b.String(), `class="heat"`) != 3*4 {
			t.Errorf("%d cells of heatmaps", strings.Count(b.String(), `class="heat"`))
		}
	}
	var md bytes.Buffer
	if err := Capacity(reporttest.Capacity(t)).Write(&md, Markdown); err != nil || strings.Contains(md.String(), "\n\n\n") {
		t.Errorf("%v, or two blank lines:\n%s", err, md.String())
	}
	// One that has not seen anything can be written as well.
	for _, format := range []string{"text", "html"} {
		var b bytes.Buffer
		if err := Capacity(&api.Capacity{Name: "x", End: api.Float(math.NaN()), Headline: "it has not ended yet"}).Write(&b, FormatOf(format)); err != nil || !strings.Contains(b.String(), "not ended yet") {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

// What a step leaves unclear all of them together may say; an end that is not known
// is no number.
func TestCapacityStepsCameOut(t *testing.T) {
	none := api.Float(math.NaN())
	c := &api.Capacity{Unit: "requests/s", Answer: &api.CapacityAnswer{Low: 300, High: 380}}
	pool := &api.Capacity{Unit: "servers", Answer: &api.CapacityAnswer{Low: none, High: 4}}
	for _, tc := range []struct {
		c    *api.Capacity
		s    api.CapacityStep
		want string
	}{
		{c, api.CapacityStep{X: 50, Kept: "unclear", Valid: true}, "kept, by all steps"},
		{c, api.CapacityStep{X: 50, Kept: "kept", Valid: true}, "kept"},
		{c, api.CapacityStep{X: 320, Kept: "unclear", Valid: true}, "unclear"},
		{c, api.CapacityStep{X: 400, Kept: "unclear", Valid: true}, "broken, by all steps"},
		{c, api.CapacityStep{X: 50, Kept: "unclear"}, "unclear, not counted"},
		{pool, api.CapacityStep{X: 4, Kept: "unclear", Valid: true}, "kept, by all steps"},
		{pool, api.CapacityStep{X: 3, Kept: "unclear", Valid: true}, "unclear"},
		{&api.Capacity{Unit: "servers"}, api.CapacityStep{X: 3, Kept: "unclear", Valid: true}, "unclear"},
	} {
		if got := cameOut(tc.c, &tc.s); got != tc.want {
			t.Errorf("%v %s %s: %s, want %s", tc.s.X, tc.c.Unit, tc.s.Kept, got, tc.want)
		}
	}
	for want, o := range map[string]api.CapacityObjective{
		"10.0 ms … 20.0 ms": {Low: 0.01, High: 0.02}, "from 10.0 ms": {Low: 0.01, High: none}, "up to 20.0 ms": {Low: none, High: 0.02}, "not known": {Low: none, High: none},
	} {
		if got := ObjectiveInterval(&o); got != want {
			t.Errorf("%v: %s, want %s", o, got, want)
		}
	}
}

// One server is singular, and an end of an interval that nobody knows is not a number.
func TestCapacityReportsOfPools(t *testing.T) {
	c := reporttest.Capacity(t)
	c.Mode, c.Unit = "servers", "servers"
	c.Answer.Value, c.Answer.Low, c.Answer.High = 2, api.Float(math.NaN()), 3
	for i := range c.Steps {
		c.Steps[i].X = api.Float(3 - i)
	}
	c.Steps[2].Stopped = "p99 < 200ms is broken"
	for format, want := range map[string][]string{
		"text": {"at 1 server: p99", "at 2 servers: p99", "answered a second there: 811/s"},
		"html": {"95 % interval no more than 3<", "1 server, narrow"},
	} {
		var b bytes.Buffer
		if err := Capacity(c).Write(&b, FormatOf(format)); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s lacks %q:\n%s", format, w, b.String())
			}
		}
	}
	none := api.Float(math.NaN())
	for want, a := range map[string]api.CapacityAnswer{
		"90 % interval 799 … 826": {Low: 799, High: 826, Level: 0.9}, "95 % interval at least 799": {Low: 799, High: none, Level: 0.95},
		"95 % interval wider than what was held": {Low: none, High: none, Level: 0.95},
	} {
		if got := answerInterval(&a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCapacityOfALostOne(t *testing.T) {
	now := time.Unix(1000, 0)
	if c := capacityOf(&api.Session{State: "lost", Updated: 900, Capacity: &api.Capacity{}}, now); !strings.Contains(c.Headline, "has not reported since") {
		t.Errorf("lost: %q", c.Headline)
	}
}
