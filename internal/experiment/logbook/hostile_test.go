package logbook

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query"
	"tailscope/internal/store/storetest"
)

// Reports that make no sense are refused, or kept and judged without harm.
func TestReportsThatMakeNoSense(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	nan, far := api.Float(math.NaN()), api.Float(1e300)
	s := legstest.Steady
	s.Slots, s.Operations = 30, 0
	for i, change := range []func(*api.SessionReport){
		func(p *api.SessionReport) { p.Start = 9e10 },
		func(p *api.SessionReport) { p.Mirror.Shadows[1].Account = nil },
		func(p *api.SessionReport) { p.Mirror.Shadows[1].Account = &api.MirrorAccount{} },
		func(p *api.SessionReport) {
			*p.Mirror.Shadows[1].Account = api.MirrorAccount{Offered: 1, Answered: 1, Unpaired: math.MaxUint64, Buffered: -1,
				Dropped: map[string]uint64{"a": math.MaxUint64, "b": math.MaxUint64}, Failed: map[string]uint64{strings.Repeat("x", 9999): 1}}
		},
		func(p *api.SessionReport) { p.Mirror.Shadows[1].Amplify, p.Mirror.Shadows[1].Diverged = nan, far },
		func(p *api.SessionReport) { p.Mirror.Shadows[0].Amplify, p.Mirror.Shadows[0].Diverged = -far, -far },
		func(p *api.SessionReport) { p.Mirror.Settings = api.MirrorSettings{Share: nan, Paused: true} },
		func(p *api.SessionReport) { p.Mirror.Applied = math.MaxUint64 },
		func(p *api.SessionReport) { p.Mirror.Shadows = nil },
		func(p *api.SessionReport) { p.Mirror.Shadows = p.Mirror.Shadows[:1] },
		func(p *api.SessionReport) { p.Mirror.Shadows = p.Mirror.Shadows[1:] },
		func(p *api.SessionReport) { p.Mirror.Primary.Name = "other" },
		func(p *api.SessionReport) { p.Mirror.Skipped = map[string]uint64{"": math.MaxUint64} },
	} {
		id := fmt.Sprint("x", i)
		s.Put(t, st, id)
		*c = *newClock()
		r := New(Options{Store: st, Now: c.read})
		p := report(epoch)
		p.Mirror = legstest.State()
		change(&p)
		if _, err := r.Report(ctx, id, p); err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		c.forward(325 * time.Second)
		p.Ended = i%2 == 0
		if _, err := r.Report(ctx, id, p); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if _, err := r.Change(ctx, id, api.MirrorChange{Stop: true}); err != nil && query.AsError(err) == nil {
			t.Errorf("%d: %v", i, err)
		}
		v, err := r.Verdict(ctx, VerdictRequest{ID: id})
		if err != nil && query.AsError(err) == nil {
			t.Errorf("%d: %v", i, err)
		}
		x, gone := r.Get(ctx, id)
		all, lost := r.List(ctx, ListRequest{Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
		if gone != nil || lost != nil || len(all.Sessions) == 0 {
			t.Errorf("%d: %v, %v", i, gone, lost)
		}
		for _, answer := range []any{v, x, all} {
			if _, err := json.Marshal(answer); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := r.Round(ctx); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}
