package semconv

import (
	"fmt"
	"strings"
	"testing"

	"tailscope/internal/route"
)

// attrs builds what a decoder would find in name and key, value pairs.
func attrs(t testing.TB, keys *Keys, name string, kv ...string) Attrs {
	t.Helper()
	var a Attrs
	var rank [NumSlots]uint8
	if name != "" {
		a.Mask, a.V[Name] = 1<<Name, name
	}
	for i := 0; i+1 < len(kv); i += 2 {
		s, r := keys.Find(kv[i])
		if r != 0 && kv[i+1] != "" && (rank[s] == 0 || r < rank[s]) {
			rank[s], a.V[s] = r, kv[i+1]
			a.Mask |= 1 << s
		}
	}
	return a
}

func TestOperation(t *testing.T) {
	keys, err := NewKeys(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string, k Kind, name string, kv ...string) {
		t.Helper()
		a := attrs(t, keys, name, kv...)
		a.Mask = Select(k, a.Mask)
		op, component := Operation(nil, k, &a)
		if got := component + ": " + string(op); got != want {
			t.Errorf("%v %q %q\n got %s\nwant %s", k, name, kv, got, want)
		}
	}

	// HTTP servers.
	f("app: GET /cart/{id}", Server, "GET /cart/{id}", "http.request.method", "GET", "http.route", "/cart/{id}", "url.path", "/cart/8123")
	f("app: GET /users/<int:id>", Server, "GET /users/<int:id>", "http.method", "GET", "http.route", "/users/<int:id>", "http.target", "/users/4", "http.scheme", "http") // Flask
	f("app: GET", Server, "GET", "http.request.method", "GET")                                                                                                            // otelhttp, no pattern
	f("app: GET /orders/{id}", Server, "GET /orders/{id}", "http.request.method", "GET", "http.route", "GET /orders/{id}")                                                // Go's ServeMux
	f("app: GET /cart/{id}", Server, "GET /cart/8123", "http.request.method", "GET")
	f("app: GET /cart/{id}", Server, "/cart/8123?x=1", "http.method", "GET")                                                 // older Node
	f("app: POST /v1/users/{id}/keys", Server, "/v1/users/5f1a9c3e-8a37-4d2b-9c40-1f2e3d4c5b6a/keys", "http.method", "post") // Java, old
	f("app: UserController.show", Server, "UserController.show", "http.method", "GET")
	f("app: _OTHER /x", Server, "X /x", "http.request.method", "BREW", "http.route", "/x")
	f("app: HTTP server", Server, "HTTP server", "")
	f("app: /api/shop", Server, "/api/shop")

	// HTTP clients.
	f("external: GET payments", Client, "GET", "http.request.method", "GET", "server.address", "payments", "server.port", "8080", "url.full", "http://payments:8080/v1/cart/77")
	f("external: GET payments/v1/cart/{id}", Client, "GET /v1/cart/{id}", "http.request.method", "GET", "server.address", "payments", "url.template", "/v1/cart/{id}")
	f("external: POST api.example.com", Client, "HTTP POST", "http.method", "POST", "http.url", "https://user:pw@api.example.com:443/x?y=1") // Python requests, old
	f("external: GET billing", Client, "HTTP GET", "http.method", "GET", "peer.service", "billing", "net.peer.name", "10.0.0.7")
	f("external: GET [::1]", Client, "GET", "http.method", "GET", "http.url", "http://[::1]:80/")
	f("external: GET", Client, "GET", "http.method", "GET")
	f("external: GET something", Client, "something", "http.method", "GET")
	f("external: GET search items", Client, "search items", "http.method", "GET")
	f("external: GET items", Client, "HTTP GET items", "http.method", "GET")
	f("app: render", Internal, "render", "http.method", "GET") // some template engines copy it

	// RPC.
	f("app: shop.Cart/AddItem", Server, "shop.Cart/AddItem", "rpc.system", "grpc", "rpc.service", "shop.Cart", "rpc.method", "AddItem")
	f("external: shop.Cart/AddItem", Client, "shop.Cart/AddItem", "rpc.system.name", "grpc", "rpc.method", "shop.Cart/AddItem")
	f("external: S3/GetObject", Client, "S3.GetObject", "rpc.system", "aws-api", "rpc.service", "S3", "rpc.method", "GetObject", "http.request.method", "GET")
	f("external: shop.Cart/AddItem", Client, "shop.Cart/AddItem", "rpc.system", "grpc")

	// Databases.
	f("db: SELECT orders", Client, "SELECT shop.orders", "db.system.name", "postgresql", "db.operation.name", "SELECT", "db.collection.name", "orders", "db.query.text", "SELECT secret FROM x")
	f("db: SELECT orders", Client, "SELECT", "db.system", "postgresql", "db.statement", "SELECT * FROM orders WHERE id = 4 AND n = 'bob'", "db.name", "shop") // psycopg2
	f("db: SELECT orders", Client, "SELECT shop", "db.system", "sqlite", "db.statement", "SELECT a FROM orders WHERE id = ?", "db.operation", "SELECT")       // SQLAlchemy
	f("db: INSERT orders", Client, "sql.conn.exec", "db.system", "sqlite", "db.statement", "INSERT INTO orders VALUES (1)")                                   // otelsql, old
	f("db: INSERT orders", Client, "sql.conn.exec", "db.system.name", "sqlite", "db.query.text", "INSERT INTO orders VALUES (1)")                             // otelsql
	f("db: sql.conn.begin_tx", Client, "sql.conn.begin_tx", "db.system.name", "sqlite")
	f("db: sql.rows", Internal, "sql.rows", "db.system.name", "sqlite")
	f("db: SELECT shop.orders", Client, "SELECT shop.orders", "db.system", "mysql", "db.operation", "select", "db.sql.table", "shop.orders") // Java
	f("db: SELECT orders users", Client, "x", "db.system.name", "mysql", "db.query.summary", "SELECT orders users", "db.query.text", "SELECT 1")
	f("db: find users", Client, "shop.find", "db.system", "mongodb", "db.operation", "find", "db.mongodb.collection", "users", "db.statement", `{"find":"users","filter":{"a":"secret"}}`)
	f("db: mongodb.find", Client, "mongodb.find", "db.system", "mongodb", "db.statement", `{"find":"users"}`) // Node
	f("db: SELECT users", Client, "SELECT * FROM users WHERE name = 'bob'", "db.system", "other_sql")
	f("db: UPDATE cart", Client, "x", "db.system", "mysql", "db.operation", "UPDATE cart SET a = 'secret' WHERE b = 1")
	f("db: DynamoDB.GetItem", Client, "DynamoDB.GetItem", "db.system", "dynamodb", "rpc.system", "aws-api")
	f("db: pg-pool.connect", Internal, "pg-pool.connect", "db.system", "postgresql")

	// Caches.
	f("cache: GET", Client, "GET", "db.system", "redis", "db.statement", "GET user:8123:profile") // Python, Java
	f("cache: SET", Client, "redis-SET", "db.system", "redis", "db.statement", "SET k secret")    // Node
	f("cache: HGETALL", Client, "hgetall", "db.system.name", "redis", "db.operation.name", "hgetall")
	f("cache: SET", Client, "SET GET", "db.system", "redis", "db.statement", "SET ? ?\nGET ?") // a pipeline
	f("cache: GET", Client, "get", "db.system", "memcached", "db.statement", "get user:1")
	f("cache: CALL", Client, "user:1", "db.system", "memcached")

	// Messaging.
	f("messaging: publish orders", Producer, "publish orders", "messaging.system", "kafka", "messaging.destination.name", "orders", "messaging.operation.name", "publish")
	f("messaging: publish orders", Producer, "orders send", "messaging.system", "kafka", "messaging.destination", "orders") // Python, old
	f("app: process orders", Consumer, "orders process", "messaging.system", "kafka", "messaging.destination", "orders", "messaging.operation", "process")
	f("messaging: receive orders", Consumer, "orders receive", "messaging.system", "rabbitmq", "messaging.destination.name", "orders", "messaging.operation", "receive")
	f("messaging: publish reply-{id}", Producer, "x", "messaging.system", "rabbitmq", "messaging.destination.name", "reply-8123456")
	f("messaging: send (temporary)", Producer, "x", "messaging.system", "jms", "messaging.destination.name", "abcdef", "messaging.destination.temporary", "true", "messaging.operation.name", "send")
	f("queue: send jobs", Producer, "send jobs", "messaging.system", "aws_sqs", "messaging.destination.name", "jobs", "messaging.operation.name", "send")
	f("queue: apply_async tasks.add", Producer, "apply_async/tasks.add", "celery.action", "apply_async", "celery.task_name", "tasks.add", "messaging.destination", "celery", "messaging.message.id", "x")
	f("app: run tasks.add", Consumer, "run/tasks.add", "celery.action", "run", "celery.task_name", "tasks.add", "celery.state", "SUCCESS", "messaging.destination", "celery")
	f("app: process MailJob", Consumer, "MailJob process", "messaging.system", "sidekiq", "messaging.sidekiq.job_class", "MailJob", "messaging.operation", "process")

	// The rest.
	f("app: query Basket", Server, "POST /graphql", "graphql.operation.name", "Basket", "graphql.operation.type", "query", "http.request.method", "POST", "http.route", "/graphql")
	f("external: resize", Client, "x", "faas.invoked_name", "resize")
	f("app: resize", Server, "x", "faas.trigger", "pubsub", "faas.name", "resize")
	f("app: compute price", Internal, "compute price")
	f("app: compute price", Unspecified, "compute price")
	f("app: order {id} shipped", Internal, "order 8123 shipped")
	f("app: unnamed", Internal, "")
	f("external: call legacy", Client, "call", "peer.service", "legacy")
	f("messaging: enqueue", Producer, "enqueue")
}

// A path is taken of requests that have no operation of their own, and nothing else is
// left of these than the labels.
func TestTakePath(t *testing.T) {
	keys, err := NewKeys(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string, k Kind, name string, kv ...string) {
		t.Helper()
		a := attrs(t, keys, name, append(kv, "tenant", "acme")...)
		a.Mask = Select(k, a.Mask)
		before := a.Mask
		m, path := 0, ""
		if a.Mask.HasPath(k) {
			m, path = a.TakePath()
		}
		if got := strings.TrimSuffix(route.Methods[m]+" "+path, "GET "); got != want {
			t.Errorf("%v %q %q: got %q, want %q", k, name, kv, got, want)
		}
		left := before
		if k == Server {
			left &^= paths
		}
		if path != "" {
			left = Always & before
		}
		if a.Mask != left {
			t.Errorf("%v %q %q: the mask is %b, want %b", k, name, kv, a.Mask, left)
		}
	}
	f("GET /x/1", Server, "HTTP GET", "http.method", "GET", "http.target", "/x/1?a=b") // WSGI without a route
	f("GET /x/1", Server, "GET /x/1", "http.request.method", "GET", "url.path", "/x/1", "url.full", "http://shop/x/1")
	f("POST /", Server, "", "http.method", "post", "http.url", "http://shop")
	f("PROPFIND /d", Server, "PROPFIND", "http.request.method", "PROPFIND", "url.path", "/d")
	f("", Server, "GET /x/{n}", "http.request.method", "GET", "url.path", "/x/1")
	f("", Server, "GETS", "http.request.method", "GET", "url.path", "/x/1")
	f("", Server, "X.show", "http.request.method", "GET", "url.path", "/x/1")
	f("", Server, "GET", "http.request.method", "GET", "url.path", "/x/1", "http.route", "/x/{n}")
	f("", Server, "GET", "http.request.method", "GET")
	f("", Server, "GET", "url.path", "/x/1")
	f("", Client, "GET", "http.request.method", "GET", "url.full", "http://shop/x/1", "url.path", "/x/1")
	f("", Internal, "GET", "http.request.method", "GET", "url.path", "/x/1")
}

func TestKeys(t *testing.T) {
	k, err := NewKeys([]string{"shop.customer", "tenant"}, []string{"deployment.environment", "cloud.region=region"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Slot{"shop.customer": Tenant, "tenant": Tenant, "deployment.environment": Extra, "cloud.region": Extra + 1, "http.route": HTTPRoute} {
		if s, r := k.Find(key); r == 0 || s != want {
			t.Errorf("Find(%q) = %d, rank %d; want %d", key, s, r, want)
		}
	}
	for _, key := range []string{"", "tenant.id", "x", "http.rout", "http.request.header.x"} {
		if _, r := k.Find(key); r != 0 {
			t.Errorf("Find(%q) found something", key)
		}
	}
	if got := strings.Join(k.Extras, " "); got != "deployment_environment region" {
		t.Errorf("extras %q", got)
	}
	// An operator's use of what is only looked at goes before ours.
	if k, err = NewKeys([]string{"x-request-start"}, []string{"server.port=port"}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Slot{"x-request-start": Tenant, "x-queue-start": Queued, "server.port": Extra, "net.peer.port": ServerPort} {
		if s, r := k.Find(key); r == 0 || s != want {
			t.Errorf("Find(%q) = %d, rank %d; want %d", key, s, r, want)
		}
	}
	// A default label of the place is read from an extra label of its attribute or name.
	if k, err = NewKeys(nil, []string{"deployment.environment", "stage=environment", "k8s.namespace.name=k8s_namespace", "x=peer"}); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[Slot]string{Environment: "[39 40]", K8sNamespace: "[41 41]", ServerAddress: "[42]", Workload: "[]"} {
		if got := fmt.Sprint(k.Aliases(s)); got != want {
			t.Errorf("Aliases(%d) = %s, want %s", s, got, want)
		}
	}
	for want, extra := range map[string][]string{
		"is taken":         {"a=service"},
		"cannot be":        {"a=b-c"},
		"use of its own":   {"http.route=r"},
		"at most 16":       make([]string, 17),
		"name is empty":    {"=x"},
		"`attribute`":      nil,
		"cannot be a labe": {""},
	} {
		_, err := NewKeys(nil, extra)
		if extra == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewKeys(%q): %v, want %q", extra, err, want)
		}
	}
}

func TestLabelName(t *testing.T) {
	for in, want := range map[string]string{"http.route": "http_route", "1st": "key_1st", "a-b c": "a_b_c", "é": "_", "_x": "_x", "": ""} {
		if got := LabelName(in); got != want {
			t.Errorf("LabelName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRPCFailed(t *testing.T) {
	server, client, nobody := "", "", ""
	for code := -1; code < 18; code++ {
		for k, to := range map[Kind]*string{Server: &server, Client: &client, Internal: &nobody} {
			if RPCFailed(k, code) {
				*to += fmt.Sprint(" ", code)
			}
		}
	}
	if server != " 2 4 12 13 14 15" || client != " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17" || nobody != "" {
		t.Errorf("failed: server%s, client%s, internal%s", server, client, nobody)
	}
	for s, want := range map[string]int{"0": 0, "OK": 0, "4": 4, "DEADLINE_EXCEEDED": 4, "UNAUTHENTICATED": 16, "16": 16, "17": -1, "-1": -1, "": -1, "deadline": -1} {
		if got := RPCCode(s); got != want {
			t.Errorf("RPCCode(%q) = %d, want %d", s, got, want)
		}
	}
}

// FuzzOperation: any values give a bounded operation that depends on nothing
// but what Select names, and one of the six components.
func FuzzOperation(f *testing.F) {
	keys, _ := NewKeys(nil, nil)
	f.Add(uint8(2), "GET /x/1", "http.request.method", "GET", "http.route", "/x/{id}")
	f.Add(uint8(3), "x", "db.system", "redis", "db.statement", "GET a")
	f.Add(uint8(3), "x", "db.system", "pg", "db.statement", "SELECT * FROM a WHERE b = 'c'")
	f.Add(uint8(4), "x", "messaging.system", "kafka", "messaging.destination", "a-77")
	f.Fuzz(func(t *testing.T, kind uint8, name, k1, v1, k2, v2 string) {
		k := Kind(kind % 6)
		a := attrs(t, keys, name, k1, v1, k2, v2)
		a.Mask = Select(k, a.Mask)
		op, component := Operation(nil, k, &a)
		if len(op) == 0 || len(op) > MaxValue {
			t.Errorf("operation of %d bytes", len(op))
		}
		switch component {
		case App, DB, Cache, External, Messaging, Queue:
		default:
			t.Errorf("component %q", component)
		}
		if again := Select(k, a.Mask); again != a.Mask {
			t.Errorf("Select is not idempotent: %b, then %b", a.Mask, again)
		}
	})
}
