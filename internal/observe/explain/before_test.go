package explain

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// acmeSlow makes acme slow from slot 180 of the hour, its middle, and one operation always.
func acmeSlow(rng *rand.Rand, slot int) (operation, tenant, status, instance string, seconds float64) {
	operation, tenant, status, instance, seconds = usual(rng, slot)
	if operation == "GET /item" {
		seconds *= 20
	}
	if tenant == "acme" && slot >= 180 {
		seconds *= 3
	}
	return operation, tenant, status, instance, seconds
}

// The stretch before is the one named, that before a mark, that before the rectangle, or a
// day earlier.
func TestStretch(t *testing.T) {
	st := send(t, 20, 360, 40, acmeSlow)
	mark := func(id, service string, sec int64) {
		t.Helper()
		if err := store.PutMark(t.Context(), st, store.Mark{ID: id, Name: "deploy", Service: service, Time: time.Unix(epoch+sec, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	before := func(from, to float64) Request {
		r := ask(from, to, 0.05, inf)
		r.Against = Before
		return r
	}
	moved := false // the rectangle begins later than asked
	stretch := func(r Request) (from, to, start, end int64, mark string) {
		t.Helper()
		out := explained(t, st, r)
		if got := said(out); len(got) == 0 || got[0] != "tenant acme" {
			t.Errorf("%v, %q, %v", got, out.Sentence, out.Notes)
		}
		if said := strings.Contains(strings.Join(out.Notes, " "), `the rectangle begins at the mark "deploy", `); said != (out.From > r.From.Unix()) {
			t.Errorf("begins at %d, asked %d, notes %v", out.From-epoch, r.From.Unix()-epoch, out.Notes)
		} else if said {
			moved = true
		}
		return out.From - epoch, out.To - epoch, out.Before.Start - epoch, out.Before.End - epoch, out.Before.Mark
	}
	check := func(name string, r Request, want ...any) {
		t.Helper()
		from, to, start, end, mark := stretch(r)
		for i, got := range []any{from, to, start, end, mark} {
			if w := want[i]; got != w && !(i < 4 && got == int64(w.(int))) {
				t.Errorf("%s: %d–%d against %d–%d up to %q, want %v", name, from, to, start, end, mark, want)
				return
			}
		}
	}
	check("no mark", before(1800, 3000), 1800, 3000, 600, 1800, "")
	check("a short one", before(1800, 2000), 1800, 2000, 1500, 1800, "")
	named := before(2400, 3600)
	named.BeforeStart, named.BeforeEnd = time.Unix(epoch+300, 0), time.Unix(epoch+900, 0)
	check("named", named, 2400, 3600, 300, 900, "")
	mark("other", "billing", 1800)
	mark("early", "shop", -4000)
	mark("late", "", 3500)
	check("no mark that is near", before(1800, 3000), 1800, 3000, 600, 1800, "")
	// A mark before the change, at which nothing changed, does not move the rectangle.
	mark("decoy", "shop", 1500)
	check("a mark before the change", before(1900, 3100), 1900, 3100, 300, 1500, "decoy")
	if err := store.DeleteMark(t.Context(), st, "decoy"); err != nil {
		t.Fatal(err)
	}
	mark("near", "shop", 1800)
	check("a mark before", before(2100, 3000), 2100, 3000, 900, 1800, "near")
	check("a mark inside", before(1600, 3600), 1800, 3600, 0, 1800, "near")
	check("the last one inside", before(0, 3400), 1800, 3400, 200, 1800, "near")
	if !moved {
		t.Error("no rectangle was moved")
	}

	r := before(1800, 3000)
	r.Against = Day
	out := explained(t, st, r)
	if out.Before.Start != epoch+1800-86400 || out.Before.End != epoch+3000-86400 || len(out.Items) != 0 || out.Sentence != "" || !strings.Contains(strings.Join(out.Notes, " "), "name another stretch before") {
		t.Errorf("a day without data: %+v", out)
	}
	r = before(0, 3600)
	r.Start, r.End = time.Unix(epoch+7200, 0), time.Unix(epoch+9000, 0)
	r.From, r.To = r.Start, r.End
	if out := explained(t, st, r); len(out.Items) != 0 || !strings.Contains(out.Notes[0], "no requests were measured in the rectangle's time") {
		t.Errorf("nothing inside: %+v", out)
	}
}

// An operation that is always inside counts from its own threshold: it explains nothing,
// and is found when it becomes slower. Without bounds of value every one does.
func TestOwnThreshold(t *testing.T) {
	st := send(t, 21, 360, 40, acmeSlow)
	r := ask(1800, 3600, 0.15, inf)
	r.Against = Before
	out := explained(t, st, r)
	if got := said(out); len(got) != 1 || got[0] != "tenant acme" {
		t.Errorf("%v", got)
	}
	own := out.Before.Own
	if len(own) != 1 || own[0].Operation != "GET /item" || own[0].Above < 0.4 || own[0].Above > 0.7 || !strings.Contains(strings.Join(out.Notes, " "), "operation GET /item") {
		t.Errorf("own thresholds %+v, %v", own, out.Notes)
	}
	if i := out.Items[0]; i.InsideShare <= i.OutsideShare || i.Effect < i.EffLow || i.Effect > i.EffHigh || i.EffLow <= 0 || i.Part < 0.7 || i.Part > 1.3 || i.Adjusted > 1e-3 ||
		!strings.HasPrefix(i.Sentence, "tenant acme: ") || !strings.HasSuffix(i.Sentence, ", 80 % of the increase") || out.Sentence != i.Sentence+"; the other 20 % is not explained" {
		t.Errorf("%+v", i)
	}
	r = ask(1800, 3600, -inf, inf)
	r.Against = Before
	if out = explained(t, st, r); len(out.Before.Own) != 4 || len(out.Items) != 1 || out.Items[0].Labels["tenant"] != "acme" {
		t.Errorf("without bounds: %v, %+v", said(out), out.Before.Own)
	}
	// Of a bound above alone are the fast ones, and those have become fewer.
	r = ask(1800, 3600, -inf, 0.05)
	r.Against = Before
	if out = explained(t, st, r); len(out.Items) != 0 || out.Sentence != "nothing became more frequent here than it was from 2026-05-09 08:00:00 to 08:30:00 UTC; name another stretch before, or ask who is slow" {
		t.Errorf("the fast ones: %v, %q", said(out), out.Sentence)
	}
	r = ask(1800, 1900, 0.15, inf)
	r.Against, r.BeforeStart, r.BeforeEnd = Before, time.Unix(epoch+1700, 0), time.Unix(epoch+1800, 0)
	if out = explained(t, st, r); len(out.Items) != 0 || out.Sentence != "" || !strings.Contains(out.Notes[0], "too few") {
		t.Errorf("of ten slots: %+v", out)
	}
}

// A version that is new is compared with what served the same requests before, a tenant
// that nobody saw before with the same operations; if all became slower, that is said.
func TestWhatIsNew(t *testing.T) {
	r := ask(1800, 3600, 0.05, inf)
	r.Against = Before
	for _, c := range []struct {
		name, want string
		next       draw
	}{
		{"instance", "instance pod-new", func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
			operation, tenant, status, instance, seconds := usual(rng, slot)
			if slot >= 180 && instance == "pod-1" {
				instance, seconds = "pod-new", seconds*3
			}
			return operation, tenant, status, instance, seconds
		}},
		{"tenant", "tenant newco", func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
			operation, tenant, status, instance, seconds := usual(rng, slot)
			if slot >= 180 && rng.IntN(8) == 0 {
				tenant, seconds = "newco", seconds*3
			}
			return operation, tenant, status, instance, seconds
		}},
		{"errors", "status error", func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
			operation, tenant, status, instance, seconds := usual(rng, slot)
			if rng.IntN(100) == 0 || slot >= 180 && rng.IntN(20) == 0 {
				status, seconds = "error", seconds*10
			}
			return operation, tenant, status, instance, seconds
		}},
		{"all", "all requests", func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
			operation, tenant, status, instance, seconds := usual(rng, slot)
			if slot >= 180 {
				instance, seconds = "new-"+instance, seconds*2
			}
			return operation, tenant, status, instance, seconds
		}},
		{"mix", "", func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
			operation, tenant, status, instance, seconds := usual(rng, slot)
			if operation == "GET /item" && slot >= 180 && rng.IntN(3) > 0 {
				operation = "GET /cart"
			}
			if slot >= 180 && rng.IntN(2) == 0 {
				tenant = "hooli"
			}
			if tenant == "hooli" {
				seconds *= 4
			}
			return operation, tenant, status, instance, seconds
		}},
	} {
		st := send(t, 22, 360, 40, c.next)
		out := explained(t, st, r)
		if got := strings.Join(said(out), ", "); got != c.want {
			t.Errorf("%s: %q, %q, %v", c.name, got, out.Sentence, out.Notes)
		}
		for _, i := range out.Items {
			if math.IsNaN(float64(i.Effect)) || i.EffLow <= 0 {
				t.Errorf("%s: %+v", c.name, i)
			}
		}
	}
}

// Of many tenants only the heaviest are read; the others are one row, and never a cause.
func TestManyTenantsBefore(t *testing.T) {
	st := send(t, 23, 360, 60, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
		operation, tenant, status, instance, seconds := usual(rng, slot)
		if n := rng.IntN(60); n > 10 && tenant != "acme" {
			tenant = "small-" + string(rune('a'+n-11))
		}
		if tenant == "acme" && slot >= 180 {
			seconds *= 3
		}
		return operation, tenant, status, instance, seconds
	})
	r := ask(1800, 3600, 0.05, inf)
	r.Against = Before
	all := explained(t, st, r)
	r.most = 60
	few := explained(t, st, r)
	for _, out := range []struct {
		name  string
		items []string
		tried int
	}{{"all", said(all), all.LabelsTried}, {"few", said(few), few.LabelsTried}} {
		if len(out.items) != 1 || out.items[0] != "tenant acme" {
			t.Errorf("%s: %v of %d labels", out.name, out.items, out.tried)
		}
	}
	if few.LabelsTried >= all.LabelsTried || few.Inside != all.Inside || few.Before.Count != all.Before.Count || !strings.Contains(strings.Join(few.Notes, " "), "of tenants only the 10") {
		t.Errorf("few: %+v", few)
	}
	r.most = 0
	r.Matchers = append(r.Matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelTenant, "acme"))
	if out := explained(t, st, r); len(out.Items) != 1 || out.Items[0].Sentence[:12] != "all requests" {
		t.Errorf("of acme: %v", said(out))
	}
}

// A stretch lies behind the last change, or ends at what lasts, and holds nothing of what got well.
func TestCutAtChanges(t *testing.T) {
	change := func(low, high int64, verdict api.Verdict) api.Change {
		return api.Change{Time: api.Float(low+high) / 2, Low: api.Float(low), High: api.Float(high), Verdict: verdict}
	}
	spike := func(start, end int64) []api.Change {
		up, down := change(start-60, start+60, judge.Regression), change(end-60, end+60, judge.Improvement)
		up.Shape = &api.Shape{Kind: judge.Spike, Start: start, End: end}
		down.Shape = up.Shape
		return []api.Change{up, down}
	}
	worse := func(at int64) []api.Change { return []api.Change{change(at-60, at+60, judge.Regression)} }
	for _, c := range []struct {
		name  string
		found []api.Change
		want  string // start and end of each
	}{
		{"none", nil, "9000–10000 8000–9000"},
		{"for the worse", worse(7000), "9000–10000 8000–9000 5940–6940"},
		{"two", slices.Concat(worse(4000), worse(7000)), "9000–10000 8000–9000 5940–6940 2940–3940"},
		{"for the better", []api.Change{change(6940, 7060, judge.Improvement)}, "9000–10000 8000–9000"},
		{"what got well", spike(5000, 7000), "9000–10000 8000–9000"},
		{"what got well just before", spike(8000, 9900), "6940–7940 5940–6940"},
		{"what has not got well", spike(8000, 11000)[:1], "9000–10000 8060–9000 6940–7940"},
		{"a change within what got well", slices.Concat(spike(5000, 8000)[:1], worse(6500), spike(5000, 8000)[1:]), "9000–10000 8060–9000 3940–4940"},
		{"what got well before a change", slices.Concat(spike(3000, 5500), worse(7000)), "9000–10000 8000–9000 5940–6940"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, x := range cutAtChanges(stretch{ExplainBefore: api.ExplainBefore{End: 10000}}, c.found, 1000) {
				got = append(got, fmt.Sprintf("%d–%d", x.Start, x.End))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s, want %s", s, c.want)
			}
		})
	}
}

// A rectangle that begins long after the cause, which no search found, is compared with an
// earlier time, and a note says so.
func TestLongAfterWhatWasNotFound(t *testing.T) {
	r := ask(2400, 3000, 0.05, inf)
	r.Against = Before
	out := explained(t, send(t, 24, 360, 40, acmeSlow), r)
	if got := said(out); len(got) != 1 || got[0] != "tenant acme" || out.Before.End != epoch+1800 || len(out.Errors.Items) != 0 ||
		!strings.Contains(strings.Join(out.Notes, " "), "nobody surely became slow: the rectangle is compared with an earlier time, from 2026-05-09 08:20:00 to 08:30:00 UTC") {
		t.Errorf("%v against %+v, %v", got, out.Before, out.Notes)
	}
}

// A change of errors ends no stretch of durations, nor one of durations a stretch of errors.
func TestStretchesOfWhatChanged(t *testing.T) {
	change := func(at int64, found ...string) api.Change {
		return api.Change{Time: api.Float(at), Low: api.Float(at - 60), High: api.Float(at + 60), Verdict: judge.Regression, Found: found}
	}
	r := ask(10000, 11000, 0.05, inf)
	r.Against, r.Family = Before, series.SpanDuration
	r.Changes = func(context.Context, query.Selection) ([]api.Change, error) {
		return []api.Change{change(epoch+2000, "durations", "errors"), change(epoch+4000, "durations"), change(epoch+6000, "errors")}, nil
	}
	q := &question{Request: r, st: storetest.NewTwin(), out: &api.ExplainResponse{}}
	durations, errors, err := q.stretches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := func(all []stretch) (s string) {
		for _, x := range all {
			s += fmt.Sprintf("%d–%d ", x.Start-epoch, x.End-epoch)
		}
		return s
	}
	if d, e := text(durations), text(errors); d != "9000–10000 8000–9000 2940–3940 940–1940 " || e != "9000–10000 8000–9000 4940–5940 940–1940 " {
		t.Errorf("of durations %s, of errors %s", d, e)
	}
}
