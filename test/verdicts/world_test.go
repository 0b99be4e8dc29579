// Package verdicts asks a whole server what changed, as its users do: spans come in by
// OTLP, and the answers are those of its HTTP API and of the command line. Each test
// plays a case several times, by a clock of its own, and says in how many of the trials
// the answer was right.
package verdicts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/cli"
	"tailscope/internal/config"
	"tailscope/internal/server"
	number "tailscope/internal/trials"
)

// epoch is when a world begins: a Tuesday, at a round hour.
var epoch = time.Date(2026, 5, 12, 10, 0, 0, 0, time.UTC)

// world is a server, the traffic it is sent, and the clock of both.
type world struct {
	*client.Client
	t      *testing.T
	server *server.Server
	rng    *rand.Rand
	noise  noise

	mu  sync.Mutex
	now time.Time
}

// newWorld starts a server that has seen nothing. The seed decides what it is sent.
func newWorld(t *testing.T, seed int) *world {
	t.Helper()
	return newWatchedWorld(t, seed, "")
}

// newWatchedWorld is newWorld with a file of checks, unless that is empty.
func newWatchedWorld(t *testing.T, seed int, checks string) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 18)), now: epoch}
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "", "127.0.0.1:0"
	cfg.Flush = time.Hour
	if checks != "" {
		cfg.Checks = []string{filepath.Join(t.TempDir(), "checks.yaml")}
		if err := os.WriteFile(cfg.Checks[0], []byte(checks), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.Start(t.Context(), server.Settings{Config: cfg, Now: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w.server, w.Client = s, &client.Client{Address: s.Addr()}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// advance moves the clock, hands over what arrived meanwhile, and lets the server do what
// is due.
func (w *world) advance(d time.Duration, arrived ...*v1.ExportTraceServiceRequest) {
	w.t.Helper()
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	for _, r := range arrived {
		w.post(r)
	}
	if err := w.server.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// send sends the requests of all loads from now on, and moves the clock to their end.
func (w *world) send(length time.Duration, loads ...load) {
	w.t.Helper()
	w.sendEvery(length, 20*time.Minute, loads...)
}

// sendEvery is send with the distance at which spans are exported.
func (w *world) sendEvery(length, every time.Duration, loads ...load) {
	w.t.Helper()
	for length > 0 {
		step := min(every, length)
		w.advance(step, w.export(w.clock(), step, loads)...)
		length -= step
	}
}

func (w *world) post(r *v1.ExportTraceServiceRequest) {
	w.t.Helper()
	body, err := proto.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := http.Post("http://"+w.server.OTLPHTTP()+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || len(answer) > 0 {
		w.t.Fatalf("spans are answered %s %q %v", res.Status, answer, err)
	}
}

// mark names this moment, of one service or of every one.
func (w *world) mark(name, service string) string {
	w.t.Helper()
	m, err := w.PutMark(w.t.Context(), api.Mark{Name: name, Service: service})
	if err != nil {
		w.t.Fatal(err)
	}
	w.advance(0)
	return m.ID
}

// verdict returns what was found at a mark.
func (w *world) verdict(id string) *api.MarkVerdict {
	w.t.Helper()
	w.advance(0)
	m, err := w.Mark(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Verdict
}

// final returns what was found at a mark once everything after it has come.
func (w *world) final(id string) *api.MarkVerdict {
	w.t.Helper()
	w.advance(2 * time.Minute)
	v := w.verdict(id)
	if v.State != "final" {
		w.t.Fatalf("the verdict is %s: %s", v.State, v.Sentence)
	}
	return v
}

func unix(t time.Time) api.Time { return api.Time(fmt.Sprint(t.Unix())) }

// window is a side of a comparison, in time after epoch.
type window struct{ from, to time.Duration }

func (s window) text(between string) string {
	return fmt.Sprint(epoch.Add(s.from).Unix(), between, epoch.Add(s.to).Unix())
}

// compare asks what differs between two sides of a service.
func (w *world) compare(service string, a, b window) *api.CompareResponse {
	w.t.Helper()
	r, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: ofService(service), A: a.text("/"), B: b.text("/")})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func ofService(name string) api.Selection {
	return api.Selection{Match: fmt.Sprintf("{service=%q}", name)}
}

// tailscope runs a command line against the server.
func (w *world) tailscope(args ...string) (code int, output string) {
	var out strings.Builder
	code = cli.Run(w.t.Context(), append(args, "--server", w.server.Addr()), strings.NewReader(""), &out, &out)
	return code, out.String()
}

// trials plays a case twice, or as often as TAILSCOPE_TRIALS says. At least this share of
// the answers must be right.
func trials(t *testing.T, share float64, play func(w *world) (bool, string)) {
	t.Helper()
	worlds(t, 2, share, play)
}

// worlds is trials with another number by default. Play says whether the answer was right,
// and what it was: the benchmark of verdicts counts the lines in which it is logged.
func worlds(t *testing.T, few int, share float64, play func(w *world) (bool, string)) {
	t.Helper()
	n, first, got := number.Of(few), int(number.First()), 0
	for trial := range n {
		t.Run(fmt.Sprint(first+trial), func(t *testing.T) {
			ok, answer := play(newWorld(t, first+trial))
			if ok {
				got++
			}
			t.Logf("right: %v: %s", ok, answer)
		})
	}
	t.Logf("%d of %d", got, n)
	if want := int(math.Ceil(share*float64(n) - 1e-9)); got < want {
		t.Errorf("%d of %d trials are right, want %d", got, n, want)
	}
}
