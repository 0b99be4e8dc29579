package experiment

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
)

// session is a mirror session whose traffic grows heavier with time; the candidate
// takes twice the primary's time while workers=1 is applied.
type mirrorSession struct {
	t       *testing.T
	applied []stretch // when what was applied
	state   string
}

type stretch struct {
	from   int64
	factor float64
}

func (s *mirrorSession) Session(context.Context, string) (*api.Session, error) {
	return &api.Session{Kind: "mirror", State: s.state, Service: "shop", Mirror: &api.MirrorState{Primary: api.MirrorTarget{Name: "primary"}, Shadows: []api.MirrorTarget{{Name: "candidate"}}}}, nil
}

// slots returns the values of draw in each slot.
func (s *mirrorSession) slots(seed uint64, from, to int64, draw func(r *rand.Rand, load, factor float64) float64) *api.HeatmapResponse {
	const schema, base = 5, -400
	out := &api.HeatmapResponse{}
	for k := int32(base); k < base+600; k++ {
		out.Bounds = append(out.Bounds, api.Float(hist.UpperBound(k, schema)))
	}
	for at := from; at < to; at += 10 {
		r := rand.New(rand.NewPCG(seed, uint64(at)))
		factor := 1.0
		for _, a := range s.applied {
			if at >= a.from {
				factor = a.factor
			}
		}
		load := math.Exp(float64(at-from) / 2000) // production changes by itself
		c, counts := api.HeatmapColumn{Start: at}, map[int]uint64{}
		for range 300 {
			v := draw(r, load, factor)
			c.Sum += api.Float(v)
			counts[int(hist.BucketIndex(v, schema))-base-1]++
		}
		for row, n := range counts {
			c.Rows, c.Counts = append(c.Rows, row), append(c.Counts, n)
		}
		out.Columns = append(out.Columns, c)
	}
	return out
}

// Of the candidate, answers that are errors come at once.
func (s *mirrorSession) Leg(_ context.Context, _, variant, status string, from, to int64) (*api.HeatmapResponse, error) {
	if status == "error" {
		if variant == "primary" {
			return &api.HeatmapResponse{}, nil
		}
		return s.failures(from, to), nil
	}
	return s.slots(uint64(len(variant)), from, to, func(r *rand.Rand, load, factor float64) float64 {
		if variant == "primary" {
			factor = 1
		}
		return 0.1 * load * factor * math.Exp(0.3*r.NormFloat64())
	}), nil
}

// failures are one of thirty requests while workers=1 is applied.
func (s *mirrorSession) failures(from, to int64) *api.HeatmapResponse {
	out := &api.HeatmapResponse{Bounds: []api.Float{0.001, 0.002}}
	for at := from; at < to; at += 10 {
		factor := 1.0
		for _, a := range s.applied {
			if at >= a.from {
				factor = a.factor
			}
		}
		if factor > 1 {
			out.Columns = append(out.Columns, api.HeatmapColumn{Start: at, Rows: []int{0}, Counts: []uint64{9 + uint64(at/10%3)}, Sum: 0.015})
		}
	}
	return out
}

func (s *mirrorSession) Ratios(_ context.Context, _, _, _ string, from, to int64) (*api.HeatmapResponse, error) {
	return s.slots(1, from, to, func(r *rand.Rand, _, factor float64) float64 { return factor * math.Exp(0.2*r.NormFloat64()) }), nil
}

const liveFile = `experiment: workers
variable: workers
control: {workers: 8}
variants: [{workers: 1}]
apply: echo {{workers}} > applied
live: {session: s1, for: 10m}
seed: 2
`

// besideASession are options with a session in which answers take twice as long
// while one worker is applied.
func (l *lab) besideASession() Options {
	l.closed = 1 // there is no stage
	s := &mirrorSession{t: l.t, state: "running"}
	o := l.options()
	o.Live = s
	wait := o.Sleep
	o.Sleep = func(ctx context.Context, d time.Duration) error {
		factor := 1.0
		if l.read("applied") == "1" {
			factor = 2
		}
		s.applied = append(s.applied, stretch{l.now.Unix(), factor})
		return wait(ctx, d)
	}
	return o
}

func TestLiveTraffic(t *testing.T) {
	l := newLab(t, liveFile)
	o := l.besideASession()
	result := l.run(t.Context(), o)
	if result.Failed != "" || result.Verdict != judge.Slower || result.Service != "shop" || result.Settings[0].Session != "s1" {
		t.Fatalf("failed %q, verdict %q: %s", result.Failed, result.Verdict, result.Headline)
	}
	found := map[string]judge.Verdict{}
	if len(result.Rows) != 3 { // against the control, and each against production; no pair twice
		t.Errorf("%d rows", len(result.Rows))
	}
	for _, row := range result.Rows {
		found[row.Setting+" against "+row.Against] = row.Verdict
		if row.Setting != "workers=1" || row.Against != "workers=8" {
			continue
		}
		for _, m := range row.Measures {
			if m.Name == "errors" {
				if m.Verdict != judge.MoreErrors || !(m.Low <= 1.0/31 && 1.0/31 <= m.High) || m.High-m.Low > 0.02 || m.P > 0.001 {
					t.Errorf("errors are %g, from %g to %g, p %g: %s", m.Effect, m.Low, m.High, m.P, m.Verdict)
				}
				continue
			}
			if !(m.Low <= 2 && 2 <= m.High) || m.High/m.Low > 1.5 {
				t.Errorf("%s: %.3f from %.3f to %.3f, not 2", m.Name, m.Effect, m.Low, m.High)
			}
		}
	}
	if found["workers=1 against "+production] != judge.Slower || found["workers=8 against "+production] != judge.Same {
		t.Errorf("rows %v", found)
	}
	if !strings.HasPrefix(result.Headline, "The typical request with workers=1 ") || !strings.Contains(result.Headline, "with workers=8 (95 % interval") {
		t.Errorf("headline %q", result.Headline)
	}
}

// A setting is held against the one before it, in the order in which they were.
func TestLiveTrafficAgainstTheSettingBefore(t *testing.T) {
	l := newLab(t, strings.Replace(liveFile, "{workers: 1}", "{workers: 1}, {workers: 24}", 1))
	o := l.besideASession()
	x := l.load()
	for x.Seed = 1; !slices.Equal(Order(x.Seed, 0, 3), []int{0, 1, 2}); x.Seed++ {
	}
	result, err := Run(t.Context(), x, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range result.Rows {
		got = append(got, row.Setting+" against "+row.Against)
	}
	want := []string{"workers=1 against workers=8", "workers=24 against workers=8", "workers=24 against workers=1"}
	if len(got) != 6 || !slices.Equal(got[:3], want) {
		t.Fatalf("rows %q, not %q and production", got, want)
	}
	for _, m := range result.Rows[2].Measures {
		if m.Name == judge.Ratio && !(m.Low <= 0.5 && 0.5 <= m.High && m.High < 0.55) {
			t.Errorf("with 24 workers a request takes %.3f (%.3f to %.3f) of what it took before, not half", m.Effect, m.Low, m.High)
		}
	}
}

func TestLiveTrafficWithoutASession(t *testing.T) {
	l := newLab(t, liveFile)
	o := l.options()
	o.Live = &mirrorSession{t: t, state: "ended"}
	if _, err := Run(t.Context(), l.load(), o); err == nil || !strings.Contains(err.Error(), "is ended") {
		t.Errorf("error %v", err)
	}
	if l.read("applied") != "" {
		t.Error("something was applied")
	}
}
