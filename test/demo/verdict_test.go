//go:build campaign

package demo_test

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"log/slog"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/demo"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/series"
	serving "tailscope/internal/server"
)

var record = flag.Bool("record", false, "write what the runs measured into testdata")

// judgedDemo runs the demo until its mark has a verdict that is enough, and
// returns it with all of its figures. On a quiet machine that is the first, four
// minutes after the mark; on a busy one slots depend on each other so much that
// it takes more of them.
func judgedDemo(t *testing.T, noChange bool, enough func(api.Verdict) bool, ask func(*client.Client, api.Mark)) (api.Mark, *stopwatch) {
	t.Helper()
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	// 20 slots before the mark, 20 after it, what lies between, and time to spare.
	// The load is light: two demos and whatever else is tested run at once.
	ctx, stop := context.WithTimeout(t.Context(), 13*time.Minute)
	defer stop()
	begin, watch := time.Now(), &stopwatch{took: map[string][]lap{}}
	var found api.Mark
	var watching sync.WaitGroup
	err := demo.Run(ctx, demo.Options{
		Server: cfg, Out: t.Output(), Log: slog.New(slog.DiscardHandler), Rate: 20, Orders: 40_000, NoChange: noChange,
		ChangeAfter: 215 * time.Second, BackupEvery: time.Hour, Observe: watch.observe,
		Ready: func(s *serving.Server) {
			c := &client.Client{Address: s.Addr()}
			watching.Go(func() {
				defer stop()
				for ; ctx.Err() == nil; rest(ctx, 2*time.Second) {
					if list, err := c.Marks(ctx, api.MarksRequest{}); err == nil && len(list.Marks) == 1 && list.Marks[0].Verdict.State != marks.Waiting {
						m, err := c.Mark(ctx, list.Marks[0].ID)
						if err != nil {
							if ctx.Err() == nil {
								t.Error(err)
							}
							return
						}
						found = *m
						if !enough(m.Verdict.Verdict) {
							continue
						}
						if ask != nil {
							ask(c, *m)
						}
						return
					}
				}
			})
		},
	})
	watching.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if found.Verdict == nil {
		t.Fatal("the mark was not judged")
	}
	v := found.Verdict
	t.Logf("%s, %s: %s", found.Name, v.State, v.Sentence)
	if len(v.Services) != 1 || v.Services[0].Service != "shop" {
		t.Fatalf("services %+v", v.Services)
	}
	if *record {
		recordRun(t, watch, begin, found, noChange)
	}
	return found, watch
}

// recordRun writes what the shop's clock said into testdata, for replay_test.go.
func recordRun(t *testing.T, watch *stopwatch, begin time.Time, m api.Mark, noChange bool) {
	t.Helper()
	f, err := os.Create(recording(noChange))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	// A slot begins with the recording, as one does with querytest.Epoch.
	begin = begin.Truncate(time.Duration(series.Base) * time.Second)
	if err := errors.Join(watch.write(z, begin, fromSeconds(m.Time)), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// The demo's index is judged by itself, minutes after it was made: the one
// operation that reads orders got faster, by what the shop's own clock says.
func TestDemoIsJudgedFaster(t *testing.T) {
	t.Parallel()
	m, watch := judgedDemo(t, false, func(v api.Verdict) bool { return v == judge.Improvement }, func(c *client.Client, m api.Mark) {
		r, err := c.Compare(t.Context(), api.CompareRequest{
			Selection: api.Selection{Match: `{service="shop",operation="SELECT orders"}`}, Mark: m.ID, Window: 210 * time.Second, Measures: []string{"p50", "p95"},
		})
		if err != nil {
			t.Error(err)
			return
		}
		t.Logf("the query: %s", r.Sentence)
		if r.Verdict != judge.Improvement && r.Verdict != judge.TooLittle {
			t.Errorf("SELECT orders is judged %s: %s", r.Verdict, r.Sentence)
		}
	})
	judgedFaster(t, m.Verdict, watch)
}

// A mark at which nothing was done is not evidence of a change, in 95 of 100 marks at
// least. The demo is run once more if something is judged changed, and twice by
// chance is one run in 400. The machine that runs this may change at that very moment
// too: what is judged is then what the shop's own clock shows.
func TestDemoWithoutChangeIsNoEvidence(t *testing.T) {
	t.Parallel()
	byMachine := false
	for range 2 {
		m, watch := judgedDemo(t, true, func(v api.Verdict) bool { return v != judge.TooLittle }, nil)
		s := m.Verdict.Services[0]
		for _, x := range s.Measures {
			t.Logf("%s: %s", x.Name, x.Sentence)
		}
		if (m.Verdict.Verdict == judge.NoEvidence || m.Verdict.Verdict == judge.Same) && len(s.Operations) == 0 {
			return
		}
		moved := moved(t, watch, s)
		t.Logf("nothing was changed, and that is judged %s; by the shop's own clock the machine changed: %t", m.Verdict.Sentence, moved)
		byMachine = byMachine || moved
	}
	if !byMachine {
		t.Fatal("twice something is judged changed, and the shop's own clock shows it neither time")
	}
	t.Skip("the machine changed: nothing is shown of a shop that does not")
}

// moved reports whether every change that was found, and one at least, is one by the
// shop's own clock too, of more than 5 %: within its interval for an operation, in
// its direction for the whole service, which has calls that the clock does not see.
func moved(t *testing.T, watch *stopwatch, s api.ServiceVerdict) bool {
	found := false
	same := func(operation string, x api.CompareMeasure, within bool) bool {
		f := x.Raw
		truth := watch.ratio(operation, quantileOf[x.Name], s.Before, s.After)
		t.Logf("%-14s %s %-15s %.3f (%.3f–%.3f); by the shop's clock %.3f", operation, x.Name, x.Verdict, f.Effect, f.Low, f.High, truth)
		found = true
		if within && (truth < float64(f.Low) || truth > float64(f.High)) {
			return false
		}
		return math.Abs(math.Log(truth)) > 0.05 && (truth < 1) == (x.Change == judge.Better)
	}
	for _, x := range s.Measures {
		if x.Change != "" && !same("", x, false) {
			return false
		}
	}
	for _, row := range s.Operations {
		for _, x := range row.Measures {
			if x.Change != "" && !same(row.Operation, x, true) {
				return false
			}
		}
	}
	return found
}
