package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/judge"
	"tailscope/internal/report"
	"tailscope/internal/server"
)

// output is what a running command has written.
type output struct {
	mu  sync.Mutex
	b   bytes.Buffer
	new chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(b)
	select {
	case o.new <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// mirroring is a tailscope mirror that runs in this process.
type mirroring struct {
	t         *testing.T
	url       string // where clients go
	id, page  string
	out, errs *output
	interrupt func()
	code      chan int
}

func startMirroring(t *testing.T, args ...string) *mirroring {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &mirroring{t: t, out: &output{new: make(chan struct{}, 1)}, errs: &output{new: make(chan struct{}, 1)}, interrupt: cancel, code: make(chan int, 1)}
	go func() {
		m.code <- Run(ctx, append([]string{"mirror", "--listen", "127.0.0.1:0", "--json"}, args...), nil, m.out, m.errs)
	}()
	for deadline := time.After(20 * time.Second); ; {
		text := m.errs.String()
		if _, err := fmt.Sscanf(between(text, " on ", "\n"), "%s as session %s", &m.url, &m.id); err == nil && strings.Count(text, "\n") >= 2 {
			m.url = "http://" + m.url
			m.page = strings.TrimSuffix(between(text, "\n  ", "\n"), "/sessions/"+m.id)
			break
		}
		select {
		case <-m.errs.new:
		case code := <-m.code:
			t.Fatalf("ended with %d:\n%s", code, text)
		case <-deadline:
			t.Fatalf("does not start:\n%s", text)
		}
	}
	return m
}

// between is what stands in text after one mark and before the next.
func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// get makes n requests and returns how many were answered as the primary does.
func (m *mirroring) get(n int) (good int) {
	m.t.Helper()
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for i := range n {
		r, err := c.Get(fmt.Sprintf("%s/cart/%d", m.url, i))
		if err != nil {
			m.t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil && r.StatusCode == 200 && string(b) == "primary" {
			good++
		}
	}
	return good
}

// end interrupts the program and returns what it printed.
func (m *mirroring) end() mirrorResult {
	m.t.Helper()
	m.interrupt()
	return m.ended()
}

func (m *mirroring) ended() mirrorResult {
	m.t.Helper()
	var r mirrorResult
	select {
	case code := <-m.code:
		if code != exitOK {
			m.t.Fatalf("ends with %d:\n%s", code, m.errs.String())
		}
	case <-time.After(30 * time.Second):
		m.t.Fatalf("does not end:\n%s", m.errs.String())
	}
	if err := json.Unmarshal([]byte(m.out.String()), &r); err != nil {
		m.t.Fatalf("%v: %s", err, m.out.String())
	}
	return r
}

// closes checks that every sum of an account closes with nothing under way.
func closes(t *testing.T, x api.MirrorTarget) {
	t.Helper()
	a := x.Account
	if a.Queued+a.Waiting+a.Pairing != 0 || a.Offered != report.Sum(a.Dropped)+a.Mirrored || a.Mirrored != report.Sum(a.Failed)+a.Answered || a.Answered != a.Paired+a.Unpaired {
		t.Errorf("the account of %s does not close: %+v", x.Name, *a)
	}
}

func backend(t *testing.T, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(s.Close)
	return s.URL
}

// observed is how many observations a server has of a variant.
func observed(t *testing.T, address, family, match string) uint64 {
	t.Helper()
	r, err := (&client.Client{Address: address}).Distribution(t.Context(), api.DistributionRequest{
		Selection: api.Selection{Family: family, Match: match, Start: "now-10m", End: "now+1m"}})
	var e *client.Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, g := range r.Groups {
		n += g.Count
	}
	return n
}

// The whole server runs beside the mirror, and shows after the end what was
// measured: as many as were sent, by each target.
func TestMirrorRunsTheServer(t *testing.T) {
	dir := t.TempDir()
	m := startMirroring(t, "--primary", backend(t, "primary"), "--candidate", backend(t, "candidate"), "--control", backend(t, "control"),
		"--data", filepath.Join(dir, "data"), "--page", "127.0.0.1:0", "--tenant", "query:tenant")
	const n = 50
	if good := m.get(n); good != n {
		t.Errorf("%d of %d answers are the primary's", good, n)
	}
	x, err := (&client.Client{Address: m.page}).Session(t.Context(), m.id)
	if err != nil || x.State != "running" {
		t.Errorf("the page's server says %+v, %v", x, err)
	}
	r := m.end()
	s := r.Session.Mirror
	if r.Session.State != "ended" || s.Requests != n || len(s.Skipped)+len(s.Failed) != 0 || len(s.Shadows) != 2 {
		t.Fatalf("got %+v", r.Session)
	}
	for _, x := range s.Shadows {
		closes(t, x)
		if x.Account.Offered != n || x.Account.Paired != n {
			t.Errorf("%s: %+v, want %d offered and paired", x.Name, *x.Account, n)
		}
	}
	if r.NoVerdict == "" && (r.Verdict == nil || len(r.Verdict.Candidates) != 1 || r.Verdict.Candidates[0].Verdict != judge.TooLittle) {
		t.Errorf("verdict of a moment: %+v, %q", r.Verdict, r.NoVerdict)
	}

	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = filepath.Join(dir, "data"), "127.0.0.1:0", "", ""
	srv, err := server.Start(t.Context(), server.Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	for _, variant := range []string{"primary", "control", "candidate"} {
		if got := observed(t, srv.Addr(), "mirror_duration_seconds", fmt.Sprintf(`{variant=%q,service="mirror",experiment=%q,status="ok",operation="GET /cart/{id}"}`, variant, m.id)); got != n {
			t.Errorf("%s: %d durations in the store, want %d", variant, got, n)
		}
	}
	if got := observed(t, srv.Addr(), "mirror_ratio", `{variant="candidate",against="control"}`); got != n {
		t.Errorf("%d ratios in the store, want %d", got, n)
	}
}

// far is a server of its own, on given ports or free ones.
func far(t *testing.T, listen, otlp string) *server.Server {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP, cfg.Flush = t.TempDir(), listen, "", otlp, 100*time.Millisecond
	srv, err := server.Start(t.Context(), server.Settings{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close(context.Background()) })
	return srv
}

// What is measured, reported and wanted goes to and from a server elsewhere; a
// change that stops the session ends the program well.
func TestMirrorTo(t *testing.T) {
	t.Parallel() // it waits for reports, which are a second apart
	srv := far(t, "127.0.0.1:0", "127.0.0.1:0")
	m := startMirroring(t, "--primary", backend(t, "primary"), "--candidate", "new="+backend(t, "candidate"), "--server", "http://"+srv.Addr(), "--service", "shop")
	const n = 40
	if good := m.get(n); good != n {
		t.Errorf("%d of %d answers are the primary's", good, n)
	}
	var out, errs bytes.Buffer
	set := func(args ...string) {
		t.Helper()
		if code := Run(t.Context(), append([]string{"mirror", "set", "--server", srv.Addr()}, args...), nil, &out, &errs); code != exitOK {
			t.Fatalf("set %q ends with %d: %s", args, code, errs.String())
		}
	}
	// Clients may be served before the session is known to the server.
	c := &client.Client{Address: srv.Addr()}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		x, err := c.Sessions(t.Context(), api.SessionsRequest{State: "running"})
		if err == nil && len(x.Sessions) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not know the session: %+v, %v", x, err)
		}
	}
	set("--pause")
	m.get(5)
	set("--stop")
	r := m.ended()
	s := r.Session.Mirror
	if s.Requests != n+5 || s.Skipped["paused"] != 5 || s.Shadows[0].Account.Offered != n {
		t.Errorf("got %+v, account %+v", s, *s.Shadows[0].Account)
	}
	closes(t, s.Shadows[0])
	if err := srv.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := observed(t, srv.Addr(), "mirror_duration_seconds", `{variant="new",service="shop"}`); got != n {
		t.Errorf("%d durations in the store, want %d", got, n)
	}
	if !strings.Contains(out.String(), "paused; new uses 1 of 1 servers") || !strings.HasSuffix(out.String(), "ended\n") {
		t.Errorf("set says\n%s", out.String())
	}
}

// quietAddress is one that nobody listens at, nor will by chance: the kernel gives
// ports above 32767 to whoever asks for any.
func quietAddress(t *testing.T) string {
	t.Helper()
	const lowest, most = 12_000, 18_000
	for i := range most {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", lowest+(89*os.Getpid()+i)%most))
		if err != nil {
			continue // somebody has it
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("every port is taken")
	return ""
}

// Clients are served while the server is away, from the start on, and what was
// measured meanwhile arrives once it is there.
func TestMirrorToAServerThatIsAway(t *testing.T) {
	listen := quietAddress(t)
	m := startMirroring(t, "--primary", backend(t, "primary"), "--candidate", backend(t, "candidate"), "--server", "http://"+listen)
	const n = 20
	if good := m.get(n); good != n {
		t.Errorf("%d of %d answers are the primary's", good, n)
	}
	for deadline := time.After(30 * time.Second); !strings.Contains(m.errs.String(), "cannot reach the server at http://"+listen); {
		select {
		case <-m.errs.new:
		case <-deadline:
			t.Fatalf("nothing is said of the server:\n%s", m.errs.String())
		}
	}
	srv := far(t, listen, "127.0.0.1:0")
	r := m.end()
	closes(t, r.Session.Mirror.Shadows[0])
	if err := srv.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := observed(t, srv.Addr(), "mirror_duration_seconds", `{variant="candidate"}`); got != n {
		t.Errorf("%d durations in the store, want %d", got, n)
	}
	x, err := (&client.Client{Address: srv.Addr()}).Session(t.Context(), m.id)
	if err != nil || x.State != "ended" {
		t.Errorf("the session is %+v, %v", x, err)
	}
}

// Errors of the start say what to do, and nothing is left behind.
func TestMirrorDoesNotStart(t *testing.T) {
	srv := far(t, "127.0.0.1:0", "127.0.0.1:0")
	primary, candidate := backend(t, "primary"), backend(t, "candidate")
	const gone = "127.0.0.1:1"
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"the page's address is taken", []string{"--primary", primary, "--candidate", candidate, "--data", t.TempDir(), "--page", srv.Addr()}, []string{"cannot listen", "hint: if a server runs there, send it what is measured with --server http://" + srv.Addr()}},
		{"not a server of ours", []string{"--primary", primary, "--candidate", candidate, "--server", primary}, []string{"does not answer like a tailscope server", "hint: --server takes the address of a server's page"}},
		{"no primary", []string{"--primary", "http://" + gone, "--candidate", candidate, "--server", "http://" + srv.Addr()}, []string{"primary", gone}},
		{"the same", []string{"--primary", primary, "--candidate", primary, "--server", "http://" + srv.Addr()}, []string{"--set mirror.allow_same=true"}},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"mirror", "--listen", "127.0.0.1:0"}, c.args...), nil, &out, &errs)
		for _, w := range c.want {
			if code != exitFailed || !strings.Contains(errs.String(), w) {
				t.Errorf("%s: ends with %d, want %q in\n%s", c.name, code, w, errs.String())
			}
		}
	}
}

// A section mirror in the file of a server runs a mirror in it.
func TestServeRunsAMirror(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tailscope.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"serve", "--config", file, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--otlp-grpc", "", "--otlp-http", "", "--log-level", "error"}
	for text, want := range map[string]string{
		"mirror:\n  listen: 127.0.0.1:0\n":                                                        "mirror.primary: ",
		"mirror:\n  primary: http://a\n  candidate: http://b\n  record_bodies: true\n":            "mirror.record_bodies: ",
		"mirror:\n  primary: http://a\n  candidate: http://b\n  to: http://127.0.0.1:7099\n":      "mirror.to: a server keeps what it mirrors itself",
		"mirror:\n  primary: http://a\n  candidate: http://b\n  to_otlp: http://127.0.0.1:7099\n": "mirror.to_otlp: needs mirror.to",
	} {
		write(text)
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s\nends with %d, want %q in\n%s", text, code, want, errs.String())
		}
	}
	write(fmt.Sprintf("mirror:\n  listen: 127.0.0.1:0\n  primary: %s\n  candidate: %s\n", backend(t, "primary"), backend(t, "candidate")))
	ctx, interrupt := context.WithCancel(t.Context())
	out := &output{new: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() { code <- Run(ctx, args, nil, out, io.Discard) }()
	m := &mirroring{t: t, code: code, errs: out, out: out}
	for !strings.Contains(out.String(), "/sessions/") {
		select {
		case <-out.new:
		case c := <-code:
			t.Fatalf("ended with %d: %s", c, out.String())
		}
	}
	m.url = "http://" + between(out.String(), " on ", ": http")
	if good := m.get(10); good != 10 {
		t.Errorf("%d of 10 answers are the primary's", good)
	}
	interrupt()
	if c := <-code; c != exitOK {
		t.Errorf("ends with %d", c)
	}
}
