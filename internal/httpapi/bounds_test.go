package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// What would take long to read, or to answer, is refused at once and in the
// right envelope, with the figure that is too large.
func TestWhatIsTooMuchIsRefused(t *testing.T) {
	srv := shop(t, Options{})
	ones := strings.Repeat("1+", 40_000) + "1"
	bomb := `x{service=~"(?:` + strings.Repeat("ab", 200) + `){1000}"}`
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		want   string
	}{
		{"/prometheus/api/v1/query", url.Values{"query": {ones}}, 400, "80,001 bytes long"},
		{"/prometheus/api/v1/query", url.Values{"query": {strings.Repeat("1+", 20_000) + "1"}}, 400, "at most 8,192"},
		{"/prometheus/api/v1/query", url.Values{"query": {"max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1ms])"}}, 422, "write [1d:100ms]"},
		{"/prometheus/api/v1/query_range", url.Values{"query": {"max_over_time(max_over_time(vector(1)[1d:1s])[1d:1s])"}, "start": {"1778310000"}, "end": {"1778313600"}, "step": {"60"}}, 422, "in each of"},
		{"/prometheus/api/v1/query", url.Values{"query": {bomb}}, 400, "too large"},
		{"/prometheus/api/v1/format_query", url.Values{"query": {ones}}, 400, "bytes long"},
		{"/prometheus/api/v1/query_exemplars", url.Values{"query": {ones}, "start": {"1778310000"}, "end": {"1778313600"}}, 400, "bytes long"},
		{"/prometheus/api/v1/series", url.Values{"match[]": {bomb}}, 400, "too large"},
		{"/prometheus/api/v1/series", url.Values{"match[]": make([]string, 200)}, 400, "at most 100"},
		{"/prometheus/api/v1/labels", url.Values{"match[]": {"x", bomb}}, 400, "too large"},
		{"/prometheus/api/v1/query", url.Values{"query": {strings.Repeat("1", 400_000)}}, 400, "larger than 256 KiB"},
	} {
		begun := time.Now()
		res, err := srv.Client().PostForm(srv.URL+c.path, c.form)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if took := time.Since(begun); err != nil || took > 5*time.Second {
			t.Errorf("%s: %v after %v", c.path, err, took)
		}
		if res.StatusCode != c.status || !strings.Contains(string(b), c.want) || !strings.Contains(string(b), `"errorType":`) {
			t.Errorf("%s %.60v: got %d %.300s, want %d with %q", c.path, c.form, res.StatusCode, b, c.status, c.want)
		}
	}
	// Names that are long are like no other, and are not compared with all.
	long := strings.Repeat("Europe/", 60_000)
	names := make([]string, 40_000)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for _, c := range [][]string{
		{"/api/v1/" + long}, {"/api/v1/services", long, "1"}, {"/api/v1/timeline", "overlay", "day", "tz", long},
		{"/api/v1/timeline", "by", strings.Join(names, ",")}, {"/api/v1/timeline", "by", long}, {"/api/v1/heatmap", "family", long},
	} {
		begun := time.Now()
		status, body := fetch(t, srv, c[0], c[1:]...)
		if took := time.Since(begun); status < 400 || status >= 500 || took > 3*time.Second {
			t.Errorf("%.40s: %d %.100s after %v", c, status, body, took)
		}
	}
	status, body := fetch(t, srv, "/api/v1/heatmap", "match", bomb)
	if status != http.StatusBadRequest || !strings.Contains(body, `"code":"invalid"`) || !strings.Contains(body, "too large") {
		t.Errorf("heatmap: got %d %.300s", status, body)
	}
}

// PromQL that is slow keeps further PromQL waiting, and nothing else.
func TestSlowPromQLLeavesThePageItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slow{Store: filled(t, storetest.NewTwin()), entered: make(chan struct{}, 100), release: make(chan struct{})}
		h := New(Options{Store: st, Now: func() time.Time { return now }, MaxPromQL: 1, Timeout: 30 * time.Second})
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w
		}
		const question = "/prometheus/api/v1/query?query=span_duration_seconds"
		begun := time.Now()
		answers := make(chan *httptest.ResponseRecorder, 100)
		for range 8 {
			go func() { answers <- ask(question) }()
		}
		<-st.entered
		synctest.Wait()
		if len(st.entered) > 0 {
			t.Error("two PromQL queries run at once, want one")
		}
		if w := ask("/api/v1/status"); w.Code != http.StatusOK || time.Since(begun) > 500*time.Millisecond {
			t.Errorf("status: got %d %s after %v", w.Code, w.Body, time.Since(begun))
		}
		for range 7 { // the eighth has the turn
			w := <-answers
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"errorType":"unavailable"`) || time.Since(begun) != 15*time.Second {
				t.Errorf("a query that waited: got %d %s after %v, want 503 after 15s", w.Code, w.Body, time.Since(begun))
			}
		}
		if w := <-answers; w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) || time.Since(begun) != 30*time.Second {
			t.Errorf("the query that ran: got %d %s after %v, want a timeout after 30s", w.Code, w.Body, time.Since(begun))
		}
		// More than wait at once are sent away at once.
		for range 1 + maxQueued {
			go func() { answers <- ask(question) }()
		}
		synctest.Wait()
		begun = time.Now()
		if w := ask(question); w.Code != http.StatusServiceUnavailable || time.Since(begun) > 0 {
			t.Errorf("one too many: got %d %s after %v", w.Code, w.Body, time.Since(begun))
		}
		for range 1 + maxQueued {
			<-answers
		}
	})
}

// A question that takes more than its memory is refused, and one that finds
// none left is told to come back; both give back what they took.
func TestMemoryOfQuestions(t *testing.T) {
	st := &hungry{Store: storetest.NewTwin(), entered: make(chan struct{}), release: make(chan struct{})}
	srv := serve(t, Options{Store: st, QuestionBytes: 4 << 20, Memory: store.NewMemory(6 << 20)})
	first := make(chan string)
	st.bytes.Store(3 << 20)
	go func() {
		_, body := fetch(t, srv, "/api/v1/services")
		first <- body
	}()
	<-st.entered
	st.bytes.Store(3<<20 + 1<<19)
	if status, body := fetch(t, srv, "/api/v1/heatmap"); status != http.StatusServiceUnavailable || !strings.Contains(body, "try again in a moment") {
		t.Errorf("with what is left: got %d %s", status, body)
	}
	st.bytes.Store(5 << 20)
	if status, body := fetch(t, srv, "/api/v1/heatmap"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "takes 5 MiB of memory or more; a question may have 4 MiB") {
		t.Errorf("more than a question may: got %d %s", status, body)
	}
	close(st.release)
	<-first
	st.bytes.Store(1 << 20)
	for range 10 {
		if status, body := fetch(t, srv, "/api/v1/services"); status != http.StatusOK {
			t.Fatalf("afterwards: got %d %s", status, body)
		}
	}
}

// hungry is a store whose answers take memory; the first waits.
type hungry struct {
	store.Store
	bytes            atomic.Int64
	once             sync.Once
	entered, release chan struct{}
}

func (s *hungry) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if err := store.BudgetOf(ctx).Reserve(s.bytes.Load()); err != nil {
		return nil, err
	}
	s.once.Do(func() {
		close(s.entered)
		<-s.release
	})
	return &store.Result{Start: q.Start, End: q.End}, nil
}
