package capacity

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// played is a target that answers everything in 10 ms up to a rate, and in a second
// beyond it; its steps take no time.
type played struct {
	limit    float64
	steps    []search.Step
	invalid  int // how many of the next steps show nothing
	fail     error
	at       int // step that fails
	restored int
	wrong    error
}

func (p *played) Hold(_ context.Context, st search.Step, w *search.Watch, report func(*api.CapacityStep)) (*api.CapacityStep, search.Outcome, error) {
	p.steps = append(p.steps, st)
	step := &api.CapacityStep{Phase: st.Phase, X: api.Float(st.X), Rate: api.Float(st.X), Concurrency: api.Float(st.X / 100), Kept: search.Unclear, Valid: true, StoppedAfter: none}
	if p.fail != nil && len(p.steps) > p.at {
		return step, search.Outcome{Took: time.Second}, p.fail
	}
	if p.invalid > 0 {
		p.invalid--
		step.Valid, step.Why = false, "the generator slept"
		return step, search.Outcome{Took: time.Second, Invalid: step.Why}, nil
	}
	latency := 0.01
	if st.X > p.limit {
		latency = 1
	}
	for at := 100 * time.Millisecond; at <= st.For; at += 100 * time.Millisecond {
		h := hist.New(hist.DefaultSchema)
		for range int(math.Ceil(st.X / 10)) {
			_ = h.Record(latency)
		}
		w.Add(objective.Batch{At: at, Ended: map[objective.Part]objective.Ended{{}: {Requests: h.Count, Latency: h}}, Waiting: map[objective.Part]objective.Waiting{{}: {Due: h.Count}}})
		report(step)
		if why, broken := w.Broken(); broken {
			step.Stopped, step.Kept = why, search.Broken
			break
		}
		if w.Enough() {
			break
		}
	}
	step.Latency = tally.Latency(nil, false)
	return step, search.Outcome{Took: st.For}, nil
}

func (p *played) Restore(context.Context) error {
	p.restored++
	return p.wrong
}

func playedOptions(t *testing.T) Options {
	o, err := objective.Parse("p90 < 100ms")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Mode: "rate", Bounds: DefaultBounds(), Search: search.Options{Objective: o, Lowest: 10, Highest: 10000, Budget: 10 * time.Minute}}
}

func TestRunFindsAndRestores(t *testing.T) {
	p := &played{limit: 400, wrong: errors.New("the pool is locked")}
	c, err := Run(context.Background(), p, playedOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if c.Answer == nil || !(c.Answer.Low <= 402 && c.Answer.High >= 398) || p.restored != 1 {
		t.Fatalf("%+v, restored %d times", c.Answer, p.restored)
	}
	if c.Restored || c.RestoreError != "the pool is locked" || !strings.Contains(c.Warnings[len(c.Warnings)-1].Text, "the pool is locked") {
		t.Errorf("restored %v, %q", c.Restored, c.RestoreError)
	}
	if got := float64(c.Answer.Rate); math.Abs(got/float64(c.Answer.Value)-1) > 0.2 {
		t.Errorf("%v answered a second at %v", got, c.Answer.Value)
	}
	// What was stopped is let come to rest.
	for i, s := range c.Steps[:len(c.Steps)-1] {
		if s.Stopped != "" && p.steps[i+1].Drain == 0 {
			t.Errorf("step %d follows at once on one that was stopped", i+1)
		}
	}
	if c.Law == nil || c.Law.Source != "steps" {
		t.Errorf("law %+v", c.Law)
	}
}

// A load whose step shows nothing is tried again, but not for ever.
func TestStepsThatShowNothing(t *testing.T) {
	for _, invalid := range []int{1, 2, 3, 100} {
		p := &played{limit: 400, invalid: invalid}
		c, err := Run(context.Background(), p, playedOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		if found := c.Verdict == search.Found; found != (invalid <= 3) {
			t.Errorf("after %d steps that show nothing: %s, %+v", invalid, c.Verdict, c.Answer)
		}
		if n := len(c.Steps); invalid == 100 && (n > 20 || c.Verdict != search.TooLittle || !strings.Contains(c.Headline, "busy with something else")) {
			t.Errorf("%s after %d steps: %s", c.Verdict, n, c.Headline)
		}
		if w := c.Warnings; len(w) == 0 || !strings.Contains(w[0].Text+w[len(w)-1].Text, "slept") {
			t.Errorf("warnings %v", w)
		}
	}
}

// A search that ended early gives no rate of answers beyond a step that broke, since
// steps below it do not show it. One that did not end early has steps nearby.
func TestRateIsNotExtrapolated(t *testing.T) {
	for _, c := range []struct {
		broken  float64
		verdict api.CapacityVerdict
		want    float64
	}{{320, "early", math.NaN()}, {640, "early", 400}, {320, "found", 400}} {
		p := &played{limit: 5000, fail: errors.New("gone"), at: 1}
		o := playedOptions(t)
		if c.verdict == "found" {
			p = &played{limit: 400}
		}
		s, err := search.New(o.Search)
		if err != nil {
			t.Fatal(err)
		}
		for step, more := s.Next(); more; step, more = s.Next() {
			_, out, err := p.Hold(t.Context(), step, s.Watch(), func(*api.CapacityStep) {})
			s.Done(out)
			if err != nil {
				break
			}
		}
		r := &searching{o: o, s: s, c: api.Capacity{Answer: &api.CapacityAnswer{Value: 400}, Steps: []api.CapacityStep{
			{X: 200, Rate: 200, Kept: search.Kept, Valid: true}, {X: api.Float(c.broken), Rate: 150, Kept: search.Broken, Valid: true},
		}}}
		if got := float64(r.rate()); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("broken at %v, %s: %v answered a second, want %v", c.broken, c.verdict, got, c.want)
		}
	}
}

// The reason why there is no law is given once.
func TestNoLawIsSaidOnce(t *testing.T) {
	r := &searching{}
	for _, n := range []float64{1, 2, 4, 8} {
		r.c.Steps = append(r.c.Steps, api.CapacityStep{Rate: api.Float(100 / n), Concurrency: api.Float(n), Valid: true})
	}
	if law := r.law(); law != nil || len(r.c.Warnings) != 1 || strings.Count(r.c.Warnings[0].Text, "not fitted") != 1 {
		t.Errorf("%+v, %+v", law, r.c.Warnings)
	}
}

func TestRunThatFails(t *testing.T) {
	p := &played{limit: 400, fail: errors.New("the target is gone"), at: 3}
	c, err := Run(context.Background(), p, playedOptions(t))
	if err != nil || c.Failed != "the target is gone" || p.restored != 1 || len(c.Steps) != 4 || !strings.Contains(c.Headline, "the target is gone") || !c.Restored {
		t.Errorf("%v: %+v", err, c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p = &played{}
	c, err = Run(ctx, p, playedOptions(t))
	if err != nil || c.Failed != "it was ended" || p.restored != 1 || len(c.Steps) != 0 || c.Answer != nil {
		t.Errorf("%v: %+v", err, c)
	}
	if _, err := Run(ctx, p, Options{}); err == nil {
		t.Error("a search for nothing")
	}
}
