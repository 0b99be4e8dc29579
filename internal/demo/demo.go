// Package demo runs the server and something real to look at: a small shop
// that serves many tenants over HTTP and SQLite, load that does not wait for
// it, and acts: an index that helps, a backup and an import that get in its way, and
// what can be tried on another shop like it.
//
// Nothing shown is made up but the bank's delay. The shop is slow where it is
// slow because a query reads every order of a large tenant, and gets fast
// because an index is made.
// It reaches the server as any application would: by the OpenTelemetry SDK
// over OTLP.
package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/server"
)

// Options configures Run; the zero value of each field but Server, Out and
// Log means its default.
type Options struct {
	Server  config.Config // the server's settings; an empty Data means a temporary directory
	Version string
	Out     io.Writer // what happens, a line each
	Log     *slog.Logger

	Rate        float64       // requests per second; default 60
	Orders      int           // in the shop's history; default 110,000
	Duration    time.Duration // 0: until the context is done
	ChangeAfter time.Duration // when the index is made; default 3 min 30 s, of which 20 slots can be judged
	BackupEvery time.Duration // the first comes half as long after the change; default 10 min
	NoChange    bool          // the change's mark is set, and nothing changed
	History     time.Duration // how long a past the shop gets before the load; 0: none
	recordFor   time.Duration
	// Program is the file of this program, for acts that are commands of it: a mirror, an
	// experiment, a search for capacity, a simulation. They are left out if it is empty.
	Program string

	Ready func(*server.Server) // called once everything runs
	// Observe is called with what the shop's own clock says of each request, by
	// several goroutines at once: to check what was measured against.
	Observe func(operation string, begin time.Time, took time.Duration)
}

func (o *Options) ensureDefaults() {
	if o.Rate == 0 {
		o.Rate = 60
	}
	if o.Orders == 0 {
		o.Orders = 110_000
	}
	if o.ChangeAfter == 0 {
		o.ChangeAfter = 3*time.Minute + 30*time.Second
	}
	if o.recordFor == 0 {
		o.recordFor = recordFor
	}
	if o.BackupEvery == 0 {
		o.BackupEvery = 10 * time.Minute
	}
}

// demo is a run.
type demo struct {
	Options
	srv     *server.Server
	api     *client.Client
	dir     string // the shop's database and backups
	db      *sql.DB
	door    net.Listener // of the shop
	tenants []tenant

	shop, payments, shoppers, jobs *telemetry

	people *shoppers
	story  *story

	outMu sync.Mutex
}

// workers bounds the requests under way at once.
const workers = 64

// Run runs the demo until ctx is done or the duration is over.
func Run(ctx context.Context, o Options) (err error) {
	o.ensureDefaults()
	d := &demo{Options: o, tenants: makeTenants(o.Orders), story: newStory(time.Now)}
	// The SDK reports failed exports to a handler of the process; they belong
	// in the demo's log, and at the end they are expected.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Debug("telemetry", "error", err) }))

	d.dir, err = os.MkdirTemp("", "tailscope-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the shop: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	if d.Server.Data == "" {
		d.Server.Data = filepath.Join(d.dir, "data")
	}
	d.freePorts()
	if d.door, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	defer d.door.Close() // closed already if the shop was served
	if err := d.guard(d.door.Addr().String()); err != nil {
		return err
	}
	if err := d.fill(ctx); err != nil {
		return err
	}
	if d.History > 0 && holdsData(d.Server.Data) {
		d.say("%s has data already: the shop gets no history", d.Server.Data)
		d.History = 0
	}

	d.srv, err = server.Start(ctx, server.Settings{Config: d.Server, Log: o.Log, Version: o.Version, Acts: d.story.acts})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, d.srv.Close(closing))
	}()
	d.api = &client.Client{Address: "http://" + d.srv.Addr()}
	return d.runShop(ctx)
}

func (d *demo) database() string { return filepath.Join(d.dir, "shop.db") }

// fill makes the shop's database, before anything asks for it.
func (d *demo) fill(ctx context.Context) (err error) {
	d.say("filling the shop with %d orders of %d tenants", d.Orders, len(d.tenants))
	db, err := openDatabase(d.database(), tracenoop.NewTracerProvider(), metricnoop.NewMeterProvider())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return seed(ctx, db, d.tenants, d.Orders, time.Now())
}

// runShop sets up the shop, drives it, and takes it down.
func (d *demo) runShop(ctx context.Context) (err error) {
	for _, service := range []struct {
		name string
		t    **telemetry
	}{{"shop", &d.shop}, {"payments", &d.payments}, {"shoppers", &d.shoppers}, {"shop-jobs", &d.jobs}} {
		t, err := newTelemetry(ctx, service.name, d.srv.OTLPGRPC(), d.srv.OTLPHTTP())
		if err != nil {
			return err
		}
		*service.t = t
		defer func() {
			// The server is still there to take what is left.
			sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := t.close(sending); err != nil {
				d.Log.Warn("send the last telemetry", "service", service.name, "error", err)
			}
		}()
	}
	if err := d.shop.measureRuntime(); err != nil {
		return fmt.Errorf("measure Go's runtime: %w", err)
	}

	d.db, err = openDatabase(d.database(), d.shop.traces, d.shop.metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.db.Close()) }()
	bank, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open the payments: %w", err)
	}
	at := &site{base: "http://" + d.door.Addr().String(), bank: "http://" + bank.Addr().String()}
	cashier := newCashier(at.bank, d.shop.traces, d.shop.metrics)
	defer cashier.http.CloseIdleConnections()
	shop := newShop(d.db, d.tenants, cashier, d.shop.traces, time.Now)
	shop.observe = d.Observe
	defer shop.invoices.Wait()

	group, ctx := errgroup.WithContext(ctx)
	serve := func(what string, l net.Listener, h http.Handler) *http.Server {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		group.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("the %s: %w", what, err)
			}
			return nil
		})
		return srv
	}
	at.payments.set(payments(d.payments.traces, d.payments.metrics))
	at.shop.set(shop.handler(d.shop.traces, d.shop.metrics))
	payments := serve("payments", bank, &at.payments)
	shops := serve("shop", d.door, &at.shop)
	group.Go(func() error {
		defer payments.Close()
		defer shops.Close()
		if d.History > 0 {
			switch err := d.sendHistory(ctx, at); {
			case ctx.Err() != nil:
				return nil // interrupted
			case err != nil:
				return err
			}
		}
		return d.drive(ctx, at.base)
	})
	return group.Wait()
}

// drive sends the load and lets things happen, until the end of the demo.
func (d *demo) drive(ctx context.Context, base string) error {
	schedule, err := bench.NewSchedule(bench.Poisson, d.Rate, 1)
	if err != nil {
		return err
	}
	d.people = newShoppers(base, d.tenants, d.shoppers.traces, workers)
	defer d.people.http.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.story.plan(d.acts())
	var events sync.WaitGroup
	events.Go(func() { d.events(ctx) })
	events.Go(func() { d.verdicts(ctx) })
	events.Go(func() {
		select {
		case err := <-d.srv.Failed():
			stop(fmt.Errorf("the server failed: %w", err))
		case <-ctx.Done():
		}
	})

	// Before its history is sent the page would be empty.
	d.say("tailscope is at http://%s", d.srv.Addr())
	d.say("the shop is at %s; its callers say whose shop it is, by X-Shop-Tenant: %s", base, d.tenants[0].name)
	d.say("it is under load: %g requests a second, due whether or not it keeps up", d.Rate)
	if d.Ready != nil {
		d.Ready(d.srv)
	}
	sum, err := bench.Run(ctx, bench.Options{Schedule: schedule, Do: d.people.do, Duration: d.Duration, Workers: workers})
	if err == nil && context.Cause(ctx) != context.Canceled {
		err = context.Cause(ctx)
	}
	stop(nil)
	events.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	d.say("%d requests were due: %d answered, %d of them failed; %d dropped, %d cut off at the end; median %s, p99 %s; the load was late by %s at p99",
		sum.Scheduled, sum.Completed, sum.Failed, sum.Dropped, sum.Interrupted+sum.Unstarted,
		took(sum.Latency.Quantile(0.5)), took(sum.Latency.Quantile(0.99)), took(sum.Lateness.Quantile(0.99)))
	return err
}

func (d *demo) backup(ctx context.Context) error {
	dir := filepath.Join(d.dir, "backup")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return backup(ctx, d.db, dir, d.tenants, d.jobs.traces.Tracer("tailscope/demo/jobs"))
}

func (d *demo) say(format string, args ...any) {
	d.outMu.Lock()
	defer d.outMu.Unlock()
	fmt.Fprintf(d.Out, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// took writes seconds with three significant digits.
func took(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// freePorts replaces addresses that are taken by free ones, and says so: the
// demo should run beside a server.
func (d *demo) freePorts() {
	for _, a := range []struct {
		what string
		addr *string
	}{
		{"the page", &d.Server.Listen}, {"OTLP over gRPC", &d.Server.OTLPGRPC}, {"OTLP over HTTP", &d.Server.OTLPHTTP},
	} {
		host, port, err := net.SplitHostPort(*a.addr)
		if err != nil || port == "0" {
			continue
		}
		l, err := net.Listen("tcp", *a.addr)
		if err == nil {
			_ = l.Close()
			continue
		}
		d.say("%s is taken: %s gets a free port", *a.addr, a.what)
		*a.addr = net.JoinHostPort(host, "0")
	}
}
