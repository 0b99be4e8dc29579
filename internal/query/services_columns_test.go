package query

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

// An answer of columns that were kept and of those that are new is that of all columns: of
// services that begin, end, and serve requests late or no more.
func TestKeptColumnsAreThoseOfAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	st, w := storetest.NewTwin(), querytest.NewWriter()
	const seconds = 2400
	for second := int64(0); second < seconds; second += 5 {
		for _, s := range []struct {
			name, kind string
			from, to   int64
		}{{"shop", "server", 0, seconds}, {"shop", "client", 0, seconds}, {"ended", "server", 0, 900}, {"begun", "server", 2300, seconds}, {"late", "internal", 0, seconds}, {"late", "server", 2300, seconds}, {"early", "server", 0, 900}, {"early", "internal", 0, seconds}} {
			if second >= s.from && second < s.to {
				w.Span(epoch+second, labels.FromStrings("service", s.name, "kind", s.kind, "status", []string{"ok", "error"}[rng.IntN(2)]), 0.01*math.Exp(rng.NormFloat64()))
			}
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	past := &PastCache{}
	for _, c := range []struct{ end, later int64 }{{2340, 0}, {2341, 0}, {2350, 0}, {2370, 0}, {2400, 0}, {2115, 3600}, {2130, 3600}, {2340, 60}} { // asked about so much later
		end, later := c.end, c.later
		ask := func(past *PastCache) string {
			sv, err := Services(t.Context(), st, ServicesRequest{
				Selection: Selection{Start: at(epoch + end - 1800), End: at(epoch + end)}, Grid: Grid{Width: 60}, Now: at(epoch + end + later), Rows: 16, Past: past, Quantiles: []Quantile{{"0.95", 0.95}},
			})
			if err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(sv)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got, want := ask(past), ask(nil); got != want {
			t.Errorf("up to %d, %d s later:\ngot  %s\nwant %s", end, later, got, want)
		}
	}
}

// What is usual by minutes that were kept and those that are new is that by all minutes.
func TestKeptMinutesAreThoseOfAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	st, w := storetest.NewTwin(), querytest.NewWriter()
	const seconds = 5400
	for second := int64(0); second < seconds; second += 15 {
		if second >= 1200 && second < 1500 { // nothing is measured
			continue
		}
		for _, s := range []struct {
			name, kind string
			from, to   int64
		}{{"shop", "server", 0, seconds}, {"ended", "server", 0, 1800}, {"begun", "server", 3660, seconds}, {"late", "internal", 0, seconds}, {"late", "server", 4000, seconds}} {
			if second >= s.from && second < s.to {
				w.Span(epoch+second, labels.FromStrings("service", s.name, "kind", s.kind, "status", []string{"ok", "error"}[rng.IntN(2)]), 0.01*math.Exp(rng.NormFloat64()))
			}
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	kept := &UsualCache{}
	for end := int64(3000); end <= seconds; end += 60 {
		ask := func(usual *UsualCache) string {
			sv, err := Services(t.Context(), st, ServicesRequest{
				Selection: Selection{Start: at(epoch + end - 1800), End: at(epoch + end)}, Now: at(epoch + end + 12), Usual: usual,
				Target: func(service string) (float64, bool) { return 0.02, service == "shop" },
			})
			if err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(sv)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got, want := ask(kept), ask(nil); got != want {
			t.Errorf("up to %d:\ngot  %s\nwant %s", end, got, want)
		}
	}
}
