package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/internal/query/querytest"
)

// The rate of a side is that of the time since there were data; what is only
// rare, or ended, has been there all the time.
func TestRateSinceTheDataBegan(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int64 // of 3600 s
		every    int64
		want     float64
	}{
		{"all the time", 0, 3600, 10, 0.6},
		{"began", 3400, 3600, 10, 0.6},
		{"began, but it is too short to tell", 3500, 3600, 10, 60. / 3600},
		{"ended", 0, 1800, 10, 0.3},
		{"rare", 300, 3600, 60, 6 * 55. / 3600},
		{"began rare", 1800, 3600, 60, 6 * 30. / 1800},
	} {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(17, 1))
		for slot := epoch + c.from; slot < epoch+c.to; slot += c.every {
			send(w, rng, slot, slot+10, load{operation: "GET /cart", perSlot: 6, median: 0.1})
		}
		r := &comparison{Request: Request{Selection: selection()}, st: stored(t, w)}
		if err := r.check(); err != nil {
			t.Fatal(err)
		}
		s, err := r.read(t.Context(), span{epoch, epoch + 3600}, 10)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(s.api().Rate); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v/s, want %v", c.name, got, c.want)
		}
	}
}
