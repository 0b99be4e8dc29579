package httpapi

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestExplain(t *testing.T) {
	srv := shop(t, Options{})
	at := func(sec int64) string { return strconv.FormatInt(querytest.Epoch+sec, 10) }
	code, body := fetch(t, srv, "/api/v1/explain", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "from", at(605), "to", at(1200), "low", "0.01", "limit", "3", "against", "rest")
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.ExplainResponse](t, body)
	if r.Start != querytest.Epoch || r.End != querytest.Epoch+3600 || r.From != querytest.Epoch+600 || r.To != querytest.Epoch+1200 || r.Low > 0.01 || r.Low < 0.0097 {
		t.Errorf("the rectangle is %s", body)
	}
	if !strings.Contains(body, `"high":null`) || r.Inside == 0 || r.Outside == 0 || r.LabelsTried == 0 || r.PairsTried == 0 || len(r.Items) > 3 {
		t.Errorf("got %s", body)
	}
	// The same requests as the heatmap has there.
	code, body = fetch(t, srv, "/api/v1/heatmap", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "step", "600")
	if code != 200 {
		t.Fatal(body)
	}
	h := decodeJSON[api.HeatmapResponse](t, body)
	var inside uint64
	for _, c := range h.Columns {
		for i, row := range c.Rows {
			if c.Start == r.From && h.Bounds[row] >= r.Low {
				inside += c.Counts[i]
			}
		}
	}
	if r.Inside != inside || r.Inside+r.Outside != h.Count {
		t.Errorf("%d inside and %d outside, the heatmap has %d of %d", r.Inside, r.Outside, inside, h.Count)
	}
	code, body = fetch(t, srv, "/api/v1/explain", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "low", "0.01", "pairs", "false", "labels", "tenant", "against", "rest")
	if r = decodeJSON[api.ExplainResponse](t, body); code != 200 || r.PairsTried != 0 {
		t.Errorf("labels alone: %s", body)
	}
}

// slowed fills w with an hour of a shop of which one operation and one tenant are always
// slow, and another tenant, acme, becomes twice as slow after 40 minutes.
func slowed(w *querytest.Writer) {
	rng := rand.New(rand.NewPCG(18, 1))
	for slot := range int64(360) {
		for range 60 {
			operation, tenant := []string{"GET /cart", "GET /search", "GET /report"}[rng.IntN(3)], []string{"acme", "globex", "initech", "always"}[rng.IntN(4)]
			seconds := 0.1 * math.Exp(0.4*rng.NormFloat64())
			if operation == "GET /report" {
				seconds *= 10
			}
			if tenant == "always" {
				seconds *= 5
			}
			if tenant == "acme" && slot >= 240 {
				seconds *= 2
			}
			w.Span(querytest.Epoch+slot*10, labels.FromStrings("service", "shop", "operation", operation, "tenant", tenant, "instance", "pod-"+string(rune('a'+rng.IntN(3))), "kind", "server", "status", "ok"), seconds)
		}
	}
}

// Against the time before, what became slow at a mark is named, and nothing where nothing
// did, though one operation and one tenant are always slow.
func TestExplainBefore(t *testing.T) {
	w := querytest.NewWriter()
	slowed(w)
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if err := store.PutMark(t.Context(), st, store.Mark{ID: "m1", Name: "deploy 2", Service: "shop", Time: time.Unix(querytest.Epoch+2400, 0)}); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, Options{Store: st})
	at := func(sec int64) string { return strconv.FormatInt(querytest.Epoch+sec, 10) }
	ask := func(params ...string) api.ExplainResponse {
		t.Helper()
		code, body := fetch(t, srv, "/api/v1/explain", append([]string{"match", `{service="shop"}`, "start", at(0), "end", at(3600), "low", "0.3"}, params...)...)
		if code != 200 {
			t.Fatal(body)
		}
		return decodeJSON[api.ExplainResponse](t, body)
	}
	r := ask("from", at(2500))
	if len(r.Items) != 1 || r.Items[0].Labels["tenant"] != "acme" || !strings.HasPrefix(r.Sentence, "tenant acme: ") || r.Against != "before" {
		t.Errorf("became slow: %+v", r)
	}
	if b := r.Before; b == nil || b.Mark != "m1" || b.Name != "deploy 2" || b.End != querytest.Epoch+2400 || b.Start != querytest.Epoch+1300 || r.From != querytest.Epoch+2500 || b.Count != 110*60 || b.Inside == 0 || !(b.Now > b.Share) {
		t.Errorf("the stretch before: %+v", r.Before)
	}
	const nothing = "nothing became slower here than it was from "
	if r = ask("from", at(600), "to", at(1200)); len(r.Items) != 0 || !strings.HasPrefix(r.Sentence, nothing) || r.Before.Mark != "" {
		t.Errorf("without a cause: %+v", r)
	}
	if r = ask("from", at(3000), "before", at(2400)+"/"+at(3000)); len(r.Items) != 0 || !strings.HasPrefix(r.Sentence, nothing) {
		t.Errorf("since the mark: %+v", r)
	}
	if r = ask("from", at(2500), "against", "rest"); r.Before != nil || len(r.Items) < 2 || r.Items[0].Labels["operation"] != "GET /report" {
		t.Errorf("who is slow: %+v", r)
	}
	if r = ask("from", at(2500), "against", "day"); len(r.Items) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "name another stretch before") {
		t.Errorf("against the day before: %+v", r)
	}
}

func TestExplainRefuses(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		params      []string
		code        int
		field, says string
	}{
		{nil, 400, "low", "whole range"},
		{[]string{"low", "slow"}, 400, "low", "write seconds such as 0.2"},
		{[]string{"high", "Inf"}, 400, "high", "leave high out for no bound"},
		{[]string{"low", "2", "high", "1"}, 400, "high", "is empty"},
		{[]string{"from", "now+1h"}, 400, "from", "after the range ends"},
		{[]string{"to", "now-9h"}, 400, "to", "before the range begins"},
		{[]string{"from", "now-1h", "to", "now-2h"}, 400, "to", "before it begins"},
		{[]string{"from", "noon"}, 400, "from", "not a time"},
		{[]string{"low", "1", "labels", "tenent"}, 400, "labels", "did you mean"},
		{[]string{"low", "1", "labels", "a,,b"}, 400, "labels", "empty name"},
		{[]string{"low", "1", "pairs", "maybe"}, 400, "pairs", "neither true nor false"},
		{[]string{"low", "1", "limit", "500"}, 400, "limit", "between 1 and 200"},
		{[]string{"low", "1", "family", "nothing"}, 404, "family", "there is no family"},
		{[]string{"low", "1", "match", `{tenant="a",instance="b"}`}, 400, "match", "not kept together"},
		{[]string{"low", "1", "against", "tomorrow"}, 400, "against", "not something to compare with"},
		{[]string{"low", "1", "before", "yesterday"}, 400, "before", "is not a window"},
		{[]string{"low", "1", "before", "now-1h/now-2h"}, 400, "before", "ends before it begins"},
		{[]string{"low", "1", "before", "now-2h/now-1h", "against", "rest"}, 400, "before", "leave one of the two out"},
		{[]string{"low", "1", "height", "2"}, 400, "height", ""},
	} {
		code, body := fetch(t, srv, "/api/v1/explain", c.params...)
		e := decodeJSON[api.Error](t, body).Error
		if code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.says) {
			t.Errorf("%v: got %d %+v, want %d %s %q", c.params, code, e, c.code, c.field, c.says)
		}
	}
}
