package changes

import (
	"slices"
	"testing"

	"tailscope/api"
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
