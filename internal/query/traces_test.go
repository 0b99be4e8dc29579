package query

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// kept puts one trace per entry; the id counts from 1.
func kept(t interface{ Fatal(...any) }, entries ...store.TraceEntry) store.Store {
	st := storetest.NewTwin()
	var list []store.Trace
	for i, e := range entries {
		tr := store.Trace{Entries: []store.TraceEntry{e}, Data: []byte{1}}
		binary.BigEndian.PutUint64(tr.ID[8:], uint64(i+1))
		copy(tr.Entries[0].Span[:], tr.ID[8:])
		list = append(list, tr)
	}
	if err := st.PutTraces(context.Background(), list); err != nil {
		t.Fatal(err)
	}
	return st
}

func entry(second int64, d time.Duration, service, operation, tenant string, failed bool, why store.Why) store.TraceEntry {
	return store.TraceEntry{Service: service, Operation: operation, Tenant: tenant, Failed: failed, Why: why,
		StartNanos: (querytest.Epoch + second) * 1e9, DurationNanos: int64(d)}
}

func ids(out *api.TracesResponse) string {
	var list []string
	for _, r := range out.Traces {
		list = append(list, strings.TrimLeft(r.TraceID, "0"))
	}
	return strings.Join(list, " ")
}

func TestTraces(t *testing.T) {
	const ms = time.Millisecond
	st := kept(t,
		entry(100, 50*ms, "shop", "GET /", "acme", false, store.WhyExemplar),
		entry(200, 900*ms, "shop", "GET /", "globex", true, store.WhySlow|store.WhyFailed),
		entry(300, 200*ms, "shop", "POST /", "acme", true, store.WhyFailed),
		entry(400, 400*ms, "stock", "GET /", "acme", false, store.WhySlow),
		entry(500, 100*ms, "stock", "GET /", "initech", false, 0),
		entry(4000, 999*ms, "shop", "GET /", "acme", false, store.WhySlow),
	)
	m := func(typ labels.MatchType, name, value string) *labels.Matcher {
		return labels.MustNewMatcher(typ, name, value)
	}
	for _, c := range []struct {
		r    TracesRequest
		want string
	}{
		{TracesRequest{}, "2 4 3 5 1"},
		{TracesRequest{Sort: SortNewest}, "5 4 3 2 1"},
		{TracesRequest{Limit: 2}, "2 4"},
		{TracesRequest{Min: 0.1, Max: 0.4}, "4 3 5"},
		{TracesRequest{Why: []string{"slow"}}, "2 4"},
		{TracesRequest{Why: []string{"failed", "exemplar"}}, "2 3 1"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchEqual, "service", "shop")}}}, "2 3 1"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchEqual, "status", "error")}}}, "2 3"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchNotEqual, "status", "error")}}}, "4 5 1"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchRegexp, "status", "ok|error"), m(labels.MatchEqual, "kind", "server")}}}, "2 4 3 5 1"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchRegexp, "tenant", "acme|initech"), m(labels.MatchEqual, "operation", "GET /")}}}, "4 5 1"},
		{TracesRequest{Selection: Selection{Matchers: []*labels.Matcher{m(labels.MatchNotEqual, "tenant", "globex")}}, Limit: 1}, "4"},
		{TracesRequest{Sort: SortNearest, At: 0.2, Time: at(epoch + 300), Limit: 2}, "3 4"}, // a factor of two is two away, as is 100 s
		{TracesRequest{Sort: SortNearest, At: 0.09, Time: at(epoch + 500), Limit: 1}, "5"},
		{TracesRequest{Sort: SortNearest, At: 30, Time: at(epoch), Limit: 9}, "2 4 3 5 1"},
		{TracesRequest{Sort: SortNearest, At: 0.05, Time: at(epoch), Step: time.Hour, Limit: 2}, "1 5"},
	} {
		c.r.Start, c.r.End = at(epoch), at(epoch+3600)
		out, err := Traces(context.Background(), st, c.r)
		if err != nil {
			t.Errorf("%+v: %v", c.r, err)
		} else if got := ids(out); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.r, got, c.want)
		}
	}
	out, err := Traces(context.Background(), st, TracesRequest{Selection: Selection{Start: at(epoch), End: at(epoch + 3600)}, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := api.TraceRow{TraceID: "00000000000000000000000000000002", SpanID: "0000000000000002", Service: "shop", Operation: "GET /", Tenant: "globex",
		Failed: true, Why: []string{"slow", "failed"}, Start: api.Float(epoch + 200), Duration: 0.9}
	if fmt.Sprint(out.Traces[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", out.Traces[0], want)
	}
}

func TestTracesRefuses(t *testing.T) {
	st := kept(t)
	m := func(name, value string) Selection {
		return Selection{Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}}
	}
	for _, c := range []struct {
		r     TracesRequest
		field string
	}{
		{TracesRequest{Sort: "fastest"}, "sort"},
		{TracesRequest{Sort: SortNearest, Time: at(epoch)}, "at"},
		{TracesRequest{Sort: SortNearest, At: 1}, "time"},
		{TracesRequest{Min: 2, Max: 1}, "max"},
		{TracesRequest{Why: []string{"fast"}}, "why"},
		{TracesRequest{Limit: 1001}, "limit"},
		{TracesRequest{Selection: m("version", "2")}, "match"},
		{TracesRequest{Selection: m("kind", "client")}, "match"},
		{TracesRequest{Selection: m("status", "fine")}, "match"},
	} {
		c.r.Start, c.r.End = at(epoch), at(epoch+3600)
		_, err := Traces(context.Background(), st, c.r)
		var e *Error
		if !errors.As(err, &e) || e.Field != c.field || e.Code != CodeInvalid {
			t.Errorf("%+v: got %v, want %s at fault", c.r, err, c.field)
		}
	}
}

// The nearest requests are those that a look at every one would find.
func TestNearestTraces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []store.TraceEntry
		for range rapid.IntRange(1, 30).Draw(rt, "n") {
			d := time.Duration(math.Exp(rapid.Float64Range(-9, 5).Draw(rt, "log")) * 1e9)
			all = append(all, entry(rapid.Int64Range(0, 40_000).Draw(rt, "second"), d, "s", "o", "", false, store.WhySlow))
		}
		st := kept(rt, all...)
		r := TracesRequest{
			Selection: Selection{Start: at(epoch - 1000), End: at(epoch + 50_000)}, Sort: SortNearest, Limit: rapid.IntRange(1, 5).Draw(rt, "limit"),
			At: math.Exp(rapid.Float64Range(-9, 5).Draw(rt, "at")), Time: at(epoch + rapid.Int64Range(0, 40_000).Draw(rt, "time")),
			Step: rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 5 * time.Minute}).Draw(rt, "step"),
		}
		out, err := Traces(context.Background(), st, r)
		if err != nil {
			rt.Fatal(err)
		}
		step := max(r.Step, 10*time.Second).Seconds()
		distance := func(start, d float64) float64 {
			from := float64(r.Time.Unix())
			t := max(from-start-d, start+d-from-step, 0) / max(step, 60)
			return math.Hypot(2*math.Log2(d/r.At), t)
		}
		var want []float64
		for _, e := range all {
			want = append(want, distance(float64(e.StartNanos)/1e9, float64(e.DurationNanos)/1e9))
		}
		slices.Sort(want)
		want = want[:min(r.Limit, len(want))]
		if len(out.Traces) != len(want) {
			rt.Fatalf("got %d traces, want %d", len(out.Traces), len(want))
		}
		for i, row := range out.Traces {
			if got := distance(float64(row.Start), float64(row.Duration)); math.Abs(got-want[i]) > 1e-3*max(1, want[i]) {
				rt.Fatalf("trace %d is %v away, want %v", i, got, want[i])
			}
		}
	})
}
