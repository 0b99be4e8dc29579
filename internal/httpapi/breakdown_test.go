package httpapi

import (
	"context"
	"net/http/httptest"
	"net/url"
	"testing"

	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// fillOrders puts requests with known parts into a store.
func fillOrders(t testing.TB, st store.Store) store.Store {
	t.Helper()
	w := querytest.NewWriter()
	querytest.Orders(w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

func ordersServer(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	o.Store = fillOrders(t, storetest.NewTwin())
	return serve(t, o)
}

func TestBreakdownBadInput(t *testing.T) {
	srv := ordersServer(t, Options{})
	match := "match=" + url.QueryEscape(`{service="shop"}`)
	for _, c := range []struct {
		path, query  string
		status       int
		field, words string
	}{
		{"breakdown", "", 400, "match", `write match={service="checkout"}`},
		{"breakdown", "match=" + url.QueryEscape(`{service=~"a|b"}`), 400, "match", "one service's requests"},
		{"breakdown", "match=" + url.QueryEscape(`{service="shop",component="db"}`), 400, "match", "leave it out"},
		{"breakdown", "match=" + url.QueryEscape(`{service="shop",cohort="small",version="1"}`), 400, "match", "leave one of them out"},
		{"breakdown", "match=" + url.QueryEscape(`{service="shop",cohort="huge"}`), 400, "match", "write one of very large, large, medium, small"},
		{"breakdown", "match=" + url.QueryEscape(`{service="shop",cohort=~"huge|tiny"}`), 400, "match", "there are very large, large, medium, small"},
		{"breakdown", "match=" + url.QueryEscape(`{service="shop",tennant="a"}`), 400, "match", `did you mean "tenant"?`},
		{"breakdown", "match=" + url.QueryEscape(`span_self_seconds{service="shop"}`), 400, "match", "leave span_self_seconds out"},
		{"breakdown", match + "&above=95", 400, "above", "such as 0.95"},
		{"breakdown", match + "&above=1", 400, "above", "such as 0.95"},
		{"breakdown", match + "&above=0.9&low=1", 400, "above", "leave one of them out"},
		{"breakdown", match + "&low=2&high=1", 400, "high", "not above low"},
		{"breakdown", match + "&low=slow", 400, "low", "is not a duration"},
		{"breakdown", match + "&low=-1", 400, "low", "negative"},
		{"breakdown", match + "&limit=101", 400, "limit", "not between 1 and 100"},
		{"breakdown", match + "&start=now&end=now-1h", 400, "end", "is not after start"},
		{"breakdown", match + "&step=1s&width=9&family=x", 400, "family", "there is no parameter"},
		{"breakdown", "match=" + url.QueryEscape(`{service="nobody"}`), 404, "match", "there is no service"},
		{"operations", "sort=p95&q=0.5", 400, "sort", "write one of total, calls, errors, mean, name, 0.5"},
		{"operations", "limit=1001", 400, "limit", "not between 1 and 1000"},
		{"operations", "component=db,,x", 400, "component", "empty name"},
		{"operations", "match=" + url.QueryEscape(`{tenant="a",instance="b"}`), 400, "match", "not kept together"},
		{"callers", "service=shop", 400, "operation", "name the operation"},
		{"callers", "operation=x", 400, "service", "name the service"},
		{"traces", "sort=nearest", 400, "at", "at=0.25"},
		{"traces", "sort=nearest&at=250ms", 400, "time", "time=now-5m"},
		{"traces", "sort=slow", 400, "sort", "write one of slowest, newest, nearest"},
		{"traces", "why=slow,bad", 400, "why", "write slow, failed or exemplar"},
		{"traces", "min=1&max=0.5", 400, "max", "write a greater one"},
		{"traces", "match=" + url.QueryEscape(`{version="1"}`), 400, "match", "not by version"},
		{"traces", "", 200, "", ""},
		{"traces/xyz", "", 400, "id", "32 hex digits"},
		{"traces/0af7651916cd43dd8448eb211c80319c0", "", 400, "id", "32 hex digits"},
		{"traces/0af7651916cd43dd8448eb211c80319c", "", 404, "id", "kept are the slowest"},
		{"traces/0af7651916cd43dd8448eb211c80319c", "x=1", 400, "x", "takes no parameters"},
		{"families", "service=shop&start=now&end=now-1h", 400, "end", "is not after start"},
	} {
		status, body := fetch(t, srv, "/api/v1/"+c.path+"?"+c.query)
		wantAnswer(t, c.path+"?"+c.query, status, body, c.status, c.field, c.words)
	}
}
