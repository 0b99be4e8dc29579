package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"tailscope/benchmarks/report"
	"tailscope/test/program"
)

// told is a case of test/verdicts.
type told struct {
	what string
	test string // a test, or one of its parts
	must int    // per cent of the worlds
}

// tolds are the cases in which a whole server is asked what changed.
var tolds = []told{
	{"stationary traffic of weight 1, four services: no change, no worst tenant", "TestWeightsRaiseNoAlarm/weight_1", 95},
	{"the same, weight 32", "TestWeightsRaiseNoAlarm/weight_32", 95},
	{"an always slow tenant goes from 9 to 50 % of the requests: the mix, by compare and mark", "TestSlowTenantSendsMore", 95},
	{"the mix of operations moves: no tenant changed", "TestMixOfOperationsMoves", 95},
	{"one tenant of twelve ×1.4: named by compare and mark", "TestTenantIsSlower", 95},
	{"a tenant with 1 % of the requests ×2: headline, exit code, mark", "TestLightTenantIsSlower", 95},
	{"the slowest 1 % of each operation ×2: compare and mark", "TestSlowestHundredth", 95},
	{"errors 1 → 6 %: a change point within five slots", "TestErrorsAndRatesAreChangePoints/errors_1_to_6_%", 95},
	{"load ×3: a change point within five slots", "TestErrorsAndRatesAreChangePoints/load_times_3", 95},
	{"errors rise a thousandfold, 96 % of the mix changes: errors first", "TestErrorsBeforeTails", 95},
	{"explain: one cause comes first", "TestWhoBecameSlow/one_cause", 95},
	{"explain: two causes are among the first three", "TestWhoBecameSlow/two_causes", 95},
	{"explain: without a cause nothing is named", "TestWhoBecameSlow/no_cause", 95},
	{"latency that rises with load, half an hour against the next: no alarm", "TestLatencyRisesWithLoad", 93},
	{"×2 at 60 requests/s: told within 60 s of the mark", "TestGrossChangeWithinAMinute", 95},
	{"a stop of ten seconds, marked nine times: nine times one spike", "TestStopHasOneShape", 95},
	{"half hours that differ each day: a season; that do not: no season", "TestSeasonWarning", 95},
}

// verdicts plays each case of test/verdicts in many worlds. What was played is kept, so
// that a run that was stopped goes on; the cases take turns.
func verdicts(ctx context.Context, o *options, r *report.Report) error {
	worlds, at := o.worlds, 10
	if o.quick {
		worlds, at = 2, 2
	}
	dir := o.keep
	if dir == "" {
		dir = o.tmp
	}
	root, err := program.Root()
	if err != nil {
		return err
	}
	cases := filepath.Join(o.tmp, "verdicts.test")
	if out, err := exec.CommandContext(ctx, "go", "-C", root, "test", "-c", "-o", cases, "./test/verdicts").CombinedOutput(); err != nil {
		return fmt.Errorf("build test/verdicts: %w\n%s", err, out)
	}
	for first := 0; first < worlds; first += at {
		for _, c := range tolds {
			if !o.wants(c.test) {
				continue
			}
			if err := c.play(ctx, o, dir, cases, first, min(at, worlds-first)); err != nil {
				if ctx.Err() == nil {
					return err
				}
				o.logf("stopped: what was played so far counts")
			}
		}
	}
	s := r.Section("Worlds in which the answer is right", fmt.Sprintf(
		"Each case of `test/verdicts`, of %d worlds: a server of its own, spans by OTLP, answers by the HTTP API and the command line; world n is drawn from seed n. "+
			"The interval is Wilson's (1927) at 95 %%. Again with `TAILSCOPE_SEED=N TAILSCOPE_TRIALS=1 go test ./test/verdicts -run TEST -v`.", worlds))
	s.Table = [][]string{{"case", "test", "worlds", "right", "%", "interval", "to reach"}}
	for _, c := range tolds {
		if !o.wants(c.test) {
			continue
		}
		right, n := 0, 0
		for first := 0; first < worlds; first += at {
			text, err := os.ReadFile(c.kept(dir, first, min(at, worlds-first)))
			if errors.Is(err, os.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			right, n = right+len(isRight.FindAll(text, -1)), n+len(isTold.FindAll(text, -1))
		}
		share, between := "–", "–"
		if n > 0 {
			low, high := binomial(right, n)
			share, between = fmt.Sprintf("%.1f", 100*float64(right)/float64(n)), fmt.Sprintf("%.1f – %.1f", 100*low, 100*high)
		}
		s.Table = append(s.Table, []string{c.what, "`" + c.test + "`", fmt.Sprint(n), fmt.Sprint(right), share, between, fmt.Sprint(c.must)})
		o.logf("%s: %d of %d", c.test, right, n)
	}
	return nil
}

var (
	isTold  = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: right: (true|false): `)
	isRight = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: right: true: `)
)

// kept returns the file that what a case said in some worlds is kept in.
func (c told) kept(dir string, first, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%d.txt", strings.ReplaceAll(c.test, "/", "-"), first, n))
}

// play plays a case in n worlds, unless it was.
func (c told) play(ctx context.Context, o *options, dir, cases string, first, n int) error {
	path := c.kept(dir, first, n)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, cases, "-test.v", "-test.timeout=2h", "-test.run", "^"+strings.Replace(c.test, "/", "$/^", 1)+"$")
	cmd.Env = append(os.Environ(), fmt.Sprint("TAILSCOPE_TRIALS=", n), fmt.Sprint("TAILSCOPE_SEED=", first))
	cmd.Dir, cmd.Stdout = o.tmp, &out
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.test, err)
	}
	text := out.Bytes()
	if told := len(isTold.FindAll(text, -1)); told != n {
		o.logf("%s: %d of worlds %d to %d were not told, and none of them counts until they are played again:\n%s", c.test, n-told, first, first+n-1, text)
		return nil
	}
	o.logf("%s, worlds %d to %d: %d right", c.test, first, first+n-1, len(isRight.FindAll(text, -1)))
	return os.WriteFile(path, text, 0o644)
}
