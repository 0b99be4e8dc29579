package changes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func decisionOf(c *api.Change, status string) api.ChangeDecision {
	return api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Operation: c.Operation, Status: status}
}

func decided(t testing.TB, f *Finder, d api.ChangeDecision) *api.ChangeDecided {
	t.Helper()
	out, err := f.Decide(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func marksOf(t testing.TB, st store.Store) []store.Mark {
	t.Helper()
	all, err := store.Marks(t.Context(), st, time.Unix(0, 0), moment(1e6))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A decision is known again by another program over the same directory, and by
// a question about another range; it can be taken back.
func TestDecisions(t *testing.T) {
	dir := t.TempDir()
	st := pebble(t, dir)
	f := NewFinder(put(t, st, shop(rand.New(rand.NewPCG(5, 0)))))
	c := of(found(t, f, asked(0, 4200)), "GET /search")
	d := decisionOf(c, Confirmed)
	d.Name, d.Description = c.Name, c.Headline
	got := decided(t, f, d)
	if got.ID != c.ID || got.Status != Confirmed || got.Mark == "" {
		t.Fatalf("decided %+v", got)
	}
	decided(t, f, d) // once more is the same
	if all := marksOf(t, st); len(all) != 1 || all[0].ID != got.Mark || all[0].Name != c.Name || all[0].Service != "shop" || all[0].Time.Unix() != int64(c.Time) {
		t.Fatalf("marks %+v", all)
	}
	whole := of(found(t, f, asked(0, 4200)), "")
	if len(whole.Near) != 0 {
		t.Errorf("the mark of the operation's change is near that of the service, which is of the same moment: %+v", whole.Near)
	}
	if e := found(t, f, asked(0, 4200)).Events; len(e) != 1 || !slices.Contains(e[0].Changes, got.ID) || !slices.Contains(e[0].Changes, whole.ID) {
		t.Errorf("events %+v, want one of both", e)
	}
	decided(t, f, decisionOf(whole, Dismissed))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	st = pebble(t, dir)
	defer st.Close()
	f = NewFinder(st)
	for _, r := range []Request{asked(0, 4200), asked(200, 4000), asked(1000, 3600, "service", "shop")} {
		out := found(t, f, r)
		if of(out, "") != nil {
			t.Errorf("a dismissed change is shown")
		}
		again := of(out, "GET /search")
		if again == nil || again.ID != c.ID || again.Status != Confirmed || again.Mark != got.Mark {
			t.Errorf("found again as %+v", again)
		}
		if len(again.Near) != 0 {
			t.Errorf("its own mark is near a confirmed change: %+v", again.Near)
		}
		r.Status = All
		if again := of(found(t, f, r), ""); again == nil || again.ID != whole.ID || again.Status != Dismissed {
			t.Errorf("of all, found %+v", again)
		}
		r.Status = Dismissed
		if out := found(t, f, r); len(out.Changes) != 1 {
			t.Errorf("%d changes are dismissed, want 1", len(out.Changes))
		}
	}
	// Without its mark a confirmed one is new again, and was dismissed with the one that leads it.
	if err := store.DeleteMark(t.Context(), st, got.Mark); err != nil {
		t.Fatal(err)
	}
	r := asked(0, 4200)
	if again := of(found(t, f, r), "GET /search"); again != nil {
		t.Errorf("without its mark it is shown beside what was dismissed: %+v", again)
	}
	r.Status = All
	if again := of(found(t, f, r), "GET /search"); again == nil || again.Status != New || again.Mark != "" || again.ID != c.ID {
		t.Errorf("without its mark it is %+v", again)
	}
	decided(t, f, d)
	decided(t, f, decisionOf(c, New))
	if all := marksOf(t, st); len(all) != 0 {
		t.Errorf("taken back, its mark is left: %+v", all)
	}
	decided(t, f, decisionOf(whole, New))
	for _, c := range found(t, f, asked(0, 4200)).Changes {
		if c.Status != New {
			t.Errorf("taken back, it is %s", c.Status)
		}
	}
	r.Status = Confirmed
	if got := found(t, f, r); len(got.Changes) > 0 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "another status; ask for") {
		t.Errorf("confirmed: %d changes, notes %q, want to be told of the others", len(got.Changes), got.Notes)
	}
	if all, err := f.decisions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d decisions are left, %v", len(all), err)
	}
}

// Servers that share a store decide one after the other: whatever stays decided,
// its mark agrees.
func TestDecisionsAtOnce(t *testing.T) {
	st := storetest.NewTwin()
	c := api.Change{ID: idOf(subject{service: "shop", operation: "GET /"}, 1000), Service: "shop", Operation: "GET /", Time: 1000, Low: 990, High: 1010}
	for round := range 20 {
		var wg sync.WaitGroup
		for i, status := range []string{Confirmed, Dismissed, Confirmed, New, Dismissed} {
			wg.Go(func() {
				f := NewFinder(st)
				for k := range 3 {
					d := decisionOf(&c, status)
					if status == Confirmed {
						d.Name = fmt.Sprint(i, " ", k)
					}
					if _, err := f.Decide(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		all, err := NewFinder(st).decisions(t.Context())
		if err != nil || len(all) > 1 {
			t.Fatalf("round %d: decisions %+v %v", round, all, err)
		}
		confirmed := len(all) == 1 && all[0].Status == Confirmed
		if marks := marksOf(t, st); confirmed != (len(marks) == 1) {
			t.Fatalf("round %d: decided %+v, marks %+v", round, all, marks)
		}
	}
}

// A change that is found a little later is the one that was decided.
func TestMatch(t *testing.T) {
	change := func(operation string, at, low, high float64) api.Change {
		return api.Change{Service: "shop", Operation: operation, Time: api.Float(at), Low: api.Float(low), High: api.Float(high)}
	}
	decided := []decision{
		{ID: "a", Service: "shop", Time: 100, Low: 90, High: 120},
		{ID: "b", Service: "shop", Time: 130, Low: 120, High: 150},
		{ID: "c", Service: "shop", Operation: "GET /", Time: 100, Low: 90, High: 120},
	}
	got := match([]api.Change{change("", 128, 115, 140), change("", 110, 100, 130), change("GET /", 121, 121, 130), change("GET /", 90, 60, 90)}, decided)
	want := []string{"b", "a", "", "c"}
	for i, d := range got {
		id := ""
		if d != nil {
			id = d.ID
		}
		if id != want[i] {
			t.Errorf("change %d is %q, want %q", i, id, want[i])
		}
	}
}

// Marks near the moment are proposed, the nearest first; others are not, nor are later ones
// if there is one that the change came after.
func TestNear(t *testing.T) {
	c := api.Change{ID: "x", Mark: "own", Service: "shop", Time: 1000, Low: 990, High: 1010}
	var marks []store.Mark
	for _, m := range []struct {
		id, service string
		at          int64
	}{{"before", "shop", 700}, {"early", "", 690}, {"all", "", 1020}, {"elsewhere", "blog", 1000}, {"late", "shop", 1311}, {"own", "shop", 1000}, {"edge", "shop", 1310}} {
		marks = append(marks, store.Mark{ID: m.id, Service: m.service, Time: time.Unix(m.at, 0)})
	}
	names := func(slot int64) string {
		var ids []string
		for _, m := range near(&c, slot, marks) {
			ids = append(ids, m.ID)
		}
		return strings.Join(ids, " ")
	}
	if got := names(10); got != "before early" {
		t.Errorf("near are %s", got)
	}
	if got := names(600); got != "all before early edge late" {
		t.Errorf("near with slots of 10 min are %s", got)
	}
	marks = slices.DeleteFunc(marks, func(m store.Mark) bool { return m.Time.Unix() < 990 })
	if got := names(10); got != "all edge" {
		t.Errorf("near without one before are %s", got)
	}
}

func TestBadDecisions(t *testing.T) {
	f := NewFinder(storetest.NewTwin())
	good := api.ChangeDecision{ID: idOf(subject{service: "shop"}, 1000), Time: 1000, Low: 990, High: 1010, Service: "shop", Status: Dismissed}
	for field, spoil := range map[string]func(*api.ChangeDecision){
		"id":          func(d *api.ChangeDecision) { d.ID = "" },
		"status":      func(d *api.ChangeDecision) { d.Status = "dismised" },
		"service":     func(d *api.ChangeDecision) { d.Service = "" },
		"operation":   func(d *api.ChangeDecision) { d.Operation = "a\xff" },
		"time":        func(d *api.ChangeDecision) { d.Time = 1011 },
		"low":         func(d *api.ChangeDecision) { d.Low = -1 },
		"high":        func(d *api.ChangeDecision) { d.High = 1e18 },
		"description": func(d *api.ChangeDecision) { d.Status, d.Description = Confirmed, strings.Repeat("x", 5000) },
		"name":        func(d *api.ChangeDecision) { d.Name = "a mark" },
	} {
		d := good
		spoil(&d)
		_, err := f.Decide(t.Context(), d)
		if e := query.AsError(err); err == nil || e.Code != query.CodeInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	other := good
	other.ID = idOf(subject{service: "shop"}, 1001)
	if _, err := f.Decide(t.Context(), other); err == nil || query.AsError(err).Code != query.CodeNotFound {
		t.Errorf("the id of another change: %v", err)
	}
	if _, err := f.Decide(t.Context(), good); err != nil {
		t.Error(err)
	}
	// What cannot be printed is decided of like anything else, and quoted where it is said.
	tab := good
	tab.Operation, tab.Part = "GET\t/", &api.ChangePart{Service: "shop", Component: "db", Operation: "SELECT\n1"}
	if _, err := f.Decide(t.Context(), tab); err == nil || !strings.Contains(err.Error(), `"GET\t/" of shop`) {
		t.Errorf("the id of another change: %v", err)
	}
	tab.ID = idOf(subjectOfDecision(&tab), 1000)
	if _, err := f.Decide(t.Context(), tab); err != nil {
		t.Error(err)
	}
	if got := innerTitle(*tab.Part, "shop"); got != `"SELECT\n1" (db)` {
		t.Errorf("the part is said as %s", got)
	}
}

func TestBadQuestions(t *testing.T) {
	w := querytest.NewWriter()
	querytest.Shop(w)
	f := NewFinder(put(t, storetest.NewTwin(), w))
	for field, spoil := range map[string]func(*Request){
		"operations": func(r *Request) { r.Operations = -1 },
		"status":     func(r *Request) { r.Status = "old" },
		"match":      func(r *Request) { r.Family = "span_self_seconds" },
		"end":        func(r *Request) { r.End = r.Start },
		"start":      func(r *Request) { r.Start = time.Unix(-5, 0) },
	} {
		r := asked(0, 3600)
		spoil(&r)
		_, err := f.Find(t.Context(), r)
		if e := query.AsError(err); err == nil || e.Code != query.CodeInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What is searched: services and the heaviest of their operations, and no
// service as a whole where the question is about some of its operations.
func TestSearched(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(8, 8))
	send(w, rng, 0, 600, load{operation: "GET /cart", perSlot: 12, median: 0.02}, load{operation: "GET /search", perSlot: 8, median: 0.02}, load{operation: "GET /help", perSlot: 1, median: 0.02})
	f := NewFinder(put(t, storetest.NewTwin(), w))
	for _, c := range []struct {
		r          Request
		operations int
		searched   int
		note       string
	}{
		{asked(0, 600), 0, 3, "1 services or operations have fewer than 200 requests, too few to search"},
		{asked(0, 600), 1, 2, "1 operations with fewer requests were not searched"},
		{asked(0, 600, "operation", "GET /cart"), 0, 1, ""},
		{asked(0, 600, "operation", "GET /crat"), 0, 0, "nothing that matches was measured in this range; take a filter off"},
	} {
		c.r.Operations = c.operations
		r := found(t, f, c.r)
		if got := strings.Join(r.Notes, "; "); r.Searched != c.searched || !strings.Contains(got, c.note) || c.note == "" && got != "" {
			t.Errorf("searched %d, %q; want %d, %q", r.Searched, got, c.searched, c.note)
		}
	}
}
