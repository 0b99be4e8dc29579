package chstore

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/store"
)

// answers is a server of ClickHouse that gives one answer after the other.
type answers struct {
	all  []answer
	seen []string // bodies of the requests
}

type answer struct {
	status int
	code   string // of the header
	body   string
	err    error
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	a.seen = append(a.seen, string(b))
	n := a.all[0]
	if len(a.all) > 1 {
		a.all = a.all[1:]
	}
	if n.err != nil {
		return nil, n.err
	}
	h := http.Header{}
	if n.status/100 == 3 {
		h.Set("Location", "http://elsewhere:8123/")
	}
	if n.code != "" {
		h.Set("X-ClickHouse-Exception-Code", n.code)
	}
	return &http.Response{StatusCode: n.status, Status: http.StatusText(n.status), Header: h, Body: io.NopCloser(strings.NewReader(n.body))}, nil
}

func clientOf(all ...answer) (*client, *answers, *node) {
	a := &answers{all: all}
	return &client{http: httpClient(a), scheme: "http", timeout: time.Minute, answerBytes: 1 << 20}, a, &node{host: "ch:8123"}
}

func TestErrorsOfClickHouse(t *testing.T) {
	for _, tt := range []struct {
		answer answer
		is     error // nil: none of the store's
		text   string
		asked  int // how often
	}{
		{answer{200, "", "ok", nil}, nil, "", 1},
		{answer{500, "", "Code: 243, e.displayText() = DB::Exception: Cannot reserve 1.00 MiB, not enough space, e.what() = DB::Exception", nil}, store.ErrFull, "ClickHouse at ch:8123: Code: 243", 1},
		{answer{500, "", "Code: 75, e.displayText() = DB::ErrnoException: Cannot write to file, errno: 28, strerror: No space left on device", nil}, store.ErrFull, "Code: 75", 1},
		{answer{500, "", "Code: 75, e.displayText() = DB::ErrnoException: Cannot write to file, errno: 5, strerror: Input/output error", nil}, nil, "Code: 75", 1},
		{answer{500, "241", "Code: 241. DB::Exception: Memory limit exceeded\nmore", nil}, store.ErrTooMany, "Memory limit exceeded", 1},
		{answer{404, "", "Code: 60, e.displayText() = DB::Exception: Table ts.points doesn't exist.", nil}, nil, "Table ts.points", 1},
		{answer{500, "", "Code: 252, e.displayText() = DB::Exception: Too many parts (300).", nil}, nil, "Too many parts", attempts},
		{answer{503, "", "", nil}, nil, "answered Service Unavailable", attempts},
		{answer{307, "", "", nil}, nil, "answered Temporary Redirect", 1}, // the password does not go elsewhere
		{answer{err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF, "ClickHouse at ch:8123: unexpected EOF", attempts},
		{answer{err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}, nil, "ClickHouse at ch:8123: dial", attempts},
		{answer{err: &net.OpError{Op: "read", Err: context.DeadlineExceeded}}, nil, "ClickHouse at ch:8123: read", attempts},
		{answer{200, "", strings.Repeat("x", 2<<20), nil}, store.ErrTooMany, "takes more than 1 MiB", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, a, n := clientOf(tt.answer)
			_, err := c.read(t.Context(), n, "SELECT 1")
			if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v: got error %v, want %q", tt.answer, err, tt.text)
			}
			for _, e := range []error{store.ErrFull, store.ErrTooMany, store.ErrCorrupt, io.ErrUnexpectedEOF} {
				if errors.Is(err, e) != (e == tt.is) {
					t.Errorf("%v: %v is %v: %v", tt.answer, err, e, errors.Is(err, e))
				}
			}
			if away := tt.answer.err != nil; errors.Is(err, store.ErrAway) != away {
				t.Errorf("%v: %v is store.ErrAway: %v, want %v", tt.answer, err, !away, away)
			}
			if len(a.seen) != tt.asked || c.requests.Load() != uint64(tt.asked) || c.retries.Load() != uint64(tt.asked-1) {
				t.Errorf("%v: asked %d times, want %d", tt.answer, len(a.seen), tt.asked)
			}
		})
	}
}

// A query is sent again, an insertion is not: whoever inserts decides whether that counts twice.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := answer{err: io.ErrUnexpectedEOF}
		c, a, n := clientOf(fail, fail, answer{200, "", "\x05", nil})
		r, err := c.read(t.Context(), n, "SELECT 5")
		if err != nil || r.uint8() != 5 || len(a.seen) != 3 {
			t.Errorf("after %d requests: %v", len(a.seen), err)
		}
		c, a, n = clientOf(fail)
		rows := strings.Repeat("a row", compressFrom)
		if err := c.insert(t.Context(), n, "t", "(x)", []byte(rows)); err == nil || len(a.seen) != 1 || a.seen[0] != rows {
			t.Errorf("inserted %d times, %v", len(a.seen), err)
		}
		c, a, n = clientOf(fail)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		if _, err := c.read(ctx, n, "SELECT 5"); !errors.Is(err, context.DeadlineExceeded) || len(a.seen) != 2 {
			t.Errorf("in 60 ms it was asked %d times: %v", len(a.seen), err)
		}
	})
}

func TestAnswersAreReserved(t *testing.T) {
	c, _, n := clientOf(answer{200, "", strings.Repeat("x", 100<<10), nil})
	budget := store.NewMemory(1 << 20).Question(64 << 10)
	defer budget.Close()
	if _, err := c.read(store.WithBudget(t.Context(), budget), n, "SELECT 5"); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("100 KiB within 64 KiB: got %v, want ErrTooMany", err)
	}
}
