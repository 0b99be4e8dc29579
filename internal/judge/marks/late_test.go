package marks

import (
	"math"
	"testing"

	"tailscope/internal/query"
	"tailscope/internal/series"
)

// Of what requests take more, each called service has its own share, by the time that is spent
// in it alone, however many environments there are; and one that is called more often says so.
func TestCalledServices(t *testing.T) {
	part := func(environment, service, component, operation string, calls, before, after float64) query.PartSlots {
		return query.PartSlots{
			Service: "shop", Environment: environment, Part: query.PartName{Service: service, Component: component, Operation: operation},
			Requests: []float64{100, 100, 50}, Calls: []float64{100, 100, 50 * calls}, Seconds: []float64{100 * before, 100 * before, 50 * after},
		}
	}
	type share struct {
		service     string
		of, oftener float64
	}
	const app = series.ComponentApp
	for _, c := range []struct {
		name  string
		parts []query.PartSlots
		want  []share
	}{
		{"its own code", []query.PartSlots{part("", "shop", app, "GET /", 1, 0.01, 0.02), part("", "stock", app, "GET /stock", 1, 0.01, 0.01)}, []share{{"stock", 0, 1}}},
		{"a called one's database", []query.PartSlots{
			part("", "shop", app, "GET /", 1, 0.01, 0.01), part("", "stock", app, "GET /stock", 1, 0.01, 0.01), part("", "stock", "postgresql", "SELECT stock", 5, 0.01, 0.05),
		}, []share{{"stock", 1, 1}}},
		{"called twice as often", []query.PartSlots{part("", "shop", app, "GET /", 1, 0.01, 0.01), part("", "stock", app, "GET /stock", 2, 0.01, 0.02)}, []share{{"stock", 1, 2}}},
		{"two of them, in two environments", []query.PartSlots{
			part("a", "shop", app, "GET /", 1, 0.01, 0.01), part("a", "stock", app, "GET /stock", 1, 0.01, 0.04), part("a", "users", app, "GET /user", 1, 0.01, 0.02),
			part("b", "shop", app, "GET /", 1, 0.01, 0.01), part("b", "stock", app, "GET /stock", 1, 0.01, 0.04), part("b", "users", app, "GET /user", 1, 0.01, 0.02),
		}, []share{{"stock", 0.75, 1}, {"users", 0.25, 1}}},
	} {
		all := map[string][]float64{}
		for i := range c.parts {
			p := &c.parts[i]
			if all[p.Environment] == nil {
				all[p.Environment] = make([]float64, len(p.Seconds))
			}
			for k, s := range p.Seconds {
				all[p.Environment][k] += s
			}
			p.OfAll = all[p.Environment]
		}
		got, whole := calledOf(c.parts, "shop", [2]int{0, 2}, [2]int{2, 3})
		same := len(got) == len(c.want)
		for i := 0; same && i < len(got); i++ {
			same = got[i].service == c.want[i].service && math.Abs(got[i].share(whole)-c.want[i].of) < 1e-9 && math.Abs(got[i].calls[1]/got[i].calls[0]-c.want[i].oftener) < 1e-9
		}
		if !same {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got, _ := calledOf(nil, "shop", [2]int{0, 2}, [2]int{2, 3}); got != nil {
		t.Errorf("of no parts: %v", got)
	}
}
