package probe

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// sql asks for one row within a transaction that may only read, and that the
// database itself ends at the deadline: closing the connection does not stop a
// query that runs.
func (p *Prober) sql(ctx context.Context, s *spec.SQL, hide *secrets) event.Reading {
	dsn, err := hide.text("dsn", s.DSN)
	if err != nil {
		return failed(err)
	}
	pool, err := p.pool(source{s.Driver, dsn}, hide)
	if err != nil {
		return failed(err)
	}
	defer p.release(pool)

	begin := time.Now()
	r, err := pool.query(ctx, replaceDates(s.Query, p.o.Now().In(p.o.Location)))
	r.Took = time.Since(begin)
	if err != nil {
		r.Null, r.Err = true, databaseError(ctx, r.Took, err)
	} else if r.Text == "" {
		r.Text = "answered in " + short(r.Took)
	}
	return r
}

func (o *pool) query(ctx context.Context, query string) (r event.Reading, err error) {
	tx, err := o.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: o.readOnly})
	if err != nil {
		return r, connectError{err}
	}
	defer tx.Rollback() //nolint:errcheck // there is nothing to keep
	if err := o.limit(ctx, tx); err != nil {
		return r, err
	}
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return r, err
	}
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return r, err
		}
		if len(columns) == 0 {
			return r, errors.New("the query answers no column; write a SELECT")
		}
		r.Null, r.Text = true, "the query found no row"
		return r, nil
	}
	var first any
	to := make([]any, len(columns))
	to[0] = &first
	for i := range to[1:] {
		to[i+1] = new(sql.RawBytes)
	}
	if err := rows.Scan(to...); err != nil {
		return r, err
	}
	r.Value, r.Null, err = databaseNumber(first)
	if err != nil {
		return r, fmt.Errorf("column %s: %w", columns[0], err)
	}
	if r.Null {
		r.Text = columns[0] + " is null"
	}
	return r, nil
}

// limit makes the database end the transaction's statements by itself.
func (o *pool) limit(ctx context.Context, tx *sql.Tx) error {
	end, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	ms := max(1, time.Until(end).Milliseconds())
	switch o.driver {
	case driverPostgres:
		_, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = "+strconv.FormatInt(ms, 10))
		return err
	case driverMySQL:
		// A statement such as DROP TABLE ends the transaction and begins another,
		// which should only read either.
		_, err := tx.ExecContext(ctx, "SET SESSION TRANSACTION READ ONLY")
		if err != nil {
			return err
		}
		// MariaDB and MySQL have different words for it; old ones have none.
		const unknownVariable = 1193
		_, err = tx.ExecContext(ctx, "SET SESSION max_statement_time = "+strconv.FormatFloat(float64(ms)/1e3, 'f', 3, 64))
		if isMySQL(err, unknownVariable) {
			_, err = tx.ExecContext(ctx, "SET SESSION max_execution_time = "+strconv.FormatInt(ms, 10))
		}
		if isMySQL(err, unknownVariable) {
			return nil
		}
		return err
	}
	return nil
}

func isMySQL(err error, numbers ...uint16) bool {
	var m *mysql.MySQLError
	if !errors.As(err, &m) {
		return false
	}
	for _, n := range numbers {
		if m.Number == n {
			return true
		}
	}
	return false
}

// databaseNumber reads a column: numbers, numbers as text, truth values as 1 and
// 0, times as Unix seconds.
func databaseNumber(v any) (f float64, null bool, err error) {
	switch v := v.(type) {
	case nil:
		return 0, true, nil
	case int64:
		return float64(v), false, nil
	case float64:
		f, err = number(strconv.FormatFloat(v, 'g', -1, 64))
	case float32:
		f, err = number(strconv.FormatFloat(float64(v), 'g', -1, 32))
	case uint64:
		f = float64(v)
	case bool:
		if v {
			f = 1
		}
	case []byte:
		f, err = number(string(v))
	case string:
		f, err = number(v)
	case time.Time:
		f = float64(v.UnixMicro()) / 1e6
	default:
		f, err = number(fmt.Sprint(v))
	}
	return f, false, err
}

// connectError is the error of a connection that could not be made.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// databaseError adds the next step to an error of a database.
func databaseError(ctx context.Context, took time.Duration, err error) error {
	const cancelled = "57014" // of PostgreSQL: by its statement_timeout, or by somebody
	var pg *pgconn.PgError
	var connect connectError
	switch {
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &pg) && pg.Code == cancelled, isMySQL(err, 1969, 3024):
		return fmt.Errorf("the database did not answer within %s and was told to stop; make the query faster, or raise the check's timeout", short(took))
	case errors.As(err, &connect):
		return fmt.Errorf("no connection to the database: %w; look at its address, user and password", err)
	case errors.As(err, &pg) && pg.Code == "25006", isMySQL(err, 1792):
		return fmt.Errorf("%w; a check may only read", err)
	}
	return fmt.Errorf("%w; try the query by hand, as the same user", err)
}
