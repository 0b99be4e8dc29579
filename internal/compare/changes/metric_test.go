package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// A gauge of one instance of four that rises by a half is found, with the values before
// and after, and the instance is named; its decision is kept.
func TestMetricThatChanged(t *testing.T) {
	const slots, at = 240, 140
	rng := rand.New(rand.NewPCG(41, 1))
	w := querytest.NewWriter()
	w.Family(store.FamilyInfo{Name: "heap_bytes", Kind: series.Gauge, IntervalSeconds: 10})
	for i := range int64(slots) {
		for instance := range 4 {
			v := 200 + 10*rng.NormFloat64()
			if instance == 2 && i >= at {
				v *= 1.5
			}
			w.Number(1000*(epoch+10*i), series.Series{Family: "heap_bytes", Kind: series.Gauge,
				Labels: labels.FromStrings(series.LabelService, "shop", series.LabelInstance, fmt.Sprint("node-", instance))}, v)
		}
	}
	f := NewFinder(put(t, storetest.NewTwin(), w))
	r := asked(0, 10*slots, series.LabelService, "shop")
	r.Family = "heap_bytes"
	got := found(t, f, r)
	if got.Searched != 1 || len(got.Changes) != 1 {
		t.Fatalf("searched %d, found %+v, want one change", got.Searched, got.Changes)
	}
	c := got.Changes[0]
	const moment = float64(epoch + 10*at)
	if float64(c.Low) > moment || float64(c.High) < moment || c.Instance != "node-2" || c.Family != "heap_bytes" || c.Unit != "bytes" || c.Kink || c.Verdict != judge.Regression {
		t.Errorf("%+v, want node-2 alone at %v", c, moment)
	}
	m := c.Measures[0]
	if m.Name != "mean" || m.Raw.Low > 1.125 || m.Raw.High < 1.125 || m.Raw.High-m.Raw.Low > 0.05 {
		t.Errorf("%+v, want the mean 12.5 %% higher", m)
	}
	if !strings.HasPrefix(c.Headline, "the mean of heap_bytes of shop is ") || !strings.HasSuffix(c.Headline, "; of 4 instances only node-2 changed") {
		t.Errorf("%q", c.Headline)
	}
	if _, err := f.Decide(t.Context(), api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Family: c.Family, Status: Dismissed}); err != nil {
		t.Fatal(err)
	}
	if got := found(t, f, r); len(got.Changes) != 0 {
		t.Errorf("%+v is shown though it was dismissed", got.Changes)
	}
}

// A heap that is level and then grows is said to rise since, by how much an hour.
func TestMetricThatBeginsToRise(t *testing.T) {
	const slots, at = 360, 200
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(44, 1))
	w.Family(store.FamilyInfo{Name: "heap_bytes", Kind: series.Gauge, IntervalSeconds: 10})
	for i := range int64(slots) {
		v := 200<<20 + float64(2<<20)*rng.NormFloat64() + float64(1<<20)*float64(max(0, i-at)) // 360 MiB an hour
		w.Number(1000*(epoch+10*i), series.Series{Family: "heap_bytes", Kind: series.Gauge, Labels: labels.FromStrings(series.LabelService, "shop")}, v)
	}
	r := asked(0, 10*slots, series.LabelService, "shop")
	r.Family = "heap_bytes"
	got := found(t, NewFinder(put(t, storetest.NewTwin(), w)), r)
	if len(got.Changes) != 1 {
		t.Fatalf("found %+v, want one change", got.Changes)
	}
	c := got.Changes[0]
	t.Log(c.Sentence)
	if !c.Kink || c.Shape == nil || c.Shape.Kind != judge.Drift || math.Abs(float64(c.Time)-float64(epoch+10*at)) > 200 || c.Shape.Value < c.Shape.Usual {
		t.Errorf("%+v, %+v, want a drift since slot %d", c, c.Shape, at)
	}
	if !strings.HasPrefix(c.Headline, "heap_bytes of shop rises by 3") || !strings.HasSuffix(c.Headline, " MB an hour; before it was level") {
		t.Errorf("%q", c.Headline)
	}
}

func TestMetricsRefused(t *testing.T) {
	f := NewFinder(put(t, storetest.NewTwin(), querytest.NewWriter()))
	for _, c := range []struct{ family, per, field string }{{series.SpanSelf, "", "match"}, {"", query.PerRequest, "per"}} {
		r := asked(0, 100)
		r.Family, r.Per = c.family, c.per
		if _, err := f.Find(t.Context(), r); query.AsError(err) == nil || query.AsError(err).Field != c.field {
			t.Errorf("%q, %q: %v, want %s refused", c.family, c.per, err, c.field)
		}
	}
}

// Who asks once a minute, as the page does, is shown the newest change within two
// minutes of the last slot that it needs, which is the tenth after it.
func TestNewestChangeIsShown(t *testing.T) {
	const slots, at, needed = 260, 200, 10
	st := flow(t, rand.New(rand.NewPCG(42, 1)), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(100), always(0.01), from(at, 1, 2)})
	f := NewFinder(st)
	for _, offset := range []int64{0, 13, 37, 59} {
		for now := int64(10*at) + offset; ; now += 60 {
			r := asked(0, now, "service", "shop")
			r.Now = moment(now)
			if around(found(t, f, r), "", 10*at) != nil {
				break
			}
			if now > 10*(at+needed)+120 {
				t.Errorf("asked at second %d of each minute: not shown %d s after the last slot that it needs", offset, now-10*(at+needed))
				break
			}
		}
	}
}

// A metric of a service in several environments is searched in each, and environments that
// follow each other as one.
func TestMetricsByEnvironment(t *testing.T) {
	const slots, at = 240, 140
	rng := rand.New(rand.NewPCG(45, 1))
	w := querytest.NewWriter()
	w.Family(store.FamilyInfo{Name: "heap_bytes", Kind: series.Gauge, IntervalSeconds: 10})
	for i := range int64(slots) {
		put := func(service, environment string, v float64) {
			l := labels.NewBuilder(labels.FromStrings(series.LabelService, service))
			if environment != "" {
				l.Set(series.LabelEnvironment, environment)
			}
			w.Number(1000*(epoch+10*i), series.Series{Family: "heap_bytes", Kind: series.Gauge, Labels: l.Labels()}, v*(1+0.05*rng.NormFloat64()))
		}
		put("shop", "production", 1000)
		v, environment := 200.0, ""
		if i >= at {
			v, environment = 100.0, "production"
		}
		put("shop", "staging", v)
		put("stock", environment, v)
	}
	r := asked(0, 10*slots)
	r.Family = "heap_bytes"
	got := found(t, NewFinder(put(t, storetest.NewTwin(), w)), r)
	if got.Searched != 3 || len(got.Changes) != 2 {
		t.Fatalf("searched %d, found %+v", got.Searched, got.Changes)
	}
	for i, want := range []string{"the mean of heap_bytes of shop in staging is ", "the mean of heap_bytes of stock is "} {
		if c := got.Changes[i]; !strings.HasPrefix(c.Headline, want) || c.Environment != []string{"staging", ""}[i] || math.Abs(float64(c.Time)-float64(epoch+10*at)) > 20 {
			t.Errorf("%q of %q, want %q", c.Headline, c.Environment, want)
		}
	}
	if !slices.Contains(got.Notes, "the environments of stock follow each other (none, production) and are searched as one") {
		t.Errorf("notes %q", got.Notes)
	}
}
