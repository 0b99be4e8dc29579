package legs

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestGrid(t *testing.T) {
	for _, tc := range []struct{ start, end, from, step, n int64 }{
		{epoch, epoch + 1800, epoch, 10, 180},
		{epoch + 7, epoch + 1800, epoch, 10, 180},
		{epoch, epoch + 7200, epoch, 10, 720},
		{epoch, epoch + 7201, epoch, 60, 121},
		{epoch + 130, epoch + 12*3600, epoch + 120, 60, 718},
		{epoch, epoch + 86400, epoch, 600, 144},
		{epoch, epoch + 30*86400, epoch, 3600, 720},
		{epoch, epoch + 365*86400, epoch, 3600, 8760},
	} {
		if g := gridOf(tc.start, tc.end); g.start != tc.from || g.step != tc.step || int64(g.n) != tc.n {
			t.Errorf("[%d, %d): %+v, want from %d %d slots of %d s", tc.start-epoch, tc.end-epoch, g, tc.from-epoch, tc.n, tc.step)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		start := epoch + rapid.Int64Range(0, 1e6).Draw(t, "start")
		end := start + rapid.Int64Range(1, 1e7).Draw(t, "length")
		g := gridOf(start, end)
		for _, r := range series.Resolutions {
			c := g.coarser(r)
			if c.step < int64(r) || c.step < g.step || c.start > start || c.end() < end || c.start%c.step != 0 || c.start+c.step <= start || c.end()-c.step >= g.end() {
				t.Fatalf("[%d, %d) in %+v, no shorter than %d: %+v", start, end, g, r, c)
			}
		}
	})
}

// Where tenants are many they are read in slots of a minute, everything else in
// those of ten seconds, and no request is missed.
func TestManyTenants(t *testing.T) {
	const tenants, slots = 112, 180
	st, w := storetest.NewTwin(), querytest.NewWriter()
	h := hist.New(hist.DefaultSchema)
	if err := h.Record(0.02); err != nil {
		t.Fatal(err)
	}
	requests := uint64(0)
	for slot := range slots {
		for tenant := slot % 6; tenant < tenants; tenant += 6 {
			requests++
			for _, variant := range []string{"primary", "control", "candidate"} {
				s := series.Series{Family: familyDuration, Labels: labels.FromStrings("service", "shop", "experiment", "x", "operation", "GET /", "tenant", fmt.Sprint("t", tenant), "variant", variant, "status", "ok")}
				if err := w.Merge(epoch+int64(slot)*10, s, h); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	d, err := read(t.Context(), st, question{service: "shop", id: "x", control: "control", primary: "primary"}, gridOf(epoch, epoch+slots*10))
	if err != nil {
		t.Fatal(err)
	}
	if d.n != slots || d.tenantStep != 60 || len(d.tenants) != tenants || len(d.operations) != 1 {
		t.Errorf("%d slots, tenants in slots of %d s; %d tenants, %d operations", d.n, d.tenantStep, len(d.tenants), len(d.operations))
	}
	total := uint64(0)
	for _, r := range d.tenants {
		l := r.duration[legKey{variant: "candidate"}]
		total += l.good
		if len(l.ok) != slots/6 {
			t.Fatalf("a tenant has %d slots", len(l.ok))
		}
	}
	if whole := d.duration[legKey{variant: "candidate"}].good; total != requests || whole != requests {
		t.Errorf("%d requests of tenants, %d of everything, want %d", total, whole, requests)
	}
}

// coarse keeps slots of a minute only.
type coarse struct{ store.Store }

func (c coarse) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	res, err := c.Store.Query(ctx, q)
	if err == nil {
		res.Resolution = series.Minute
	}
	return res, err
}

func TestOldSessionsAreReadInLongerSlots(t *testing.T) {
	st := storetest.NewTwin()
	legstest.Session{Seed: 1, Slots: 60, Per: 20, Noise: 0.2}.Put(t, st, "x")
	d, err := read(t.Context(), coarse{st}, question{service: "shop", id: "x", control: "control", primary: "primary"}, gridOf(epoch, epoch+600))
	if err != nil {
		t.Fatal(err)
	}
	if d.step != 60 || d.n != 10 || d.duration[legKey{variant: "control"}].good != 60*20 {
		t.Errorf("%d slots of %d s, %+v", d.n, d.step, d.duration)
	}
}
