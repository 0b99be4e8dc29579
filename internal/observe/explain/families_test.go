package explain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Any distribution can be explained, in buckets of its own; numbers cannot.
func TestMetrics(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(9, 9))
	w.Family(store.FamilyInfo{Name: "wait_seconds", Kind: series.Distribution})
	w.Family(store.FamilyInfo{Name: "room_celsius", Kind: series.Gauge})
	w.Number(epoch*1000, series.Series{Family: "room_celsius", Kind: series.Gauge, Labels: labels.FromStrings("room", "a")}, 20)
	for slot := range int64(360) {
		for _, pool := range []string{"a", "b", "c"} {
			h, err := hist.NewExplicit([]float64{0.01, 0.1, 1})
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				v := 0.05 * rng.Float64()
				if rng.Float64() < 0.05 || pool == "b" && rng.Float64() < 0.3 {
					v = 0.5
				}
				if err := h.Record(v); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Merge(epoch+slot*10, series.Series{Family: "wait_seconds", Labels: labels.FromStrings("pool", pool, "host", fmt.Sprint("h", slot%7))}, h); err != nil {
				t.Fatal(err)
			}
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	r := ask(0, 3600, 0.3, 0.6)
	r.Family, r.Matchers = "wait_seconds", nil
	out := explained(t, st, r)
	if got := said(out); len(got) != 1 || got[0] != "pool b" || out.Low != 0.1 || out.High != 1 || !strings.Contains(out.Items[0].Sentence, "of the observations inside") {
		t.Errorf("%v: %+v", got, out)
	}
	r.Family = "room_celsius"
	if _, err := Explain(t.Context(), st, r); err == nil || !strings.Contains(err.Error(), "gauge, which has no distribution") {
		t.Errorf("of a gauge: %v", err)
	}
}

// More tenants than can be read one by one: the heaviest are, and all other
// labels as ever.
func TestManyTenants(t *testing.T) {
	st := send(t, 10, 360, 60, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if n := rng.IntN(60); n > 10 && tenant != "acme" {
			tenant = fmt.Sprint("small-", n)
		}
		if tenant == "acme" {
			seconds *= 20
		}
		return operation, tenant, status, instance, seconds
	})
	r := ask(0, 3600, 0.15, inf)
	all := explained(t, st, r)
	if got := said(all); len(got) != 1 || got[0] != "tenant acme" || all.LabelsTried != 4+5+49+3 {
		t.Fatalf("of all: %v of %d labels, %v", got, all.LabelsTried, all.Notes)
	}
	r.most = 60
	few := explained(t, st, r)
	if got := said(few); len(got) != 1 || got[0] != "tenant acme" || few.LabelsTried != 4+10+3 || few.Inside != all.Inside || few.Outside != all.Outside {
		t.Errorf("of few: %v of %d labels", got, few.LabelsTried)
	}
	if !strings.Contains(strings.Join(few.Notes, " "), "of tenants only the 10 with the most requests were looked at") {
		t.Errorf("%v", few.Notes)
	}
	if few.Items[0].Effect != all.Items[0].Effect || few.Items[0].EffLow != all.Items[0].EffLow {
		t.Errorf("%+v, of all %+v", few.Items[0], all.Items[0])
	}
	r.most = 15
	if out := explained(t, st, r); len(out.Items) != 0 || !strings.Contains(strings.Join(out.Notes, " "), "too many series of tenants") {
		t.Errorf("of none: %v, %v", said(out), out.Notes)
	}
	r.most = 5
	if _, err := Explain(t.Context(), st, r); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("of nothing at all: %v", err)
	}
}
