package changes

import (
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// What surely came first is before what came later, whoever calls whom; of what came
// together the called are before their callers.
func TestServicesOfAnEventAreInOrder(t *testing.T) {
	calls := map[string]map[string]bool{"shop": {"cart": true, "db": true}, "cart": {"db": true}}
	for _, c := range []struct {
		services []moved
		want     []string
	}{
		{[]moved{{service: "cart", low: 10, high: 30}, {service: "db", low: 20, high: 30}, {service: "shop", low: 0, high: 30}}, []string{"db", "cart", "shop"}},
		{[]moved{{service: "db", low: 40, high: 50}, {service: "shop", low: 10, high: 20}}, []string{"shop", "db"}},
		{[]moved{{service: "b", low: 10, high: 30}, {service: "a", low: 0, high: 20}}, []string{"a", "b"}}, // neither calls the other
	} {
		var got []string
		for _, s := range inOrder(c.services, calls) {
			got = append(got, s.service)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// Changes of one event have a moment in common; a chain of neighbours is not one event.
func TestEventsHaveAMomentInCommon(t *testing.T) {
	all := []api.Change{
		{ID: "a", Service: "a", Time: 100, Low: 90, High: 110}, {ID: "b", Service: "b", Time: 140, Low: 130, High: 150},
		{ID: "c", Service: "c", Time: 180, Low: 170, High: 190}, {ID: "d", Service: "d", Time: 900, Low: 890, High: 910},
	}
	var got [][]string
	for _, e := range eventsOf(all, 10) {
		var ids []string
		for _, c := range e.changes {
			ids = append(ids, c.ID)
		}
		got = append(got, ids)
	}
	if len(got) != 1 || !slices.Equal(got[0], []string{"a", "b"}) {
		t.Errorf("events %v, want a and b alone", got)
	}
}

// An operation that changes a little later than its service, and not with it, is of one event
// with it; one that changed at both moments, or the other way, is not.
func TestOperationsAreOfTheirServicesEvent(t *testing.T) {
	whole := api.Change{ID: "whole", Service: "a", Time: 1000, Low: 980, High: 1040, Found: []string{Errors}, Verdict: judge.Regression}
	one := api.Change{ID: "one", Service: "a", Operation: "GET /cart", Time: 1560, Low: 1150, High: 1700, Found: []string{Errors}, Verdict: judge.Regression,
		Before: api.Range{Start: 0, End: 1150}, After: api.Range{Start: 1700, End: 4000}}
	for _, c := range []struct {
		name   string
		change func(*api.Change)
		want   int // events
	}{
		{"it is", func(*api.Change) {}, 1},
		{"changed with its service too", func(c *api.Change) { c.Before.Start = 1010 }, 0},
		{"another way", func(c *api.Change) { c.Verdict = judge.Improvement }, 0},
		{"another thing", func(c *api.Change) { c.Found = []string{Durations} }, 0},
		{"of another service", func(c *api.Change) { c.Service = "b" }, 0},
		{"much later", func(c *api.Change) { c.Low, c.Time = 1400, 1600 }, 0},
	} {
		all := []api.Change{whole, one}
		c.change(&all[1])
		if got := len(eventsOf(all, 10)); got != c.want {
			t.Errorf("%s: %d events, want %d", c.name, got, c.want)
		}
	}
}

// Three services of an event are named and the others counted, as they are written; each is
// said once. A service and its only operation are no event.
func TestEventsInWords(t *testing.T) {
	change := func(service, operation string) api.Change {
		return api.Change{ID: service + operation, Service: service, Operation: operation, Time: 100, Low: 90, High: 110}
	}
	parts := []compare.Part{{Service: "shop"}, {Service: "shop", Operation: "GET /", Own: true}, {Service: "cart"}, {Service: "cart", Operation: "GET /", Own: true}, {Service: "cart", Operation: "POST /", Own: true}}
	for _, c := range []struct {
		changes []api.Change
		want    []string // beginnings of sentences
	}{
		{[]api.Change{change("shop", ""), change("shop", "GET /")}, nil},
		{[]api.Change{change("cart", ""), change("cart", "GET /")}, []string{"2 changes of cart at one moment, at "}},
		{[]api.Change{change("a", ""), change("b", ""), change("c", ""), change("d", ""), change("e", "")}, []string{"a, b, c and 2 more services changed at one moment, at "}},
		{[]api.Change{change("d", ""), change("c", "")}, []string{"c and d changed at one moment, at "}},
	} {
		out := &api.ChangesResponse{Slot: 10, Changes: c.changes}
		if err := describeEvents(t.Context(), storetest.NewTwin(), out, parts); err != nil {
			t.Fatal(err)
		}
		if len(out.Events) != len(c.want) {
			t.Errorf("events %+v, want %q", out.Events, c.want)
			continue
		}
		for i, e := range out.Events {
			if !strings.HasPrefix(e.Sentence, c.want[i]) {
				t.Errorf("%q, want %q", e.Sentence, c.want[i])
			}
		}
	}
	of := &api.ChangeEvent{Services: []api.ChangeService{{Service: "stock", CalledBy: []string{"shop"}}, {Service: "shop"}}}
	if got := eventText(of, 2, []moved{{service: "stock", environment: "production", low: 0, high: 9}, {service: "shop", low: 0, high: 9}}); got != "stock in production and shop changed at one moment; shop calls stock" {
		t.Errorf("%q", got)
	}
}

// A mark made from a change is not a cause of what changed with it, and events name the
// change by the id that it goes by.
func TestOwnMarksAreNoCauses(t *testing.T) {
	deploy := store.Mark{ID: "deploy", Name: "deploy"}
	confirmed := store.Mark{ID: "a", Name: "a changed"}
	c := api.Change{ID: "b", Service: "b", Time: 120, Low: 110, High: 130}
	decided := []decision{{ID: "a", Service: "a", Low: 80, High: 100, Status: Confirmed, Mark: "a"}}
	if got := withoutOwn(&c, 10, []store.Mark{confirmed, deploy}, decided); len(got) != 1 || got[0].ID != "deploy" {
		t.Errorf("marks %+v, want the deploy alone", got)
	}
	decided[0].Low, decided[0].High = 20, 40
	if got := withoutOwn(&c, 10, []store.Mark{confirmed, deploy}, decided); len(got) != 2 {
		t.Errorf("marks %+v, want that of another moment too", got)
	}
}

// Who dismisses a change dismisses with it those of its service that stand under it; one of
// another service leads itself then, and one that was decided of by itself stays.
func TestDismissedWithItsLead(t *testing.T) {
	lead := api.Change{ID: "lead", Service: "shop", Status: Dismissed}
	for _, c := range []struct {
		name  string
		of    api.Change
		with  bool
		under string
	}{
		{"its operation", api.Change{Service: "shop", Operation: "GET /", Status: New, Under: "lead"}, true, "lead"},
		{"its operation, confirmed", api.Change{Service: "shop", Operation: "GET /", Status: Confirmed, Under: "lead"}, false, "lead"},
		{"another service", api.Change{Service: "cart", Status: New, Under: "lead"}, false, ""},
		{"another environment", api.Change{Service: "shop", Environment: "staging", Status: New, Under: "lead"}, false, ""},
		{"under another", api.Change{Service: "shop", Status: New, Under: "other"}, false, "other"},
	} {
		if with := withLead(&c.of, map[string]*api.Change{"lead": &lead}); with != c.with || c.of.Under != c.under {
			t.Errorf("%s: dismissed %v, under %q; want %v, %q", c.name, with, c.of.Under, c.with, c.under)
		}
	}
}
