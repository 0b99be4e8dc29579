package query

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/seconds"
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

// In its first minutes the rate of a service is over the time since its first request,
// whatever range is asked for, wherever in a slot it began, and however late senders are.
func TestRatesOfNewServices(t *testing.T) {
	const perSecond = 40
	begin := int64(querytest.Epoch) + 3600
	shop := labels.FromStrings("service", "shop", "operation", "GET /", "component", "app", "kind", "server", "status", "ok")
	for _, batch := range []int64{1, 5} { // seconds that senders collect
		for _, offset := range []int64{0, 4, 9} { // of the first request in its slot
			first := begin + offset
			for _, age := range []int64{10, 13, 20, 37, 60, 119, 301, 640} {
				now := time.Unix(first+age, 0)
				st, w := storetest.NewTwin(), querytest.NewWriter()
				clock := first - 1
				ring := seconds.New(seconds.Options{Now: func() time.Time { return time.Unix(clock, 0) }})
				for ; clock < now.Unix(); clock++ {
					// What ended since the last batch comes at the end of a second.
					log, _ := ring.Begin()
					if clock%batch == batch-1 {
						for s := max(first, clock-batch+1); s <= clock; s++ {
							for range perSecond {
								w.Span(s, shop, 0.1)
								log = append(log, seconds.Observation{Series: ring.Number(shop), Weight: 1, Second: uint32(s), Came: uint32(clock), Nanos: 1e8})
							}
						}
					}
					ring.End(log, 0)
					ring.Fold()
				}
				if err := w.Put(t.Context(), st, 1); err != nil {
					t.Fatal(err)
				}
				for _, length := range []time.Duration{5 * time.Minute, time.Hour, 7 * 24 * time.Hour} {
					sel := Selection{Start: now.Add(-length), End: now}
					services, err := Services(t.Context(), st, ServicesRequest{Selection: sel, Now: now, Newest: ring})
					if err != nil {
						t.Fatal(err)
					}
					if got := float64(services.Services[0].Rate); math.Abs(got/perSecond-1) > 0.05 {
						t.Errorf("batches of %d s, begun %d s into a slot, after %d s, range %s: %v services' requests a second, want %v", batch, offset, age, length, got, perSecond)
					}
					operations, err := Operations(t.Context(), st, OperationsRequest{Selection: sel, Now: now, Newest: ring})
					if err != nil {
						t.Fatal(err)
					}
					if got := float64(operations.Rows[0].Rate); math.Abs(got/perSecond-1) > 0.05 {
						t.Errorf("batches of %d s, begun %d s into a slot, after %d s, range %s: %v operations' calls a second, want %v", batch, offset, age, length, got, perSecond)
					}
				}
			}
		}
	}
}

// The time before the first request of a service counts if it had requests on the day
// The time before the first request of a service counts unless it had none on the day
// before: then it is new.
func TestRatesOfIdleServices(t *testing.T) {
	begin := int64(querytest.Epoch)
	of := func(service string) labels.Labels {
		return labels.FromStrings("service", service, "operation", "GET /", "component", "app", "kind", "server", "status", "ok")
	}
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for s := int64(0); s < 4*3600; s++ {
		w.Span(begin+s, of("old"), 0.1)
		if s < 3600 || s >= 3*3600 {
			w.Span(begin+s, of("idle"), 0.1)
		}
		if s >= 3*3600 {
			w.Span(begin+s, of("new"), 0.1)
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	services, err := Services(t.Context(), st, ServicesRequest{Selection: Selection{Start: time.Unix(begin+2*3600, 0), End: time.Unix(begin+4*3600, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"old": 1, "idle": 0.5, "new": 1}
	for _, s := range services.Services {
		if got := float64(s.Rate); math.Abs(got/want[s.Name]-1) > 0.011 {
			t.Errorf("%s: %v requests a second, want %v", s.Name, got, want[s.Name])
		}
	}
}
