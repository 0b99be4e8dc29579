package query

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

// A rate is over the time in which requests were measured: neither the time before the
// first counts, nor a gap, nor slots of which not all is stored; a quiet service's
// pauses do.
func TestRatesAreOverTheTimeThatHasData(t *testing.T) {
	const hour = 3600
	begin := int64(querytest.Epoch)
	for _, c := range []struct {
		name       string
		every      int64                   // seconds between two requests
		up         func(second int64) bool // of two hours
		start, end int64
		now        int64 // 0: long after
		want       float64
	}{
		{"all of it", 1, func(int64) bool { return true }, 0, 2 * hour, 0, 1},
		{"a day before the data", 1, func(int64) bool { return true }, -24 * hour, 2 * hour, 0, 1},
		{"a month before the data", 1, func(int64) bool { return true }, -30 * 24 * hour, 2 * hour, 0, 1},
		{"half an hour of a day", 1, func(s int64) bool { return s >= 5*hour/4 && s < 7*hour/4 }, -22 * hour, 2 * hour, 0, 1},
		{"stopped for half an hour", 1, func(s int64) bool { return s < hour || s >= 3*hour/2 }, 0, 2 * hour, 0, 1},
		{"paused for a minute", 1, func(s int64) bool { return s < hour || s >= hour+60 }, 0, 2 * hour, 0, 1 - 60.0/(2*hour)},
		{"one in two minutes", 120, func(int64) bool { return true }, 0, 2 * hour, 0, 1.0 / 120},
		{"one in ten minutes", 600, func(int64) bool { return true }, 0, 2 * hour, 0, 1.0 / 600},
		{"up to now, in a slot", 1, func(s int64) bool { return s < hour-3 }, 3 * hour / 4, hour, hour, 1},
		{"a minute up to now", 1, func(s int64) bool { return s < hour-3 }, hour - 60, hour, hour, 1},
		{"a minute up to now, begun a minute ago", 1, func(s int64) bool { return s >= hour-60 && s < hour-3 }, 0, hour, hour, 1},
	} {
		st := storetest.NewTwin()
		w := querytest.NewWriter()
		for s := int64(0); s < 2*hour; s += c.every {
			if c.up(s) && (c.now == 0 || s < c.now) {
				w.Span(begin+s, labels.FromStrings("service", "shop", "operation", "GET /", "component", "app", "kind", "server", "status", "ok"), 0.1)
			}
		}
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		now := time.Time{}
		if c.now != 0 {
			now = time.Unix(begin+c.now, 0)
		}
		sel := Selection{Start: time.Unix(begin+c.start, 0), End: time.Unix(begin+c.end, 0)}
		services, err := Services(t.Context(), st, ServicesRequest{Selection: sel, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(services.Services[0].Rate); math.Abs(got/c.want-1) > 0.011 {
			t.Errorf("%s: %v services' requests a second, want %v", c.name, got, c.want)
		}
		operations, err := Operations(t.Context(), st, OperationsRequest{Selection: sel, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(operations.Rows[0].Rate); math.Abs(got/c.want-1) > 0.011 {
			t.Errorf("%s: %v operations' calls a second, want %v", c.name, got, c.want)
		}
	}
}
