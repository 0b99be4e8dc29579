package experiments

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/compare"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// put writes what a simulated session measured, as the mirror does, with half of
// each operation's requests by each of two tenants, and with requests of the
// primary that were not mirrored, which are a hundred times as slow.
func put(t testing.TB, st store.Store, id string, s session) {
	t.Helper()
	w, d := querytest.NewWriter(), s.data()
	rows := d.operations
	if len(rows) == 0 {
		rows = map[string]*rowData{"GET /": {d.duration, d.ratio}}
	}
	merge := func(family string, slot int, h *hist.Histogram, l ...string) {
		if err := w.Merge(epoch+int64(slot)*10, series.Series{Family: family, Labels: labels.FromStrings(append(l, "service", "shop", "experiment", id)...)}, h); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range rows {
		for family, of := range map[string]legs{familyDuration: row.duration, familyRatio: row.ratio} {
			for key, l := range of {
				for slot, h := range l.ok {
					if h == nil {
						continue
					}
					ls := []string{"operation", name, "tenant", fmt.Sprint("t", slot%2), "variant", key.variant, "status", "ok"}
					if key.against != "" {
						ls = append(ls, "against", key.against)
					}
					merge(family, slot, h, ls...)
					if family != familyDuration {
						continue
					}
					merge(familyFirstByte, slot, h, ls...)
					size, slow := hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)
					for range h.Count {
						observe(t, size, 2048)
						observe(t, slow, 2)
					}
					merge(familyBytes, slot, size, ls...)
					if key.variant == "primary" {
						merge(family, slot, slow, append(ls, "mirrored", "no")...)
					}
				}
			}
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
}

func observe(t testing.TB, h *hist.Histogram, v float64) {
	t.Helper()
	if err := h.Record(v); err != nil {
		t.Fatal(err)
	}
}

var steady = session{seed: 7, slots: 90, per: 200, shared: 0.15, own: 0.005, unlike: 0.6, noise: 0.2, operations: 6}

func TestVerdictOfASession(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	s := steady
	s.slower = 0.62
	put(t, st, "x", s)
	r := New(Options{Store: st, Now: c.read})
	p := report(epoch)
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	_, err := r.Verdict(ctx, VerdictRequest{ID: "x"})
	fails(t, "at its beginning", err, query.CodeTooEarly, "id")

	c.forward(920 * time.Second)
	p.Mirror = mirrorState()
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
		if len(v.Candidates) != 1 || x.Candidate != "candidate" || x.Against != "control" || x.Caveat != "" || x.Verdict != compare.Faster || x.Requests != 90*200 {
			t.Errorf("%s: %+v", x.Verdict, x)
		}
		if !strings.Contains(x.Headline, " of GET /a is 38 % faster than control (95 % interval 3") || !strings.Contains(x.Headline, "; noise floor ±") {
			t.Errorf("headline %s", x.Headline)
		}
		if !strings.HasSuffix(x.Headline, "; mind that candidate missed a write, 3 % of the copies for candidate were dropped, candidate has another load") {
			t.Errorf("headline %s", x.Headline)
		}
		if x.OperationsJudged != 6 || x.TenantsJudged != 2 || x.Operations[0].Name != "GET /a" || x.Operations[0].Verdict != compare.Faster {
			t.Errorf("of operations %+v", x.Operations)
		}
		for _, row := range x.Operations[1:] {
			if row.Verdict == compare.Faster || row.Verdict == compare.Slower {
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
		if ratio := measureOf(&x, ratioName); len(ratio.Points) != 4 || ratio.Reference != 1 || !(ratio.Points[0].Ratio < ratio.Points[3].Ratio) {
			t.Errorf("ratio %+v", ratio)
		}
		if m := measureOf(&x, "bytes"); m.Verdict != compare.Same {
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

// What is the same for candidate and control is not told of the candidate,
// however much the primary's path differs.
func TestNoiseFloor(t *testing.T) {
	s := session{seed: 3, slots: 60, per: 200, shared: 0.1, own: 0.005, unlike: 0.6, noise: 0.2}
	for _, tc := range []struct {
		name         string
		path, slower float64
		noControl    bool
		want         string
	}{
		{"nothing differs", 1, 1, false, compare.Same},
		{"shadows are slower by their path", 1.2, 1, false, compare.Same},
		{"candidate no more than control", 1.2, 1.1, false, WithinFloor},
		{"candidate much more than control", 1.05, 1.3, false, compare.Slower},
		{"the path of shadows is told without a control", 1.2, 1, true, compare.Slower},
	} {
		s.path, s.slower, s.noControl = tc.path, tc.slower, tc.noControl
		v, err := s.verdict(false)
		if err != nil {
			t.Fatal(err)
		}
		if m := measureOf(v, ratioName); m.Verdict != tc.want || (v.Caveat != "") != tc.noControl {
			t.Errorf("%s: %s; caveat %q", tc.name, m.Sentence, v.Caveat)
		}
	}
}

// Claims hold in both directions: candidate and control changed round, what was
// slower is faster, and intervals are each other's inverse.
func TestVerdictIsAntisymmetric(t *testing.T) {
	for seed := range uint64(10) {
		s := session{seed: seed, slots: 40, per: 60, shared: 0.1, own: 0.02, unlike: 0.6, noise: 0.2, slower: 1 + float64(seed)/20}
		d := s.data()
		turned := &data{grid: d.grid, duration: legs{}, ratio: legs{}}
		for k, l := range d.duration {
			turned.duration[k] = l
		}
		a, b := legKey{variant: "control"}, legKey{variant: "candidate"}
		turned.duration[a], turned.duration[b] = d.duration[b], d.duration[a]
		for _, m := range measures[1:8] {
			x, err := m.change(figures{duration: d.duration}, "control", "candidate", steadyOptions)
			if err != nil {
				t.Fatal(err)
			}
			y, err := m.change(figures{duration: turned.duration}, "control", "candidate", steadyOptions)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 }
			if !near(x.Effect, -y.Effect) || !near(x.CI.Low, -y.CI.High) || !near(x.CI.High, -y.CI.Low) {
				t.Errorf("%s: %+v, turned round %+v", m.name, x.CI, y.CI)
			}
		}
	}
}

func TestHeadlines(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), &counting{Store: storetest.NewTwin()}
	s := steady
	s.slower = 0.62
	put(t, st.Store, "x", s)
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
