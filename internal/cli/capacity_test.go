package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report/reporttest"
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
		{append(objective, "--rate", "100", "--pool", "http://a/"), "not an address"},
		{append(objective, "--rate", "100", "--pool", "a:1", "--pool", "a:1"), "given twice"},
		{append(objective, "--rate", "100", "--pool", "a:1", "--highest", "4"), "--highest"},
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
		{append(objective, "--rate", "100", "--pool", "a:1"), "none can be taken away\nhint: "},
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
		"--set", "name=home", "--set", "service=shop", "--server", srv.Addr(), "-o", file)
	if code != exitOK && code != exitInvalid { // of one second, on any machine
		t.Fatalf("code %d\n%s%s", code, stdout, stderr)
	}
	page := regexp.MustCompile(`/sessions/(capacity-[a-z0-9-]+)\n$`).FindStringSubmatch(stderr)
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
	x, err := (&client.Client{Address: srv.Addr()}).Session(t.Context(), page[1])
	if err != nil {
		t.Fatal(err)
	}
	if x.State != "ended" || x.Kind != "capacity" || x.Name != "home" || x.Service != "shop" || x.Capacity == nil || len(x.Capacity.Steps) != len(c.Steps) {
		t.Errorf("the session is %+v", x)
	}
	if again, _, code := run(t, "report", "session", page[1], "--server", srv.Addr()); code != exitOK || again != stdout {
		t.Errorf("code %d, reported as\n%s\nnot\n%s", code, again, stdout)
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
		c := reporttest.Capacity(t)
		test.change(c)
		code := exitOK
		if e, ok := capacityEnd(c).(ended); ok {
			code = e.code
		}
		if code != test.want {
			t.Errorf("%s, failed %q: code %d, not %d", c.Verdict, c.Failed, code, test.want)
		}
	}
}
