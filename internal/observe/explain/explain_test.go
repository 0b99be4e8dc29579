package explain

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

const epoch = querytest.Epoch

// draw draws a request: its labels, and how long it took.
type draw func(rng *rand.Rand, slot int) (operation, tenant, status, instance string, seconds float64)

// send writes so many requests a slot into an hour.
func send(t testing.TB, seed uint64, slots, perSlot int, next draw) store.Store {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	w := querytest.NewWriter()
	for slot := range slots {
		for range perSlot {
			operation, tenant, status, instance, seconds := next(rng, slot)
			w.Span(epoch+int64(slot)*10, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, operation, series.LabelTenant, tenant,
				series.LabelStatus, status, series.LabelInstance, instance, series.LabelKind, "server", series.LabelComponent, "app"), seconds)
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

var (
	operations = []string{"GET /cart", "GET /search", "POST /order", "GET /item"}
	tenants    = []string{"acme", "globex", "initech", "umbrella", "hooli"}
	instances  = []string{"pod-1", "pod-2", "pod-3"}
)

func anyOf(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

// usual is a request about which nothing is special.
func usual(rng *rand.Rand, _ int) (operation, tenant, status, instance string, seconds float64) {
	return anyOf(rng, operations), anyOf(rng, tenants), "ok", anyOf(rng, instances), 0.02 * math.Exp(0.5*rng.NormFloat64())
}

func ask(from, to, low, high float64) Request {
	return Request{
		Selection: query.Selection{
			Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, "shop")},
			Start:    time.Unix(epoch, 0), End: time.Unix(epoch+3600, 0),
		},
		From: time.Unix(epoch+int64(from), 0), To: time.Unix(epoch+int64(to), 0), Low: low, High: high, Against: Rest,
	}
}

func explained(t testing.TB, st store.Store, r Request) *api.ExplainResponse {
	t.Helper()
	out, err := Explain(t.Context(), st, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// said is the items' sentences up to the colon.
func said(r *api.ExplainResponse) []string {
	out := []string{}
	for _, i := range r.Items {
		name, _, _ := strings.Cut(i.Sentence, ":")
		out = append(out, name)
	}
	return out
}

// One tenant is slow in the middle of the hour: it is named first, and what
// else is in the rectangle is not blamed.
func TestTenantSlowForAWhile(t *testing.T) {
	st := send(t, 1, 360, 40, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if tenant == "acme" && slot >= 120 && slot < 240 {
			seconds *= 20
		}
		return operation, tenant, status, instance, seconds
	})
	r := explained(t, st, ask(1200, 2400, 0.15, 2))
	if got := said(r); len(got) != 1 || got[0] != "tenant acme" {
		t.Fatalf("%v: %+v", got, r)
	}
	i := r.Items[0]
	if r.From != epoch+1200 || r.To != epoch+2400 || r.Low > 0.15 || r.Low < 0.147 || r.High < 2 || r.High > 2.045 || r.Slot != 10 {
		t.Errorf("rectangle %d–%d, %v–%v, slot %d", r.From-epoch, r.To-epoch, r.Low, r.High, r.Slot)
	}
	if i.InsideShare < 0.97 || i.OutsideShare < 0.1 || i.OutsideShare > 0.2 || i.Effect < i.EffLow || i.Effect > i.EffHigh || i.EffHigh-i.EffLow > 0.05 || i.Lift < 5 || i.Adjusted > 1e-6 {
		t.Errorf("%+v", i)
	}
	if r.Inside+r.Outside != 360*40 || i.Inside > r.Inside || i.Outside > r.Outside {
		t.Errorf("counts %+v", r)
	}
	if r.LabelsTried != 4+5+3 || r.PairsTried != 4*5+4*3 {
		t.Errorf("looked at %d labels and %d pairs", r.LabelsTried, r.PairsTried)
	}
}

// Slow only together: the pair is named above both of its labels, which are
// said to be so only through it.
func TestPairSlowTogether(t *testing.T) {
	st := send(t, 2, 360, 40, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if tenant == "acme" && operation == "GET /search" && slot >= 120 && slot < 240 {
			seconds *= 20
		}
		return operation, tenant, status, instance, seconds
	})
	for name, r := range map[string]Request{"a window": ask(1200, 2400, 0.15, 2), "all the time": ask(0, 3600, 0.15, inf)} {
		out := explained(t, st, r)
		if got := strings.Join(said(out), ", "); got != "operation GET /search with tenant acme, tenant acme, operation GET /search" {
			t.Errorf("%s: %v", name, got)
			continue
		}
		for _, i := range out.Items[1:] {
			if len(i.Through) != 2 || i.Through["tenant"] != "acme" || i.Through["operation"] != "GET /search" {
				t.Errorf("%s: %s is so through %v", name, i.Sentence, i.Through)
			}
		}
	}
	if out := explained(t, st, Request{Selection: ask(0, 0, 0, 0).Selection, Low: 0.15, High: inf, Alone: true, Against: Rest}); len(out.Items) != 2 || out.PairsTried != 0 {
		t.Errorf("without pairs: %v", said(out))
	}
	r := ask(1200, 2400, 0.15, 2)
	r.Labels = []string{series.LabelTenant}
	if got := said(explained(t, st, r)); len(got) != 1 || got[0] != "tenant acme" {
		t.Errorf("of tenants: %v", got)
	}
	r.Labels, r.Limit = nil, 1
	if out := explained(t, st, r); len(out.Items) != 1 || !strings.Contains(strings.Join(out.Notes, " "), "2 more are over-represented") {
		t.Errorf("one: %v, %v", said(out), out.Notes)
	}
}

// An instance is distinguished though tenants are not kept with it, and a label
// asked for in match is left alone.
func TestInstance(t *testing.T) {
	st := send(t, 3, 360, 40, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if instance == "pod-3" {
			seconds *= 3
		}
		return operation, tenant, status, instance, seconds
	})
	r := ask(0, 3600, 0.1, inf)
	out := explained(t, st, r)
	if got := said(out); len(got) != 1 || got[0] != "instance pod-3" || !math.IsInf(float64(out.High), 1) {
		t.Errorf("%v: %+v", got, out)
	}
	r.Matchers = append(r.Matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelTenant, "acme"))
	if out = explained(t, st, r); len(out.Items) != 0 || out.LabelsTried != 4 {
		t.Errorf("of acme: %v of %d labels", said(out), out.LabelsTried)
	}
	r.Matchers[1] = labels.MustNewMatcher(labels.MatchEqual, series.LabelInstance, "pod-3")
	if out = explained(t, st, r); len(out.Items) != 0 || !strings.Contains(strings.Join(out.Notes, " "), "tenants are not kept together with instances") {
		t.Errorf("of pod-3: %v, %v", said(out), out.Notes)
	}
	r.Matchers = append(r.Matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelTenant, "acme"))
	if _, err := Explain(t.Context(), st, r); query.AsError(err).Field != "match" {
		t.Errorf("of both: %v", err)
	}
}

// A rectangle of three slots: the rest says how much shares vary.
func TestShortRectangle(t *testing.T) {
	st := send(t, 4, 360, 60, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if operation == "POST /order" && slot >= 200 && slot < 203 {
			seconds, status = 1, "error"
		}
		return operation, tenant, status, instance, seconds
	})
	out := explained(t, st, ask(2000, 2030, 0.5, 2))
	got := strings.Join(said(out), ", ")
	if !strings.Contains(got, "operation POST /order") || !strings.Contains(got, "status error") || strings.Contains(got, "tenant") || !strings.Contains(out.Notes[0], "3 slots") {
		t.Errorf("%v, %v", got, out.Notes)
	}
	r := ask(2000, 2030, 0.5, 2)
	r.Start, r.End = time.Unix(epoch+1950, 0), time.Unix(epoch+2080, 0)
	if out = explained(t, st, r); len(out.Items) != 0 || !strings.Contains(strings.Join(out.Notes, " "), "widen the range") {
		t.Errorf("of two minutes: %v, %v", said(out), out.Notes)
	}
	// However much longer the range is than its observations, slots are cut of these.
	r.Start, r.End = time.Unix(0, 0), time.Unix(epoch+30*86400, 0)
	if far := strings.Join(said(explained(t, st, r)), ", "); far != got {
		t.Errorf("of half a century: %s, want %s", far, got)
	}
}

// However long the range, its slots are not many.
func TestSlotLength(t *testing.T) {
	for _, c := range []struct{ seconds, want int64 }{{1, 10}, {600, 20}, {3600, 120}, {86400, 1800}, {30 * 86400, 86400}, {60 * 365 * 86400, 189 * 86400}} {
		if got := slotLength(c.seconds); got != c.want || c.seconds/got > 120 {
			t.Errorf("slots of %d s for %d s, want %d", got, c.seconds, c.want)
		}
	}
}

// What a rectangle has none of is said, as are tenants that were folded.
func TestNotes(t *testing.T) {
	st := send(t, 5, 360, 20, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if operation == "GET /item" {
			seconds = 0.001
		}
		if tenant == "hooli" {
			tenant = series.Other
		}
		return operation, tenant, status, instance, seconds
	})
	out := explained(t, st, ask(0, 3600, 0.03, inf))
	notes := strings.Join(out.Notes, "; ")
	if !strings.Contains(notes, "nothing inside has operation GET /item (30 % outside)") {
		t.Errorf("%v", notes)
	}
	if !strings.Contains(notes, "20 % of the requests are of tenants without a name of their own (_other)") {
		t.Errorf("%v", notes)
	}
	for name, r := range map[string]Request{
		"no requests were measured": func() Request { r := ask(7200, 7300, 0.1, 1); r.End = time.Unix(epoch+9000, 0); return r }(),
		"fewer than 10 requests":    ask(0, 60, 5, 9),
	} {
		if out := explained(t, st, r); len(out.Items) != 0 || len(out.Notes) == 0 || !strings.Contains(out.Notes[0], name) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// One burst of a few slots among many labels: said to be uncertain, not listed.
func TestPerhaps(t *testing.T) {
	all := func(inside float64) counts {
		c := counts{make([]float64, 30), make([]float64, 30)}
		for s := range c.all {
			c.all[s] = 40
			if s >= 4 && s < 9 {
				c.in[s] = inside * float64(1+s%3)
			}
		}
		return c
	}
	x := &table{window: 30, index: map[string]int{}}
	for o := range 25 {
		x.labels, x.rows = append(x.labels, labels.FromStrings("operation", fmt.Sprint("op-", o))), append(x.rows, all(1))
	}
	x.rows[3].in[4], x.rows[3].in[5], x.rows[3].in[6], x.rows[3].in[7] = 9, 5, 2, 5
	out := judged(x)
	if notes := strings.Join(out.Notes, " "); len(out.Items) != 0 || !strings.Contains(notes, "perhaps operation op-3 (") {
		t.Errorf("%v, %v", said(out), out.Notes)
	}
}

func TestRefused(t *testing.T) {
	st := send(t, 6, 30, 1, usual)
	for _, c := range []struct {
		field, says string
		change      func(*Request)
	}{
		{"from", "after the range ends", func(r *Request) { r.From, r.To = time.Unix(epoch+3600, 0), time.Unix(epoch+3700, 0) }},
		{"to", "before the range begins", func(r *Request) { r.From, r.To = time.Unix(epoch-100, 0), time.Unix(epoch, 0) }},
		{"to", "before it begins", func(r *Request) { r.To = r.From }},
		{"high", "is empty", func(r *Request) { r.High = r.Low }},
		{"low", "not a number", func(r *Request) { r.Low = math.NaN() }},
		{"high", "not a number", func(r *Request) { r.High = math.NaN() }},
		{"low", "whole range", func(r *Request) { *r = ask(-10, 4000, -inf, inf) }},
		{"limit", "between 1 and 200", func(r *Request) { r.Limit = 201 }},
		{"limit", "between 1 and 200", func(r *Request) { r.Limit = -1 }},
		{"end", "not after start", func(r *Request) { r.End = r.Start; r.From, r.To = r.Start.Add(-1), r.Start.Add(1) }},
		{"family", "no family", func(r *Request) { r.Family = "nothing" }},
		{"labels", "no series of", func(r *Request) { r.Labels = []string{"tenent"} }},
		{"match", "has the label", func(r *Request) {
			r.Matchers = append(r.Matchers, labels.MustNewMatcher(labels.MatchEqual, "oparation", "x"))
		}},
	} {
		r := ask(60, 120, 0.1, 0.2)
		c.change(&r)
		_, err := Explain(t.Context(), st, r)
		var e *query.Error
		if !errors.As(err, &e) || e.Field != c.field || !strings.Contains(e.Message, c.says) {
			t.Errorf("want %s: …%s…, got %v", c.field, c.says, err)
		}
	}
}
