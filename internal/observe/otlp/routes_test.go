package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/test/payload"
)

// served returns the span of a request that a server answered.
func served(name string, attributes ...*common.KeyValue) *trace.Span {
	return &trace.Span{Name: name, Kind: trace.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 10, EndTimeUnixNano: 25, Attributes: attributes}
}

// got returns the span of a request for a path, without a route, that was answered with a status.
func got(path string, status int64) *trace.Span {
	return served("GET", str("http.request.method", "GET"), str("url.path", path), integer("http.response.status_code", status))
}

// operationsOf ingests spans of a service and returns how often each operation was counted.
func operationsOf(t testing.TB, r *receiver, l *ledger, service string, spans ...*trace.Span) map[string]int {
	t.Helper()
	l.clear()
	if _, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf([]*common.KeyValue{str("service.name", service)}, spans...))); err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, e := range l.entries {
		_, rest, _ := strings.Cut(e.series, `operation="`)
		name, _, _ := strings.Cut(rest, `"`)
		out[name]++
	}
	return out
}

func TestRoutesAreLearned(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	get, old := str("http.request.method", "GET"), str("http.method", "GET")
	for want, spans := range map[string][]*trace.Span{
		"GET /users/{id}": {
			served("GET", get, str("url.path", "/users/123")),
			served("GET", get, str("url.path", "/users/9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f")),
			served("GET", get, str("url.path", "/users/bob@example.com/")),
			served("GET", get, str("url.path", "/users/4bf92f3577b34da6a3ce929d0e0e4736")),
			served("GET /users/123", get, str("url.path", "/users/123")),                   // named by method and path
			served("/users/7?a=b", get, str("url.path", "/users/7")),                       // named by the target
			served("HTTP GET", old, str("http.target", "/users/4?token=secret")),           // Flask without a route
			served("HTTP", old, str("http.target", "http://shop:80/users/4#x")),            // a proxy
			served("get", str("http.method", "get"), str("http.target", "/users/4;sid=1")), // a servlet
			served("GET", old, str("http.url", "https://u:p@shop.example.com/users/5?x=1")),
			served("", get, str("url.path", "//users//5")),
			served("GET", get, integer("url.path", 1), str("url.path", "/users/5")), // not a text
		},
		"GET /":                    {served("GET", get, str("url.path", "/")), served("GET", old, str("http.target", "?a=b")), served("GET", old, str("http.url", "http://shop"))},
		"GET {static}":             {got("/assets/app.8f3e.js", 200), got("/favicon.ico", 404)},
		"GET {not found}":          {got("/wp-login.php", 404), got("/.env", 400), got("/cgi-bin/x", 405)},
		"POST /v1/cart/{id}/items": {served("POST", str("http.request.method", "POST"), str("url.path", "/v1/cart/77/items"))},
		"_OTHER /v1":               {served("HTTP", str("http.request.method", "BREW"), str("url.path", "/v1"))},
		// These have operations of their own.
		"GET /u/:name":        {served("GET /u/:name", get, str("http.route", "/u/:name"), str("url.path", "/u/bob"))},
		"UserController.show": {served("UserController.show", get, str("url.path", "/u/bob"))},
		"GET /u/{name}":       {served("GET /u/{name}", get, str("url.path", "/u/bob"))},
		"query Basket":        {served("POST", str("http.request.method", "POST"), str("url.path", "/graphql"), str("graphql.operation.type", "query"), str("graphql.operation.name", "Basket"))},
		"shop.Cart/Add":       {served("POST", str("http.request.method", "POST"), str("url.path", "/shop.Cart/Add"), str("rpc.system", "grpc"), str("rpc.service", "shop.Cart"), str("rpc.method", "Add"))},
		"GET":                 {served("GET", get)},
		"GET payments":        {{Name: "GET", Kind: trace.Span_SPAN_KIND_CLIENT, StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{get, str("server.address", "payments"), str("url.path", "/u/bob"), str("url.full", "http://payments/u/bob")}}},
	} {
		for range 2 { // cold, then from the cache
			if got := operationsOf(t, r, l, "shop", spans...); got[want] != len(spans) {
				t.Errorf("%v, want %d of %s", got, len(spans), want)
			}
		}
	}
}

// letters writes a number as a word without digits.
func letters(i int) string {
	s := "u"
	for ; i > 0; i /= 26 {
		s += string(rune('a' + i%26))
	}
	return s
}

// Names that hardly ever come again are a variable, as in access logs, also for what was
// already known by name; other services learn by themselves, and so does none of it from
// what was not found.
func TestNamesAreVariables(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	var spans []*trace.Span
	for i := range 1000 {
		spans = append(spans, got("/users/"+letters(i)+"/photo", 200), got("/users/me/photo", 200), got("/"+letters(i), 404))
	}
	first := operationsOf(t, r, l, "shop", spans...)
	if len(first) > 250 || first["GET {not found}"] != 1000 || first["GET /users/me/photo"] != 1000 {
		t.Errorf("%d operations, %d not found, %d of me", len(first), first["GET {not found}"], first["GET /users/me/photo"])
	}
	want := map[string]int{"GET /users/{name}/photo": 1000, "GET /users/me/photo": 1000, "GET {not found}": 1000}
	if again := operationsOf(t, r, l, "shop", spans...); fmt.Sprint(again) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", again, want)
	}
	if other := operationsOf(t, r, l, "other", got("/users/bob/photo", 200)); other["GET /users/bob/photo"] != 1 {
		t.Errorf("of another service: %v", other)
	}
}

// What was learned survives a restart, and an eviction; a store that fails does not lose it.
func TestLearnedRoutesAreSaved(t *testing.T) {
	st := storetest.NewTwin()
	l := newLedger()
	learned := func(r *receiver) bool {
		return operationsOf(t, r, l, "shop", got("/users/somebody", 200))["GET /users/{name}"] == 1
	}
	var spans []*trace.Span
	for i := range 500 {
		spans = append(spans, got("/users/"+letters(i), 200))
	}
	s := start(t, Options{Sink: l, Routes: st})
	operationsOf(t, s.r, l, "shop", spans...)
	if !learned(s.r) {
		t.Fatal("nothing was learned")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := start(t, Options{Sink: l, Routes: st})
	if !learned(again.r) {
		t.Error("after a restart it is learned anew")
	}
	for i := range maxRouteServices + 1 {
		operationsOf(t, again.r, l, fmt.Sprint(i), got("/", 200))
	}
	if n := len(again.r.routes.services); n > maxRouteServices || again.r.routes.services["shop"] != nil {
		t.Errorf("%d services are in memory, at most %d are wanted; shop is: %v", n, maxRouteServices, again.r.routes.services["shop"] != nil)
	}
	if !learned(again.r) {
		t.Error("after an eviction it is learned anew")
	}

	r := testReceiver(t, l)
	operationsOf(t, r, l, "shop", spans...)
	full := failingRecords{st}
	if err := r.routes.save(context.Background(), full); !errors.Is(err, store.ErrFull) {
		t.Errorf("a full store: %v", err)
	}
	if n := len(r.routes.unsaved()); n != 1 {
		t.Errorf("%d services are to be saved after a failure, want 1", n)
	}
	if n := len(r.routes.unsaved()); n != 0 {
		t.Errorf("%d services are to be saved after they were, want 0", n)
	}
}

// Servers that share a store name requests alike: what one learns the others go by seconds later,
// of two that learn at once the first decides what keeps its name, and nothing is lost.
func TestServersLearnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewTwin()
		var list []*receiver
		var ledgers []*ledger
		done := make(chan struct{})
		var running sync.WaitGroup
		for range 3 {
			l := newLedger()
			r := testReceiver(t, l)
			if err := r.routes.load(t.Context(), st); err != nil {
				t.Fatal(err)
			}
			running.Go(func() { r.routes.saveUntil(done, st, true, slog.New(slog.DiscardHandler), time.Second) })
			list, ledgers = append(list, r), append(ledgers, l)
			time.Sleep(time.Second) // their rounds are not in step
		}
		defer running.Wait()
		defer close(done)
		names := func(i int, spans ...*trace.Span) string {
			return fmt.Sprint(operationsOf(t, list[i], ledgers[i], "shop", spans...))
		}
		var users, mine, yours []*trace.Span
		for i := range 500 {
			users = append(users, got("/users/"+letters(i), 200), got("/users/me", 200))
			mine = append(mine, got("/carts/"+letters(i)+"/x", 200), got("/users/ann", 200), got("/carts/mine/x", 200))
			yours = append(yours, got("/carts/"+letters(i)+"/x", 200), got("/users/ann", 200), got("/carts/yours/x", 200))
		}
		somebody := []*trace.Span{got("/users/somebody", 200), got("/users/me", 200), got("/users/ann", 200), got("/carts/new/x", 200)}
		if got := names(2, somebody...); got != "map[GET /carts/new/x:1 GET /users/ann:1 GET /users/me:1 GET /users/somebody:1]" {
			t.Fatal(got)
		}
		names(0, users...)
		if got := names(0, somebody[0]); got != "map[GET /users/{name}:1]" {
			t.Fatal(got)
		}
		begin := time.Now()
		for time.Since(begin) < time.Minute && names(2, somebody[0]) != "map[GET /users/{name}:1]" {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begin); took == 0 || took > store.ReadEvery {
			t.Errorf("a route was another one for %v, want at most %v", took, store.ReadEvery)
		}
		names(1, mine...) // two learn of carts at once, and each would keep another
		names(2, yours...)
		time.Sleep(2 * store.ReadEvery)
		somebody = append(somebody, got("/carts/mine/x", 200), got("/carts/yours/x", 200))
		want := names(0, somebody...)
		if !strings.Contains(want, "GET /carts/{name}/x:2 GET /users/me:1 GET /users/{name}:2]") {
			t.Errorf("got %s", want)
		}
		for i := range list {
			if got := names(i, somebody...); got != want {
				t.Errorf("server %d: %s, want %s", i, got, want)
			}
		}
		// A start goes by what was learned, also of what others did.
		again := testReceiver(t, ledgers[0])
		if err := again.routes.load(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		list = append(list, again)
		ledgers = append(ledgers, ledgers[0])
		if got := names(3, somebody...); got != want {
			t.Errorf("after a restart: %s, want %s", got, want)
		}
	})
}

// What a service had learned when it left memory before that was saved is joined with what
// another server has.
func TestEvictedRoutesAreJoined(t *testing.T) {
	st := storetest.NewTwin()
	variable := func(path, keep string) []byte {
		return []byte(fmt.Sprintf(`[{"path":[%q],"keep":[%q]}]`, path, keep))
	}
	if _, err := st.PutRecords(t.Context(), routesKind, store.RecordWrite{Key: "shop", Value: variable("users", "me")}); err != nil {
		t.Fatal(err)
	}
	r := newRoutes(1)
	r.put("shop", savedRoutes{variables: variable("carts", "new"), unsaved: true})
	if err := r.save(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	x, err := st.GetRecord(t.Context(), routesKind, "shop")
	if want := `[{"path":["carts"],"keep":["new"]},{"path":["users"],"keep":["me"]}]`; err != nil || string(x.Value) != want {
		t.Errorf("got %s, %v, want %s", x.Value, err, want)
	}
	if r.bytes != len(x.Value) || len(r.unsaved()) != 0 {
		t.Errorf("%d bytes are counted, want %d; %d services are to be saved", r.bytes, len(x.Value), len(r.unsaved()))
	}
}

type failingRecords struct{ store.Records }

func (failingRecords) PutRecords(context.Context, string, ...store.RecordWrite) (uint64, error) {
	return 0, store.ErrFull
}

// Whatever is asked for, names and memory are bounded.
func TestLearnedRoutesAreBounded(t *testing.T) {
	r := testReceiver(t, newLedger()).routes
	names := map[string]bool{}
	learn := func(service string, paths ...string) {
		var list []requestPath
		for _, path := range paths {
			list = append(list, requestPath{path: path, status: 200})
		}
		r.learn(service, list)
		for _, p := range list {
			names[p.operation.name] = true
		}
	}
	for i := range 100_000 {
		learn("shop", "/users/"+letters(i)+"/posts/"+letters(7*i)+"/edit")
	}
	if len(names) > 500 {
		t.Errorf("%d operations of 100,000 paths", len(names))
	}
	var paths []string
	for j := range 3 * 3600 {
		paths = append(paths, "/"+letters(j%60)+"/"+letters(60+j/60%60))
	}
	for i := range 35 { // each has 3,661 nodes
		learn(fmt.Sprint("service", i), paths...)
	}
	sum := 0
	for _, s := range r.services {
		sum += s.learner.Nodes()
	}
	if sum != r.nodes || sum > maxRouteNodes || sum < maxRouteNodes/2 {
		t.Errorf("%d nodes are counted, %d are there, at most %d are wanted", r.nodes, sum, maxRouteNodes)
	}
	for i := range maxRouteServices {
		learn(fmt.Sprint("small", i), "/x")
	}
	if len(r.services) != maxRouteServices {
		t.Errorf("%d services are in memory, want %d", len(r.services), maxRouteServices)
	}
}

// Requests of one service and of many learn at the same time.
func TestRoutesConcurrently(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	st := storetest.NewTwin()
	var spans []*trace.Span
	for i := range 600 {
		spans = append(spans, got("/users/"+letters(i), 200), got("/orders/4711", 200))
	}
	var all sync.WaitGroup
	for i := range 8 {
		b := marshal(t, spansOf([]*common.KeyValue{str("service.name", fmt.Sprint(i/4)), str("service.version", fmt.Sprint(i))}, spans...))
		all.Go(func() {
			for range 5 {
				if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
					t.Error(err)
				}
				if err := r.routes.save(context.Background(), st); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, service := range []string{"0", "1"} {
		if ops := operationsOf(t, r, l, service, spans...); ops["GET /users/{name}"] != 600 || ops["GET /orders/{id}"] != 600 {
			t.Errorf("of %s: %v", service, ops)
		}
	}
}

// withoutRoutes returns the requests of TracesAt with server spans that have no route.
func withoutRoutes(t testing.TB) [][]byte {
	reqs := payload.Requests(1, benchRequests, time.Now())
	out := make([][]byte, len(reqs))
	for i, req := range reqs {
		for _, s := range req.ResourceSpans[0].ScopeSpans[0].Spans {
			if s.Kind == trace.Span_SPAN_KIND_SERVER {
				s.Name, _, _ = strings.Cut(s.Name, " ")
				s.Attributes = slices.DeleteFunc(s.Attributes, func(a *common.KeyValue) bool { return a.Key == "http.route" })
			}
		}
		out[i] = marshal(t, req)
	}
	return out
}

// What servers learned for themselves before they shared it is of their services, and is shared.
func TestOwnRoutesAreShared(t *testing.T) {
	st := storetest.NewTwin()
	variable := func(path string) []byte { return []byte(fmt.Sprintf(`[{"path":[%q]}]`, path)) }
	const prefix = "@0123456789abcdef/"
	for key, path := range map[string]string{"shop": "users", prefix + "shop": "carts", prefix + "pay": "cards", "@scope/app": "items"} {
		if _, err := st.PutRecords(t.Context(), routesKind, store.RecordWrite{Key: key, Value: variable(path)}); err != nil {
			t.Fatal(err)
		}
	}
	r := newRoutes(1)
	if err := r.load(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := r.shareOwn(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	got := ""
	if err := st.ListRecords(t.Context(), routesKind, "", func(x store.Record) error {
		got += x.Key + string(x.Value) + "\n"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := `@scope/app[{"path":["items"]}]
pay[{"path":["cards"]}]
shop[{"path":["carts"]},{"path":["users"]}]
`
	if got != want || len(r.saved) != 3 || len(r.unsaved()) != 0 {
		t.Errorf("got\n%swant\n%s%d services, want 3", got, want, len(r.saved))
	}
}

// awayRecords cannot be read or written while they are away.
type awayRecords struct {
	*storetest.Twin
	away atomic.Bool
}

func (a *awayRecords) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	if a.away.Load() {
		return errors.New("the store is away")
	}
	return a.Twin.ListRecords(ctx, kind, prefix, yield)
}

// While the store is away that is said once.
func TestRoutesWaitQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		st, done := &awayRecords{Twin: storetest.NewTwin()}, make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			newRoutes(1).saveUntil(done, st, true, slog.New(slog.NewTextHandler(&log, nil)), time.Second)
		})
		for range 2 {
			st.away.Store(true)
			time.Sleep(time.Minute)
			st.away.Store(false)
			time.Sleep(time.Minute)
		}
		close(done)
		running.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 2 || !strings.Contains(log.String(), "read and written") {
			t.Errorf("%d warnings of two times in which the store was away:\n%s", n, log.String())
		}
	})
}
