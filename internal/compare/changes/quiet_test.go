package changes

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"tailscope/internal/compare"
	"tailscope/internal/series"
	"tailscope/stat"
)

// The durations of what has no spike are read once: what is searched in them by the way is what a
// search of their own finds.
func TestQuietDurationsAreReadOnce(t *testing.T) {
	st := flow(t, rand.New(rand.NewPCG(57, 1)), 720, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), from(400, 1, 1.4)}, traffic{"shop", "GET /", always(20), always(0.01), nil})
	r := asked(0, 7200)
	s, err := compare.Read(t.Context(), st, compare.Request{Selection: r.Selection, Now: r.Now, Measures: measures, Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	quiet, points := 0, 0
	_, err = takeSpikes(t.Context(), s, wholes(s, s.Parts()), func(p compare.Part, of *stat.Series) error {
		mu.Lock()
		defer mu.Unlock()
		quiet++
		durations, slots := of.WithoutEmpty()
		got, err := searchDurations(s, p, durations, slots, discovery)
		if err != nil {
			return err
		}
		want, err := searchPart(s, p, Durations, discovery)
		if points += len(want.points); !reflect.DeepEqual(got, want) {
			t.Errorf("%s %q: %+v, want %+v", p.Service, p.Operation, got, want)
		}
		return err
	})
	if err != nil || quiet < 2 || points == 0 {
		t.Errorf("%d parts are quiet with %d changes, %v; want some of each", quiet, points, err)
	}
}
