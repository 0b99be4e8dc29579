package httpapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"tailscope/api"
	"tailscope/internal/observe/traces"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

const checkoutTrace = "0af7651916cd43dd8448eb211c80319c"

func spanID(n byte) [8]byte { return [8]byte{7: n} }

// checkoutSpans is a request of 100 ms that waited 20 ms, queried for 30, and
// called payments for 40, whose clock is 2 s ahead; a mail is sent afterwards.
func checkoutSpans() []traces.TraceSpan {
	const ms = int64(time.Millisecond)
	begin := (querytest.Epoch + 3000) * 1e9
	span := func(id, parent byte, from, to int64, service, kind, component, operation string) traces.TraceSpan {
		s := traces.TraceSpan{
			ID: spanID(id), Start: begin + from*ms, End: begin + to*ms, Weight: 1,
			Identity: traces.Identity{Service: service, Operation: operation, Component: component, Kind: kind, Tenant: "acme", Instance: service + "-1"},
		}
		if parent != 0 {
			s.Parent = spanID(parent)
		}
		return s
	}
	spans := []traces.TraceSpan{
		span(1, 0, 0, 100, "shop", "server", "app", "POST /checkout"),
		span(3, 1, 50, 90, "shop", "client", "external", "POST /pay"),
		span(2, 1, 10, 40, "shop", "client", "db", "SELECT carts"),
		span(4, 3, 2055, 2085, "payments", "server", "app", "POST /pay"),
		span(5, 1, 95, 180, "shop", "internal", "app", "send mail"),
		span(6, 9, 20, 30, "shop", "client", "cache", "GET session"),
	}
	spans[0].Queued = begin - 20*ms
	spans[2].Text = "SELECT * FROM carts WHERE id = ?"
	spans[3].Failed, spans[3].Detail = true, "card declined"
	return spans
}

func fillTraces(t testing.TB, st store.Store) {
	t.Helper()
	var id store.TraceID
	if _, err := hex.Decode(id[:], []byte(checkoutTrace)); err != nil {
		t.Fatal(err)
	}
	spans := checkoutSpans()
	entry := func(i int, why store.Why) store.TraceEntry {
		s := spans[i]
		return store.TraceEntry{Span: s.ID, Service: s.Service, Operation: s.Operation, Tenant: s.Tenant, Failed: s.Failed, Why: why, StartNanos: s.Start, DurationNanos: s.End - s.Start}
	}
	list := []store.Trace{{
		ID: id, Entries: []store.TraceEntry{entry(0, store.WhySlow|store.WhyExemplar), entry(3, store.WhyFailed)},
		Data: traces.Encode(&traces.Trace{ID: id, LeftOut: 2, Spans: spans}),
	}, {
		ID: store.TraceID{1}, Entries: []store.TraceEntry{{Span: spanID(1), Service: "shop", Operation: "GET /", StartNanos: (querytest.Epoch + 2000) * 1e9, DurationNanos: 3e8, Why: store.WhySlow}},
		Data: []byte("what no one can read"),
	}}
	if err := st.PutTraces(context.Background(), list); err != nil {
		t.Fatal(err)
	}
}

// The answer's figures are those of the request: its parts add up to it, a
// span on a clock that is ahead is moved into its parent and says so.
func TestTrace(t *testing.T) {
	st := storetest.NewTwin()
	fillTraces(t, st)
	srv := serve(t, Options{Store: st, TraceKept: 7 * 24 * time.Hour})
	status, body := fetch(t, srv, "/api/v1/traces/"+strings.ToUpper(checkoutTrace))
	if status != http.StatusOK {
		t.Fatal(body)
	}
	out := decodeJSON[api.TraceResponse](t, body)
	if out.TraceID != checkoutTrace || out.LeftOut != 2 || out.Complete || out.Link != "" || len(out.Spans) != 6 {
		t.Errorf("got %s", body)
	}
	byName := map[string]api.TraceSpan{}
	var self, critical, components float64
	for i, s := range out.Spans {
		byName[s.Service+" "+s.Operation] = s
		if s.Parent >= i || s.Parent >= 0 && s.Depth != out.Spans[s.Parent].Depth+1 {
			t.Errorf("%s at %d, %d deep, has its parent at %d", s.Operation, i, s.Depth, s.Parent)
		}
		self += float64(s.Self)
		critical += float64(s.Critical)
	}
	for _, c := range out.Components {
		components += float64(c.Self)
	}
	for what, got := range map[string]float64{"self": self, "critical": critical, "components": components} {
		if got < 0.0999999 || got > 0.1000001 {
			t.Errorf("%s: parts of a request of 0.1 s add up to %v", what, got)
		}
	}
	pay := byName["payments POST /pay"]
	if pay.Start < 0.05 || pay.Start+pay.Duration > 0.09 || pay.Shifted > -1.9 || !pay.Failed || pay.Detail != "card declined" || !pay.Request {
		t.Errorf("the call on a fast clock: %+v", pay)
	}
	if root := byName["shop POST /checkout"]; root.Queue != 0.02 || root.Parent != -1 || len(root.Path) == 0 || len(root.Path)%2 != 0 {
		t.Errorf("the root: %+v", root)
	}
	if s := byName["shop send mail"]; !s.Async || s.Duration != 0.085 {
		t.Errorf("what outlives the request: %+v", s)
	}
	if s := byName["shop GET session"]; !s.Orphan || s.Self != 0.005 {
		t.Errorf("whose parent never came: %+v", s)
	}
	// It shares 10 ms with the span before.
	if s := byName["shop SELECT carts"]; s.Text != "SELECT * FROM carts WHERE id = ?" || s.Self != 0.025 || s.Critical != 0.03 {
		t.Errorf("the query: %+v", s)
	}
	if len(out.Skews) != 1 || out.Skews[0].Service != "payments" || out.Skews[0].Peer != "shop" || out.Skews[0].Direction != "ahead" || out.Skews[0].Calls != 1 {
		t.Errorf("skews: %+v", out.Skews)
	}

	status, body = fetch(t, srv, "/api/v1/traces/"+strings.Repeat("f", 32))
	wantAnswer(t, "a trace that is not kept", status, body, 404, "id", "for 7 days at most; ask /api/v1/traces")
	status, body = fetch(t, srv, "/api/v1/traces/01000000000000000000000000000000")
	wantAnswer(t, "a trace that cannot be read", status, body, 500, "", "internal error")
}

// Prometheus' own client reads exemplars; a selector of what kept traces do
// not know selects none.
func TestExemplars(t *testing.T) {
	st := storetest.NewTwin()
	fillTraces(t, st)
	srv := serve(t, Options{Store: st})
	c, err := promapi.NewClient(promapi.Config{Address: srv.URL + "/prometheus", Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for q, want := range map[string]int{
		`span_duration_seconds`: 1,
		`rate(span_duration_seconds{kind=~"server|client",component="app"}[5m])`:       1,
		`span_duration_seconds{service="shop"} / span_duration_seconds{tenant=~"a.*"}`: 1,
		`span_duration_seconds{service!="shop"}`:                                       0,
		`span_duration_seconds{version=""}`:                                            1,
		`span_duration_seconds{version="2"}`:                                           0,
		`span_duration_seconds{kind="client"}`:                                         0,
		`span_duration_seconds{status="error"}`:                                        0,
		`span_self_seconds`:                                                            0,
		`{__name__=~"span_.*",operation="POST /checkout"}`:                             1,
	} {
		got, err := promv1.NewAPI(c).QueryExemplars(context.Background(), q, now.Add(-time.Hour), now)
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		if len(got) != want {
			t.Errorf("%s: got %v, want %d", q, got, want)
		}
		if len(got) > 0 {
			e := got[0].Exemplars[0]
			if e.Labels["trace_id"] != checkoutTrace || e.Value != 0.1 || got[0].SeriesLabels["operation"] != "POST /checkout" || e.Timestamp.Unix() != querytest.Epoch+3000 {
				t.Errorf("%s: got %v", q, got)
			}
		}
	}
	status, body := fetch(t, srv, "/prometheus/api/v1/query_exemplars", "query", "rate(")
	if status != http.StatusBadRequest || !strings.Contains(body, "bad_data") {
		t.Errorf("a broken query: %d %s", status, body)
	}
}
