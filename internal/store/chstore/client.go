package chstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/store"
)

// node is one server of ClickHouse, by its HTTP interface.
type node struct {
	host     string          // host:port
	knows    map[string]bool // settings; see learn
	settings atomic.Pointer[url.Values]
	quorum   *quorum // of its shard's replicas; nil: it is alone

	requests, failures atomic.Uint64
	away               atomic.Int64 // since when it has not answered, Unix milliseconds; 0: it does
}

// note notes what came of a statement. An error that the node gives is an answer. ctx is the
// caller's.
func (n *node) note(ctx context.Context, err error) {
	n.requests.Add(1)
	if err != nil {
		n.failures.Add(1)
	}
	var e *databaseError
	switch {
	case err == nil || errors.As(err, &e):
		n.away.Store(0)
	case passing(ctx, err):
		n.away.CompareAndSwap(0, time.Now().UnixMilli())
	}
}

// client sends statements to nodes.
type client struct {
	http           *http.Client
	scheme         string
	user, password string
	timeout        time.Duration // of one statement without a deadline
	answerBytes    int64         // of one answer

	requests, retries, failures atomic.Uint64
}

// httpClient returns a client by a transport. It does not follow redirects: the user and the
// password would go there.
func httpClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// attempts is how often a statement is sent whose failure may be of the moment.
const attempts = 4

// pauseBefore returns how long to wait before the n-th repetition, from 1.
func pauseBefore(n int) time.Duration { return 50 * time.Millisecond << (2 * (n - 1)) }

// passing reports whether an error may be of the moment: the network's, or one that
// ClickHouse gives while it is busy. ctx is the caller's: its own end does not pass, but
// a deadline of the network's or of one statement does.
func passing(ctx context.Context, err error) bool {
	var e *databaseError
	if errors.As(err, &e) {
		return e.temporary()
	}
	var o *net.OpError
	if errors.As(err, &o) && o.Op == "dial" {
		return true // nothing was sent
	}
	return err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrTooMany) && !errors.Is(err, store.ErrBusy) && !errors.Is(err, context.Canceled)
}

// repeated calls f until it succeeds, fails for good, or has failed attempts times. What f
// does may be done more than once.
func (c *client) repeated(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		if n > 1 {
			c.retries.Add(1)
		}
		err := f()
		if err == nil || n == attempts || !passing(ctx, err) {
			return err
		}
		if werr := backoff.Sleep(ctx, pauseBefore(n)); werr != nil {
			return werr
		}
	}
}

// read runs a query, and again if its failure may be of the moment. The rows are held by
// the question's budget.
func (c *client) read(ctx context.Context, n *node, query string) (r *rows, err error) {
	err = c.repeated(ctx, func() error {
		b, err := c.send(ctx, n, "", query+"\nFORMAT RowBinary", nil)
		r = &rows{b: b}
		return err
	})
	return r, err
}

// exec runs a statement once. It may have been done although an error is returned.
func (c *client) exec(ctx context.Context, n *node, statement string) error {
	_, err := c.send(ctx, n, "", statement, nil)
	return err
}

// insert inserts rows in RowBinary once. They may have been inserted although an error is
// returned. columns are named as in SQL, in parentheses.
func (c *client) insert(ctx context.Context, n *node, table, columns string, rows []byte) error {
	return c.insertPacked(ctx, n, table, columns, &packedRows{rows: rows})
}

// insertAlike is insert of rows that are as good twice as once. It waits while another process
// inserts into the table.
func (c *client) insertAlike(ctx context.Context, n *node, table, columns string, rows []byte) error {
	return waitForQuorum(ctx, func() error { return c.insert(ctx, n, table, columns, rows) })
}

// insertPacked is insert of rows that are compressed already.
func (c *client) insertPacked(ctx context.Context, n *node, table, columns string, rows *packedRows) error {
	if rows.empty() {
		return nil
	}
	err := n.quorum.insert(ctx, table, func() error {
		_, err := c.send(ctx, n, "INSERT INTO "+table+" "+columns+" FORMAT RowBinary", "", rows)
		return err
	})
	if err != nil {
		return fmt.Errorf("insert into %s: %w", table, err)
	}
	return nil
}

// insertSelected runs an INSERT INTO table SELECT once, as exec does.
func (c *client) insertSelected(ctx context.Context, n *node, table, statement string) error {
	return n.quorum.insert(ctx, table, func() error { return c.exec(ctx, n, statement) })
}

// send sends a statement: the text, or an insertion in the address and its rows.
func (c *client) send(ctx context.Context, n *node, insertion, text string, rows *packedRows) (answer []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.requests.Add(1)
	caller := ctx
	defer func() {
		if err != nil {
			c.failures.Add(1)
		}
		n.note(caller, err)
	}()
	until, bounded := ctx.Deadline()
	if !bounded {
		until = time.Now().Add(c.timeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	q := url.Values{}
	if set := n.settings.Load(); set != nil {
		maps.Copy(q, *set)
	}
	// The answer comes once all of it is known, so that an error is never in the middle of
	// rows.
	q.Set("wait_end_of_query", "1")
	q.Set("buffer_size", "1048576") // in memory up to it, else in a file
	q.Set("max_execution_time", strconv.Itoa(max(1, int(time.Until(until)/time.Second)+1)))
	body, packed := []byte(text), false
	if insertion != "" {
		q.Set("query", insertion)
		body, packed = rows.body()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.scheme+"://"+n.host+"/?"+q.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if packed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if c.user != "" {
		req.Header.Set("X-ClickHouse-User", c.user)
		req.Header.Set("X-ClickHouse-Key", c.password)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if e := context.Cause(ctx); e != nil && !bounded && errors.Is(e, context.DeadlineExceeded) {
			return nil, fmt.Errorf("ClickHouse at %s did not answer within %v: %w", n.host, c.timeout, e)
		}
		var u *url.Error // repeats the whole address
		if errors.As(err, &u) {
			err = u.Err
		}
		err = fmt.Errorf("ClickHouse at %s: %w", n.host, err)
		if ctx.Err() == nil {
			err = &awayError{err}
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		return nil, answerError(n.host, res, b)
	}
	b, err := c.readAnswer(ctx, res.Body)
	if err != nil {
		return nil, fmt.Errorf("answer of ClickHouse at %s: %w", n.host, err)
	}
	return b, nil
}

// readAnswer reads an answer whole. Its bytes are reserved while the question lasts.
func (c *client) readAnswer(ctx context.Context, r io.Reader) ([]byte, error) {
	budget := store.BudgetOf(ctx)
	var out []byte
	for {
		if len(out) == cap(out) {
			more := max(4<<10, cap(out))
			if int64(cap(out)+more) > c.answerBytes+(4<<10) {
				return nil, fmt.Errorf("the answer takes more than %d MiB: %w", c.answerBytes>>20, store.ErrTooMany)
			}
			if err := budget.Reserve(int64(more)); err != nil {
				return nil, err
			}
			grown := make([]byte, len(out), cap(out)+more)
			copy(grown, out)
			out = grown
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
