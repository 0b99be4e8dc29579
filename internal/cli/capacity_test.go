package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
)

func TestCapacityCalledWrongly(t *testing.T) {
	t.Parallel()
	objective := []string{"--objective", "p99 < 200ms"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--objective is missing"},
		{[]string{"--objective", "p99 > 200ms"}, "upper limit"},
		{[]string{"--objective", "p99 < 200ms and"}, "objective"},
		{append(objective, "--lowest", "100", "--highest", "50"), "lowest"},
		{append(objective, "--set", "start=5"), "start 5"},
		{append(objective, "--precision", "much"), "not a share"},
		{append(objective, "--rate", "100"), "search for servers"},
		{append(objective, "--servers", "1..3"), "--rate"},
		{append(objective, "--rate", "100", "--servers", "3..1", "--apply", "x {{servers}}"), "not a range"},
		{append(objective, "--rate", "100", "--servers", "1..3", "--apply", "./scale.sh"), "how many servers"},
		{append(objective, "--rate", "1..100", "--servers", "1..3", "--apply", "x {{servers}}"), "one rate"},
		{append(objective, "--rate", "100", "--server", "http://a/"), "not an address"},
		{append(objective, "--rate", "100", "--server", "a:1", "--server", "a:1"), "given twice"},
		{append(objective, "--rate", "100", "--server", "a:1", "--highest", "4"), "--highest"},
		{append(objective, "--set", "arrivals=closed"), "not known here"},
		{append(objective, "--set", "speed=2"), "unknown key speed"},
		{append(objective, "--set", "queued=X-Queue:fortnights"), "fortnights"},
		{append(objective, "--set", "worked=Server-Timing"), "name one"},
		{append(objective, "--report", "pdf"), "--report pdf"},
		{append(objective, "-o", "x.pdf"), "names no format"},
		{append(objective, "--set", "watch_port=8080,70000"), "--set watch_port 70000 cannot be\nhint: "},
		{append(objective, "--set", "watch_pid=7", "--set", "watch_pid=7"), "--set watch_pid 7 is given twice\nhint: "},
		{append(objective, "--var", "a=b"), "scenario"},
		{append(objective, "--within", "1s"), "--within 1s is less than one step of 20s\nhint: write --within 2m"},
		{append(objective, "--within", "0s"), "hint: write --within 2m"},
		{append(objective, "--within", "9000h"), "longer than a day\nhint: "},
		{append(objective, "--set", "step=-5s"), "hint: leave them out"},
		{append(objective, "--set", "level=95"), "--set level 95 is not between 0.5 and 1\nhint: write 0.95"},
		{append(objective, "--precision", "0%"), "\nhint: write one such as 3%"},
		{append(objective, "--precision", "200%"), "\nhint: write one such as 3%"},
		{append(objective, "--precision", "0.0001%"), "--precision 0.0001% is finer than 0.1 %"},
		{append(objective, "--lowest", "50", "--highest", "50"), "nothing to search between\nhint: "},
		{append(objective, "--lowest", "-1"), "--lowest -1 is not a rate\nhint: "},
		{append(objective, "--highest", "0"), "--highest 0 is not a rate\nhint: "},
		{append(objective, "--rate", "100", "--server", "a:1"), "none can be taken away\nhint: "},
		{[]string{"--objective", "p99 < 200ms or errors < 1%"}, "\nhint: and joins conditions; run two searches\n"},
	} {
		_, stderr, code := run(t, append([]string{"capacity", "http://127.0.0.1:1/"}, test.args...)...)
		if code != exitUsage || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: code %d, %s", test.args, code, stderr)
		}
	}
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte("scenario: x\ntarget: http://127.0.0.1:1\nqueries: [{request: GET /}]\nphases: [{name: load, rate: 1, for: 1s, four: 1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := run(t, append([]string{"capacity", file}, objective...)...); code != exitUsage || !strings.Contains(stderr, "x.yaml:4:") || !strings.Contains(stderr, "four") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := run(t, append([]string{"capacity", file, "--header", "A: b"}, objective...)...); code != exitUsage || !strings.Contains(stderr, "--header is said in the file") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := run(t, append([]string{"capacity", "http://127.0.0.1:1/"}, objective...)...); code != exitFailed || !strings.Contains(stderr, "not reached") || !strings.HasSuffix(stderr, "\nhint: start it\n") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// A search is shown by the server while it goes, kept, and reported again.
func TestCapacityTo(t *testing.T) {
	t.Parallel()
	srv := far(t, "127.0.0.1:0", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "result.json")
	stdout, stderr, code := run(t, "capacity", benchTarget(t), "--objective", "p90 < 5s", "--lowest", "200", "--highest", "400", "--set", "step=500ms", "--set", "discard=100ms", "--within", "1s",
		"--set", "name=home", "--set", "service=shop", "--to", srv.Addr(), "-o", file)
	if code != exitOK && code != exitInvalid { // of one second, on any machine
		t.Fatalf("code %d\n%s%s", code, stdout, stderr)
	}
	page := regexp.MustCompile(`/experiments/(capacity-[a-z0-9-]+)\n$`).FindStringSubmatch(stderr)
	if page == nil {
		t.Fatalf("no link to the page: %s", stderr)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c api.Capacity
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Steps) == 0 || c.Steps[0].X != 200 || c.Steps[0].Latency.Count == 0 || !c.Restored || c.Objective != "p90 < 5s" || !strings.Contains(c.Command, "--seed") {
		t.Errorf("%+v", c)
	}
	x, err := (&client.Client{Address: srv.Addr()}).Experiment(t.Context(), page[1])
	if err != nil {
		t.Fatal(err)
	}
	if x.State != "ended" || x.Kind != "capacity" || x.Name != "home" || x.Service != "shop" || x.Capacity == nil || len(x.Capacity.Steps) != len(c.Steps) {
		t.Errorf("the experiment is %+v", x)
	}
	if again, _, code := run(t, "report", "experiment", page[1], "--server", srv.Addr()); code != exitOK || again != stdout {
		t.Errorf("code %d, reported as\n%s\nnot\n%s", code, again, stdout)
	}
}

// searched is a search as it may end.
func searched() *api.Capacity {
	none := api.Float(math.NaN())
	latency := func(p50, p99 api.Float) api.BenchLatency {
		return api.BenchLatency{Count: 100, Mean: p50, Quantiles: map[string]api.Float{"0.5": p50, "0.99": p99}}
	}
	step := func(phase string, x, rate, p99 api.Float, kept string) api.CapacityStep {
		return api.CapacityStep{
			Phase: phase, X: x, Asked: x, Rate: rate, Start: 100, End: 102, Kept: kept, Latency: latency(p99/4, p99), Errors: 0, Concurrency: rate * p99 / 4,
			Waited: 1e-4, Queued: p99 / 8, QueuedBy: "X-Queue-Time", Worked: p99 / 8, CPU: 0.5, Resources: map[string]api.Float{"app resident_bytes": 1 << 26}, StoppedAfter: none, Valid: true,
			Objectives: []api.CapacityObjective{{Text: "p99 < 200ms", Value: p99, Low: p99 * 0.8, High: p99 * 1.2, Limit: 0.2, Kept: kept}, {Text: "errors < 1%", Value: 0, Low: 1e-18, High: 0.002, Limit: 0.01, Kept: "kept"}},
			Slots:      []api.CapacitySlot{{Time: 0, Width: 0.25, Counts: []uint64{0, 5, 2}}, {Time: 0.25, Width: 0.25, Counts: []uint64{0, 4, 3}}},
		}
	}
	c := &api.Capacity{
		Format: 1, Name: "shop", Service: "shop", Target: "http://shop", Command: "tailscope capacity http://shop --objective 'p99 < 200ms' --seed 1", Mode: "rate", Unit: "requests/s", Objective: "p99 < 200ms and errors < 1%",
		Arrivals: "poisson", Start: 100, End: 160, Bounds: []api.Float{0, 0.01, 0.1, 1}, Verdict: "found", Restored: true, Headline: "p99 < 200ms is kept up to 812 requests/s (95 % interval 799–826)",
		Answer:   &api.CapacityAnswer{Value: 812, Low: 799, High: 826, Level: 0.95, Rate: 811, Limit: "p99 < 200ms", Next: "nothing is left to do"},
		Steps:    []api.CapacityStep{step("rise", 400, 399, 0.02, "kept"), step("rise", 1600, 700, 1.2, "broken"), step("narrow", 800, 801, 0.19, "unclear")},
		Events:   []api.BenchEvent{{Time: 101, End: none, Kind: "server", Name: "app", Text: "ready"}},
		Warnings: []api.CompareWarning{{Code: "generator", Text: "<the generator> was late"}},
		Law: &api.ScalingLaw{Lambda: api.ScalingValue{Value: 90, Low: 85, High: 95}, Sigma: api.ScalingValue{Value: 0.02, Low: 0, High: 0.04}, Level: 0.95, R2: 0.99, Error: 3, Highest: 40,
			PeakN: api.ScalingValue{Value: none, Low: none, High: none}, PeakRate: api.ScalingValue{Value: none, Low: none, High: none}, Ceiling: api.ScalingValue{Value: 4500, Low: 2000, High: none},
			Points: []api.ScalingPoint{{N: 2, Rate: 399, Mean: 0.005, Time: none}, {N: 38, Rate: 801, Mean: 0.05, Time: none}, {N: 210, Rate: 700, Mean: 0.3, Time: none, Left: true}}, Sentence: "throughput nears 4,500 requests/s"},
	}
	c.Steps[1].Stopped, c.Steps[1].StoppedAfter = "p99 < 200ms is broken by 99 of the last 100 requests", 0.012
	c.Steps[2].Valid = false
	return c
}

func TestCapacityReports(t *testing.T) {
	for _, format := range []string{"text", "md", "html", "json"} {
		var b bytes.Buffer
		if err := writeCapacity(&b, searched(), format); err != nil {
			t.Fatal(err)
		}
		for _, want := range map[string][]string{
			"text": {"p99 < 200ms is kept up to 812", "nothing is left to do", "1,600/s", "broken, stopped", "does not count", "0.0% – 0.20%", "12ms after that was seen", "throughput nears 4,500", "<the generator> was late", "again: tailscope capacity"},
			"md":   {"## capacity of shop", "| phase |", "## objective", "p99 < 200ms is kept", "&lt;the generator> was late", "again: `tailscope capacity http://shop --objective 'p99 < 200ms' --seed 1`"},
			"html": {"<h1>p99 &lt; 200ms is kept up to 812", "<svg", `class="heat"`, "&lt;the generator&gt; was late", "app resident bytes", "64MiB", "breaks first"},
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
	if err := writeCapacity(&md, searched(), "md"); err != nil || strings.Contains(md.String(), "\n\n\n") {
		t.Errorf("%v, or two blank lines:\n%s", err, md.String())
	}
	// One that has not seen anything can be written as well.
	for _, format := range []string{"text", "html"} {
		var b bytes.Buffer
		if err := writeCapacity(&b, &api.Capacity{Name: "x", End: api.Float(math.NaN()), Headline: "it has not ended yet"}, format); err != nil || !strings.Contains(b.String(), "not ended yet") {
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
		{c, api.CapacityStep{X: 50, Kept: "unclear"}, "unclear, does not count"},
		{pool, api.CapacityStep{X: 4, Kept: "unclear", Valid: true}, "kept, by all steps"},
		{pool, api.CapacityStep{X: 3, Kept: "unclear", Valid: true}, "unclear"},
		{&api.Capacity{Unit: "servers"}, api.CapacityStep{X: 3, Kept: "unclear", Valid: true}, "unclear"},
	} {
		if got := cameOut(tc.c, &tc.s); got != tc.want {
			t.Errorf("%v %s %s: %s, want %s", tc.s.X, tc.c.Unit, tc.s.Kept, got, tc.want)
		}
	}
	for want, o := range map[string]api.CapacityObjective{
		"10ms – 20ms": {Low: 0.01, High: 0.02}, "from 10ms": {Low: 0.01, High: none}, "up to 20ms": {Low: none, High: 0.02}, "not known": {Low: none, High: none},
	} {
		if got := objectiveInterval(&o); got != want {
			t.Errorf("%v: %s, want %s", o, got, want)
		}
	}
}

// One server is singular, and an end of an interval that nobody knows is not a number.
func TestCapacityReportsOfPools(t *testing.T) {
	c := searched()
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
		if err := writeCapacity(&b, c, format); err != nil {
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
		"90 % interval 799 – 826": {Low: 799, High: 826, Level: 0.9}, "95 % interval at least 799": {Low: 799, High: none, Level: 0.95},
		"95 % interval wider than what was held": {Low: none, High: none, Level: 0.95},
	} {
		if got := answerInterval(&a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHowCapacityEnds(t *testing.T) {
	for _, test := range []struct {
		change func(*api.Capacity)
		want   int
	}{
		{func(*api.Capacity) {}, exitOK},
		{func(c *api.Capacity) { c.Verdict, c.Answer.Next = "at least", "" }, exitOK},
		{func(c *api.Capacity) { c.Verdict = "at least" }, exitInvalid},
		{func(c *api.Capacity) { c.Verdict = "too little data" }, exitInvalid},
		{func(c *api.Capacity) { c.Verdict = "below" }, exitFailed},
		{func(c *api.Capacity) { c.Failed = "it was ended" }, exitFailed},
		{func(c *api.Capacity) { c.RestoreError = "it is locked" }, exitFailed},
	} {
		c := searched()
		test.change(c)
		code := exitOK
		if e, ok := capacityEnd(c).(ended); ok {
			code = e.code
		}
		if code != test.want {
			t.Errorf("%s, failed %q: code %d, not %d", c.Verdict, c.Failed, code, test.want)
		}
	}
	now := time.Unix(1000, 0)
	if c := capacityOf(&api.Experiment{State: "lost", Updated: 900, Capacity: &api.Capacity{}}, now); !strings.Contains(c.Headline, "has not reported since") {
		t.Errorf("lost: %q", c.Headline)
	}
}

func TestCapacityView(t *testing.T) {
	var b bytes.Buffer
	v := newCapacityView(&b, "shop", false, time.Now)
	c := searched()
	c.Steps, c.Progress, c.End = c.Steps[:1], "step 1, rise: 400 requests/s", api.Float(math.NaN())
	v.show(c) // the step goes on
	if b.Len() > 0 {
		t.Errorf("written too soon: %s", b.String())
	}
	v.show(searched())
	if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "stopped") || !strings.Contains(lines[0], "p99 20ms") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	v = newCapacityView(&b, "shop", false, time.Now)
	v.terminal, v.size = true, func() (int, int) { return 120, 40 }
	v.show(c)
	if got := b.String(); !strings.Contains(got, "✓ p99 < 200ms  now 20ms (16ms – 24ms)") || !strings.Contains(got, "step 1, rise") {
		t.Errorf("%s", got)
	}
}
