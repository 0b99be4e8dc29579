package demo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/XSAM/otelsql"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite" // the driver named sqlite
)

// The shop's tables. Note what orders lacks: an index that finds the orders of
// one customer. The query for them reads all orders of the tenant, which
// nobody notices while tenants are small.
const schema = `
CREATE TABLE products (
	id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, category INTEGER NOT NULL,
	name TEXT NOT NULL, description TEXT NOT NULL, price_cents INTEGER NOT NULL, stock INTEGER NOT NULL
);
CREATE INDEX products_by_category ON products (tenant, category);
CREATE TABLE orders (
	id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, customer INTEGER NOT NULL,
	created_at INTEGER NOT NULL, status TEXT NOT NULL, total_cents INTEGER NOT NULL, invoice TEXT NOT NULL
);
CREATE INDEX orders_by_tenant ON orders (tenant);
CREATE TABLE order_lines (
	order_id INTEGER NOT NULL, product INTEGER NOT NULL, quantity INTEGER NOT NULL, price_cents INTEGER NOT NULL,
	PRIMARY KEY (order_id, product)
) WITHOUT ROWID;
CREATE TABLE cart_lines (
	tenant INTEGER NOT NULL, customer INTEGER NOT NULL, product INTEGER NOT NULL, quantity INTEGER NOT NULL,
	PRIMARY KEY (tenant, customer, product)
) WITHOUT ROWID;
CREATE TABLE prices (
	tenant INTEGER NOT NULL, product INTEGER NOT NULL, about TEXT NOT NULL, price_cents INTEGER NOT NULL,
	PRIMARY KEY (tenant, product)
);
`

// theChange is made under load after a while.
const theChange = `CREATE INDEX orders_by_customer ON orders (tenant, customer, created_at)`

// openDatabase opens the shop's database file with every query instrumented.
func openDatabase(file string, tp trace.TracerProvider, mp metric.MeterProvider) (*sql.DB, error) {
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)",
	}}
	db, err := otelsql.Open("sqlite", "file:"+file+"?"+pragmas.Encode(),
		otelsql.WithTracerProvider(tp), otelsql.WithMeterProvider(mp),
		otelsql.WithAttributes(semconv.DBSystemNameSQLite, semconv.DBNamespace("shop")),
		otelsql.WithAttributesGetter(func(ctx context.Context, _ otelsql.Method, query string, _ []driver.NamedValue) []attribute.KeyValue {
			attrs := []attribute.KeyValue{tenantKey.String(tenantOf(ctx))}
			if op, table := summarize(query); op != "" {
				attrs = append(attrs, semconv.DBOperationName(op), semconv.DBCollectionName(table))
			}
			return attrs
		}),
		otelsql.WithSpanNameFormatter(func(_ context.Context, m otelsql.Method, query string) string {
			if op, table := summarize(query); op != "" {
				return op + " " + table
			}
			return string(m)
		}),
		otelsql.WithSpanOptions(otelsql.SpanOptions{
			DisableErrSkip: true, OmitConnResetSession: true, OmitConnPrepare: true, OmitRows: true, OmitConnectorConnect: true,
			SpanFilter: func(ctx context.Context, _ otelsql.Method, _ string, _ []driver.NamedValue) bool {
				return trace.SpanContextFromContext(ctx).IsValid() // only what is part of a request
			},
		}))
	if err != nil {
		return nil, fmt.Errorf("open the shop's database: %w", err)
	}
	db.SetMaxOpenConns(40)
	db.SetMaxIdleConns(40)
	return db, nil
}

// summarize names a query's operation and the first table it works on.
func summarize(query string) (operation, table string) {
	words := strings.Fields(query)
	for i, w := range words {
		switch strings.ToUpper(w) {
		case "FROM", "INTO", "UPDATE":
			if i+1 < len(words) {
				return strings.ToUpper(words[0]), strings.TrimRight(words[i+1], "(,;")
			}
		}
	}
	return "", ""
}

// A tenant is a shop: its share of the traffic and its size go together.
type tenant struct {
	id        int
	name      string
	share     float64 // of traffic and of orders, by Zipf's law
	products  int
	customers int
}

var tenantNames = []string{
	"globex", "initech", "acme", "umbrella", "hooli", "stark", "wayne", "wonka",
	"cyberdyne", "tyrell", "soylent", "oceanic", "aperture", "dunder", "sterling", "vandelay",
	"prestige", "bluth", "pied-piper", "massive", "gringotts", "duff", "krusty", "monarch",
}

// zipfExponent makes the largest of the tenants take about a third.
const zipfExponent = 1.15

func makeTenants(orders int) []tenant {
	ts := make([]tenant, len(tenantNames))
	total := 0.0
	for i := range ts {
		ts[i] = tenant{id: i + 1, name: tenantNames[i], share: math.Pow(float64(i+1), -zipfExponent)}
		total += ts[i].share
	}
	for i := range ts {
		ts[i].share /= total
		ts[i].products = 40 + int(1500*ts[i].share)
		ts[i].customers = 10 + int(ts[i].share*float64(orders)/25)
	}
	return ts
}

// pick returns the tenant at u in [0, 1) of the traffic.
func pick(ts []tenant, u float64) *tenant {
	for i := range ts {
		if u -= ts[i].share; u < 0 {
			return &ts[i]
		}
	}
	return &ts[len(ts)-1]
}

const categories = 12

var (
	adjectives = strings.Fields("red blue green small large heavy light round wooden steel cotton silk old new soft plain")
	nouns      = strings.Fields("chair table lamp shirt kettle bicycle rope hammer vase clock mirror carpet basket ladder pillow bowl")
)

// seed fills an empty database with a shop's history: orders of all tenants
// interleaved in time, as they would have come in.
func seed(ctx context.Context, db *sql.DB, ts []tenant, orders int, now time.Time) error {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the shop's tables: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fill the shop: %w", err)
	}
	defer tx.Rollback()
	if err := seedRows(ctx, tx, ts, orders, now); err != nil {
		return fmt.Errorf("fill the shop: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fill the shop: %w", err)
	}
	if err := fillCarts(ctx, db, ts); err != nil {
		return fmt.Errorf("fill the carts: %w", err)
	}
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

func seedRows(ctx context.Context, tx *sql.Tx, ts []tenant, orders int, now time.Time) error {
	rng := rand.New(rand.NewPCG(7, 99))
	word := func(from []string) string { return from[rng.IntN(len(from))] }

	product, err := tx.PrepareContext(ctx, `INSERT INTO products (id, tenant, category, name, description, price_cents, stock) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer product.Close()
	for _, t := range ts {
		for i := range t.products {
			var about strings.Builder
			for range 40 {
				about.WriteString(word(adjectives) + " " + word(nouns) + " ")
			}
			name := word(adjectives) + " " + word(nouns)
			if _, err := product.ExecContext(ctx, productID(&t, i), t.id, rng.IntN(categories), name, about.String(), 100+rng.IntN(20_000), 1_000_000); err != nil {
				return err
			}
		}
	}

	order, err := tx.PrepareContext(ctx, `INSERT INTO orders (id, tenant, customer, created_at, status, total_cents, invoice) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer order.Close()
	line, err := tx.PrepareContext(ctx, `INSERT OR IGNORE INTO order_lines (order_id, product, quantity, price_cents) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer line.Close()
	var text strings.Builder // invoices are its parts
	for text.Len() < 700 {
		fmt.Fprintf(&text, "%d %s %s, delivered to %d %s street. ", rng.IntN(9), word(adjectives), word(nouns), rng.IntN(400), word(nouns))
	}
	letter := text.String()
	first := now.Add(-365 * 24 * time.Hour).Unix()
	for i := range orders {
		t := pick(ts, rng.Float64())
		at := first + int64(i)*365*86400/int64(orders)
		invoice := letter[rng.IntN(64):][:300+rng.IntN(300)]
		if _, err := order.ExecContext(ctx, i+1, t.id, rng.IntN(t.customers), at, "delivered", 500+rng.IntN(50_000), invoice); err != nil {
			return err
		}
		for range 1 + rng.IntN(3) {
			if _, err := line.ExecContext(ctx, i+1, productID(t, rng.IntN(t.products)), 1+rng.IntN(4), 100+rng.IntN(20_000)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillCarts fills all carts as they are after a long time of the shoppers' mix, so that as
// many checkouts find something in their cart at first as do later. The last errand at a
// cart was a product put into it, not a checkout, by the weights of mix, and so was each
// before it.
func fillCarts(ctx context.Context, db *sql.DB, ts []tenant) error {
	weight := map[string]int{}
	for _, e := range mix {
		weight[e.operation()] = e.weight
	}
	put, checkout := weight["PUT /cart/{id}"], weight["POST /orders"]
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "DELETE FROM cart_lines"); err != nil {
		return err
	}
	line, err := tx.PrepareContext(ctx, `INSERT OR IGNORE INTO cart_lines (tenant, customer, product, quantity) VALUES (?, ?, ?, 1)`)
	if err != nil {
		return err
	}
	defer line.Close()
	rng := rand.New(rand.NewPCG(8, 98))
	for _, t := range ts {
		for customer := range t.customers {
			for rng.IntN(put+checkout) < put {
				if _, err := line.ExecContext(ctx, t.id, customer, productID(&t, rng.IntN(t.products))); err != nil {
					return err
				}
			}
		}
	}
	return tx.Commit()
}

// productID returns the id of a tenant's i-th product.
func productID(t *tenant, i int) int { return t.id*100_000 + i }
