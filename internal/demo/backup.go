package demo

import (
	"bufio"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// backup writes every tenant's orders to a compressed file of their own. It is
// written the way such jobs are at first: to get a consistent copy it takes
// the write lock for as long as it reads, compresses and syncs a tenant, so
// that whoever places an order meanwhile waits. Between two tenants it rests
// as long as it worked, to be polite, which also makes it last longer.
func backup(ctx context.Context, db *sql.DB, dir string, ts []tenant, tracer trace.Tracer) error {
	ctx, root := tracer.Start(ctx, "nightly backup", trace.WithSpanKind(trace.SpanKindInternal), trace.WithNewRoot())
	defer root.End()
	for i := range ts {
		begin := time.Now()
		if err := backupTenant(ctx, db, dir, &ts[i], tracer); err != nil {
			return fmt.Errorf("back up %s: %w", ts[i].name, err)
		}
		select {
		case <-time.After(time.Since(begin)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func backupTenant(ctx context.Context, db *sql.DB, dir string, t *tenant, tracer trace.Tracer) (err error) {
	ctx, span := tracer.Start(withTenant(ctx, t.name), "back up tenant",
		trace.WithAttributes(tenantKey.String(t.name), semconv.CodeFunctionName("backupTenant")))
	defer func() {
		if err != nil {
			span.RecordError(err)
		}
		span.End()
	}()

	tx, err := db.BeginTx(ctx, nil) // immediate: the write lock, from here to the end
	if err != nil {
		return err
	}
	defer tx.Rollback()
	f, err := os.Create(filepath.Join(dir, t.name+".csv.gz"))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<16)
	packed, err := gzip.NewWriterLevel(buffered, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := csv.NewWriter(packed)
	rows, err := tx.QueryContext(ctx,
		`SELECT orders.id, customer, created_at, status, total_cents, invoice, product, quantity, price_cents
		 FROM orders JOIN order_lines ON order_id = orders.id WHERE tenant = ?`, t.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, customer, created, total, product, quantity, price int64
		var status, invoice string
		if err := rows.Scan(&id, &customer, &created, &status, &total, &invoice, &product, &quantity, &price); err != nil {
			return err
		}
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		if err := out.Write([]string{n(id), n(customer), n(created), status, n(total), invoice, n(product), n(quantity), n(price)}); err != nil {
			return err
		}
	}
	out.Flush()
	return errors.Join(rows.Err(), out.Error(), packed.Close(), buffered.Flush(), f.Sync())
}
