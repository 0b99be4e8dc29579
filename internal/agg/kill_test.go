package agg_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

func init() { agg.ChildMain = child }

const (
	senders      = 2 // in the child, each with one batch in flight
	spansInBatch = 50
)

// child commits batches until it is killed. It says "try" before and "ack"
// after each commit.
func child(dir string) {
	ctx := context.Background()
	st, a, err := openAll(ctx, dir)
	if err != nil {
		fmt.Println("fail", err)
		os.Exit(1)
	}
	defer st.Close()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 0; ; i++ {
				b := a.NewBatch()
				for k := range spansInBatch {
					t := a.SpanTarget(&agg.SpanIdentity{Service: "shop", Operation: fmt.Sprint("op", k%3),
						Tenant: fmt.Sprint("t", (i+k)%40), Instance: fmt.Sprint("i", s)})
					end := time.Now().UnixNano() - int64(k%3)*10e9
					b.Observe(t, end, int64(1+k)*1e6, 1)
				}
				os.Stdout.WriteString("try\n")
				if _, err := b.Commit(ctx); err != nil {
					fmt.Println("fail", err)
					os.Exit(1)
				}
				os.Stdout.WriteString("ack\n")
			}
		})
	}
	wg.Wait()
}

func openAll(ctx context.Context, dir string) (*pebblestore.Store, *agg.Aggregator, error) {
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return nil, nil, err
	}
	a, err := agg.Open(ctx, st, agg.Options{Writer: st.Writer(), Dir: filepath.Join(dir, "journal"), FlushInterval: 7 * time.Millisecond, SyncInterval: 3 * time.Millisecond})
	if err != nil {
		st.Close()
		return nil, nil, err
	}
	return st, a, nil
}

// TestKill kills the child in the middle of its load again and again. What was
// acknowledged is stored once, what was in flight at most once.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	ctx := context.Background()
	dir := t.TempDir()
	start := time.Now()
	var before, acked, tried uint64
	for round := range killRounds {
		tries, acks := runAndKill(t, dir, time.Duration(rand.IntN(60))*time.Millisecond)
		acked += acks * spansInBatch
		tried += tries * spansInBatch

		st, a, err := openAll(ctx, dir)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		torn := a.Stats().TornTails
		var counts [3]uint64
		for _, v := range []series.View{series.Full, series.Marginal, series.Total} {
			counts[v] = stored(t, st, v, start)
		}
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if counts[0] != counts[1] || counts[0] != counts[2] {
			t.Fatalf("round %d: views hold %v", round, counts)
		}
		got := counts[0]
		if got < acked || got > tried || (got-before)%spansInBatch != 0 {
			t.Fatalf("round %d: acknowledged %d <= stored %d <= tried %d does not hold", round, acked, got, tried)
		}
		t.Logf("round %d: acknowledged %d, stored %d, tried %d, torn tails %d", round, acked, got, tried, torn)
		before, acked, tried = got, got, got
	}
}

func runAndKill(t *testing.T, dir string, after time.Duration) (tries, acks uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), agg.ChildEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "try":
			tries++
		case line == "ack":
			if acks++; acks == 1 {
				time.AfterFunc(after, func() { cmd.Process.Signal(syscall.SIGKILL) })
			}
		case strings.HasPrefix(line, "fail"):
			t.Error(line)
		}
	}
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("child ended by itself: %v", err)
	}
	return tries, acks
}

func stored(t *testing.T, st store.Store, v series.View, start time.Time) (n uint64) {
	t.Helper()
	r, err := st.Query(context.Background(), store.Query{Family: series.SpanDuration, View: v,
		Start: start.Unix() - 60, End: time.Now().Unix() + 60, Schema: 5, Measure: store.Moments})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		for _, p := range g.Points {
			n += p.Hist.Count
		}
	}
	return n
}
