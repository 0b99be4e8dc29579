package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"tailscope/internal/figure"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// denseStore holds one series with an observation in each of n slots from epoch on.
func denseStore(t *testing.T, n int64) store.Store {
	t.Helper()
	st := storetest.NewTwin()
	w := querytest.NewWriter()
	l := labels.FromStrings(series.LabelService, "s", series.LabelOperation, "o", series.LabelTenant, "t", series.LabelInstance, "i")
	for i := range n {
		w.Span(epoch+i*10, l, math.Exp(float64(i%20)-10))
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

// Texts that take long to parse are refused before they are parsed.
func TestCheckText(t *testing.T) {
	ones := func(n int) string { return strings.Repeat("1+", n) + "1" }
	names := make([]string, 4000)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%d", i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"a sum of many ones", ones(100_000), "200,001 bytes long; at most 65,536 are read"},
		{"a sum of some ones", ones(20_000), "40,001 numbers, names and operators; at most 8,192"},
		{"a sum of few ones", ones(500), ""},
		{"brackets", strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000), "40,001 numbers, names and operators; at most 8,192"},
		{"a regular expression that repeats", `x{a=~"(?:` + strings.Repeat("ab", 200) + `){1000}"}`, "too large"},
		{"many that repeat some", strings.Repeat(`x{a=~"a{900}"} + `, 200) + "1", "too large"},
		{"tables of Unicode classes", `x{a=~"` + strings.Repeat(`\\pL`, 5000) + `"}`, "too large"},
		{"many names to choose from", `x{tenant=~"` + strings.Join(names, "|") + `"}`, ""},
		{"what does not parse", `x{`, ""},
	} {
		err := CheckText("query", c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What a query would do is counted before it is done, and its refusal says
// which figure is too large.
func TestPromQLIsCountedBeforeItRuns(t *testing.T) {
	e := engineOver(denseStore(t, 360))
	end := at(epoch + 3600)
	for _, c := range []struct {
		query string
		steps int64
		want  string
	}{
		{`max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1ms])`, 1, "the subquery [1d:1ms] makes 86,400,001 points; at most 1,398,101 fit a question's memory: write [1d:100ms] or shorten its range"},
		{`max_over_time(max_over_time(vector(1)[1d:1s])[1d:1s])`, 1, "max_over_time over the subquery [1d] reads 86,401 points in each of 86,401 steps, 7,465,132,801 in all; at most 100,000,000 are read: write [1d:2m] or shorten its range"},
		{`max_over_time(max_over_time(max_over_time(vector(1)[7d:1s])[7d:1s])[7d:1s])`, 1, "the subquery [1w:1s] makes 1,814,401 points"},
		{`quantile_over_time(0.9, histogram_quantile(0.5, sum(rate(span_duration_seconds[1m])))[1d:1s])`, 1000, "reads 86,401 points in each of 1,000 steps, 86,401,000 in all; at most 10,000,000 are read: write [1d:10s] or shorten its range, or write step=10s"},
		{`avg_over_time(span_duration_seconds[1d:10s])`, 1000, "8,641,000 in all; at most 5,000,000 are read: write [1d:30s] or shorten its range, or write step=2s"},
		{`avg_over_time((` + strings.Repeat("1+", 400) + `vector(1))[10d:1s])`, 1, "evaluations, its steps times its parts; at most 400,000,000 are made"},
		{strings.Repeat("(", 1200) + "1" + strings.Repeat(")", 1200), 1, "1,201 deep within one another; at most 1,000 levels"},
		{`label_replace(label_replace(vector(1), "a", "$1$1$1$1$1", "a", "(.*)"), "a", "$1$1$1$1$1", "a", "(.*)")`, 1, "25 times"},
		{`label_replace(vector(1), "a", "$1", "a", "(` + strings.Repeat("ab", 200) + `){1000}")`, 1, "label_replace is too large, it compiles to 131,072 instructions or more; at most 65,536"},
		{`max_over_time(histogram_quantile(0.99, sum(rate(span_duration_seconds[5m])))[7d:1m])`, 300, ""},
		{`avg_over_time(sum(rate(span_duration_seconds[1m]))[7d:1h])`, 11_000, ""},
		{`sum by (tenant) (rate(span_duration_seconds[1m]))`, 11_000, ""},
	} {
		begun := time.Now()
		_, err := e.Range(context.Background(), nil, c.query, end.Add(-time.Duration(c.steps-1)*time.Second), end, time.Second)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%.80s: refused after %v", c.query, took)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.80s: %v, want %q", c.query, err, c.want)
		}
	}
}

// A query that needs more than its first part of the memory runs again with
// all of it; what needs more than that is refused, with the figure.
func TestPromQLHoldsNoMoreThanItsShare(t *testing.T) {
	e := NewPromEngine(denseStore(t, 30), PromOptions{Now: func() time.Time { return at(epoch + 7200) }, QuestionBytes: 8 << 20})
	exec := func(q string) *promql.Result {
		memory := store.NewMemory(16 << 20)
		budget := memory.Question(8 << 20)
		pq, err := e.Instant(context.Background(), nil, q, at(epoch+300))
		if err != nil {
			t.Fatal(err)
		}
		defer pq.Close()
		res := pq.Exec(store.WithBudget(context.Background(), budget))
		budget.Close()
		if memory.Used() != 0 {
			t.Errorf("%s: %d bytes are held after the question", q, memory.Used())
		}
		return res
	}
	all := e.engines[1].samples
	if res := exec(fmt.Sprintf("count_over_time(vector(1)[%ds:1s])", all/5)); res.Err != nil {
		t.Errorf("a fifth of the samples, for the subquery and again for its windows: %v", res.Err)
	} else if v, _ := res.Vector(); len(v) != 1 || v[0].F != float64(all/5) {
		t.Errorf("counted %v, want %d", v, all/5)
	}
	many := make([]string, 6)
	for i := range many {
		many[i] = fmt.Sprintf(`label_replace(vector(1), "a", "%d", "", "")`, i)
	}
	res := exec(fmt.Sprintf(`count_over_time((%s)[%ds:1s])`, strings.Join(many, " or "), all/5))
	if AsError(res.Err) == nil || AsError(res.Err).Code != CodeTooMany || !strings.Contains(res.Err.Error(), figure.Thousands(int64(all))) {
		t.Errorf("more samples than fit: %v", res.Err)
	}
}

// Each window of a long range is long to add up, and a series has thousands of
// steps: the deadline is seen within them.
func TestPromQLStopsAtItsDeadline(t *testing.T) {
	e := NewPromEngine(denseStore(t, 8640), PromOptions{Now: func() time.Time { return at(epoch + 90_000) }, Timeout: 300 * time.Millisecond})
	begun := time.Now()
	q, err := e.Range(context.Background(), nil, `avg_over_time(span_duration_seconds[1d])`, at(epoch+43_000), at(epoch+86_400), 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	res := q.Exec(context.Background())
	if took := time.Since(begun); took > 10*time.Second || !errors.Is(res.Err, context.DeadlineExceeded) && !isTimeout(res.Err) {
		t.Errorf("ended after %v with %v, want the deadline's error after 0.3s", took, res.Err)
	}
	runtime.KeepAlive(q)
}

func isTimeout(err error) bool {
	var timeout promql.ErrQueryTimeout
	return errors.As(err, &timeout)
}

// The engine makes room for what topk keeps of each group, or for as many as there
// are series: of many groups that is counted before it runs.
func TestTopOfManyGroups(t *testing.T) {
	st := storetest.NewTwin()
	w := querytest.NewWriter()
	for i := range 1500 {
		w.Span(epoch, labels.FromStrings(series.LabelService, "s", series.LabelTenant, fmt.Sprint("t", i)), 1)
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	e := NewPromEngine(st, PromOptions{Now: func() time.Time { return at(epoch + 7200) }})
	const of = "histogram_count(sum by (tenant) (rate(span_duration_seconds[1h])))"
	for text, refused := range map[string]bool{
		"topk by (tenant) (1000000, " + of + ")":                    true,
		"bottomk without (service) (1000000, " + of + ")":           true,
		"limitk by (tenant) (scalar(vector(1e6)), " + of + ")":      true,
		"max_over_time(topk by (tenant) (1e6, " + of + ")[1m:10s])": true,
		"topk by (tenant) (5, " + of + ")":                          false,
		"topk(1000000, " + of + ")":                                 false,
	} {
		ctx := store.WithBudget(context.Background(), store.NewMemory(128<<20).Question(64<<20))
		q, err := e.Instant(ctx, nil, text, at(epoch+600))
		if err == nil {
			err = q.Exec(ctx).Err
		}
		if (err != nil) != refused {
			t.Errorf("%s: %v, want it to be refused: %v", text, err, refused)
		}
	}
}
