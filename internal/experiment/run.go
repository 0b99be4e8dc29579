package experiment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
)

// Stage measures settings; *scenario.Stage is one.
type Stage interface {
	Measure(ctx context.Context, o scenario.MeasureOptions) (*session.Outcome, error)
	Close(ctx context.Context) error
}

// Options configures a run.
type Options struct {
	ID      string // in the log book
	Version string // of tailscope
	Command string // that runs it again
	Again   string // id of the experiment that this one repeats
	// Open brings the stage up with the control's values; default the scenario's
	// Open.
	Open func(ctx context.Context, s *scenario.Scenario) (Stage, error)
	// Live reads the measurements of a mirror session, for live designs.
	Live Observer
	// Report sends the state to a server after each run and every few seconds, and
	// returns the changes that its users want. Default none.
	Report func(ctx context.Context, p api.SessionReport) (api.SessionReply, error)
	// Progress is called about once a second during measurements. Default none.
	Progress func(Moment)
	Note     func(line string) // a line about what was done; may be nil
	// Judged returns the gate's verdict on the final result. Default none.
	Judged func(t *api.Experiment) *api.ExperimentGate
	Sink   session.Sink // takes the series of all rounds; nil for none
	Limits tally.Limits // of the generator's own error; the zero value is the default
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	// Beat is the interval of Report while a run takes long; default 5 s.
	Beat time.Duration
}

// Moment is the state of an experiment at one time.
type Moment struct {
	Text string // round 3 of 8, workers=24: …
	Left time.Duration
	Run  *session.Moment // what is being measured, nil if nothing is
}

// restoring bounds the time for the control to hold again.
const restoring = 15 * time.Minute

// Run runs an experiment and returns its result. If ctx ended it or it failed
// half-way, Failed says why, and what was measured is judged. It returns an error if
// nothing was begun, or if the control could not be applied again.
func Run(ctx context.Context, x *Experiment, o Options) (_ *api.Experiment, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = backoff.Sleep
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Beat <= 0 {
		o.Beat = 5 * time.Second
	}
	if o.Open == nil {
		o.Open = func(ctx context.Context, s *scenario.Scenario) (Stage, error) {
			note := func(line string) {
				if line != "measuring" { // which progress says better
					o.Note(line)
				}
			}
			return scenario.Open(ctx, s, scenario.Options{Note: note, Version: o.Version, Now: o.Now})
		}
	}
	j, left, err := openJournal(x.File)
	if err != nil {
		return nil, err
	}
	if left != nil {
		o.Note(left.say())
		if err := left.restore(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the control of an experiment that was killed could not be applied again: %w", err), j.keep())
		}
		o.Note("the control holds again")
	}
	r := &runner{x: x, o: o, journal: j}
	r.begin(ctx)
	if x.Live != nil {
		if err := r.checkLive(ctx); err != nil {
			return nil, errors.Join(err, j.done())
		}
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	beat := r.beats()
	defer func() {
		failure := recover()
		if failure != nil {
			r.fail(fmt.Errorf("panic: %v", failure))
		}
		r.end(context.WithoutCancel(ctx), beat)
		if failure != nil {
			panic(failure)
		}
		if r.result.RestoreError != "" {
			err = fmt.Errorf("the control could not be applied again: %s", r.result.RestoreError)
		}
	}()
	r.rounds(ctx)
	return &r.result, nil
}

// say describes what was left in a sentence.
func (l *Left) say() string {
	return fmt.Sprintf("experiment %s was killed while %s held, since %s; its control %s is applied again first", l.Name, l.Setting, l.Since.Format(time.DateTime), l.Control)
}

func (l *Left) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoring)
	defer cancel()
	for _, c := range l.Restore {
		if _, err := c.run(ctx, l.Values); err != nil {
			return err
		}
	}
	return nil
}

// Restore applies the control that a killed experiment of the file left unapplied. It
// returns false if there is nothing to do.
func Restore(ctx context.Context, file string, note func(string)) (bool, error) {
	j, left, err := openJournal(file)
	if err != nil {
		return false, err
	}
	if left == nil {
		return false, j.done()
	}
	note(left.say())
	if err := left.restore(ctx); err != nil {
		return false, errors.Join(err, j.keep())
	}
	return true, j.done()
}

// runner is the state of one run of an experiment.
type runner struct {
	x       *Experiment
	o       Options
	journal *journal
	stage   Stage
	primary string // of a live design, the name of its session's
	dirty   bool   // something other than the control may hold
	cancel  context.CancelCauseFunc
	runs    []rounds.Run
	took    []time.Duration // of runs, with what is around them

	mu        sync.Mutex // guards result while it is reported
	result    api.Experiment
	reporting sync.Mutex // one report at a time
}

var errStopped = errors.New("stopped by a user")

func seconds(t time.Time) api.Float { return api.Float(float64(t.UnixNano()) / 1e9) }

// begin writes what is known before anything is measured.
func (r *runner) begin(ctx context.Context) {
	x := r.x
	seed := x.Seed
	for seed == 0 {
		seed = rand.Uint64() >> 11 // exact as a number of JSON
	}
	t := &r.result
	*t = api.Experiment{
		Format: 1, Name: x.Name, Hypothesis: x.Hypothesis, Design: x.Design, Variable: x.Variable, Unit: x.Unit, Seed: seed,
		Start: seconds(r.o.Now()), End: api.Float(math.NaN()), File: x.Text, Files: x.files(), Command: r.o.Command, Again: r.o.Again,
		Rounds: []api.ExperimentRun{}, Rows: []api.ExperimentRow{}, Curves: []api.ExperimentCurve{}, Loads: []api.BenchLoad{}, Events: []api.BenchEvent{}, Warnings: []api.CompareWarning{},
		Environment: environment(ctx, x, r.o.Version), Verdict: judge.TooLittle,
	}
	if t.Service = "experiment"; x.scenario != nil {
		t.Service = x.scenario.Service
	}
	t.Settings = x.ResultSettings()
	level := x.Level
	if level == 0 {
		level = 0.95
	}
	t.Stopping = api.ExperimentStopping{Rule: x.Rounds.Rule, AtLeast: x.Rounds.AtLeast, AtMost: x.Rounds.AtMost, Precision: api.Float(x.Rounds.Precision), Measure: x.Rounds.Measure, Level: api.Float(level), Planned: x.Rounds.AtLeast}
	if x.Rounds.Rule == "decided" {
		t.Stopping.Planned = x.Rounds.AtMost
	}
}

// rounds measures until the rule has enough, ctx ends or a run fails.
func (r *runner) rounds(ctx context.Context) {
	if err := r.measureRounds(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			if err = cause; errors.Is(cause, context.Canceled) {
				err = errors.New("interrupted")
			}
		}
		r.fail(err)
	}
}

func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.Failed == "" {
		r.result.Failed = err.Error()
	}
}

func (r *runner) measureRounds(ctx context.Context) error {
	x := r.x
	if x.Live == nil {
		r.progress("setting the scenario up", nil)
		s, problems := x.scenario.With(x.vars(x.Settings[0]))
		if len(problems) > 0 {
			return problems[0]
		}
		stage, err := r.o.Open(ctx, s)
		if err != nil {
			return err
		}
		r.stage = stage
	}
	for round := 0; ; round++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, c := range rendered(x.Between, x.Settings[0].Values) {
			if err := r.command(ctx, c, x.Settings[0].Values, "between rounds"); err != nil {
				return fmt.Errorf("between rounds: %w", err)
			}
		}
		for i, s := range Order(r.result.Seed, round, len(x.Settings)) {
			if err := r.runSetting(ctx, round, i, s); err != nil {
				return err
			}
		}
		if r.conclude(round + 1) {
			return nil
		}
		r.report(ctx, false)
	}
}

// Order returns the settings in the random order of a round.
func Order(seed uint64, round, settings int) []int {
	return rand.New(rand.NewPCG(seed, uint64(round))).Perm(settings)
}

// runSetting measures a setting in a round: it applies it, waits until it has settled, and
// measures. A run that does not count is repeated once.
func (r *runner) runSetting(ctx context.Context, round, order, s int) error {
	set := r.x.Settings[s]
	begun := r.o.Now()
	text := fmt.Sprintf("round %d of %d, %s", round+1, r.result.Stopping.Planned, set.Name)
	if done := r.result.Stopping.Done; done < round {
		text = fmt.Sprintf("round %d, %d of %d whole, %s", round+1, done, r.result.Stopping.Planned, set.Name)
	}
	if err := r.apply(ctx, s, text); err != nil {
		return err
	}
	for try := 1; ; try++ {
		run := api.ExperimentRun{Round: round + 1, Order: order + 1, Setting: set.Name, Start: seconds(r.o.Now()), Valid: true, Figures: map[string]map[string]api.Float{}}
		cells, err := r.measure(ctx, round, s, text, &run)
		run.End = seconds(r.o.Now())
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			run.Valid, run.Why = false, err.Error()
		}
		if !run.Valid && try == 1 {
			run.Why += "; measured again"
		} else if !run.Valid {
			run.Why += "; left out"
		}
		r.mu.Lock()
		r.result.Rounds = append(r.result.Rounds, run)
		r.mu.Unlock()
		if run.Valid {
			r.runs = append(r.runs, rounds.Run{Round: round, Setting: s, Cells: cells})
			break
		}
		r.o.Note(fmt.Sprintf("%s does not count: %s", text, brief(run.Why)))
		if try == 2 {
			if err != nil {
				return fmt.Errorf("%s: %w", set.Name, err)
			}
			break
		}
	}
	r.took = append(r.took, r.o.Now().Sub(begun))
	return nil
}

// brief returns the first reason why a run does not count, and what is done about it.
func brief(why string) string {
	reasons := strings.Split(why, "; ")
	first, _, _ := strings.Cut(reasons[0], " (allowed")
	return first + "; " + reasons[len(reasons)-1]
}

// apply applies a setting, after noting it in the journal.
func (r *runner) apply(ctx context.Context, s int, text string) error {
	x, set := r.x, r.x.Settings[s]
	if len(x.Restore) == 0 {
		return nil
	}
	r.dirty = true
	control := x.Settings[0]
	if err := r.journal.write(Left{Name: x.Name, Setting: set.Name, Since: r.o.Now(), PID: os.Getpid(), Control: control.Name, Values: control.Values, Restore: rendered(x.Restore, control.Values)}); err != nil {
		return err
	}
	r.progress(text+": applied", nil)
	for _, c := range rendered(x.Apply, set.Values) {
		if err := r.command(ctx, c, set.Values, "apply "+set.Name); err != nil {
			return fmt.Errorf("apply %s: %w", set.Name, err)
		}
	}
	if x.Settle > 0 {
		r.progress(text+": settling", nil)
		return r.o.Sleep(ctx, x.Settle)
	}
	return nil
}

func (r *runner) command(ctx context.Context, c Command, values map[string]string, why string) error {
	begun := r.o.Now()
	_, err := c.run(ctx, values)
	e := api.BenchEvent{Time: seconds(begun), End: seconds(r.o.Now()), Kind: "command", Name: c.Name, Text: why, Failed: err != nil}
	r.mu.Lock()
	r.result.Events = append(r.result.Events, e)
	r.mu.Unlock()
	return err
}

// measure runs the load of one run, or waits for as long in live traffic.
func (r *runner) measure(ctx context.Context, round, s int, text string, run *api.ExperimentRun) (map[rounds.Key]rounds.Cell, error) {
	x, set := r.x, r.x.Settings[s]
	if x.Live != nil {
		r.progress(text+": live traffic", nil)
		return nil, r.o.Sleep(ctx, x.Live.For)
	}
	r.progress(text, nil)
	env := r.result.Environment
	env.Versions, env.Configuration = maps.Clone(env.Versions), maps.Clone(env.Configuration)
	out, err := r.stage.Measure(ctx, scenario.MeasureOptions{
		Vars: x.vars(set), Name: x.Name, Variant: set.Name, Experiment: r.o.ID, Sink: r.o.Sink, Environment: &env, Limits: r.o.Limits,
		// All settings of a round get the same requests in the same order.
		Seed:     rand.New(rand.NewPCG(^r.result.Seed, uint64(round))).Uint64()>>11 | 1,
		Progress: func(m session.Moment) { r.progress(text, &m) },
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	cells := cellsOf(out, run.Figures)
	b := out.Result
	run.WarmUp = b.WarmUp
	r.mu.Lock()
	maps.Copy(r.result.Environment.Versions, b.Environment.Versions) // those that the scenario asks for
	maps.Copy(r.result.Environment.Configuration, b.Environment.Configuration)
	r.mu.Unlock()
	switch {
	case !b.Valid:
		run.Valid, run.Why = false, joined(b.Invalid)
	case b.Aborted != "":
		run.Valid, run.Why = false, b.Aborted
	}
	r.mu.Lock()
	if len(r.result.Loads) == 0 {
		r.result.Loads = append(r.result.Loads, b.Loads...)
	}
	r.mu.Unlock()
	return cells, nil
}

// conclude judges the rounds so far and reports whether they are enough.
func (r *runner) conclude(round int) bool {
	in := r.x.input(r.runs)
	p := r.x.plan(in)
	done := p.Done
	// Incomplete rounds are measured in addition, but not for ever.
	most := r.x.Rounds.AtMost + r.x.Rounds.AtMost/2 + 2
	if len(r.runs) == 0 {
		most = 2
	}
	if !done && round >= most {
		r.fail(fmt.Errorf("only %d of %d rounds are whole, as %s", rounds.Complete(in), round, r.unwhole()))
		done = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.result
	t.Stopping.Planned, t.Stopping.Done, t.Stopping.Why = p.Rounds, rounds.Complete(in), p.Why
	if r.x.Live == nil {
		judged(t, r.x, in)
	} else {
		done = len(t.Rounds) >= r.x.Rounds.AtMost*len(r.x.Settings)
		t.Stopping.Planned, t.Stopping.Done = r.x.Rounds.AtMost, len(t.Rounds)/len(r.x.Settings)
	}
	return done
}

// unwhole returns the most frequent reason why runs do not count, and what to do
// about it.
func (r *runner) unwhole() string {
	reasons, n := map[string]int{}, 0
	first := ""
	for _, run := range r.result.Rounds {
		if run.Valid {
			continue
		}
		n++
		why, _, _ := strings.Cut(run.Why, "; ")
		for _, cut := range []string{" (allowed", ": at "} { // figures, which differ
			why, _, _ = strings.Cut(why, cut)
		}
		if reasons[why]++; reasons[why] > reasons[first] {
			first = why
		}
	}
	text := fmt.Sprintf("%d of %d runs do not count, %d since %s", n, len(r.result.Rounds), reasons[first], first)
	if strings.Contains(first, "generator") || strings.Contains(first, "cores of this machine") {
		return text + ": lower the rate of the scenario, end other programs, or let such runs count with limits: {late: 50%, cpu: 100%} in the scenario, if settings are to be told apart and figures themselves matter less"
	}
	return text + ": see to that first, with tailscope bench and the scenario"
}

// end applies the control again, takes the stage down, and writes the verdict.
func (r *runner) end(ctx context.Context, quiet func()) {
	ctx, cancel := context.WithTimeout(ctx, restoring)
	defer cancel()
	x := r.x
	var errs []error
	if r.dirty {
		r.progress("applying the control again", nil)
		control := x.Settings[0].Values
		for _, c := range rendered(x.Restore, control) {
			if err := r.command(ctx, c, control, "restore "+x.Settings[0].Name); err != nil {
				errs = append(errs, err)
			}
		}
	}
	restored := errors.Join(errs...)
	if r.stage != nil {
		if err := r.stage.Close(ctx); err != nil {
			r.o.Note("taking the scenario down: " + err.Error())
			r.fail(fmt.Errorf("taking the scenario down: %w", err))
		}
	}
	if x.Live != nil && r.o.Live != nil {
		r.progress("reading what the mirror measured", nil)
		if err := r.live(ctx); err != nil {
			r.fail(err)
		}
	}
	r.conclude(0)
	r.mu.Lock()
	t := &r.result
	if t.Restored = restored == nil; restored != nil {
		t.RestoreError = restored.Error()
	}
	t.End, t.Progress = seconds(r.o.Now()), ""
	if r.o.Judged != nil && t.Failed == "" {
		t.Gate = r.o.Judged(t)
	}
	r.mu.Unlock()
	var err error
	if restored == nil {
		err = r.journal.done()
	} else {
		err = r.journal.keep()
	}
	if err != nil {
		r.o.Note(err.Error())
	}
	quiet()
	r.report(ctx, true)
}

// progress reports what is being done.
func (r *runner) progress(text string, run *session.Moment) {
	r.mu.Lock()
	r.result.Progress = text
	r.mu.Unlock()
	if r.o.Progress != nil {
		r.o.Progress(Moment{Text: text, Left: r.left(), Run: run})
	}
}

// left returns the estimated time left, 0 if it is not known.
func (r *runner) left() time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range r.took {
		sum += d
	}
	r.mu.Lock()
	more := r.result.Stopping.Planned*len(r.x.Settings) - len(r.took)
	r.mu.Unlock()
	return max(0, sum/time.Duration(len(r.took))*time.Duration(more))
}

// report sends the state to the server, which may ask to stop. A server that is away
// is not a reason to stop.
func (r *runner) report(ctx context.Context, ended bool) {
	if r.o.Report == nil {
		return
	}
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.mu.Lock()
	t := r.result
	t.Environment.Versions, t.Environment.Configuration = maps.Clone(t.Environment.Versions), maps.Clone(t.Environment.Configuration)
	t.Settings = slices.Clone(t.Settings)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	reply, err := r.o.Report(ctx, api.SessionReport{Kind: "experiment", Name: t.Name, Service: t.Service, Start: t.Start, Ended: ended, Experiment: &t})
	switch {
	case err != nil && ended:
		r.o.Note("the server does not take the result: " + err.Error())
	case err == nil && reply.Change != nil && reply.Change.Stop && !ended:
		r.cancel(errStopped)
	}
}

// beats reports every few seconds until the returned function is called.
func (r *runner) beats() (stop func()) {
	if r.o.Report == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(r.o.Beat)
		defer tick.Stop()
		for {
			r.report(ctx, false)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
