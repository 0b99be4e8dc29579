package logbook

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query"
	"tailscope/internal/store/storetest"
)

func TestVerdictOfASession(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	s := legstest.Steady
	s.Slower = 0.62
	s.Put(t, st, "x")
	r := New(Options{Store: st, Now: c.read})
	p := report(epoch)
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	_, err := r.Verdict(ctx, VerdictRequest{ID: "x"})
	fails(t, "at its beginning", err, query.CodeTooEarly, "id")

	c.forward(920 * time.Second)
	p.Mirror = legstest.State()
	p.Mirror.Shadows[1].Account.Dropped["queue_full"] = 30
	p.Mirror.Shadows[1].Diverged, p.Mirror.Shadows[1].DivergedWhy = api.Float(epoch+100), "POST /cart timed out"
	p.Mirror.Shadows[1].Account.Failed = map[string]uint64{"client_gone": 500} // not its fault, and in no figure
	p.Mirror.Shadows[1].Amplify = 2
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	live, err := r.Verdict(ctx, VerdictRequest{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	p.Ended = true
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	c.forward(time.Minute)
	plain, err := r.Verdict(ctx, VerdictRequest{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if !live.Live || plain.Live || live.Slots != 90 || live.Start != epoch || live.End != epoch+900 || plain.End < epoch+900 {
		t.Errorf("live %v, %d slots of [%d, %d); at last live %v to %d", live.Live, live.Slots, live.Start-epoch, live.End-epoch, plain.Live, plain.End-epoch)
	}
	for _, v := range []*api.MirrorVerdictResponse{live, plain} {
		x := v.Candidates[0]
		if len(v.Candidates) != 1 || x.Candidate != "candidate" || x.Against != "control" || x.Caveat != "" || x.Verdict != judge.Faster || x.Requests != 90*200 {
			t.Errorf("%s: %+v", x.Verdict, x)
		}
		if !strings.Contains(x.Headline, " of GET /a is 38 % faster than control (95 % interval 3") || !strings.Contains(x.Headline, "; noise floor ±") {
			t.Errorf("headline %s", x.Headline)
		}
		if !strings.HasSuffix(x.Headline, "; mind that candidate missed a write, 3 % of the copies for candidate were dropped, candidate has another load") {
			t.Errorf("headline %s", x.Headline)
		}
		if x.OperationsJudged != 6 || x.TenantsJudged != 2 || x.Operations[0].Name != "GET /a" || x.Operations[0].Verdict != judge.Faster {
			t.Errorf("of operations %+v", x.Operations)
		}
		for _, row := range x.Operations[1:] {
			if row.Verdict == judge.Faster || row.Verdict == judge.Slower {
				t.Errorf("%s is said to be %s", row.Name, row.Verdict)
			}
		}
		m := measureOf(&x, "p50")
		if ref := float64(m.Reference); ref > 0.1 { // that of all requests of the primary would be
			t.Errorf("p50 of the control is %v", ref)
		}
		if f := float64(m.Floor); !(f > 0.8 && f < 1.2) {
			t.Errorf("control is %v of the primary, so requests that were not mirrored count", f)
		}
		if ratio := measureOf(&x, "ratio"); len(ratio.Points) != 4 || ratio.Reference != 1 || !(ratio.Points[0].Ratio < ratio.Points[3].Ratio) {
			t.Errorf("ratio %+v", ratio)
		}
		if m := measureOf(&x, "bytes"); m.Verdict != judge.Same {
			t.Errorf("bytes %+v", m)
		}
		var codes []string
		for _, w := range v.Warnings {
			codes = append(codes, w.Code)
		}
		if !slices.Equal(codes, []string{"diverged", "dropped", "load"}) {
			t.Errorf("warnings %v", v.Warnings)
		}
	}
	// A live interval is wider.
	if a, b := measureOf(&live.Candidates[0], "p50"), measureOf(&plain.Candidates[0], "p50"); !(a.High-a.Low > b.High-b.Low) {
		t.Errorf("live from %v to %v, at last from %v to %v", a.Low, a.High, b.Low, b.High)
	}

	part, err := r.Verdict(ctx, VerdictRequest{ID: "x", Start: time.Unix(epoch+305, 0), End: time.Unix(epoch+605, 0), Measures: []string{"p99", "errors"}, Limit: 1})
	if err != nil || part.Start != epoch+300 || part.End != epoch+600 || len(part.Candidates[0].Measures) != 2 || len(part.Candidates[0].Operations) != 1 {
		t.Errorf("%+v, %v", part, err)
	}
	for name, q := range map[string]VerdictRequest{
		"measures": {ID: "x", Measures: []string{"p98"}},
		"limit":    {ID: "x", Limit: 1000},
		"start":    {ID: "x", Start: time.Unix(epoch+9000, 0)},
	} {
		_, err := r.Verdict(ctx, q)
		fails(t, name, err, query.CodeInvalid, name)
	}
	_, err = r.Verdict(ctx, VerdictRequest{ID: "y"})
	fails(t, "of nothing", err, query.CodeNotFound, "id")
}

func TestHeadlines(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), &counting{Store: storetest.NewTwin()}
	s := legstest.Steady
	s.Slower = 0.62
	s.Put(t, st.Store, "x")
	r := New(Options{Store: st, Now: c.read})
	p := report(epoch)
	headline := func() string {
		t.Helper()
		if err := r.Round(ctx); err != nil {
			t.Fatal(err)
		}
		x, err := r.Get(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		return x.Headline
	}
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	if h := headline(); h != "" {
		t.Errorf("at its beginning: %s", h)
	}
	for range 10 {
		c.forward(14 * time.Second)
		if _, err := r.Report(ctx, "x", p); err != nil {
			t.Fatal(err)
		}
	}
	if h := headline(); !strings.HasPrefix(h, "Too little data") {
		t.Errorf("after two minutes: %s", h)
	}
	c.forward(760 * time.Second)
	p.Ended = true
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	if h := headline(); !strings.Contains(h, "38 % faster") {
		t.Errorf("at its end: %s", h)
	}
	c.forward(time.Minute)
	puts := st.puts
	h := headline()
	if st.puts != puts+1 || !strings.Contains(h, "38 % faster") {
		t.Errorf("when all data had come it was written %d times: %s", st.puts-puts, h)
	}
	verdicts := r.Stats().Verdicts
	c.forward(time.Hour)
	if headline(); r.Stats().Verdicts != verdicts {
		t.Error("it is judged again, though nothing can have changed")
	}
	if x, err := New(Options{Store: st, Now: c.read}).Get(ctx, "x"); err != nil || x.Headline != h {
		t.Errorf("after a restart %+v, %v", x, err)
	}
}

// What was lost and judged for good, and reports again, is judged again.
func TestHeadlineOfWhatWasLost(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	tell := func(ended bool) {
		t.Helper()
		p := report(epoch)
		p.Ended = ended
		if _, err := r.Report(ctx, "x", p); err != nil {
			t.Fatal(err)
		}
	}
	made := func(want uint64) {
		t.Helper()
		c.forward(time.Minute)
		if err := r.Round(ctx); err != nil {
			t.Fatal(err)
		}
		if s := r.Stats(); s.Verdicts != want {
			t.Errorf("judged %d times, want %d", s.Verdicts, want)
		}
	}
	tell(false)
	made(1) // lost
	made(1)
	tell(false)
	tell(true)
	made(2)
	made(2)
}

// Run ends with its context, and goes on when a round fails.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Store: storetest.NewTwin()})
		if _, err := r.Report(t.Context(), "x", report(time.Now().Unix())); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		if s := r.Stats(); s.Verdicts < 2 || s.Failures > 0 {
			t.Errorf("%+v", s)
		}
		cancel()
		<-done
	})
}

func measureOf(v *api.MirrorVerdict, name string) *api.MirrorMeasure {
	for i := range v.Measures {
		if v.Measures[i].Name == name {
			return &v.Measures[i]
		}
	}
	return &api.MirrorMeasure{Verdict: judge.TooLittle}
}
