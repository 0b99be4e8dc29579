package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// twins are shops beside the one under load, on a copy of its database and with a bank of
// their own, for things to be tried on. They send no telemetry: who tries something on them
// measures it.
type twins struct {
	addresses []string // of each, http://host:port
	undo      []func() error
}

// startTwins starts a twin for each of the changes; nil leaves it as the shop is.
func (d *demo) startTwins(ctx context.Context, changes ...func(*shop)) (_ *twins, err error) {
	t := &twins{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start another shop: %w", err), t.close())
		}
	}()
	dir, err := os.MkdirTemp(d.dir, "twin-")
	if err != nil {
		return t, err
	}
	t.undo = append(t.undo, func() error { return os.RemoveAll(dir) })
	file := filepath.Join(dir, "shop.db")
	if _, err := d.db.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return t, err
	}
	traces, metrics := tracenoop.NewTracerProvider(), metricnoop.NewMeterProvider()
	db, err := openDatabase(file, traces, metrics)
	if err != nil {
		return t, err
	}
	t.undo = append(t.undo, db.Close)
	bank, err := t.serve(payments(traces, metrics))
	if err != nil {
		return t, err
	}
	for _, change := range changes {
		c := newCashier(bank, traces, metrics)
		s := newShop(db, d.tenants, c, traces, time.Now)
		if change != nil {
			change(s)
		}
		t.undo = append(t.undo, func() error {
			s.invoices.Wait()
			c.http.CloseIdleConnections()
			return nil
		})
		address, err := t.serve(s.handler(traces, metrics))
		if err != nil {
			return t, err
		}
		t.addresses = append(t.addresses, address)
	}
	return t, nil
}

// serve answers requests at a free port until the twins are closed.
func (t *twins) serve(h http.Handler) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // until it is closed
	}()
	t.undo = append(t.undo, func() error {
		err := srv.Close()
		<-ended
		return err
	})
	return "http://" + l.Addr().String(), nil
}

// close ends them, the last one first, and deletes their database.
func (t *twins) close() (err error) {
	for i := len(t.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, t.undo[i]())
	}
	return err
}
