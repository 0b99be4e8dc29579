package httpapi

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/proc"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/pebblestore"
)

// What a live first page of 200 services and 10,000 tenants costs for each of those who look at
// it: an op is a second of one viewer, who asks as the page does, for the services every ten
// seconds and, in changes=true, for what changed every five minutes. cpu-ms/op is what counts;
// run it with -benchtime 1200x, all that is kept, or a multiple of it.
func BenchmarkLiveServices(b *testing.B) {
	const services, tenants, seconds = 200, 10_000, 3 * 3600
	ctx := context.Background()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	rng := rand.New(rand.NewPCG(7, 8))
	for from := int64(0); from < seconds; from += 600 {
		w := querytest.NewWriter()
		for slot := from; slot < from+600; slot += 10 {
			for i := range services {
				for k := range 12 {
					w.Span(benchStart+slot, labels.FromStrings("service", fmt.Sprintf("service-%03d", i), "kind", []string{"server", "client"}[k%2], "status", []string{"error", "ok"}[min(k, 1)]), 0.01*math.Exp(0.7*rng.NormFloat64()))
				}
			}
			// One has tenants, for whom it is worse at last.
			slow := 0.01
			if slot >= seconds-1500 {
				slow = 0.03
			}
			for range 300 * min(1, slot/(seconds-5400)) {
				w.Span(benchStart+slot, labels.FromStrings("service", "service-000", "kind", "server", "status", "ok", "tenant", fmt.Sprintf("tenant-%05d", rng.IntN(tenants))), slow*math.Exp(0.7*rng.NormFloat64()))
			}
		}
		if err := w.Put(ctx, st, uint64(from/600)+1); err != nil {
			b.Fatal(err)
		}
		if err := st.Maintain(ctx, time.Unix(benchStart+from+630, 0)); err != nil {
			b.Fatal(err)
		}
	}
	const every, everyChange = 10, 300
	for _, c := range []struct {
		last, viewers int64
		changes       bool
	}{{6 * 3600, 1, false}, {3600, 1, false}, {3600, 10, false}, {900, 1, false}, {3600, 1, true}} {
		b.Run(fmt.Sprintf("range=%dm/viewers=%d/changes=%v", c.last/60, c.viewers, c.changes), func(b *testing.B) {
			now := time.Unix(benchStart+seconds-1800, 0)
			h := New(Options{Store: st, Now: func() time.Time { return now }})
			b.ReportAllocs()
			asked, cpu := int64(0), proc.CPU()
			ask := func(question string) {
				asked++
				r := httptest.NewRequest("GET", "/api/v1/"+question, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != 200 {
					b.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			for n := int64(0); b.Loop(); n++ {
				viewer, second := n%c.viewers, n/c.viewers%1200
				now = time.Unix(benchStart+seconds-1800+second, viewer*1e6)
				end := now.Unix() / every * every
				if (second+viewer)%every == 0 {
					ask(fmt.Sprintf("services?start=%d&end=%d&width=60&rows=16", end-c.last, end))
				}
				if c.changes && (second+viewer)%everyChange == 0 {
					ask(fmt.Sprintf("changes?start=%d&end=%d", end-c.last, end))
				}
			}
			b.ReportMetric(float64(asked)/float64(b.N), "questions/op")
			b.ReportMetric((proc.CPU()-cpu).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// A failing check with the label of a service is part of its state while now is the present,
// and of no other service's.
func TestServicesAreJudgedByTheirChecks(t *testing.T) {
	srv, g := guardOver(t, filled(t, pebble(t)), `
checks:
  orders:
    labels: {service: checkout}
    value: {tcp: {address: "queue:5672"}}
    every: 24h
    threshold: {must: "<", of: 10, warning: 0, critical: 100%}
    soft: 1 of 1
`)
	for _, c := range []struct {
		value float64
		end   string
		want  string
	}{
		{3, "now", ""},
		{12, "now", "odd check orders: 12 is above 10"},
		{30, "now", "worse check orders: 30 is above 20"},
		{30, "now-20m", ""},
	} {
		g.set(c.value)
		ask[api.Check](t, srv, "POST", "/check/run?id=orders", "", 200)
		for _, s := range ask[api.ServicesResponse](t, srv, "GET", "/services?start=now-1h&end="+c.end, "", 200).Services {
			got := ""
			if at := strings.Index(s.Why, "check orders"); at >= 0 {
				got = string(s.State) + " " + s.Why[at:]
			}
			want := c.want
			if s.Name != "checkout" {
				want = ""
			}
			if got != want {
				t.Errorf("value %v, %s up to %s: %q, want %q", c.value, s.Name, c.end, got, want)
			}
		}
	}
}

// Those who look at one list share its answer for a second, and others have their own.
func TestAnswersWithStripsAreShared(t *testing.T) {
	clock := now
	st := filled(t, pebble(t))
	srv := serve(t, Options{Store: st, Now: func() time.Time { return clock }})
	requests := func(params string) (n uint64) {
		for _, s := range ask[api.ServicesResponse](t, srv, "GET", fmt.Sprintf("/services?start=%d&end=%d&%s", now.Unix()-3600, now.Unix(), params), "", 200).Services {
			n += s.Requests
		}
		return n
	}
	const live = "width=60&rows=16"
	before := requests(live)
	w := querytest.NewWriter()
	w.Span(now.Unix()-1800, labels.FromStrings("service", "checkout", "kind", "server"), 0.01)
	if err := w.Put(t.Context(), st, 99); err != nil {
		t.Fatal(err)
	}
	if n := requests(live); n != before {
		t.Errorf("%d requests in the same moment, want those of the answer before, %d", n, before)
	}
	for _, other := range []string{"width=60", "width=30&rows=16"} {
		if n := requests(other); n != before+1 {
			t.Errorf("%s: %d requests, want %d", other, n, before+1)
		}
	}
	clock = clock.Add(5 * time.Minute)
	if n := requests(live); n != before+1 {
		t.Errorf("five minutes later: %d requests, want %d", n, before+1)
	}
}
