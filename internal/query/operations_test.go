package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

func names(rows []api.Operation) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Operation)
	}
	return strings.Join(out, ", ")
}

func TestOperations(t *testing.T) {
	st := orders(t)
	for _, c := range []struct {
		sort, search  string
		components    []string
		kinds         []string
		offset, limit int
		want          string
		total         int
	}{
		{"", "", []string{"db"}, nil, 0, 3, "SELECT orders, SELECT items, UPDATE stock", 6},
		{"-total", "", []string{"db"}, nil, 0, 2, "SELECT jobs, COMMIT", 6},
		{"calls", "", []string{"db"}, nil, 0, 2, "SELECT items, SELECT orders", 6},
		{"p99", "", []string{"db"}, nil, 0, 2, "SELECT orders, UPDATE stock", 6},
		{"0.99", "", []string{"db", "external"}, nil, 1, 2, "UPDATE stock, INSERT orders", 7},
		{"-0.5", "", []string{"db"}, nil, 0, 2, "COMMIT, SELECT items", 6},
		{"mean", "", []string{"db", "external"}, nil, 0, 2, "SELECT orders, UPDATE stock", 7},
		{"name", "", []string{"db"}, nil, 0, 2, "COMMIT, INSERT orders", 6},
		{"-name", "ORDERS", []string{"db"}, nil, 0, 9, "SELECT orders, INSERT orders", 2},
		{"errors", "", nil, []string{"server", "consumer"}, 0, 1, "GET /orders", 3},
		{"total", "", nil, []string{"server"}, 2, 5, "POST /reserve", 3},
		{"total", "nothing", nil, nil, 0, 5, "", 0},
		{"total", "", nil, nil, 100, 5, "", 11},
	} {
		out, err := Operations(context.Background(), st, OperationsRequest{
			Selection: during(), Quantiles: usualQuantiles, Sort: c.sort, Search: c.search, Components: c.components, Kinds: c.kinds, Offset: c.offset, Limit: c.limit,
		})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := names(out.Rows); got != c.want || out.Total != c.total {
			t.Errorf("%+v: got %s of %d", c, got, out.Total)
		}
	}
}

func TestOperationsOfADatabase(t *testing.T) {
	out, err := Operations(context.Background(), orders(t), OperationsRequest{Selection: during(), Grid: Grid{Step: 60}, Quantiles: usualQuantiles, Components: []string{"db"}})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, o := range out.Rows {
		sum += float64(o.Seconds)
	}
	near(t, "seconds", out.Seconds, sum)
	o := out.Rows[0]
	if o.Operation != "SELECT orders" || o.Calls != 1800 || o.Verb != VerbFind || o.NPlusOne || len(o.SecondsOver) != 30 {
		t.Fatalf("got %+v", o)
	}
	near(t, "seconds", o.Seconds, 1620*0.03+180*0.93)
	near(t, "share", o.Share, (1620*0.03+180*0.93)/sum)
	near(t, "rate", o.Rate, 1)
	near(t, "seconds in a minute", o.SecondsOver[3], 54*0.03+6*0.93)
	near(t, "rate in a minute", o.RateOver[3], 1)
	if q := float64(o.Quantiles["0.99"]); math.Abs(q-0.93) > 0.022*0.93 {
		t.Errorf("p99 is %v", q)
	}
	if !out.Rows[1].NPlusOne {
		t.Errorf("many equal queries are not seen: %+v", out.Rows[1])
	}
	// find: orders, items and one job; save: INSERT 20 ms and UPDATE 60 ms; other: COMMIT 1 ms.
	find := 1620*0.03 + 180*0.93 + 1800*0.024 + 0.005
	want := map[string][2]float64{VerbFind: {find, 1800 + 21600 + 1}, VerbSave: {180 * 0.08, 360}, VerbOther: {180 * 0.001, 180}}
	all := find + 180*0.081
	for _, v := range out.Verbs {
		near(t, v.Verb, v.Seconds, want[v.Verb][0])
		near(t, "share of "+v.Verb, v.Share, want[v.Verb][0]/all)
		if float64(v.Calls) != want[v.Verb][1] || len(v.RateOver) != 30 {
			t.Errorf("%s: %d calls, want %v", v.Verb, v.Calls, want[v.Verb][1])
		}
	}
	if len(out.Verbs) != 3 {
		t.Errorf("got %d verbs", len(out.Verbs))
	}
	near(t, "saved in a minute", out.Verbs[1].SecondsOver[0], 6*0.08)

	both, err := Operations(context.Background(), orders(t), OperationsRequest{Selection: during(), Components: []string{"db", "external"}})
	if err != nil || both.Verbs != nil {
		t.Errorf("verbs of more than databases: %v, %v", both.Verbs, err)
	}
}

func TestOperationsRefuses(t *testing.T) {
	for _, c := range []struct {
		r     OperationsRequest
		field string
	}{
		{OperationsRequest{Selection: during(), Sort: "size"}, "sort"},
		{OperationsRequest{Selection: during(), Sort: "p95", Quantiles: usualQuantiles}, "sort"},
		{OperationsRequest{Selection: during(), Sort: "p", Quantiles: usualQuantiles}, "sort"},
		{OperationsRequest{Selection: during(), Limit: 5000}, "limit"},
		{OperationsRequest{Selection: during(), Offset: -1}, "offset"},
	} {
		_, err := Operations(context.Background(), orders(t), c.r)
		var e *Error
		if !errors.As(err, &e) || e.Field != c.field {
			t.Errorf("%+v: got %v, want %s at fault", c.r, err, c.field)
		}
	}
}

// The store is told by a pattern what Verb says, so the two must agree.
func TestVerb(t *testing.T) {
	pattern := map[string]*regexp.Regexp{}
	for verb := range verbWords {
		pattern[verb] = regexp.MustCompile("^(?s:" + verbMatcher(verb).Value + ")$")
	}
	for _, c := range []struct{ operation, want string }{
		{"SELECT orders", VerbFind}, {"select", VerbFind}, {"Find carts", VerbFind}, {"HGET", VerbFind}, {"WITH", VerbFind},
		{"GET", VerbFind}, {"get(key)", VerbFind}, {"aggregate carts", VerbFind},
		{"INSERT orders", VerbSave}, {"UPDATE", VerbSave}, {"merge stock", VerbSave}, {"upsert\norders", VerbSave}, {"findAndModify carts", VerbSave}, {"SET", VerbSave},
		{"SELECTED", VerbOther}, {"COMMIT", VerbOther}, {"", VerbOther}, {" SELECT", VerbOther}, {"select_all", VerbOther}, {"CREATE TABLE x", VerbOther}, {"/* c */ SELECT", VerbOther},
	} {
		if got := Verb(c.operation); got != c.want {
			t.Errorf("%q: got %s, want %s", c.operation, got, c.want)
		}
		for verb, p := range pattern {
			if p.MatchString(c.operation) != (c.want == verb) || verbMatcher(verb).Matches(c.operation) != (c.want == verb) {
				t.Errorf("%q is %s, but the pattern of %s says otherwise", c.operation, c.want, verb)
			}
		}
	}
	for _, w := range verbWords[VerbFind] {
		if slices.Contains(verbWords[VerbSave], w) {
			t.Errorf("%s both finds and saves", w)
		}
	}
}

// A caller with the N+1 pattern is seen among a hundred times as many without,
// once there are enough of its requests.
func TestOperationsSeeRareRepetition(t *testing.T) {
	for n, want := range map[int]bool{9: false, 10: true} {
		st, w := storetest.NewTwin(), querytest.NewWriter()
		request := func(operation string, calls int) {
			w.Request(querytest.Request{At: querytest.Epoch + 1800, Service: "shop", Operation: operation, Duration: 1e9,
				Parts: []querytest.Part{{Service: "shop", Component: "db", Operation: "SELECT x", Self: 1e9, Calls: calls}}})
		}
		for range 1000 {
			request("GET /", 1)
		}
		for range n {
			request("GET /list", 12)
		}
		w.Call(querytest.Epoch+1800, "shop", "db", "SELECT x", "acme", 1e6)
		if err := w.Put(context.Background(), st, 1); err != nil {
			t.Fatal(err)
		}
		out, err := Operations(context.Background(), st, OperationsRequest{Selection: during(), Components: []string{"db"}})
		if err != nil || len(out.Rows) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		if out.Rows[0].NPlusOne != want {
			t.Errorf("%d of %d requests repeat their query: got %v", n, 1000+n, out.Rows[0].NPlusOne)
		}
	}
}

// However many operations there are, the store is asked a few questions.
func TestOperationsAsksFewQuestions(t *testing.T) {
	twin, w := storetest.NewTwin(), querytest.NewWriter()
	for i := range 300 {
		w.Call(querytest.Epoch+1800, "shop", "db", fmt.Sprintf("SELECT table_%d", i), "acme", 1000)
	}
	if err := w.Put(context.Background(), twin, 1); err != nil {
		t.Fatal(err)
	}
	s := &spy{Store: twin}
	out, err := Operations(context.Background(), s, OperationsRequest{Selection: during(), Quantiles: usualQuantiles, Sort: "p99"})
	if err != nil || out.Total != 300 || len(out.Rows) != 50 {
		t.Fatalf("%d operations, %v", out.Total, err)
	}
	// Three of them find out in which of the time anything was measured.
	if len(s.queries) > 11 {
		t.Errorf("%d questions: %v", len(s.queries), s.queries)
	}
}

func TestCallers(t *testing.T) {
	st := orders(t)
	ask := func(service, component, operation string) []api.Caller {
		t.Helper()
		out, err := Callers(context.Background(), st, CallersRequest{Selection: during(), Service: service, Component: component, Operation: operation})
		if err != nil {
			t.Fatal(err)
		}
		return out.Callers
	}
	got := ask("stock", "", "UPDATE stock")
	if len(got) != 2 || got[0].Operation == got[1].Operation {
		t.Fatalf("got %+v", got)
	}
	for _, c := range got {
		if c.Direct != (c.Service == "stock") || c.Calls != 180 || c.Requests != 180 || c.NPlusOne {
			t.Errorf("got %+v", c)
		}
		near(t, "seconds by "+c.Service, c.Seconds, 180*0.06)
		near(t, "share of "+c.Service, c.Share, 1) // each has all of it, one within the other
	}
	got = ask("shop", "db", "SELECT items")
	if len(got) != 1 || !got[0].Direct || !got[0].NPlusOne || got[0].Repeated != 1800 {
		t.Errorf("got %+v", got)
	}
	near(t, "per request", got[0].PerRequest, 12)
	if got := ask("shop", "cache", "SELECT items"); len(got) != 0 {
		t.Errorf("no cache does that: %+v", got)
	}
	for _, r := range []CallersRequest{{Selection: during(), Operation: "x"}, {Selection: during(), Service: "x"}} {
		if _, err := Callers(context.Background(), st, r); AsError(err).Code != CodeInvalid {
			t.Errorf("%+v: got %v", r, err)
		}
	}
}

// PromQL reads the families of the breakdown as any distribution: what is
// counted of the requests slower than half a second is a fraction of buckets.
func TestBreakdownInPromQL(t *testing.T) {
	st := orders(t)
	e := engineOver(st)
	for _, c := range []struct {
		q    string
		want float64
	}{
		{`histogram_count(sum by (component) (increase(breakdown_self{service="shop",operation="GET /orders",component="db"}[30m]))) / 1e6`, 1620*0.054 + 180*0.954},
		{`histogram_fraction(0.5, +Inf, sum(increase(breakdown_requests{service="shop",operation="GET /orders"}[30m])))`, 0.1},
		// The example of docs/api.md.
		{`histogram_count(sum(increase(breakdown_self{service="shop",component="db"}[1h])))
  * histogram_fraction(0.5, +Inf, sum(increase(breakdown_self{service="shop",component="db"}[1h])))
/ (histogram_count(sum(increase(breakdown_self{service="shop",component!="queue"}[1h])))
  * histogram_fraction(0.5, +Inf, sum(increase(breakdown_self{service="shop",component!="queue"}[1h]))))`, 0.954},
	} {
		v := instant(t, e, c.q, at(epoch+3600))
		if len(v) != 1 {
			t.Fatalf("%s: got %v", c.q, v)
		}
		near(t, c.q, api.Float(v[0].F), c.want)
	}
}
