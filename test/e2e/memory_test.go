//go:build servers

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// flood sends spans of 10,000 tenants as fast as they are taken until ctx is
// done, and returns how many were acknowledged and how many requests refused. A
// refusal that does not ask for a retry fails the test.
func flood(ctx context.Context, t *testing.T, s *server, senders int) (spans, refused int64) {
	t.Helper()
	g, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var seed, sent, no atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for ctx.Err() == nil {
				for _, b := range payload.TracesAt(uint64(seed.Add(1)), 50, time.Now().Add(-time.Second)) {
					err := g.Send(t.Context(), b)
					switch code := status.Code(err); {
					case err == nil:
						sent.Add(payload.SpansPerRequest)
					case code == codes.ResourceExhausted || code == codes.Unavailable:
						no.Add(1)
						pause(t, 20*time.Millisecond)
					default:
						t.Errorf("refused without a wish to retry: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return sent.Load(), no.Load()
}

// gauges reads /metrics: by name, and by name and the label part.
func (s *server) gauges() (map[string]float64, error) {
	_, _, body, err := s.fetch("/metrics", nil)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for sc := bufio.NewScanner(bytes.NewReader(body)); sc.Scan(); {
		line := sc.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err == nil {
			out[line[:at]] = v
		}
	}
	return out, nil
}

// freeAddress returns an address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// What /metrics says holds memory comes to the live heap, within 15 %, while a
// server takes in spans of 10,000 tenants and breaks them down.
func TestMemoryAddsUp(t *testing.T) {
	debug := freeAddress(t)
	s := start(t, "--ingest-flush", "10s", "--set", "debug.listen="+debug)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		spans, _ := flood(ctx, t, s, 2)
		t.Logf("%d spans", spans)
	}()
	looked := 0
	for end := false; !end; {
		select {
		case <-done:
			end = true
		case <-time.After(5 * time.Second):
		}
		// A flush frees much at once, and may do so between the collection and the
		// reading of the parts: what is off is looked at again.
		for again := 2; ; again-- {
			off, small := s.looksAt(t, debug)
			if small {
				break
			}
			looked++
			if off == "" {
				break
			}
			if again == 0 {
				t.Error(off)
				break
			}
		}
	}
	if looked == 0 {
		t.Error("the heap was never large enough to be compared")
	}
	if n := arenas(t, s.Pid); n > 1 {
		t.Errorf("C's allocator has %d arenas beside the main one: what is freed in one is of no use in another", n)
	}
}

// looksAt collects garbage, and returns what is wrong with the parts of what is left.
// Of a small heap the program itself is much.
func (s *server) looksAt(t *testing.T, debug string) (off string, small bool) {
	t.Helper()
	resp, err := http.Get("http://" + debug + "/debug/pprof/heap?gc=1") // collects
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	m, err := s.gauges()
	if err != nil {
		t.Fatal(err)
	}
	sum, parts := 0.0, ""
	for k, v := range m {
		if rest, ok := strings.CutPrefix(k, `tailscope_memory_bytes{heap="go",part=`); ok {
			sum += v
			parts += " " + strings.Trim(rest, `"}`) + "=" + strconv.Itoa(int(v)>>20)
		}
	}
	live := m["tailscope_live_heap_bytes"]
	t.Logf("parts %.0f MiB, live heap %.0f MiB:%s", sum/(1<<20), live/(1<<20), parts)
	if math.Abs(sum-live) > 0.15*live {
		off = fmt.Sprintf("parts sum to %.0f MiB, the live heap is %.0f MiB:%s", sum/(1<<20), live/(1<<20), parts)
	}
	return off, live < 100<<20
}

// arenas counts the arenas of glibc's allocator beside the main one. Each consists of
// heaps, anonymous mappings at multiples of 64 MiB, which begin with pointers to the arena
// and to the heap before it (malloc/arena.c, heap_info): the first has none before it, and the
// arena right behind the pointers.
func arenas(t *testing.T, pid int) (n int) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		from, _, _ := strings.Cut(f[0], "-")
		at, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if len(f) == 5 && f[1] == "rw-p" && at%(64<<20) == 0 && at > 0xff<<32 { // Go's heap is below
			var heap [2]uint64
			if err := binary.Read(io.NewSectionReader(memory, int64(at), 16), binary.NativeEndian, &heap); err != nil {
				t.Fatal(err)
			}
			t.Logf("a heap of C at %#x: arena %#x, after %#x", at, heap[0], heap[1])
			if heap[0] > at && heap[0]-at < 4096 && heap[1] == 0 {
				n++
			}
		}
	}
	return n
}

// hungry are questions that would take all memory there is.
var hungry = []string{
	`max_over_time(sum(rate(span_duration_seconds[1m]))[1d:1ms])`,
	`max_over_time(max_over_time(sum(rate(span_duration_seconds[1m]))[1h:1s])[1d:10s])`,
	`histogram_quantile(0.99, sum by (tenant, operation) (rate(span_duration_seconds[1h])))`,
	`count_over_time(span_duration_seconds[30d])`,
	`sum by (tenant) (increase(span_self_seconds[7d:1m]))`,
	`span_duration_seconds`,
}

// A server in a container of 256 MiB lives through a flood with the breakdown on
// and the hungriest questions asked: it is not killed, refuses with a wish to
// retry, says what it is bounded by, and goes on afterwards.
func TestSmallContainer(t *testing.T) {
	for _, mib := range []int64{256, 512} {
		t.Run(strconv.FormatInt(mib, 10), func(t *testing.T) {
			t.Parallel() // with each other alone
			group, err := program.LimitMemory(mib << 20)
			if err != nil {
				t.Skip(err)
			}
			p, err := program.StartTailscopeIn(t.Context(), group, filepath.Join(t.TempDir(), "data"))
			if err != nil {
				t.Fatal(err, group.Close())
			}
			s := &server{p, t, time.Now()}
			t.Cleanup(func() {
				if err := group.Close(); err != nil {
					t.Error(err)
				}
			})
			defer p.Kill()

			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			var asked, refused atomic.Int64
			var wg sync.WaitGroup
			for _, q := range hungry {
				wg.Go(func() {
					for ctx.Err() == nil {
						now := time.Now()
						code, _, _, err := s.fetch("/prometheus/api/v1/query_range", map[string]string{
							"query": q, "start": strconv.FormatInt(now.Add(-10*time.Minute).Unix(), 10), "end": strconv.FormatInt(now.Unix(), 10), "step": "1",
						})
						if err != nil {
							t.Errorf("%s: %v", q, err)
							return
						}
						asked.Add(1)
						if code != http.StatusOK {
							refused.Add(1)
							pause(t, 200*time.Millisecond)
						}
					}
				})
			}
			spans, told := flood(ctx, t, s, 4)
			wg.Wait()

			kills, err := group.Kills()
			if err != nil || kills > 0 {
				t.Fatalf("%d processes were killed for want of memory, %v\n%s", kills, err, tail(s.Log(), 20))
			}
			u, err := s.Usage()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d spans taken, %d requests told to retry; %d questions, %d refused; peak %d MiB", spans, told, asked.Load(), refused.Load(), u.PeakBytes>>20)
			m, err := s.gauges()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := m[`tailscope_memory_limit_bytes{part="all"}`], float64(mib<<20/10*9); got != want {
				t.Errorf("the bound is %.0f bytes, want %.0f of the group's limit", got, want)
			}
			if !strings.Contains(s.Log(), "the control group's limit") {
				t.Errorf("the log does not say where the bound comes from:\n%s", tail(s.Log(), 5))
			}
			if spans == 0 {
				t.Error("nothing was taken in")
			}
			// It takes in more once the flood is over.
			pause(t, 3*time.Second)
			after, stop := context.WithTimeout(t.Context(), 2*time.Second)
			defer stop()
			if spans, _ := flood(after, t, s, 1); spans == 0 {
				t.Error("after the flood nothing is taken in")
			}
			stopping, over := context.WithTimeout(context.Background(), time.Minute)
			defer over()
			if _, err := p.Stop(stopping); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%v\n%s", err, tail(s.Log(), 20))
			}
		})
	}
}
