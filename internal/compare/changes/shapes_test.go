package changes

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/series"
)

// during is a value between two slots, and usual elsewhere.
func during(from, to int, usual, value float64) func(int) float64 {
	return func(slot int) float64 {
		if slot < from || slot >= to {
			return usual
		}
		return value
	}
}

// A spike of one thing hides nothing that stayed: what lasts is a step, errors first, and
// says the spike beside it. What all came back is a spike alone.
func TestSpikesHideNoStep(t *testing.T) {
	const slots, at, end = 360, 150, 210
	for _, c := range []struct {
		name           string
		failed, slow   func(int) float64
		headline, also string
		found          []string
	}{
		{"slow for a while, errors for good", from(at, 0.005, 0.08), during(at, end, 1, 3), "the share of errors of shop is ", "; p50 of shop was ", []string{Errors}},
		{"errors for a while, slow for good", during(at, end, 0.005, 0.5), from(at, 1, 1.45), "p", "the share of errors of shop was ", []string{Durations}},
		{"both for a while", during(at, end, 0.005, 0.08), during(at, end, 1, 3), "the share of errors of shop was ", "then as before", []string{Durations, Errors}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := flow(t, rand.New(rand.NewPCG(51, 1)), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(100), c.failed, c.slow})
			var one *api.Change
			r := found(t, NewFinder(st), asked(0, 10*slots))
			for i := range r.Changes {
				if x := &r.Changes[i]; x.Operation == "" && math.Abs(float64(x.Time)-float64(epoch+10*at)) <= 50 {
					one = x
				} else if x.Operation == "" {
					t.Errorf("found %s beside it", x.Sentence)
				}
			}
			if one == nil {
				t.Fatalf("not found: %+v", r.Changes)
			}
			t.Log(one.Sentence)
			if !strings.HasPrefix(one.Headline, c.headline) || !strings.Contains(one.Headline, c.also) || one.Shape == nil || one.Shape.Kind != judge.Spike || !slices.Equal(one.Found, c.found) {
				t.Errorf("%s: found %q, shape %+v", one.Headline, one.Found, one.Shape)
			}
		})
	}
}
