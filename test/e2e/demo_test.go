//go:build servers

package e2e

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/demo"
	serving "tailscope/internal/server"
)

// TestDemoShowsItsChange lets the demo make its index and one backup, and
// looks for both where the page shows them: the index as the fall of one
// database operation, the backup as a band of time spent saving.
func TestDemoShowsItsChange(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	err := demo.Run(ctx, demo.Options{
		Server: cfg, Out: t.Output(), Log: slog.New(slog.DiscardHandler),
		Rate: 30, Duration: 100 * time.Second, ChangeAfter: 35 * time.Second, BackupEvery: time.Minute, // the first comes half as long after the change
	})
	if err != nil {
		t.Fatal(err)
	}

	srv, err := serving.Start(ctx, serving.Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c := &client.Client{Address: srv.Addr()}
	marks, err := c.Marks(ctx, api.MarksRequest{Start: "now-5m", End: "now", Service: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	moment := func(name string) int64 {
		i := slices.IndexFunc(marks.Marks, func(m api.Mark) bool { return m.Name == name })
		if i < 0 {
			t.Fatalf("no mark %q among %+v", name, marks.Marks)
		}
		return int64(marks.Marks[i].Time)
	}
	change, backup := moment("index added"), moment("backup started")

	ops, err := c.Operations(ctx, api.OperationsRequest{
		Requests:   api.Requests{Match: `{service="shop"}`, Start: "now-5m", End: "now"},
		Grid:       api.Grid{Step: 10 * time.Second},
		Components: []string{"db"}, Limit: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := func(at int64) bool { return at+ops.Step <= change }
	after := func(at int64) bool { return at >= change+10 && at+ops.Step <= backup }
	during := func(at int64) bool { return at+ops.Step > backup && at < backup+20 }

	// The typical time of a call in a slot: one slot that the machine was busy
	// with something else in does not decide.
	mean := func(o api.Operation, in func(int64) bool) float64 {
		var means []float64
		for i, at := range ops.Times {
			if calls := float64(o.RateOver[i]) * float64(ops.Step); in(at) && calls > 0 {
				means = append(means, float64(o.SecondsOver[i])/calls)
			}
		}
		return median(means)
	}
	found := false
	for _, o := range ops.Rows {
		b, a := mean(o, before), mean(o, after)
		t.Logf("%-22s %8.3f ms before the index, %8.3f ms after", o.Operation, b*1e3, a*1e3)
		if o.Operation == "SELECT orders" {
			if found = true; !(b >= 5*a) {
				t.Errorf("SELECT orders fell from %.3f ms to %.3f ms, want a fifth or less", b*1e3, a*1e3)
			}
		}
	}
	if !found {
		t.Errorf("no SELECT orders among %d operations", len(ops.Rows))
	}

	for _, v := range ops.Verbs {
		if v.Verb != "save" {
			continue
		}
		band, calm := 0.0, []float64{}
		for i, at := range ops.Times {
			s := float64(v.SecondsOver[i])
			if during(at) {
				band = max(band, s)
			} else if after(at) {
				calm = append(calm, s)
			}
		}
		t.Logf("saving takes %.3f s in a slot of the backup, %.3f s in the typical one before", band, median(calm))
		if !(band >= 3*median(calm)) {
			t.Errorf("the backup is no band of save time: %.3f s beside %.3f s", band, median(calm))
		}
		return
	}
	t.Errorf("no time spent saving: %+v", ops.Verbs)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2]
}
