// Package legstest simulates mirror sessions for tests, and writes what they measured
// as the mirror does.
package legstest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Session is a simulated one: requests are log-normal about a median that
// belongs to the request, times what a server makes of it.
type Session struct {
	Seed       uint64
	Slots, Per int     // requests a slot
	Phi        float64 // correlation of slots
	Shared     float64 // how much slots vary for all servers, standard deviation of the logarithm
	Own        float64 // how much slots vary for each server by itself
	Unlike     float64 // requests, by what they ask for
	Noise      float64 // and by chance, each time they are answered
	Path       float64 // factor that shadows take longer by than the primary
	Slower     float64 // factor of the candidate
	Tail       float64 // factor of the candidate's slowest 5 %
	NoControl  bool
	Operations int // apart from the whole; the change is of the first if there are any
}

// Steady is a session of 15 minutes whose servers hardly vary.
var Steady = Session{Seed: 7, Slots: 90, Per: 200, Shared: 0.15, Own: 0.005, Unlike: 0.6, Noise: 0.2, Operations: 6}

// Measured is one duration in seconds, of a variant, or one ratio of a variant's
// duration to that of the one it is set Against.
type Measured struct {
	Slot             int
	Operation        string // empty if operations are not told apart
	Variant, Against string
	Value            float64
}

func (s Session) autoregression(r *rand.Rand, spread float64) []float64 {
	out := make([]float64, s.Slots)
	x := spread * r.NormFloat64()
	for t := range out {
		if t > 0 {
			x = s.Phi*x + spread*math.Sqrt(1-s.Phi*s.Phi)*r.NormFloat64()
		}
		out[t] = x
	}
	return out
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

// Each calls yield with all that the session measures.
func (s Session) Each(yield func(Measured)) {
	r := rand.New(rand.NewPCG(s.Seed, 11))
	names := []string{"primary", "control", "candidate"}
	shared := s.autoregression(r, s.Shared)
	var own [3][]float64
	for i := range own {
		own[i] = s.autoregression(r, s.Own)
	}
	for t := range s.Slots {
		for range s.Per {
			base := math.Log(0.02) + shared[t] + s.Unlike*r.NormFloat64()
			op, name := -1, ""
			if s.Operations > 0 {
				op = r.IntN(s.Operations)
				name = "GET /" + string(rune('a'+op))
			}
			var took [3]float64
			for i := range took {
				luck := r.NormFloat64()
				x := base + own[i][t] + s.Noise*luck
				if i > 0 {
					x += math.Log(orOne(s.Path))
				}
				if i == 2 && op <= 0 {
					x += math.Log(orOne(s.Slower))
					if luck > 1.645 {
						x += math.Log(orOne(s.Tail))
					}
				}
				took[i] = math.Exp(x)
			}
			for i, v := range took {
				if i != 1 || !s.NoControl {
					yield(Measured{t, name, names[i], "", v})
				}
			}
			yield(Measured{t, name, "candidate", "primary", took[2] / took[0]})
			if !s.NoControl {
				yield(Measured{t, name, "candidate", "control", took[2] / took[1]})
				yield(Measured{t, name, "control", "primary", took[1] / took[0]})
			}
		}
	}
}

// Put writes what the session measured, see Fill, to st as one generation.
func (s Session) Put(t testing.TB, st store.Store, id string) {
	t.Helper()
	w := querytest.NewWriter()
	s.Fill(t, w, id)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
}

// Fill adds what the session measured to w, as the mirror does, with half of each
// operation's requests by each of two tenants, and with requests of the primary that
// were not mirrored, which are a hundred times as slow.
func (s Session) Fill(t testing.TB, w *querytest.Writer, id string) {
	t.Helper()
	type key struct {
		slot   int
		family string
		labels string
	}
	all := map[key]*hist.Histogram{}
	of := map[string]labels.Labels{}
	add := func(slot int, family string, v float64, l ...string) {
		ls := labels.FromStrings(append(l, "service", "shop", "experiment", id, "tenant", fmt.Sprint("t", slot%2), "status", "ok")...)
		k := key{slot, family, ls.String()}
		if of[k.labels] = ls; all[k] == nil {
			all[k] = hist.New(hist.DefaultSchema)
		}
		if err := all[k].Record(v); err != nil {
			t.Fatal(err)
		}
	}
	s.Each(func(m Measured) {
		if m.Operation == "" {
			m.Operation = "GET /"
		}
		l := []string{"operation", m.Operation, "variant", m.Variant}
		if m.Against != "" {
			add(m.Slot, "mirror_ratio", m.Value, append(l, "against", m.Against)...)
			return
		}
		add(m.Slot, "mirror_duration_seconds", m.Value, l...)
		add(m.Slot, "mirror_first_byte_seconds", m.Value, l...)
		add(m.Slot, "mirror_answer_bytes", 2048, l...)
		if m.Variant == "primary" {
			add(m.Slot, "mirror_duration_seconds", 2, append(l, "mirrored", "no")...)
		}
	})
	for k, h := range all {
		if err := w.Merge(querytest.Epoch+int64(k.slot)*10, series.Series{Family: k.family, Labels: of[k.labels]}, h); err != nil {
			t.Fatal(err)
		}
	}
}

// State is that of a session with a control and one candidate.
func State() *api.MirrorState {
	shadow := func(name, role string) api.MirrorTarget {
		return api.MirrorTarget{
			Name: name, Role: role, Servers: []api.MirrorServer{{URL: "http://127.0.0.1:1"}, {URL: "http://127.0.0.1:2"}}, Using: 2, Amplify: 1, Diverged: api.Float(math.NaN()),
			Account: &api.MirrorAccount{Offered: 1000, Mirrored: 1000, Answered: 1000, Paired: 1000, Dropped: map[string]uint64{}, Failed: map[string]uint64{}},
		}
	}
	return &api.MirrorState{
		Mode: "http", Listen: "127.0.0.1:8080", Primary: api.MirrorTarget{Name: "primary", Role: "primary", Servers: []api.MirrorServer{{URL: "http://127.0.0.1:3"}}, Using: 1, Diverged: api.Float(math.NaN())},
		Shadows: []api.MirrorTarget{shadow("control", "control"), shadow("candidate", "candidate")}, Requests: 1000, Skipped: map[string]uint64{}, Failed: map[string]uint64{},
		Settings: api.MirrorSettings{Share: 1},
	}
}
