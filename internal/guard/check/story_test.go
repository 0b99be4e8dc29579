package check

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/store/storetest"
)

const ofShop = `
receivers:
  log: {file: {path: events.log}}
checks:
  told:
    value: {tcp: {address: "shop:80"}}
    every: 10s
    soft: 1
    threshold: {must: "<", of: 1, warning: 0, critical: 100%}
    labels: {service: shop}
    receivers: [log]
  quiet:
    value: {tcp: {address: "shop:80"}}
    every: 10s
    soft: 1
    threshold: {must: "<", of: 1, critical: 0}
    labels: {service: shop}
`

// What a check of a service tells is since the earliest moment of what is told of it: of its own
// incident, and of the change that made the service worse, also where that is found later, and
// where another one follows.
func TestIncidentIsSinceItsStory(t *testing.T) {
	for _, c := range []struct {
		name string
		// changes by when they are found and when they were, from the start of the world on
		found, was []time.Duration
		want       string // since when both incidents are, and what the receiver is told of one
	}{
		{"nothing is found", nil, nil, "60 60, opened 60, changed 60, resolved 60"},
		{"before it opens", []time.Duration{0}, []time.Duration{20 * time.Second}, "20 20, opened 20: Slow at 20, changed 20: Slow at 20, resolved 20"},
		{"some minutes later", []time.Duration{5 * time.Minute}, []time.Duration{20 * time.Second}, "20 20, opened 60, changed 20: Slow at 20, resolved 20"},
		{"after it opened", []time.Duration{5 * time.Minute}, []time.Duration{2 * time.Minute}, "60 60, opened 60, changed 60: Slow at 120, resolved 60"},
		{"another follows", []time.Duration{0, 5 * time.Minute}, []time.Duration{20 * time.Second, 2 * time.Minute}, "20 20, opened 20: Slow at 20, changed 20: Slow at 120, resolved 20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				after := func(at time.Time) int64 { return int64(at.Sub(begun).Round(10 * time.Second).Seconds()) }
				w := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}
				w.o.Story = func(_ context.Context, service, environment string, opened, until time.Time) (out Story, err error) {
					if service != "shop" || environment != "" || after(opened) != 60 {
						t.Errorf("asked for %s %q, opened at %v", service, environment, opened)
					}
					for i, found := range c.found {
						if was := begun.Add(c.was[i]); time.Since(begun) >= found && !was.After(until) {
							out = Story{fmt.Sprintf("Slow at %d", after(was)), was}
						}
					}
					return out, nil
				}
				w.probe.set("shop:80", 0.5)
				w.open(ofShop)
				time.Sleep(55 * time.Second)
				w.probe.set("shop:80", 1.5)
				time.Sleep(8 * time.Minute)
				w.probe.set("shop:80", 2.5)
				time.Sleep(time.Minute)
				var since []string
				for _, id := range []string{"told", "quiet"} {
					r, err := w.Get(t.Context(), GetRequest{ID: id})
					if err != nil {
						t.Fatal(err)
					}
					in := r.Check.Incident
					if in == nil || after(in.Start.Time()) != 60 || r.Check.Since != in.Since && (in.Since < in.Start || id == "quiet") {
						t.Fatalf("%s is since %v, its incident is %+v", id, r.Check.Since, in)
					}
					since = append(since, fmt.Sprint(after(in.Since.Time())))
				}
				w.probe.set("shop:80", 0.5)
				time.Sleep(time.Minute)
				w.stop()
				got := strings.Join(since, " ")
				for _, v := range w.notes.events {
					got += fmt.Sprintf(", %s %d", v.Kind, after(v.Since))
					if _, story, ok := strings.Cut(v.Text, ". "); ok {
						got += ": " + story
					}
				}
				w.expect(got, c.want)
			})
		})
	}
}
