package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
)

// However many operations are read together, no request is lost, none counted
// twice, and none taken that is not a request of its service.
func TestReadSomeHoldsAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	w := querytest.NewWriter()
	for slot := epoch; slot < epoch+600; slot += 10 {
		for i, x := range []struct{ service, operation, kind string }{
			{"shop", "GET /a", "server"}, {"shop", "GET /b", "server"}, {"shop", "GET /c", "server"}, {"shop", "SELECT", "client"},
			{"jobs", "GET /a", "consumer"}, {"jobs", "sum", "internal"}, {"cron", "tidy", "internal"}, {"cron", "", "internal"},
		} {
			l := labels.FromStrings(series.LabelService, x.service, series.LabelOperation, x.operation, series.LabelKind, x.kind, series.LabelStatus, "ok", series.LabelComponent, "app")
			for range 2 + 2*i {
				w.Span(slot, l, 0.01+0.01*rng.Float64())
			}
		}
	}
	st := stored(t, w)
	for _, c := range []struct {
		name  string
		apart []Part
		want  int // strata
	}{
		{"none", nil, 3},
		{"one", []Part{{Service: "shop", Operation: "GET /b"}}, 4},
		{"of two services", []Part{{Service: "shop", Operation: "GET /a"}, {Service: "jobs", Operation: "GET /a"}}, 4},
		{"all that have a name", []Part{{Service: "shop", Operation: "GET /a"}, {Service: "shop", Operation: "GET /b"}, {Service: "shop", Operation: "GET /c"}, {Service: "jobs", Operation: "GET /a"}, {Service: "cron", Operation: "tidy"}}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &comparison{Request: Request{Selection: selection()}, st: st}
			r.Family = series.SpanDuration
			all := span{epoch, epoch + 600}
			whole, err := r.read(t.Context(), all, 10)
			if err != nil {
				t.Fatal(err)
			}
			some, err := r.readSome(t.Context(), all, 10, c.apart)
			if err != nil {
				t.Fatal(err)
			}
			want, got := map[string]uint64{}, map[string]uint64{}
			for name, x := range whole.strata {
				want[name.service] += x.seen.Count
			}
			for name, x := range some.strata {
				got[name.service] += x.seen.Count
			}
			for service, n := range want {
				if got[service] != n {
					t.Errorf("%s: %d requests, want %d", service, got[service], n)
				}
			}
			if len(some.strata) != c.want {
				t.Errorf("%d strata, want %d", len(some.strata), c.want)
			}
			for _, p := range c.apart {
				name := operation{service: p.Service, operation: p.Operation}
				if got, want := some.strata[name].seen.Count, whole.strata[name].seen.Count; got != want || got == 0 {
					t.Errorf("%v: %d requests, want %d", p, got, want)
				}
			}
		})
	}
}
