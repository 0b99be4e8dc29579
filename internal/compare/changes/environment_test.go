package changes

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// environments is an hour of a service in two environments and of one without any: from
// 2,400 s on everything takes twice as long in staging, which has a fifth of the requests.
func environments(t *testing.T) store.Store {
	t.Helper()
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(18, 3))
	for sec := int64(0); sec < 4200; sec += 10 {
		for _, e := range []struct {
			service, environment string
			n                    int
			slow                 float64 // from then on
		}{{"shop", "production", 100, 1}, {"shop", "staging", 20, 2}, {"stock", "", 40, 2}} {
			l := labels.NewBuilder(labels.FromStrings(series.LabelService, e.service, series.LabelOperation, "GET /cart", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app"))
			if e.environment != "" {
				l.Set(series.LabelEnvironment, e.environment)
			}
			median := 0.05
			if sec >= 2400 {
				median *= e.slow
			}
			for range e.n {
				w.Span(epoch+sec, l.Labels(), median*math.Exp(0.5*rng.NormFloat64()))
			}
		}
	}
	return put(t, storetest.NewTwin(), w)
}

// A service is searched in each of its environments, and what is found names it. The ids
// of a service that has one environment are as they were.
func TestChangesByEnvironment(t *testing.T) {
	f := NewFinder(environments(t))
	all := found(t, f, asked(0, 4200))
	if all.Searched != 6 {
		t.Errorf("%d series were searched, want a service and its operation of three", all.Searched)
	}
	var staging *api.Change
	for i := range all.Changes {
		c := &all.Changes[i]
		switch {
		case c.Service == "stock" && c.Environment == "" && c.ID == idOf(subject{service: "stock", operation: c.Operation}, int64(c.Time)):
		case c.Service == "shop" && c.Environment == "staging":
			if c.Operation == "" {
				staging = c
			}
		default:
			t.Errorf("found %s, which did not change", c.Sentence)
		}
	}
	if staging == nil {
		t.Fatalf("staging's change is not among %+v", all.Changes)
	}
	if !strings.Contains(staging.Headline, " of shop in staging is ") || !strings.Contains(staging.Name, "shop in staging") || len(staging.Operations) != 1 {
		t.Errorf("%s; %s; %q", staging.Headline, staging.Name, staging.Operations)
	}
	// Asked for by name it is the same change.
	one := found(t, f, asked(0, 4200, series.LabelEnvironment, "staging"))
	if c := of(one, ""); len(one.Changes) != 2 || c.ID != staging.ID || c.Environment != "staging" || strings.Contains(c.Headline, `"staging"`) {
		t.Errorf("asked for staging: %+v", one.Changes)
	}
	if none := found(t, f, asked(0, 4200, series.LabelEnvironment, "production")); len(none.Changes) != 0 || none.Searched != 2 {
		t.Errorf("asked for production: %+v", none.Changes)
	}
}

// What was decided of one environment says nothing of another; what was decided while
// there was one is kept.
func TestDecisionsByEnvironment(t *testing.T) {
	f := NewFinder(environments(t))
	decide := func(c *api.Change, status string) error {
		_, err := f.Decide(t.Context(), api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Environment: c.Environment, Operation: c.Operation, Status: status})
		return err
	}
	c := *of(found(t, f, asked(0, 4200, series.LabelEnvironment, "staging")), "")
	wrong := c
	wrong.Environment = "production"
	if err := decide(&wrong, Dismissed); err == nil {
		t.Error("a change was dismissed by the id of another environment's")
	}
	if err := decide(&c, Dismissed); err != nil {
		t.Fatal(err)
	}
	for _, other := range []struct {
		environment string
		dismissed   bool
	}{{"staging", true}, {"production", false}, {"", true}} {
		x := c
		x.Environment = other.environment
		known := match([]api.Change{x}, mustDecisions(t, f))[0] != nil
		if known != other.dismissed {
			t.Errorf("environment %q: dismissed %v, want %v", other.environment, known, other.dismissed)
		}
	}
}

func mustDecisions(t *testing.T, f *Finder) []decision {
	t.Helper()
	all, err := f.decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A service that gets its environment at the moment of a change is searched as one, and
// so are the parts of its requests; one whose environments run side by side is not.
func TestEnvironmentsInTurn(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(18, 4))
	for sec := int64(0); sec < 4200; sec += 10 {
		l := labels.NewBuilder(labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app"))
		median, environment, calls := 0.05, "", 2
		if sec >= 2400 {
			median, environment, calls = 0.075, "production", 4
			l.Set(series.LabelEnvironment, environment)
		}
		for range 40 {
			db := time.Duration(1e6 * math.Exp(0.3*rng.NormFloat64()))
			w.Request(querytest.Request{At: epoch + sec, Service: "shop", Environment: environment, Operation: "GET /cart", Cohort: series.Small, Duration: db, Parts: []querytest.Part{
				{Service: "shop", Component: series.ComponentDB, Operation: "SELECT cart", Self: db, Critical: db, Calls: calls},
			}})
			w.Span(epoch+sec, l.Labels(), median*math.Exp(0.5*rng.NormFloat64()))
		}
	}
	r := found(t, NewFinder(put(t, storetest.NewTwin(), w)), asked(0, 4200))
	whole := of(r, "")
	if r.Searched != 3 || whole == nil || whole.Environment != "" || math.Abs(float64(whole.Time)-float64(epoch+2400)) > 50 {
		t.Fatalf("searched %d, found %+v", r.Searched, r.Changes)
	}
	if inner := innerOf(r, "SELECT cart"); len(inner) != 1 || !slices.Contains(inner[0].Found, Calls) {
		t.Errorf("found of calls: %+v", inner)
	}
	if !slices.Contains(r.Notes, "the environments of shop follow each other (none, production) and are searched as one") {
		t.Errorf("notes %q", r.Notes)
	}
}

// A confirmed change becomes a mark of the environment in which it is, whichever of them
// it is and however little the other does; marks of another environment are no causes.
func TestMarksOfChangesHaveTheirEnvironment(t *testing.T) {
	for _, changed := range []string{"staging", "production"} {
		t.Run(changed, func(t *testing.T) {
			w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(18, 5))
			for sec := int64(0); sec < 4200; sec += 10 {
				for _, e := range []struct {
					environment string
					n           int
				}{{"production", 100}, {"staging", 3}} {
					if e.environment == changed {
						e.n = max(e.n, 20)
					}
					l := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelEnvironment, e.environment)
					median := 0.05
					if sec >= 2400 && e.environment == changed {
						median *= 2
					}
					for range e.n {
						w.Span(epoch+sec, l, median*math.Exp(0.5*rng.NormFloat64()))
					}
				}
			}
			st := put(t, storetest.NewTwin(), w)
			for _, m := range []store.Mark{{ID: "p", Name: "deploy", Service: "shop", Environment: "production"}, {ID: "s", Name: "deploy", Service: "shop", Environment: "staging"}} {
				m.Time = time.Unix(epoch+2400, 0)
				if err := store.PutMark(t.Context(), st, m); err != nil {
					t.Fatal(err)
				}
			}
			f := NewFinder(st)
			c := of(found(t, f, asked(0, 4200)), "")
			if c == nil || c.Environment != changed || len(c.Near) != 1 || c.Near[0].Environment != changed {
				t.Fatalf("found %+v", c)
			}
			decided, err := f.Decide(t.Context(), api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Environment: c.Environment, Status: Confirmed})
			if err != nil {
				t.Fatal(err)
			}
			marks, err := store.AllMarks(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(marks, func(m store.Mark) bool { return m.ID == decided.Mark })
			if i < 0 || marks[i].Service != "shop" || marks[i].Environment != changed {
				t.Errorf("marks %+v", marks)
			}
		})
	}
}
