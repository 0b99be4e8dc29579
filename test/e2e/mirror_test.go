//go:build servers

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/demo"
	"tailscope/internal/experiment/mirror/record"
	"tailscope/test/program"
)

// mirrored is a running `tailscope mirror`.
type mirrored struct {
	*program.Process
	t    *testing.T
	addr string // where clients go
	id   string
	page string // of the server that keeps what is measured
}

var announced = regexp.MustCompile(`tailscope mirrors \S+ on (\S+) as session (\S+)\n  (\S+)/sessions/`)

// mirror runs the built program on a free port, and its server too unless args
// say --to.
func mirror(t *testing.T, args ...string) *mirrored {
	t.Helper()
	path, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	all := append([]string{"mirror", "--listen", "127.0.0.1:0", "--json", "--data", filepath.Join(dir, "data"), "--page", "127.0.0.1:0"}, args...)
	p, err := program.Start(filepath.Join(dir, "mirror.log"), []string{"TAILSCOPE_INGEST_FLUSH=200ms"}, path, all...)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirrored{Process: p, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("mirror:\n%s", tail(p.Log(), 40))
		}
		p.Kill()
	})
	eventually(t, 20*time.Second, func() string {
		found := announced.FindStringSubmatch(p.Log())
		if found == nil {
			return "the mirror does not start:\n" + p.Log()
		}
		m.addr, m.id, m.page = found[1], found[2], found[3]
		return ""
	})
	return m
}

// everyCopy has no copy dropped where a busy machine lets candidates fall behind.
const everyCopy = "--set=mirror.queue=10000"

// eventually waits until a condition holds, which is when it says nothing more.
func eventually(t *testing.T, within time.Duration, lacks func() string) {
	t.Helper()
	for deadline := time.Now().Add(within); ; pause(t, 50*time.Millisecond) {
		text := lacks()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
}

// store returns the server that keeps what is measured.
func (m *mirrored) store() *server {
	return &server{&program.Tailscope{Process: m.Process, URL: m.page}, m.t, time.Now()}
}

func (m *mirrored) api() *client.Client { return &client.Client{Address: m.page} }

// state returns the session as it was last reported, of which the sums close.
func (m *mirrored) state() *api.Session {
	m.t.Helper()
	x, err := m.api().Session(m.t.Context(), m.id)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, s := range x.Mirror.Shadows {
		closes(m.t, s)
	}
	return x
}

// closes checks the sums of an account.
func closes(t *testing.T, x api.MirrorTarget) {
	t.Helper()
	a := x.Account
	if a.Offered != a.Queued+total(a.Dropped)+a.Mirrored || a.Mirrored != a.Waiting+total(a.Failed)+a.Answered || a.Answered != a.Pairing+a.Paired+a.Unpaired {
		t.Errorf("the account of %s does not close: %+v", x.Name, *a)
	}
}

func total(by map[string]uint64) (n uint64) {
	for _, v := range by {
		n += v
	}
	return n
}

// end interrupts the program as Ctrl-C does, and returns what it printed.
func (m *mirrored) end() *api.Session {
	m.t.Helper()
	if err := syscall.Kill(m.Pid, syscall.SIGINT); err != nil {
		m.t.Fatal(err)
	}
	return m.ended()
}

func (m *mirrored) ended() *api.Session {
	m.t.Helper()
	select {
	case <-m.Done():
	case <-time.After(45 * time.Second):
		m.t.Fatal("the mirror does not end")
	}
	var out struct {
		Session api.Session `json:"session"`
	}
	_, text, ok := strings.Cut(m.Log(), "\n{\n")
	if !ok || json.Unmarshal([]byte("{"+text), &out) != nil {
		m.t.Fatalf("no JSON at the end:\n%s", m.Log())
	}
	for _, s := range out.Session.Mirror.Shadows {
		closes(m.t, s)
		if a := s.Account; a.Queued+a.Waiting+a.Pairing != 0 {
			m.t.Errorf("%s ended with copies under way: %+v", s.Name, *a)
		}
	}
	return &out.Session
}

// load makes n requests by several clients that keep their connections, and
// checks that each answer is wanted(i). It returns how long each took.
func load(t *testing.T, addr string, n, clients int, request func(i int) *http.Request, wanted func(i int) string) []time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var wrong atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			c := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer c.CloseIdleConnections()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				r := request(i)
				r.URL.Scheme, r.URL.Host = "http", addr
				begin := time.Now()
				res, err := c.Do(r)
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					continue
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				took[i] = time.Since(begin)
				if want := wanted(i); err != nil || res.StatusCode != 200 || string(b) != want {
					if wrong.Add(1) < 5 {
						t.Errorf("request %d: %s, %q, %v; want %q", i, res.Status, b, err, want)
					}
				}
			}
		})
	}
	group.Wait()
	if w := wrong.Load(); w > 0 {
		t.Errorf("%d of %d answers are wrong", w, n)
	}
	return took
}

func getPath(path func(i int) string) func(int) *http.Request {
	return func(i int) *http.Request {
		r, err := http.NewRequest(http.MethodGet, "http://x"+path(i), nil)
		if err != nil {
			panic(err)
		}
		return r
	}
}

func itemPath(i int) string { return fmt.Sprintf("/items/%d?x=%d", i, i) }

// backend is an nginx that answers with its name and the request's URI, and logs
// every request.
type backend struct {
	*program.Nginx
	log string
}

func (b *backend) url() string { return "http://" + b.Addr }

// requests returns how many it was sent.
func (b *backend) requests(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// startBackend runs one, listening at another address too unless that is empty.
func startBackend(t *testing.T, name, also string) *backend {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	listen := "listen $ADDR;"
	if also != "" {
		listen += " listen " + also + ";"
	}
	n, err := program.StartNginx(t.Context(), dir, fmt.Sprintf(`
log_format mirror '$request_method $request_uri $http_tailscope_mirror';
server { %s access_log %s mirror; location / { return 200 "%s $request_uri"; } }`, listen, log, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return &backend{n, log}
}

func unusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestMirrorCounts: what the test sent is what was counted, by the account and in
// the store, for each of the three targets, wherever the server runs.
func TestMirrorCounts(t *testing.T) {
	t.Parallel()
	const n = 3000
	for _, to := range []bool{false, true} {
		t.Run(fmt.Sprintf("to=%v", to), func(t *testing.T) {
			primary, control, candidate := startBackend(t, "primary", ""), startBackend(t, "control", ""), startBackend(t, "candidate", "")
			args := []string{"--primary", primary.url(), "--control", control.url(), "--candidate", candidate.url(), "--service", "web", everyCopy}
			var keeps *server
			if to {
				keeps = start(t)
				args = append(args, "--to", keeps.URL)
			}
			m := mirror(t, args...)
			if !to {
				keeps = m.store()
			}
			load(t, m.addr, n, 8, getPath(itemPath), func(i int) string { return "primary " + itemPath(i) })
			eventually(t, 20*time.Second, func() string {
				if x := m.state(); x.Mirror.Requests != n || x.Mirror.Shadows[0].Account.Paired+x.Mirror.Shadows[1].Account.Paired != 2*n {
					return fmt.Sprintf("reported: %+v", x.Mirror)
				}
				return ""
			})
			for _, variant := range []string{"primary", "control", "candidate"} {
				keeps.awaitCount("mirror_duration_seconds", fmt.Sprintf(`{variant=%q,experiment=%q,service="web",status="ok",operation="GET /items/{id}"}`, variant, m.id), n)
			}
			for _, pair := range [][2]string{{"candidate", "control"}, {"candidate", "primary"}, {"control", "primary"}} {
				keeps.awaitCount("mirror_ratio", fmt.Sprintf(`{variant=%q,against=%q,service="web"}`, pair[0], pair[1]), n)
			}
			x := m.end()
			if x.State != "ended" || x.Mirror.Requests != n || len(x.Mirror.Failed) != 0 || len(x.Mirror.Skipped) != 0 {
				t.Errorf("ended as %+v", x.Mirror)
			}
			for _, s := range x.Mirror.Shadows {
				if a := s.Account; a.Offered != n || a.Answered != n || a.Paired != n {
					t.Errorf("%s: %+v, want %d of each", s.Name, *a, n)
				}
			}
			for _, b := range []*backend{primary, control, candidate} {
				if got := b.requests(t); got != n {
					t.Errorf("nginx at %s was sent %d requests, want %d", b.Addr, got, n)
				}
			}
			if to {
				if x, err := (&client.Client{Address: keeps.URL}).Session(t.Context(), m.id); err != nil || x.State != "ended" {
					t.Errorf("the server says %+v, %v", x, err)
				}
			}
		})
	}
}

// TestMirrorFlappingCandidate stops, continues, kills and restarts a candidate
// under load. The clients see nothing of it, and every copy is accounted for.
func TestMirrorFlappingCandidate(t *testing.T) {
	primary := startBackend(t, "primary", "")
	addr := unusedAddr(t)
	candidate := startBackend(t, "candidate", addr)
	m := mirror(t, "--primary", primary.url(), "--candidate", "http://"+addr, "--set", "mirror.timeout=300ms", "--set", "mirror.queue=64", "--set", "mirror.connections=16")
	account := func() api.MirrorAccount { return *m.state().Mirror.Shadows[0].Account }
	requests := 0
	phase := func(name string, length time.Duration) []time.Duration {
		var took []time.Duration
		for begin := time.Now(); time.Since(begin) < length; {
			took = append(took, load(t, m.addr, 200, 8, getPath(itemPath), func(i int) string { return "primary " + itemPath(i) })...)
			requests += 200
			account()
		}
		slices.Sort(took)
		t.Logf("%-8s %6d requests, p50 %v, p99 %v, max %v; %+v", name, len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1], account())
		return took
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(candidate.Pid, s); err != nil {
			t.Fatal(err)
		}
	}
	healthy := phase("healthy", 2*time.Second)
	signal(syscall.SIGSTOP)
	hung := phase("hung", 2*time.Second)
	signal(syscall.SIGCONT)
	phase("back", time.Second)
	candidate.Kill()
	dead := phase("dead", 2*time.Second)
	before := account()
	candidate = startBackend(t, "candidate", addr)
	eventually(t, 10*time.Second, func() string {
		phase("again", 100*time.Millisecond)
		if a := account(); a.Answered <= before.Answered {
			return fmt.Sprintf("a candidate that is back gets nothing: %+v", a)
		}
		return ""
	})
	// Every client waits for the primary alone: a copy that is waited for would
	// take the 300 ms of its time limit, or the 10 s of the client's.
	for name, took := range map[string][]time.Duration{"hung": hung, "dead": dead} {
		if p99, was := took[len(took)*99/100], healthy[len(healthy)*99/100]; p99 > was+100*time.Millisecond {
			t.Errorf("p99 is %v while the candidate is %s, %v else", p99, name, was)
		}
	}
	x := m.end()
	a := x.Mirror.Shadows[0].Account
	if x.Mirror.Requests != uint64(requests) || len(x.Mirror.Failed) != 0 || a.Offered != uint64(requests) {
		t.Errorf("%d requests were made: %+v", requests, x.Mirror)
	}
	if a.Dropped["queue_full"]+a.Dropped["expired"] == 0 || a.Dropped["refused"] == 0 || total(a.Failed) == 0 {
		t.Errorf("a hung candidate and a dead one are not told apart: %+v", *a)
	}
}

// TestMirrorChanges changes share, pool and copies while a session runs, by the
// command that users have.
func TestMirrorChanges(t *testing.T) {
	t.Parallel()
	primary := startBackend(t, "primary", "")
	pool := []*backend{startBackend(t, "first", ""), startBackend(t, "second", "")}
	m := mirror(t, "--primary", primary.url(), "--candidate", pool[0].url()+","+pool[1].url(), "--set", "mirror.by=header:X-User", "--set", "mirror.spread=0", everyCopy)
	path, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	set := func(args ...string) {
		t.Helper()
		p, err := program.Start(filepath.Join(t.TempDir(), "set.log"), nil, path, append([]string{"mirror", "set", "--server", m.page}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if log := p.Log(); !strings.Contains(log, "share ") {
			t.Fatalf("set %q: %s", args, log)
		}
	}
	made := 0
	send := func(n int) (offered uint64, each [2]int) {
		t.Helper()
		before := m.state().Mirror.Shadows[0].Account.Offered
		for i, b := range pool {
			each[i] = b.requests(t)
		}
		load(t, m.addr, n, 4, func(i int) *http.Request {
			r := getPath(itemPath)(i)
			r.Header.Set("X-User", "user-"+strconv.Itoa(i))
			return r
		}, func(i int) string { return "primary " + itemPath(i) })
		made += n
		eventually(t, 10*time.Second, func() string {
			x := m.state()
			if a := x.Mirror.Shadows[0].Account; x.Mirror.Requests != uint64(made) || a.Offered != a.Answered {
				return fmt.Sprintf("%d requests were made: %+v", made, x.Mirror)
			}
			return ""
		})
		for i, b := range pool {
			each[i] = b.requests(t) - each[i]
		}
		return m.state().Mirror.Shadows[0].Account.Offered - before, each
	}
	const n = 1000
	if offered, each := send(n); offered != n || each[0]+each[1] != n || min(each[0], each[1]) < n/10 {
		t.Errorf("of both servers: %d offered, %d sent", offered, each)
	}
	set("--using", "1")
	if offered, each := send(n); offered != n || each != [2]int{n, 0} {
		t.Errorf("of one server: %d offered, %d sent", offered, each)
	}
	set("--using", "candidate=2", "--amplify", "candidate=3")
	if offered, each := send(n); offered != 3*n || each[0]+each[1] != 3*n || min(each[0], each[1]) < n/10 {
		t.Errorf("three copies: %d offered, %d sent", offered, each)
	}
	set("--amplify", "1", "--share", "0.3")
	first, _ := send(n)
	again, _ := send(n)
	// Of 1,000 users 300 are expected, with a standard deviation of 14.5; and they
	// are the same users.
	if math.Abs(float64(first)-0.3*n) > 75 || again != first {
		t.Errorf("of a share of 0.3, %d and %d users were chosen", first, again)
	}
	set("--pause")
	if offered, _ := send(100); offered != 0 {
		t.Errorf("%d copies while paused", offered)
	}
	set("--resume", "--share", "1")
	if offered, _ := send(100); offered != 100 {
		t.Errorf("%d copies of 100 after the pause", offered)
	}
	m.end()
}

// TestMirrorLost: a session whose program was killed is known as lost soon after.
func TestMirrorLost(t *testing.T) {
	t.Parallel()
	primary, candidate := startBackend(t, "primary", ""), startBackend(t, "candidate", "")
	keeps := start(t)
	m := mirror(t, "--primary", primary.url(), "--candidate", candidate.url(), "--to", keeps.URL)
	load(t, m.addr, 100, 2, getPath(itemPath), func(i int) string { return "primary " + itemPath(i) })
	eventually(t, 10*time.Second, func() string {
		if x := m.state(); x.State != "running" || x.Mirror.Requests != 100 {
			return fmt.Sprintf("%+v", x)
		}
		return ""
	})
	m.Kill()
	begin := time.Now()
	eventually(t, 40*time.Second, func() string {
		if x := m.state(); x.State != "lost" || math.IsNaN(float64(x.End)) {
			return fmt.Sprintf("%v after it was killed: %+v", time.Since(begin), x)
		}
		return ""
	})
	t.Logf("known as lost after %v", time.Since(begin).Round(100*time.Millisecond))
}

// TestMirrorServerAway: clients are served while the server that keeps what is
// measured is killed and started again, and nothing measured is lost.
func TestMirrorServerAway(t *testing.T) {
	primary, candidate := startBackend(t, "primary", ""), startBackend(t, "candidate", "")
	data := filepath.Join(t.TempDir(), "data")
	page, otlp := unusedAddr(t), unusedAddr(t)
	fixed := []string{"--listen", page, "--otlp-http", otlp}
	keeps := startIn(t, data, fixed...)
	m := mirror(t, "--primary", primary.url(), "--candidate", candidate.url(), "--to", keeps.URL)
	send := func() {
		load(t, m.addr, 500, 4, getPath(itemPath), func(i int) string { return "primary " + itemPath(i) })
	}
	send()
	keeps.awaitCount("mirror_duration_seconds", `{variant="candidate"}`, 500)
	keeps.Kill()
	send()
	eventually(t, 20*time.Second, func() string {
		if !strings.Contains(m.Log(), "what is measured waits") {
			return "nothing is said of the server"
		}
		return ""
	})
	send()
	keeps = startIn(t, data, fixed...)
	keeps.awaitCount("mirror_duration_seconds", `{variant="candidate"}`, 1500)
	keeps.awaitCount("mirror_duration_seconds", `{variant="primary"}`, 1500)
	if x := m.end(); x.Mirror.Requests != 1500 || x.Mirror.Shadows[0].Account.Paired != 1500 {
		t.Errorf("ended as %+v", x.Mirror)
	}
}

// TestMirrorWebSocket: a connection that becomes another protocol is passed
// through and not copied.
func TestMirrorWebSocket(t *testing.T) {
	t.Parallel()
	echo := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		// The key and its answer are those of RFC 6455, 1.3.
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		rw.Flush()
		_, _ = io.Copy(c, rw)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go echo.Serve(l)
	defer echo.Close()
	candidate := startBackend(t, "candidate", "")
	m := mirror(t, "--primary", "http://"+l.Addr().String(), "--candidate", candidate.url())
	c, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("got %+v, %v", res, err)
	}
	// A masked text frame, as in RFC 6455, 5.7, then one of 70,000 bytes.
	hello := []byte{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}
	long := append([]byte{0x82, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70, 0, 0, 0, 0}, bytes.Repeat([]byte("0123456789"), 7000)...)
	for _, frame := range [][]byte{hello, long, hello} {
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(frame))
		if _, err := io.ReadFull(in, back); err != nil || !bytes.Equal(back, frame) {
			t.Fatalf("a frame of %d bytes comes back otherwise: %v", len(frame), err)
		}
	}
	c.Close()
	x := m.end()
	if x.Mirror.Requests != 1 || x.Mirror.Skipped["upgrade"] != 1 || x.Mirror.Shadows[0].Account.Offered != 0 || candidate.requests(t) != 0 {
		t.Errorf("ended as %+v; the candidate was sent %d requests", x.Mirror, candidate.requests(t))
	}
}

// TestMirrorRedis: every command that one Redis gets from its own client reaches the
// other.
func TestMirrorRedis(t *testing.T) {
	redis := func() (addr string) {
		t.Helper()
		addr = unusedAddr(t)
		_, port, _ := net.SplitHostPort(addr)
		dir := t.TempDir()
		p, err := program.Start(filepath.Join(dir, "redis.log"), nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
		if err != nil {
			t.Fatalf("%v; scripts/install-servers installs it", err)
		}
		t.Cleanup(p.Kill)
		eventually(t, 10*time.Second, func() string {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return "redis does not listen: " + p.Log()
			}
			c.Close()
			return ""
		})
		return addr
	}
	ask := func(addr string, args ...string) string {
		t.Helper()
		host, port, _ := net.SplitHostPort(addr)
		p, err := program.Start(filepath.Join(t.TempDir(), "cli.log"), nil, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		return strings.TrimSpace(p.Log())
	}
	primary, candidate := redis(), redis()
	m := mirror(t, "--set", "mirror.tcp=true", "--primary", "tcp://"+primary, "--candidate", "tcp://"+candidate)
	const n = 50
	for i := range n {
		if got := ask(m.addr, "SET", fmt.Sprint("key", i), strings.Repeat("v", i*100)); got != "OK" {
			t.Fatalf("SET answers %q", got)
		}
	}
	if got := ask(m.addr, "STRLEN", "key49"); got != "4900" {
		t.Errorf("STRLEN answers %q", got)
	}
	eventually(t, 10*time.Second, func() string {
		if p, c := ask(primary, "DBSIZE"), ask(candidate, "DBSIZE"); p != "50" || c != "50" {
			return fmt.Sprintf("the primary has %s keys, the candidate %s; want %d", p, c, n)
		}
		return ""
	})
	x := m.end()
	if a := x.Mirror.Shadows[0].Account; x.Mirror.Mode != "tcp" || x.Mirror.Requests != n+1 || a.Offered != n+1 || a.Answered != n+1 {
		t.Errorf("ended as %+v, account %+v", x.Mirror, *a)
	}
}

// notices remembers what a demo says.
type notices struct {
	mu sync.Mutex
	b  strings.Builder
}

func (n *notices) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(b)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// TestMirrorDemoShop mirrors one demo shop to another, by tenant and operation.
func TestMirrorDemoShop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var demos sync.WaitGroup
	defer demos.Wait()
	defer stop()
	at := regexp.MustCompile(`the shop is at (\S+); its callers say whose shop it is, by X-Shop-Tenant: (\S+)`)
	shop := func() (url, tenant string) {
		t.Helper()
		cfg := config.Default()
		cfg.Data = t.TempDir()
		cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		out := &notices{}
		demos.Go(func() {
			if err := demo.Run(ctx, demo.Options{Server: cfg, Out: out, Log: slog.New(slog.DiscardHandler), Rate: 5, Orders: 2000, NoChange: true}); err != nil {
				t.Error(err)
			}
		})
		eventually(t, time.Minute, func() string {
			found := at.FindStringSubmatch(out.String())
			if found == nil {
				return "the demo does not start: " + out.String()
			}
			url, tenant = found[1], found[2]
			return ""
		})
		return url, tenant
	}
	primary, tenant := shop()
	candidate, _ := shop()
	file := filepath.Join(t.TempDir(), "session.rec")
	m := mirror(t, "--primary", primary, "--candidate", candidate, "--tenant", "header:X-Shop-Tenant", "--compare", "status,json", "--record", file)
	const n = 300
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for i := range n {
		r, err := http.NewRequest(http.MethodGet, "http://"+m.addr+[]string{"/products?category=1", "/search?q=a"}[i%2], nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Shop-Tenant", tenant)
		r.Header.Set("Cookie", "session=secret-of-the-shop")
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
			t.Errorf("request %d: %s, %v", i, res.Status, err)
		}
		res.Body.Close()
	}
	keeps := m.store()
	for _, variant := range []string{"primary", "candidate"} {
		for _, op := range []string{"GET /products", "GET /search"} {
			keeps.awaitCount("mirror_duration_seconds", fmt.Sprintf(`{variant=%q,tenant=%q,operation=%q,status="ok"}`, variant, tenant, op), n/2)
		}
	}
	x := m.end()
	a := x.Mirror.Shadows[0].Account
	if x.Mirror.Requests != n || a.Paired != n {
		t.Errorf("ended as %+v, account %+v", x.Mirror, *a)
	}
	// Both shops were filled with the same goods.
	d := x.Mirror.Differences
	if d == nil || d.Compared != n || slices.ContainsFunc(d.Rows, func(r api.MirrorDifference) bool { return r.Raw > 0 }) {
		t.Errorf("compared: %+v", d)
	}
	if r := x.Mirror.Recording; r == nil || r.Requests != n || r.Dropped != 0 || r.Error != "" {
		t.Errorf("recorded: %+v", r)
	}
	path, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	show, err := program.Start(filepath.Join(t.TempDir(), "show.log"), nil, path, "mirror", "show", file)
	if err != nil {
		t.Fatal(err)
	}
	<-show.Done()
	for _, want := range []string{"GET /products", "GET /search", "300"} {
		if !strings.Contains(show.Log(), want) {
			t.Errorf("show says nothing of %s:\n%s", want, show.Log())
		}
	}
	checkRecording(t, file, n, tenant)
}

// checkRecording reads every request of a file: all are whole, and none reveals the
// cookie that it came with.
func checkRecording(t *testing.T, file string, n int, tenant string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := record.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	var e record.Entry
	read, cookies := 0, 0
	for err = r.Next(&e); err == nil; err = r.Next(&e) {
		read++
		if e.Method != http.MethodGet || e.Status != 200 || !e.Whole() || e.Tenant != tenant {
			t.Errorf("recorded %+v", e)
		}
		for _, field := range e.Fields {
			if strings.EqualFold(field.Name, "Cookie") {
				cookies++
			}
			if strings.Contains(field.Value, "secret-of-the-shop") {
				t.Fatalf("%s: %s stands in the recording", field.Name, field.Value)
			}
		}
	}
	if err != io.EOF || read != n || cookies != n {
		t.Errorf("%d requests read, %d with a cookie, then %v; want %d of both", read, cookies, err, n)
	}
}
