package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// testShop returns a small shop whose spans are kept.
func testShop(t *testing.T, orders int) (*shop, []tenant, *httptest.Server, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	db, err := openDatabase(filepath.Join(t.TempDir(), "shop.db"), tp, metricnoop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ts := makeTenants(orders)
	if err := seed(t.Context(), db, ts, orders, time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	none := metricnoop.NewMeterProvider()
	bank := httptest.NewServer(payments(tp, none))
	t.Cleanup(bank.Close)
	cashier := newCashier(bank.URL, tp, none)
	t.Cleanup(cashier.http.CloseIdleConnections)
	shop := newShop(db, ts, cashier, tp, time.Now)
	srv := httptest.NewServer(shop.handler(tp, none))
	t.Cleanup(func() { srv.Close(); shop.invoices.Wait() })
	return shop, ts, srv, rec
}

func call(t *testing.T, method, url, tenant string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(tenantHeader, tenant)
	return ask(t, r, into)
}

// ask sends a request, reads a JSON answer unless into is nil, and returns the status.
func ask(t *testing.T, r *http.Request, into any) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

func TestShop(t *testing.T) {
	shop, ts, srv, rec := testShop(t, 2000)
	db := shop.db
	first := productID(&ts[0], 3)
	if _, err := db.Exec("DELETE FROM cart_lines WHERE customer = 1"); err != nil {
		t.Fatal(err)
	}

	if got := call(t, "POST", srv.URL+"/orders?customer=1", "globex", nil); got != http.StatusConflict {
		t.Errorf("checkout of an empty cart: got %d, want 409", got)
	}
	for range 2 {
		if got := call(t, "PUT", fmt.Sprintf("%s/cart/%d?customer=1", srv.URL, first), "globex", nil); got != http.StatusOK {
			t.Fatalf("add to cart: got %d", got)
		}
	}
	var inCart []product
	call(t, "GET", srv.URL+"/cart?customer=1", "globex", &inCart)
	if len(inCart) < 2 || inCart[0].ID != first {
		t.Errorf("got %+v in the cart, want product %d and suggestions", inCart, first)
	}
	var placed order
	if got := call(t, "POST", srv.URL+"/orders?customer=1", "globex", &placed); got != http.StatusCreated {
		t.Fatalf("checkout: got %d", got)
	}
	var price, stock int
	if err := db.QueryRow("SELECT price_cents, stock FROM products WHERE id = ?", first).Scan(&price, &stock); err != nil {
		t.Fatal(err)
	}
	if placed.Total != 2*price || stock != 1_000_000-2 {
		t.Errorf("got total %d and stock %d, want %d and %d", placed.Total, stock, 2*price, 1_000_000-2)
	}
	var orders []order
	call(t, "GET", srv.URL+"/orders?customer=1", "globex", &orders)
	if len(orders) == 0 || orders[0].ID != placed.ID {
		t.Errorf("the placed order is not the customer's latest: %+v", orders)
	}
	if got := call(t, "GET", srv.URL+"/products/1", "globex", nil); got != http.StatusNotFound {
		t.Errorf("missing product: got %d, want 404", got)
	}
	if got := call(t, "GET", srv.URL+"/orders?customer=x", "globex", nil); got != http.StatusBadRequest {
		t.Errorf("bad customer: got %d, want 400", got)
	}
	if got := call(t, "GET", srv.URL+"/products?category=1", "nobody", nil); got != http.StatusForbidden {
		t.Errorf("unknown tenant: got %d, want 403", got)
	}

	shop.invoices.Wait()
	var invoice string
	if err := db.QueryRow("SELECT invoice FROM orders WHERE id = ?", placed.ID).Scan(&invoice); err != nil || !strings.Contains(invoice, "to be paid") {
		t.Errorf("got invoice %q, %v", invoice, err)
	}
	var lines []string
	for _, s := range rec.Ended() {
		if attrs := attribute.NewSet(s.Attributes()...); s.Parent().IsValid() || s.Name() == "GET /orders" {
			tenant, _ := attrs.Value(tenantKey)
			lines = append(lines, s.SpanKind().String()+" "+s.Name()+" "+tenant.AsString())
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	want := []string{
		"client DELETE cart_lines globex", "client INSERT cart_lines globex", "client INSERT order_lines globex",
		"client INSERT orders globex", "client POST /authorisations ", "client SELECT cart_lines globex", "client SELECT orders globex", "client SELECT products globex",
		"client UPDATE orders globex", "client UPDATE products globex", "client authorise ",
		"client sql.conn.begin_tx globex", "client sql.tx.commit globex",
		"internal write invoice globex", "server GET /orders globex", "server POST /authorisations globex",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("spans:\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// plan asks SQLite itself how it would find a customer's orders.
func plan(t *testing.T, db *sql.DB) string {
	t.Helper()
	var id, parent, unused int
	var detail string
	row := db.QueryRow("EXPLAIN QUERY PLAN SELECT id FROM orders WHERE tenant = 1 AND customer = 1 ORDER BY created_at DESC LIMIT 20")
	if err := row.Scan(&id, &parent, &unused, &detail); err != nil {
		t.Fatal(err)
	}
	return detail
}

func TestTheChangeIsReal(t *testing.T) {
	shop, _, _, _ := testShop(t, 2000)
	db := shop.db
	if got := plan(t, db); !strings.Contains(got, "orders_by_tenant (tenant=?)") {
		t.Errorf("before: %s", got)
	}
	if _, err := db.Exec(theChange); err != nil {
		t.Fatal(err)
	}
	if got := plan(t, db); !strings.Contains(got, "orders_by_customer (tenant=? AND customer=?)") {
		t.Errorf("after: %s", got)
	}
}

func TestBackupKeepsEveryOrder(t *testing.T) {
	shop, ts, _, _ := testShop(t, 500)
	db := shop.db
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := backup(ctx, db, dir, ts, tracenoop.NewTracerProvider().Tracer("")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var want, got int
	if err := db.QueryRow("SELECT count(*) FROM order_lines").Scan(&want); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got += countLines(t, filepath.Join(dir, f.Name()))
	}
	if len(files) != len(ts) || got != want {
		t.Errorf("%d files with %d lines, want %d with %d", len(files), got, len(ts), want)
	}
}

// As many carts have something in them as find a product as their last errand.
func TestCartsAreFilledAsTheyWillBe(t *testing.T) {
	shop, ts, _, _ := testShop(t, 40_000)
	customers, filled, lines := 0, 0, 0
	for _, x := range ts {
		customers += x.customers
	}
	if err := shop.db.QueryRow("SELECT count(DISTINCT tenant * 1000000 + customer), count(*) FROM cart_lines").Scan(&filled, &lines); err != nil {
		t.Fatal(err)
	}
	share, mean := float64(filled)/float64(customers), float64(lines)/float64(customers)
	if math.Abs(share-13.0/20) > 0.05 || math.Abs(mean-13.0/7) > 0.25 {
		t.Errorf("%.2f of %d carts have something in them and all %.2f lines, want 0.65 and 1.86", share, customers, mean)
	}
}

func TestTenantsFollowZipf(t *testing.T) {
	ts := makeTenants(1000)
	sum := 0.0
	for i, x := range ts {
		sum += x.share
		if i > 0 && x.share >= ts[i-1].share {
			t.Errorf("%s is not smaller than the one before", x.name)
		}
	}
	if sum < 0.999 || sum > 1.001 {
		t.Errorf("shares sum to %v", sum)
	}
	if got := pick(ts, 0); got != &ts[0] {
		t.Errorf("the first of the traffic belongs to %s", got.name)
	}
	if got := pick(ts, 0.999999); got != &ts[len(ts)-1] {
		t.Errorf("the last of the traffic belongs to %s", got.name)
	}
}
