//go:build servers

package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/cluster"
	"tailscope/internal/guard/check"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/test/program"
)

// Servers are started by a thread that lives as long as they may.
func init() {
	lasting = append(lasting, goleak.IgnoreAnyFunction("tailscope/test/program.init.func1.1"))
}

// loaded sends spans to a server, and has them stored.
func loaded(t *testing.T, s *Server, n int, seed uint64) spanLoad {
	t.Helper()
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(s.OTLPGRPC()), otlptracegrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	load := send(t, sdk(t, exporter), n, seed)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return load
}

// together is what two servers got.
func together(a, b spanLoad) spanLoad {
	sum := spanLoad{byTenant: map[string][]float64{}, errors: map[string]int{}, total: a.total + b.total}
	for _, l := range []spanLoad{a, b} {
		for tenant, v := range l.byTenant {
			sum.byTenant[tenant] = append(sum.byTenant[tenant], v...)
			slices.Sort(sum.byTenant[tenant])
		}
		for tenant, n := range l.errors {
			sum.errors[tenant] += n
		}
	}
	return sum
}

// door is program.Door, whose errors end the test.
type door struct{ *program.Door }

func newDoor(t *testing.T) door {
	t.Helper()
	d, err := program.NewDoor(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Shut() })
	return door{d}
}

func (d door) open(t *testing.T) {
	t.Helper()
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
}

func (d door) shut(t *testing.T) {
	t.Helper()
	if err := d.Shut(); err != nil {
		t.Fatal(err)
	}
}

// told returns the events that the receiver has got.
func (d door) told(t *testing.T) string {
	t.Helper()
	got, err := d.Told()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (d door) state(t *testing.T, s *Server) string {
	t.Helper()
	r, err := s.checks.List(t.Context(), check.ListRequest{})
	if err != nil || len(r.Checks) != 1 {
		t.Fatalf("checks: %+v, %v", r, err)
	}
	return r.Checks[0].State
}

// eventually waits for what takes less than half a minute on an idle machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// Two servers on one cluster answer for both, also after one was started anew, and after
// slots were rolled up.
func TestServersOnClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	first, second := testConfig(t.TempDir()), testConfig(t.TempDir())
	first.Store, second.Store = c.Address("tailscope"), c.Address("tailscope")
	door := newDoor(t)
	first.Checks = []string{door.Checks}
	second.Checks = first.Checks
	a, b := start(t, first), start(t, second)
	if a.data.writer == b.data.writer {
		t.Errorf("both servers are called %s", a.data.writer)
	}
	load := together(loaded(t, a, 2000, 1), loaded(t, b, 3000, 2))
	holds(t, a, load)
	holds(t, b, load)

	name := a.data.writer
	stop(t, a)
	a = start(t, first)
	if a.data.writer != name {
		t.Errorf("a server that was called %s is called %s after a restart", name, a.data.writer)
	}
	load = together(load, loaded(t, a, 1000, 3))
	if err := b.store.Maintain(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	holds(t, a, load)
	holds(t, b, load)
	if code, body := get(t, "http://"+b.Addr()+"/readyz"); code != http.StatusOK || body != "ready\n" {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	if n := metric(t, a, "tailscope_store_statements_total"); n < 10 {
		t.Errorf("%v statements are counted", n)
	}
	if n := metric(t, a, "tailscope_store_statements_failed_total"); n != 0 {
		t.Errorf("%v statements failed", n)
	}

	// A copy of a server's directory is not a second server.
	copied := first
	copied.Data = t.TempDir()
	if err := os.WriteFile(filepath.Join(copied.Data, NameFile), []byte(name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Settings{Config: copied}); !errors.Is(err, cluster.ErrTwin) {
		t.Errorf("a server in a copied directory: got %v, want %v", err, cluster.ErrTwin)
	}
	// What one server does for all is done by one of those that are there.
	works := func(servers ...*Server) (held []string) {
		for _, s := range servers {
			for _, m := range s.cluster.Members() {
				if m.Writer == s.data.writer {
					held = append(held, m.Works...)
				}
			}
		}
		slices.Sort(held)
		return held
	}
	all := []string{workChecks, workMaintenance, workVerdicts}
	divided := func(servers ...*Server) {
		t.Helper()
		deadline := time.Now().Add(time.Minute) // of a busy machine; twelve seconds are enough else
		for !slices.Equal(works(servers...), all) {
			if time.Now().After(deadline) {
				t.Fatalf("%v is held, want each of %v once", works(servers...), all)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	divided(a, b)
	door.shut(t)
	eventually(t, "one server tells that the door is shut", func() bool { return door.told(t) == "opened/1" })
	for _, s := range []*Server{a, b} {
		eventually(t, "each server shows it", func() bool { return door.state(t, s) == "CRITICAL" })
	}
	guard, other := a, b
	if metric(t, b, "tailscope_check_runs_total") > 0 {
		guard, other = b, a
	}
	if n := metric(t, other, "tailscope_check_runs_total"); n != 0 {
		t.Errorf("both servers run the check, the other %v times", n)
	}
	if _, err := other.checks.Acknowledge(t.Context(), "door", api.Ack{User: "eva"}); err != nil {
		t.Errorf("acknowledge by way of the server that does not guard: %v", err)
	}
	stop(t, guard)
	divided(other)
	door.open(t)
	eventually(t, "the other server tells the end", func() bool { return door.told(t) == "opened/1 acknowledged/2 resolved/3" })
	if guard == a {
		stop(t, b)
		a = start(t, first)
	}
	divided(a)

	if s, err := Start(t.Context(), Settings{Config: first}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second server of the directory: got %v %v, want ErrLocked", s, err)
	}
	damaged := testConfig(t.TempDir())
	damaged.Store = first.Store
	if err := os.WriteFile(filepath.Join(damaged.Data, NameFile), []byte("nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Settings{Config: damaged}); err == nil || !strings.Contains(err.Error(), "WRITER does not have a server's name") {
		t.Errorf("a damaged name: got %v", err)
	}
	none := testConfig(t.TempDir())
	none.Store = "clickhouse://127.0.0.1:1/tailscope"
	if _, err := Start(t.Context(), Settings{Config: none}); err == nil || !strings.Contains(err.Error(), "ClickHouse at 127.0.0.1:1") {
		t.Errorf("no ClickHouse: got %v", err)
	}
}

// A verdict that a server without files of checks judged is told by the one that has them.
func TestVerdictsOfServersOnClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	judges, guards := testConfig(t.TempDir()), testConfig(t.TempDir())
	judges.Store, guards.Store = c.Address("tailscope"), c.Address("tailscope")
	told, file := filepath.Join(guards.Data, "told.jsonl"), filepath.Join(t.TempDir(), "checks.yaml")
	text := fmt.Sprintf("page: https://tailscope.example\nreceivers:\n  told: {file: {path: %q}, verdicts: yes}\nchecks:\n  one: {value: \"1\", every: 24h}\n", told)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	guards.Checks = []string{file}
	a := start(t, judges)
	start(t, guards)
	eventually(t, "the server that judges sees the other", func() bool { return a.cluster.Offers(workChecks, time.Minute) })
	mark := store.Mark{ID: "m1", Name: "deploy", Service: "shop", Time: time.Now()}
	if err := a.sendVerdict(t.Context(), mark, &api.MarkVerdict{Verdict: judge.Regression, Sentence: "p99 of shop is slower"}); err != nil {
		t.Fatal(err)
	}
	got := ""
	eventually(t, "the server with checks tells the verdict", func() bool {
		b, err := os.ReadFile(told)
		got = string(b)
		return err == nil && strings.HasSuffix(got, "\n")
	})
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "p99 of shop is slower") || !strings.Contains(got, "https://tailscope.example/marks/m1") {
		t.Errorf("it is told %q", got)
	}
}
