package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	tenantKey = attribute.Key("tenant.id")
	routeKey  = semconv.HTTPRouteKey
	peerKey   = attribute.Key("peer.service")
)

// shop is the application under measurement: an HTTP API over SQLite that
// serves many tenants. It knows nothing of Tailscope; it is instrumented with
// the OpenTelemetry SDK as any application would be.
type shop struct {
	db      *sql.DB
	tenants map[string]*tenant
	cashier *cashier
	tracer  trace.Tracer
	now     func() time.Time
	observe func(operation string, begin time.Time, took time.Duration) // may be nil
	kept    *sync.Map                                                   // products that were asked for, by tenant and id; nil in the shop under load

	invoices sync.WaitGroup // being written after their orders were answered
}

// tenantHeader says on whose behalf a request is made.
const tenantHeader = "X-Shop-Tenant"

func newShop(db *sql.DB, ts []tenant, c *cashier, tp trace.TracerProvider, now func() time.Time) *shop {
	s := &shop{db: db, tenants: map[string]*tenant{}, cashier: c, tracer: tp.Tracer("tailscope/demo/shop"), now: now}
	for i := range ts {
		s.tenants[ts[i].name] = &ts[i]
	}
	return s
}

// handler returns the shop's API, instrumented.
func (s *shop) handler(tp trace.TracerProvider, mp metric.MeterProvider) http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, h func(http.ResponseWriter, *http.Request, *tenant) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.observe != nil {
				begin := time.Now()
				defer func() { s.observe(pattern, begin, time.Since(begin)) }()
			}
			span := trace.SpanFromContext(r.Context())
			span.SetName(pattern)
			span.SetAttributes(routeKey.String(routeOf(pattern)))
			t, ok := s.tenants[r.Header.Get(tenantHeader)]
			if !ok {
				http.Error(w, "no such shop", http.StatusForbidden)
				return
			}
			span.SetAttributes(tenantKey.String(t.name))
			if err := h(w, r.WithContext(withTenant(r.Context(), t.name)), t); err != nil {
				var refused refusal
				if errors.As(err, &refused) {
					http.Error(w, refused.message, refused.status)
					return
				}
				span.RecordError(err)
				span.SetStatus(codes.Error, "")
				http.Error(w, "the shop is out of order", http.StatusInternalServerError)
			}
		})
	}
	route("GET /products", s.list)
	route("GET /products/{id}", s.product)
	route("GET /search", s.search)
	route("GET /cart", s.cart)
	route("PUT /cart/{id}", s.addToCart)
	route("POST /orders", s.checkout)
	route("GET /orders", s.orders)
	route("PUT /prices", s.putPrices)
	return otelhttp.NewHandler(mux, "shop",
		otelhttp.WithTracerProvider(tp), otelhttp.WithMeterProvider(mp),
		otelhttp.WithPropagators(propagation.TraceContext{}))
}

// refusal is an answer that is the caller's fault.
type refusal struct {
	status  int
	message string
}

func (r refusal) Error() string { return r.message }

// routeOf drops the method of a mux pattern.
func routeOf(pattern string) string {
	for i, c := range pattern {
		if c == ' ' {
			return pattern[i+1:]
		}
	}
	return pattern
}

type tenantCtx struct{}

func withTenant(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenantCtx{}, name)
}

func tenantOf(ctx context.Context) string {
	name, _ := ctx.Value(tenantCtx{}).(string)
	return name
}

type product struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Price int    `json:"price_cents"`
}

func (s *shop) list(w http.ResponseWriter, r *http.Request, t *tenant) error {
	category, err := number(r, "category")
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(r.Context(),
		`SELECT id, name, price_cents FROM products WHERE tenant = ? AND category = ? ORDER BY price_cents LIMIT 20`, t.id, category)
	return answerProducts(w, rows, err)
}

// search looks through all descriptions of the tenant: slow for large ones,
// whatever is indexed.
func (s *shop) search(w http.ResponseWriter, r *http.Request, t *tenant) error {
	rows, err := s.db.QueryContext(r.Context(),
		`SELECT id, name, price_cents FROM products WHERE tenant = ? AND description LIKE ? ORDER BY price_cents LIMIT 20`,
		t.id, "%"+r.FormValue("q")+"%")
	return answerProducts(w, rows, err)
}

func answerProducts(w http.ResponseWriter, rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	products := []product{}
	for rows.Next() {
		var p product
		if err := rows.Scan(&p.ID, &p.Name, &p.Price); err != nil {
			return err
		}
		products = append(products, p)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return answer(w, http.StatusOK, products)
}

func (s *shop) product(w http.ResponseWriter, r *http.Request, t *tenant) error {
	type key struct {
		tenant int
		id     string
	}
	of := key{t.id, r.PathValue("id")}
	if s.kept != nil {
		if p, ok := s.kept.Load(of); ok {
			return answer(w, http.StatusOK, p)
		}
	}
	var p product
	err := s.db.QueryRowContext(r.Context(),
		`SELECT id, name, price_cents FROM products WHERE id = ? AND tenant = ?`, r.PathValue("id"), t.id).Scan(&p.ID, &p.Name, &p.Price)
	if errors.Is(err, sql.ErrNoRows) {
		return refusal{http.StatusNotFound, "no such product"}
	}
	if err != nil {
		return err
	}
	if s.kept != nil {
		s.kept.Store(of, p)
	}
	return answer(w, http.StatusOK, p)
}

type order struct {
	ID      int    `json:"id"`
	Status  string `json:"status"`
	Total   int    `json:"total_cents"`
	Created int64  `json:"created_at"`
}

// orders returns the hot query: until theChange it reads every order of the tenant.
func (s *shop) orders(w http.ResponseWriter, r *http.Request, t *tenant) error {
	customer, err := number(r, "customer")
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(r.Context(),
		`SELECT id, status, total_cents, created_at FROM orders WHERE tenant = ? AND customer = ? ORDER BY created_at DESC LIMIT 20`, t.id, customer)
	if err != nil {
		return err
	}
	defer rows.Close()
	orders := []order{}
	for rows.Next() {
		var o order
		if err := rows.Scan(&o.ID, &o.Status, &o.Total, &o.Created); err != nil {
			return err
		}
		orders = append(orders, o)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return answer(w, http.StatusOK, orders)
}

// cartHeader says how a cart is read: joined is by one query.
const cartHeader = "X-Shop-Cart"

// cart shows what lies in a customer's cart, and a dozen products beside it.
// It asks for each of them by itself, as code that was written for a cart of
// two does, unless it is asked to join them.
func (s *shop) cart(w http.ResponseWriter, r *http.Request, t *tenant) error {
	customer, err := number(r, "customer")
	if err != nil {
		return err
	}
	if r.Header.Get(cartHeader) == "joined" {
		rows, err := s.db.QueryContext(r.Context(), `SELECT id, name, price_cents FROM products WHERE id IN (`+cartQuery+`)`, t.id, customer, categories)
		return answerProducts(w, rows, err)
	}
	ids, err := s.cartProducts(r.Context(), t, customer)
	if err != nil {
		return err
	}
	products := make([]product, len(ids))
	for i, id := range ids {
		p := &products[i]
		err := s.db.QueryRowContext(r.Context(), `SELECT id, name, price_cents FROM products WHERE id = ?`, id).Scan(&p.ID, &p.Name, &p.Price)
		if err != nil {
			return err
		}
	}
	return answer(w, http.StatusOK, products)
}

// cartQuery takes a tenant, a customer, and how many categories there are.
const cartQuery = `SELECT product FROM cart_lines WHERE tenant = ?1 AND customer = ?2
	UNION ALL SELECT id FROM (SELECT id FROM products WHERE tenant = ?1 AND category = ?2 % ?3 LIMIT 12)`

func (s *shop) cartProducts(ctx context.Context, t *tenant, customer int) ([]int, error) {
	rows, err := s.db.QueryContext(ctx, cartQuery, t.id, customer, categories)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (s *shop) addToCart(w http.ResponseWriter, r *http.Request, t *tenant) error {
	customer, err := number(r, "customer")
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(r.Context(),
		`INSERT INTO cart_lines (tenant, customer, product, quantity) VALUES (?, ?, ?, 1)
		 ON CONFLICT DO UPDATE SET quantity = quantity + 1`, t.id, customer, r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct{}{})
}

// checkout turns a customer's cart into an order. Its payment is authorised
// first; its invoice is written after it was answered.
func (s *shop) checkout(w http.ResponseWriter, r *http.Request, t *tenant) error {
	customer, err := number(r, "customer")
	if err != nil {
		return err
	}
	ctx := r.Context()
	var items, total sql.NullInt64
	err = s.db.QueryRowContext(ctx,
		`SELECT count(*), sum(quantity * price_cents) FROM cart_lines JOIN products ON products.id = product
		 WHERE cart_lines.tenant = ? AND customer = ?`, t.id, customer).Scan(&items, &total)
	if err != nil {
		return err
	}
	if items.Int64 == 0 {
		return refusal{http.StatusConflict, "the cart is empty"}
	}
	if err := s.cashier.authorise(ctx, t.name, total.Int64); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx,
		`INSERT INTO orders (tenant, customer, created_at, status, total_cents, invoice) VALUES (?, ?, ?, 'placed', ?, '')`,
		t.id, customer, s.now().Unix(), total.Int64)
	if err != nil {
		return err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`INSERT INTO order_lines (order_id, product, quantity, price_cents)
		 SELECT ?1, product, quantity, price_cents FROM cart_lines JOIN products ON products.id = product WHERE cart_lines.tenant = ?2 AND customer = ?3`,
		`UPDATE products SET stock = stock - (SELECT quantity FROM order_lines WHERE order_id = ?1 AND product = products.id)
		 WHERE id IN (SELECT product FROM cart_lines WHERE tenant = ?2 AND customer = ?3)`,
		`DELETE FROM cart_lines WHERE ?1 AND tenant = ?2 AND customer = ?3`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id, t.id, customer); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.invoices.Go(func() { s.writeInvoice(context.WithoutCancel(ctx), id, total.Int64) })
	return answer(w, http.StatusCreated, order{ID: int(id), Status: "placed", Total: int(total.Int64), Created: s.now().Unix()})
}

// writeInvoice outlives the request that asked for it. A failure is seen on
// its span; the order stands.
func (s *shop) writeInvoice(ctx context.Context, order, cents int64) {
	ctx, span := s.tracer.Start(ctx, "write invoice", trace.WithAttributes(tenantKey.String(tenantOf(ctx))))
	defer span.End()
	text := fmt.Sprintf("Order %d, placed on %s: %d.%02d to be paid within thirty days.", order, s.now().Format(time.DateOnly), cents/100, cents%100)
	if _, err := s.db.ExecContext(ctx, `UPDATE orders SET invoice = ? WHERE id = ?`, text, order); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "the invoice was not written")
	}
}

func answer(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A caller that has gone away is not the shop's fault.
	_ = json.NewEncoder(w).Encode(body)
	return nil
}

func number(r *http.Request, name string) (int, error) {
	n, err := strconv.Atoi(r.FormValue(name))
	if err != nil {
		return 0, refusal{http.StatusBadRequest, fmt.Sprintf("%s: write a number", name)}
	}
	return n, nil
}
