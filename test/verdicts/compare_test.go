package verdicts

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// An hour before a mark, and one after it.
var (
	before = window{0, time.Hour}
	after  = window{time.Hour, 2 * time.Hour}
)

// played sends an hour of one traffic, marks the moment, sends an hour of another, and
// returns the comparison of the hours and the verdict of the mark.
func (w *world) played(first, then []load) (*api.CompareResponse, *api.MarkVerdict) {
	w.t.Helper()
	w.send(time.Hour, first...)
	id := w.mark("deploy", "shop")
	w.send(time.Hour, then...)
	return w.compare("shop", before, after), w.final(id)
}

// changed returns the names of the tenants and operations that are said to have changed.
func changed(rows []api.CompareRow) (names []string) {
	for _, r := range rows {
		if r.Changed {
			names = append(names, r.Tenant+r.Operation)
		}
	}
	return names
}

func warning(all []api.CompareWarning, code string) string {
	for _, w := range all {
		if w.Code == code {
			return w.Text
		}
	}
	return ""
}

func all(of ...any) string { return strings.TrimSuffix(fmt.Sprintln(of...), "\n") }

// A tenant that was always slow comes to send half of the requests: nothing became
// slower, and the mix is named.
func TestSlowTenantSendsMore(t *testing.T) {
	always := func(perSecond float64) (all []load) {
		for _, operation := range operations {
			all = append(all, load{service: "shop", operation: operation, tenant: "slow", perSecond: perSecond / 4, median: 0.6})
		}
		return all
	}
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(append(crowd("shop", 5), always(0.5)...), append(crowd("shop", 5), always(5)...))
		mix := warning(r.Warnings, "mix")
		return r.Verdict == judge.NoEvidence && v.Verdict == judge.NoEvidence && strings.Contains(mix, "above all tenant slow"),
			all(r.Sentence, "|", v.Sentence, "|", mix)
	})
}

// Another mix of operations makes no tenant slower.
func TestMixOfOperationsMoves(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(crowd("shop", 5), with(crowd("shop", 5), func(l *load) {
			if l.operation == "GET /item" {
				l.perSecond *= 4
			}
		}))
		mix, names := warning(r.Warnings, "mix"), changed(r.Tenants)
		return r.Verdict == judge.NoEvidence && v.Verdict == judge.NoEvidence && len(names) == 0 && strings.Contains(mix, "above all GET /item"),
			all(r.Sentence, "|", v.Sentence, "|", mix, names)
	})
}

// One tenant of twelve is said by the headline and by the mark.
func TestTenantIsSlower(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(crowd("shop", 8), with(crowd("shop", 8), slow("", "tenant-3", 1.4)))
		return r.Verdict == judge.Regression && strings.Contains(r.Sentence, "for tenant-3 ") &&
				v.Verdict == judge.Regression && strings.Contains(v.Sentence, "tenant-3 "),
			all(r.Sentence, "|", v.Sentence)
	})
}

// A tenant with a hundredth of the requests is said by the headline, the exit code and
// the mark.
func TestLightTenantIsSlower(t *testing.T) {
	loads := append(crowd("shop", 10), load{service: "shop", operation: "GET /search", tenant: "light", perSecond: 0.1, median: 0.1})
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(loads, with(loads, slow("", "light", 2)))
		code, _ := w.tailscope("compare", "--service", "shop", "--a", before.text(".."), "--b", after.text(".."))
		return r.Verdict == judge.Regression && strings.Contains(r.Sentence, "for light ") && code == 1 &&
				v.Verdict == judge.Regression && strings.Contains(v.Sentence, "light "),
			all(r.Sentence, "|", v.Sentence, "| exit code", code)
	})
}

// The slowest hundredth of each operation is found by the comparison and by the mark, as
// what it is.
func TestSlowestHundredth(t *testing.T) {
	loads := crowd("shop", 8)
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(loads, with(loads, func(l *load) { l.tail = 2 }))
		return r.Verdict == judge.Regression && v.Verdict == judge.Regression && strings.Contains(v.Sentence, "p99.9 of shop "),
			all(r.Sentence, "|", v.Sentence)
	})
}

// Errors rise a thousandfold while nearly all of the mix changes: they come first, and
// nothing is claimed of the few requests that both sides have.
func TestErrorsBeforeTails(t *testing.T) {
	shared := load{service: "shop", operation: "GET /cart", tenant: "acme", perSecond: 0.4, median: 1}
	trials(t, 0.95, func(w *world) (bool, string) {
		r, v := w.played(
			[]load{shared, {service: "shop", operation: "GET /old", tenant: "acme", perSecond: 9.6, median: 0.1, failed: 0.0004}},
			[]load{with([]load{shared}, slow("", "", 1/34.0))[0], {service: "shop", operation: "GET /new", tenant: "acme", perSecond: 9.6, median: 0.1, failed: 0.4}})
		return (r.Verdict == judge.Mixed || r.Verdict == judge.Regression) && strings.HasPrefix(r.Sentence, "The share of errors of shop is ") &&
				(v.Verdict == judge.Mixed || v.Verdict == judge.Regression) && strings.HasPrefix(v.Sentence, "The share of errors of shop is "),
			all(r.Verdict, r.Sentence, "|", v.Verdict, v.Sentence)
	})
}

// A season is warned of where an earlier day had it, and nowhere else.
func TestSeasonWarning(t *testing.T) {
	usual := crowd("shop", 3)
	half := 30 * time.Minute
	day := func(w *world, first, then []load) {
		w.send(half, first...)
		w.send(half, then...)
		w.advance(24*time.Hour - 2*half)
	}
	trials(t, 0.95, func(w *world) (bool, string) {
		day(w, usual, usual)
		day(w, usual, usual)
		r := w.compare("shop", window{24 * time.Hour, 24*time.Hour + half}, window{24*time.Hour + half, 25 * time.Hour})
		same := warning(r.Warnings, "season")
		noon := with(usual, slow("", "", 2))
		day(w, usual, noon)
		day(w, usual, noon)
		r = w.compare("shop", window{72 * time.Hour, 72*time.Hour + half}, window{72*time.Hour + half, 73 * time.Hour})
		season := warning(r.Warnings, "season")
		_, out := w.tailscope("compare", "--service", "shop", "--a", window{72 * time.Hour, 72*time.Hour + half}.text(".."), "--b", window{72*time.Hour + half, 73 * time.Hour}.text(".."))
		return same == "" && strings.Contains(season, "the same hours of an earlier day differ as well (p") && !strings.Contains(season, "kind=") &&
				strings.Contains(out, "earlier days, --b 2026-05-15T10:30:00Z..2026-05-15T11:00:00Z --days 4 --set like=workday\n"),
			all(same, "|", season)
	})
}

// The rate of steady traffic is right for any window.
func TestRateOfAnyWindow(t *testing.T) {
	w := newWorld(t, 1)
	w.send(20*time.Minute, load{service: "shop", operation: "GET /cart", perSecond: 20, median: 0.05, steady: true})
	right, n := 0, 0
	for _, window := range []string{"15s", "45s", "60s", "75s", "90s", "7m"} {
		for _, step := range []string{"7", "15", "60"} {
			for _, rate := range w.rates("histogram_count(sum(rate(span_duration_seconds{service=\"shop\"}["+window+"])))", 10*time.Minute, 18*time.Minute, step) {
				n++
				if math.Abs(rate-20) <= 0.2 {
					right++
				} else {
					t.Logf("[%s] by %s s: %v", window, step, rate)
				}
			}
		}
	}
	t.Logf("%d of %d", right, n)
	if right < n || n == 0 {
		t.Errorf("%d of %d rates are 20 within 1 %%", right, n)
	}
}

// rates returns the values of a PromQL query over a range, in time after epoch.
func (w *world) rates(query string, from, to time.Duration, step string) (values []float64) {
	w.t.Helper()
	q := url.Values{"query": {query}, "start": {fmt.Sprint(epoch.Add(from).Unix())}, "end": {fmt.Sprint(epoch.Add(to).Unix())}, "step": {step}}
	res, err := http.Get("http://" + w.server.Addr() + "/prometheus/api/v1/query_range?" + q.Encode())
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Values [][2]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data.Result) != 1 {
		w.t.Fatalf("%s is answered %s, %v", query, body, err)
	}
	for _, v := range answer.Data.Result[0].Values {
		x, err := strconv.ParseFloat(strings.Trim(string(v[1]), `"`), 64)
		if err != nil {
			w.t.Fatal(err)
		}
		values = append(values, x)
	}
	return values
}

// A service that nobody sent is said to be none, and the nearest is named; a setting that
// cannot be is named as it was written; no sentence speaks against the verdict above it.
func TestWordsOfTheCommandLine(t *testing.T) {
	w := newWorld(t, 1)
	loads := append(crowd("shop", 10), load{service: "shop", operation: "GET /search", tenant: "light", perSecond: 0.1, median: 0.1})
	w.played(loads, with(loads, slow("", "light", 2)))
	sides := []string{"--a", before.text(".."), "--b", after.text("..")}
	for _, c := range []struct {
		args []string
		code int
		want string
		not  string
	}{
		{[]string{"--service", "shopp"}, 3, `tailscope: there is no service "shopp"; did you mean "shop"?`, ""},
		{[]string{"--service", "shop", "--set", "level=0.2"}, 3, "tailscope: --set level: ", ""},
		{[]string{"--service", "shop", "--measures", "p77"}, 3, `tailscope: --measures: there is no measure "p77"`, ""},
		{[]string{"--service", "shop", "--limit", "9999"}, 3, "tailscope: --limit 9999 is not between 1 and 500", ""},
		{[]string{"--service", "shop"}, 1, "Verdict: regression", "No evidence that the distributions differ"},
	} {
		code, out := w.tailscope(append(append([]string{"compare"}, c.args...), sides...)...)
		if code != c.code || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v ends with %d and says\n%s\nwant %d and %q, not %q", c.args, code, out, c.code, c.want, c.not)
		}
		t.Log(strings.Join(strings.SplitN(out, "\n", 5)[:min(4, strings.Count(out, "\n"))], " | "))
	}
}
