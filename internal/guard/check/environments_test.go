package check

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// dayStore counts questions about a day, and holds them back while it hangs.
type dayStore struct {
	store.Store
	asked atomic.Int64
	hangs atomic.Bool
}

func (d *dayStore) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if q.End-q.Start >= int64(environmentsOver/time.Second) {
		d.asked.Add(1)
		if d.hangs.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return d.Store.Query(ctx, q)
}

// However many checks are listed, their environments are asked for by one question, which
// is bounded in time.
func TestEnvironmentsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var yaml strings.Builder
		yaml.WriteString("checks:\n")
		for i := range 60 {
			fmt.Fprintf(&yaml, "  c%02d: {every: 24h, value: {query: {measure: p99, series: 'span_duration_seconds{service=\"s%02d\",kind=\"server\"}'}}}\n", i, i)
		}
		yaml.WriteString("  narrow: {every: 24h, value: {query: {measure: p99, series: 'span_duration_seconds{service=\"s00\",operation=\"a\"}'}}}\n")
		data, writer := storetest.NewTwin(), querytest.NewWriter()
		for i := range 60 {
			for _, environment := range []string{"production", "staging"}[:1+(i+1)%2] {
				writer.Span(time.Now().Unix()-3600, labels.FromStrings("service", fmt.Sprintf("s%02d", i), "operation", environment[:1], "kind", "server", "environment", environment, "component", "app", "status", "ok"), 0.1)
			}
		}
		// Operation "a" is of one environment alone, though its service has two.
		writer.Span(time.Now().Unix()-3600, labels.FromStrings("service", "s00", "operation", "a", "kind", "server", "environment", "staging", "component", "app", "status", "ok"), 0.1)
		if err := writer.Put(t.Context(), data, 1); err != nil {
			t.Fatal(err)
		}
		days := &dayStore{Store: data}
		w := &world{t: t, store: &mortal{Store: days}, probe: newProbes(), notes: &notes{}}
		w.open(yaml.String())
		defer w.stop()
		list := func() (warned int) {
			t.Helper()
			out, err := w.List(t.Context(), ListRequest{})
			if err != nil || len(out.Checks) != 61 {
				t.Fatalf("%d checks are listed: %v", len(out.Checks), err)
			}
			for _, c := range out.Checks {
				if warned += len(c.Warnings); c.Name == "narrow" && len(c.Warnings) > 0 {
					t.Errorf("an operation of one environment warns: %q", c.Warnings)
				}
			}
			return warned
		}
		for _, want := range []int64{2, 2} { // all by one, and the one that names an operation
			if got := list(); got != 30 || days.asked.Load() != want {
				t.Errorf("%d checks warn after %d questions, want 30 and %d", got, days.asked.Load(), want)
			}
		}
		time.Sleep(environmentsStale)
		days.hangs.Store(true)
		began := time.Now()
		if got := list(); got != 0 || time.Since(began) != environmentsWait {
			t.Errorf("of a store that hangs %d warn after %s, want none after %s", got, time.Since(began), environmentsWait)
		}
		if list(); days.asked.Load() != 3 || time.Since(began) != environmentsWait {
			t.Errorf("a store that hangs is asked again at once: %d questions in %s", days.asked.Load(), time.Since(began))
		}
		days.hangs.Store(false)
		time.Sleep(environmentsRetry)
		if got := list(); got != 30 {
			t.Errorf("once the store answers again %d warn, want 30", got)
		}
	})
}
