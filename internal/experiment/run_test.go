package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/judge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is an experiment's directory, and a stage whose latency is what was applied.
type lab struct {
	t      *testing.T
	dir    string
	rand   *rand.Rand
	now    time.Time
	before func(ctx context.Context, o scenario.MeasureOptions) error // of each measurement; may be nil
	change func(b *api.BenchResult, o scenario.MeasureOptions)
	closed int
	asked  []scenario.MeasureOptions
	notes  []string
}

const loadFile = `scenario: load
target: http://127.0.0.1:1
vars: {extra: 1}
queries:
  - {name: a, request: "GET /a?{{extra}}"}
phases: [{rate: 100, for: 10s}]
`

// workersFile applies its setting by writing it into a file.
const workersFile = `experiment: workers
hypothesis: fewer are slower
scenario: load.yaml
variable: workers
control: {workers: 8}
variants: [{workers: 1}, {workers: 24}]
apply: echo {{workers}} > applied && echo $workers >> log
rounds: 6
seed: 7
`

func newLab(t *testing.T, file string) *lab {
	l := &lab{t: t, dir: t.TempDir(), rand: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1_800_000_000, 0)}
	l.write("load.yaml", loadFile)
	l.write("x.yaml", file)
	return l
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) read(name string) string {
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (l *lab) load() *Experiment {
	l.t.Helper()
	x, problems := Load(filepath.Join(l.dir, "x.yaml"))
	for _, p := range problems {
		l.t.Error(p)
	}
	if x == nil {
		l.t.FailNow()
	}
	return x
}

func (l *lab) options() Options {
	return Options{
		ID: "e1", Open: func(context.Context, *scenario.Scenario) (Stage, error) { return l, nil },
		Now:   func() time.Time { l.now = l.now.Add(time.Second); return l.now },
		Sleep: func(ctx context.Context, d time.Duration) error { l.now = l.now.Add(d); return ctx.Err() },
		Note:  func(line string) { l.notes = append(l.notes, line) },
	}
}

// Measure is 100 ms at 8 workers, twice that at 1, and as long at 24.
func (l *lab) Measure(ctx context.Context, o scenario.MeasureOptions) (*session.Outcome, error) {
	l.asked = append(l.asked, o)
	if l.before != nil {
		if err := l.before(ctx, o); err != nil {
			return nil, err
		}
	}
	base := map[string]float64{"1": 0.2, "8": 0.1, "24": 0.1}[l.read("applied")]
	if base == 0 {
		l.t.Errorf("measured with %q applied", l.read("applied"))
	}
	h := hist.New(hist.DefaultSchema)
	noise := math.Exp(0.01 * l.rand.NormFloat64())
	for range 1000 {
		_ = h.Record(base * noise * math.Exp(0.1*l.rand.NormFloat64()))
	}
	b := &api.BenchResult{Valid: true, End: 10, Rate: 100, Account: api.BenchAccount{Sent: 1000, Answered: 1000}}
	if l.change != nil {
		l.change(b, o)
	}
	return &session.Outcome{Result: b, Latency: h, Series: []session.Series{{Query: "a", Status: "ok", Latency: h}}}, nil
}

func (l *lab) Close(context.Context) error { l.closed++; return nil }

func (l *lab) run(ctx context.Context, o Options) *api.Experiment {
	l.t.Helper()
	t, err := Run(ctx, l.load(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.held()
	return t
}

// held says that the control holds and nothing is left.
func (l *lab) held() {
	l.t.Helper()
	if got := l.read("applied"); got != "8" {
		l.t.Errorf("at the end %q holds, not the control's 8", got)
	}
	if _, err := os.Stat(JournalPath(filepath.Join(l.dir, "x.yaml"))); err == nil {
		l.t.Error("the journal is still there")
	}
	if l.closed != 1 {
		l.t.Errorf("the stage was closed %d times", l.closed)
	}
}

func TestAnExperiment(t *testing.T) {
	l := newLab(t, workersFile)
	var reports []api.SessionReport
	o := l.options()
	o.Report = func(_ context.Context, p api.SessionReport) (api.SessionReply, error) {
		reports = append(reports, p)
		return api.SessionReply{}, nil
	}
	o.Beat = time.Hour
	result := l.run(t.Context(), o)
	if result.Failed != "" || !result.Restored || result.Verdict != judge.Slower {
		t.Fatalf("failed %q, restored %v, verdict %q", result.Failed, result.Restored, result.Verdict)
	}
	row := result.Rows[0]
	if row.Setting != "workers=1" || row.Verdict != judge.Slower || row.Rounds != 6 {
		t.Errorf("row %+v", row)
	}
	for _, m := range row.Measures {
		if m.Name == "p50" && !(m.Low < 2 && 2 < m.High && m.High < 2.2 && m.Low > 1.8) {
			t.Errorf("p50 with one worker is %v times, from %v to %v", m.Effect, m.Low, m.High)
		}
	}
	if row := result.Rows[1]; row.Setting != "workers=24" || row.Verdict != judge.Same && row.Verdict != judge.NoEvidence {
		t.Errorf("row %+v", row)
	}
	var best *api.ExperimentCurve
	for i := range result.Curves {
		if result.Curves[i].Query == "" && result.Curves[i].Measure == "p99" {
			best = &result.Curves[i]
		}
	}
	if best == nil || slices.Contains(best.Candidates, "workers=1") || len(best.Candidates) != 2 || best.XLow != 8 || best.XHigh != 24 {
		t.Errorf("curve %+v", best)
	}
	if last := reports[len(reports)-1]; !last.Ended || last.Kind != "experiment" || last.Experiment.End != last.Experiment.End {
		t.Errorf("last report %+v", last)
	}
	// Every round has every setting once, in the order of the seed.
	for round := range 6 {
		want := []string{}
		for _, s := range Order(7, round, 3) {
			want = append(want, []string{"workers=8", "workers=1", "workers=24"}[s])
		}
		got := []string{}
		for _, r := range result.Rounds[3*round : 3*round+3] {
			got = append(got, r.Setting)
		}
		if !slices.Equal(got, want) {
			t.Errorf("round %d measured %v, not %v", round+1, got, want)
		}
	}
	for i, o := range l.asked {
		if o.Variant != result.Rounds[i].Setting || o.Experiment != "e1" || o.Seed != l.asked[i/3*3].Seed {
			t.Errorf("run %d measured as %+v", i, o)
		}
	}
	if result.Files["load.yaml"] != loadFile || result.File != workersFile {
		t.Errorf("files %v", result.Files)
	}
}

func TestTheControlIsAlwaysRestored(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(l *lab, cancel func()) error
		want   string
	}{
		{"a failure", func(*lab, func()) error { return errors.New("target is gone") }, "target is gone"},
		{"an interruption", func(_ *lab, cancel func()) error { cancel(); return context.Canceled }, "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, workersFile)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.before = func(_ context.Context, _ scenario.MeasureOptions) error {
				if len(l.asked) < 4 {
					return nil
				}
				return c.before(l, cancel)
			}
			result := l.run(ctx, l.options())
			if !strings.Contains(result.Failed, c.want) || !result.Restored {
				t.Errorf("failed %q, restored %v", result.Failed, result.Restored)
			}
			if result.Stopping.Done != 1 {
				t.Errorf("%d rounds are whole", result.Stopping.Done)
			}
		})
	}
}

func TestTheControlIsRestoredAfterAPanic(t *testing.T) {
	l := newLab(t, workersFile)
	l.before = func(context.Context, scenario.MeasureOptions) error { panic("oh") }
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = Run(t.Context(), l.load(), l.options())
	}()
	l.held()
}

func TestACommandThatFails(t *testing.T) {
	l := newLab(t, strings.Replace(workersFile, "rounds: 6", "between: test $(wc -l < log 2> /dev/null || echo 0) -lt 6\nrounds: 6", 1))
	result := l.run(t.Context(), l.options())
	if !strings.Contains(result.Failed, "between rounds") || result.Stopping.Done != 2 {
		t.Errorf("failed %q after %d rounds", result.Failed, result.Stopping.Done)
	}
	l = newLab(t, strings.Replace(workersFile, "apply: ", "restore: exit 3\napply: ", 1))
	_, err := Run(t.Context(), l.load(), l.options())
	if err == nil || !strings.Contains(err.Error(), "could not be applied again") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(JournalPath(filepath.Join(l.dir, "x.yaml"))); err != nil {
		t.Error("the journal is gone although the control does not hold")
	}
}

// An experiment that was killed leaves its journal; the next start restores first.
func TestWhatAKilledExperimentLeft(t *testing.T) {
	l := newLab(t, workersFile)
	x := l.load()
	j, left, err := openJournal(x.File)
	if err != nil || left != nil {
		t.Fatal(left, err)
	}
	if _, err := Run(t.Context(), x, l.options()); !errors.Is(err, ErrRunning) {
		t.Errorf("a second experiment of the file: %v", err)
	}
	control := x.Settings[0]
	if err := j.write(Left{Name: x.Name, Setting: "workers=1", Since: l.now, Control: control.Name, Values: control.Values, Restore: rendered(x.Restore, control.Values)}); err != nil {
		t.Fatal(err)
	}
	if err := j.keep(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	l.write("applied", "1")
	l.before = func(context.Context, scenario.MeasureOptions) error {
		if len(l.asked) == 1 && !strings.HasPrefix(l.read("log"), "8\n") {
			t.Errorf("applied were %q; the control was not the first", l.read("log"))
		}
		return nil
	}
	l.run(t.Context(), l.options())
	if len(l.notes) == 0 || !strings.Contains(l.notes[0], "was killed while workers=1 held") {
		t.Errorf("notes %q", l.notes)
	}
	if did, err := Restore(t.Context(), x.File, func(string) {}); did || err != nil {
		t.Errorf("restored again: %v, %v", did, err)
	}
}

func TestRunsThatDoNotCount(t *testing.T) {
	l := newLab(t, workersFile)
	bad := map[int]bool{2: true, 5: true, 6: true} // the second run; then one twice
	l.change = func(b *api.BenchResult, _ scenario.MeasureOptions) {
		if bad[len(l.asked)] {
			b.Valid, b.Invalid = false, []string{"the generator sent late"}
		}
	}
	result := l.run(t.Context(), l.options())
	var why []string
	for _, r := range result.Rounds {
		if !r.Valid {
			why = append(why, r.Why)
		}
	}
	want := []string{"the generator sent late; measured again", "the generator sent late; measured again", "the generator sent late; left out"}
	if !slices.Equal(why, want) {
		t.Errorf("runs that do not count: %q", why)
	}
	if result.Stopping.Done != 6 || result.Failed != "" {
		t.Errorf("%d rounds are whole: %s", result.Stopping.Done, result.Failed)
	}
	// A setting that never counts does not go on for ever.
	l = newLab(t, workersFile)
	l.change = func(b *api.BenchResult, o scenario.MeasureOptions) { b.Valid = o.Variant != "workers=1" }
	if result := l.run(t.Context(), l.options()); !strings.Contains(result.Failed, "only 0 of 11 rounds are whole, as 22 of 44 runs do not count, 22 since the generator did not keep its schedule: lower the rate") {
		t.Errorf("failed %q", result.Failed)
	}
}

// Figures in the reasons differ from run to run; the reason is one.
func TestWhyRoundsAreNotWhole(t *testing.T) {
	run := func(why string) api.ExperimentRun { return api.ExperimentRun{Valid: why == "", Why: why} }
	late := "the generator sent late: at p99 %s after requests were due although a connection was free (allowed: 1 ms or 10 %% of it); ask for less; left out"
	for _, c := range []struct {
		runs []api.ExperimentRun
		want string
	}{
		{[]api.ExperimentRun{run(""), run(fmt.Sprintf(late, "3 ms")), run(fmt.Sprintf(late, "7 ms")), run("target is gone; left out")}, "3 of 4 runs do not count, 2 since the generator sent late: lower the rate of the scenario, end other programs, or let such runs count with limits:"},
		{[]api.ExperimentRun{run("the threshold p(99) < 1s was missed after 3s; left out")}, "1 of 1 runs do not count, 1 since the threshold p(99) < 1s was missed after 3s: see to that first"},
	} {
		r := &runner{result: api.Experiment{Rounds: c.runs}}
		if got := r.unwhole(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s\nnot %s", got, c.want)
		}
	}
}

// A sweep is read by another measure where the one that should decide needs more
// requests, and says so.
func TestASweepOfFewRequests(t *testing.T) {
	l := newLab(t, workersFile+"measures: [p50, p90, p999]\n")
	x := l.load()
	x.Rounds.Measure = "p999"
	result, err := Run(t.Context(), x, l.options())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(result.Headline, "p50 is lowest with") {
		t.Errorf("headline %q", result.Headline)
	}
	if !slices.ContainsFunc(result.Warnings, func(w api.CompareWarning) bool {
		return w.Code == "measure" && strings.Contains(w.Text, "p99.9 is what rows and curves are read by, but a round needs 5000 requests for it")
	}) {
		t.Errorf("warnings %v", result.Warnings)
	}
}

// What a script names that the file names is kept too.
func TestFilesOfScripts(t *testing.T) {
	l := newLab(t, strings.Replace(workersFile, "apply: ", "between: ./between.sh\napply: ", 1))
	l.write("between.sh", "#!/bin/sh\nhere=$(dirname \"$0\")\njava \"$here/Cluster.java\" /etc/passwd ../secret.txt\n")
	l.write("Cluster.java", "class Cluster {}")
	if err := os.Chmod(filepath.Join(l.dir, "between.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := l.load().files()
	if files["Cluster.java"] != "class Cluster {}" || len(files) != 3 {
		t.Errorf("files %v", files)
	}
	// A scenario elsewhere is not, and a warning says so.
	text := strings.Replace(workersFile, "scenario: load.yaml", "scenario: ../load.yaml", 1)
	l = newLab(t, text)
	if err := os.WriteFile(filepath.Join(filepath.Dir(l.dir), "load.yaml"), []byte(loadFile+"limits: {late: 30%}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, w := range l.run(t.Context(), l.options()).Warnings {
		codes = append(codes, w.Code)
	}
	if !slices.Contains(codes, "files") || !slices.Contains(codes, "limits") {
		t.Errorf("warnings %v", codes)
	}
}

func TestStoppedByTheServer(t *testing.T) {
	l := newLab(t, workersFile)
	o := l.options()
	o.Beat = time.Hour
	o.Report = func(_ context.Context, p api.SessionReport) (api.SessionReply, error) {
		if p.Experiment.Stopping.Done < 2 {
			return api.SessionReply{}, nil
		}
		return api.SessionReply{Change: &api.MirrorChange{Stop: true}}, nil
	}
	if result := l.run(t.Context(), o); result.Failed != "stopped by a user" || result.Stopping.Done != 2 {
		t.Errorf("failed %q after %d rounds", result.Failed, result.Stopping.Done)
	}
}

func TestStoppingRules(t *testing.T) {
	l := newLab(t, strings.Replace(workersFile, "rounds: 6", "rounds: {at_least: 4, at_most: 20, precision: 1%, measure: p50}", 1))
	result := l.run(t.Context(), l.options())
	if s := result.Stopping; s.Rule != "precision" || s.Done <= 4 || s.Done >= 20 || s.Planned != s.Done {
		t.Errorf("stopping %+v", s)
	}
	l = newLab(t, strings.Replace(workersFile, "rounds: 6", "rounds: {at_least: 4, at_most: 30, early: true, measure: p50}", 1))
	result = l.run(t.Context(), l.options())
	if s := result.Stopping; s.Rule != "decided" || s.Done >= 30 || result.Verdict != judge.Slower {
		t.Errorf("stopping %+v, %s", s, result.Verdict)
	}
}

func TestAgain(t *testing.T) {
	l := newLab(t, workersFile)
	result := l.run(t.Context(), l.options())
	dir := t.TempDir()
	path, err := LayOut(result, dir)
	if err != nil {
		t.Fatal(err)
	}
	if x, problems := Load(path); len(problems) > 0 || x.Text != workersFile {
		t.Errorf("problems %v", problems)
	}
	if _, err := LayOut(result, dir); err != nil {
		t.Errorf("laid out twice: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "load.yaml"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LayOut(result, dir); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("another file was written over: %v", err)
	}
	result.Files["../evil"] = "x"
	if _, err := LayOut(result, t.TempDir()); err == nil {
		t.Error("a file outside the directory was written")
	}
}

// inProduction has rows against live production, of which every one is worse.
func inProduction(of *api.Experiment) *api.Experiment {
	t := *of
	t.Rows = slices.Clone(of.Rows)
	for _, r := range of.Rows {
		r.Against, r.Setting = "live production", "workers=24"
		t.Rows = append(t.Rows, r)
	}
	return &t
}

func TestGate(t *testing.T) {
	measure := func(change func(*lab)) *api.Experiment {
		l := newLab(t, workersFile)
		if change != nil {
			change(l)
		}
		return l.run(t.Context(), l.options())
	}
	base := measure(nil)
	same := measure(func(l *lab) { l.rand = rand.New(rand.NewPCG(3, 4)) })
	slower := measure(nil)
	for i := range slower.Rounds {
		if r := &slower.Rounds[i]; r.Setting == "workers=24" {
			for _, of := range r.Figures {
				of["p99"] *= 1.2
			}
		}
	}
	for _, c := range []struct {
		name     string
		gate     Gate
		t, base  *api.Experiment
		passed   bool
		contains string
	}{
		{"nothing changed", Gate{Allowed: 0.05}, same, base, true, "none of"},
		{"one got worse", Gate{Allowed: 0.05}, slower, base, false, "p99 with workers=24, set against its control, is 2"},
		{"as much is allowed", Gate{Allowed: 0.3}, slower, base, true, "none of"},
		{"as much is allowed of it", Gate{Allowed: 0.05, Allow: []string{"p99=worse:30%"}}, slower, base, true, "none of"},
		{"less is allowed of it", Gate{Allowed: 0.3, Allow: []string{"p99=increase:5%"}}, slower, base, false, "an increase of 5 % is allowed"},
		{"only what falls matters", Gate{Allowed: 0.05, Allow: []string{"p99=decrease:1%"}}, slower, base, true, "none of"},
		{"other measures", Gate{Allowed: 0.05, Measures: []string{"p50"}}, slower, base, true, "none of"},
		{"figures themselves", Gate{Allowed: 0.05, Compare: "absolute"}, slower, base, false, "p99 with workers=24 is 2"},
		{"its own control", Gate{Allowed: 0.05}, base, nil, false, "% slower than with workers=8 (95 % interval "},
		{"another experiment", Gate{Allowed: 0.05}, base, &api.Experiment{Settings: []api.ExperimentSetting{{Name: "a"}}}, false, "its control is a, not workers=8"},
		{"other settings", Gate{Allowed: 0.05}, base, &api.Experiment{Settings: []api.ExperimentSetting{{Name: "workers=8"}, {Name: "workers=2"}}}, false, "it has workers=2, and none of these settings"},
		{"no rounds", Gate{Allowed: 0.05}, base, &api.Experiment{Settings: base.Settings}, false, "nothing could be compared: it takes three whole rounds"},
		{"no settings", Gate{Allowed: 0.05}, base, &api.Experiment{}, false, "the baseline has no settings"},
		{"what is held against live production", Gate{Allowed: 0.05}, inProduction(base), nil, false, "% slower than with workers=8 (95 % interval "},
	} {
		g := c.gate.Judge(c.t, c.base)
		if strings.Contains(strings.Join(g.Why, "\n"), "live production") {
			t.Errorf("%s: %q", c.name, g.Why)
		}
		if g.Passed != c.passed || !strings.Contains(strings.Join(g.Why, "\n"), c.contains) {
			t.Errorf("%s: passed %v: %q", c.name, g.Passed, g.Why)
		}
	}
}
