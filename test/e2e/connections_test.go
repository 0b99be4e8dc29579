//go:build servers

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"tailscope/test/sender"
)

// callers are connections of which somebody else says how many may be open.
type callers struct {
	t    *testing.T
	addr string
	open atomic.Int64
	mu   sync.Mutex
	all  map[net.Conn]struct{}
	wg   sync.WaitGroup
}

// join connects, says something, and reads to the connection's end.
func (c *callers) join(hello func(net.Conn)) {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.open.Add(1)
	c.mu.Lock()
	c.all[conn] = struct{}{}
	c.mu.Unlock()
	hello(conn)
	c.wg.Go(func() {
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		c.open.Add(-1)
		c.mu.Lock()
		delete(c.all, conn)
		c.mu.Unlock()
	})
}

func (c *callers) leave() {
	c.mu.Lock()
	for conn := range c.all {
		conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// Ten thousand connections to each listener, silent, idle, or with a head or a
// body that drips, leave as many open as may be, cost what docs/configuration.md
// says, and keep nobody out.
func TestTenThousandConnections(t *testing.T) {
	const (
		connections = 10_000
		bound       = 4096 // limits.connections and mirror.clients
		listeners   = 4

		// As docs/configuration.md says, of resident memory.
		perGRPC, perHTTP, perMirror = 64 << 10, 32 << 10, 32 << 10
	)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if need := uint64(listeners*bound + 1000); limit.Cur < need {
		t.Skipf("%d files may be open, %d are needed: raise the hard limit (ulimit -Hn)", limit.Cur, need)
	}
	primary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "primary") }))
	defer primary.Close()
	mirror := freeAddress(t)
	s := start(t, "--limits-memory", "1536MiB", // for which the bounds are at their defaults
		"--set", "mirror.listen="+mirror, "--set", "mirror.primary="+primary.URL, "--set", "mirror.candidate="+primary.URL+"/", "--set", "mirror.allow_same=true")

	say := func(format string, args ...any) func(net.Conn) {
		return func(c net.Conn) { fmt.Fprintf(c, format, args...) }
	}
	silent := func(net.Conn) {}
	head := say("POST / HTTP/1.1\r\nHost: localhost\r\nX-Drip: ")
	asked := say("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	body := func(path, kind string) func(net.Conn) {
		return say("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 1000000\r\n\r\n{", path, kind)
	}
	// What has been read of a client once is nothing to remember: 64 KiB of
	// settings that nobody knows.
	var settings bytes.Buffer
	settings.WriteString(http2.ClientPreface)
	unknown := make([]http2.Setting, 2700)
	for i := range unknown {
		unknown[i].ID = 0xfa00
	}
	for range 4 {
		if err := http2.NewFramer(&settings, nil).WriteSettings(unknown...); err != nil {
			t.Fatal(err)
		}
	}
	preface := func(c net.Conn) { _, _ = c.Write(settings.Bytes()) }
	resident := func() int64 {
		t.Helper()
		u, err := s.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return u.ResidentNow
	}
	good := crashPayload(t, "shop", 20, 2)
	overHTTP := sender.HTTP("http://"+s.OTLPHTTP+"/v1/traces", "")
	defer overHTTP.Close()
	ask := func(url string) error {
		tr := &http.Transport{DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		r, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Get(url)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	}

	first := resident()
	allowed := int64(0)
	for _, l := range []struct {
		name, addr string
		kinds      []func(net.Conn)
		per        int64
		works      func() error
	}{
		{"OTLP over gRPC", s.OTLPGRPC, []func(net.Conn){preface, preface, silent}, perGRPC, func() error {
			snd, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
			if err != nil {
				return err
			}
			defer snd.Close()
			return snd.Send(t.Context(), good)
		}},
		{"OTLP over HTTP", s.OTLPHTTP, []func(net.Conn){silent, head, asked, body("/v1/traces", "application/x-protobuf")}, perHTTP, func() error {
			return overHTTP.Send(t.Context(), good)
		}},
		{"mirror", mirror, []func(net.Conn){silent, head, asked}, perMirror, func() error { return ask("http://" + mirror + "/") }},
		{"page and API", s.URL[len("http://"):], []func(net.Conn){silent, head, asked, body("/api/v1/marks", "application/json")}, perHTTP, func() error {
			return ask(s.URL + "/readyz")
		}},
	} {
		before := resident()
		c := &callers{t: t, addr: l.addr, all: map[net.Conn]struct{}{}}
		defer c.leave()
		begin := time.Now()
		for i := range connections {
			c.join(l.kinds[i%len(l.kinds)])
			for c.open.Load() > bound+200 { // what is closed is heard of a little later
				if time.Since(begin) > 2*time.Minute {
					t.Fatalf("%s: %d connections are open", l.name, c.open.Load())
				}
				time.Sleep(time.Millisecond)
			}
		}
		took := time.Since(begin)
		eventually(t, 20*time.Second, func() string { // a wish to retry is answered so
			if err := l.works(); err != nil {
				return fmt.Sprintf("%s: beside %d connections: %v", l.name, c.open.Load(), err)
			}
			return ""
		})
		eventually(t, 20*time.Second, func() string {
			if n := c.open.Load(); n > bound {
				return fmt.Sprintf("%s: %d connections are open, at most %d may be", l.name, n, bound)
			}
			return ""
		})
		open := s.metric("tailscope_connections", "listener", l.name)
		closed := s.metric("tailscope_connections_closed_total", "listener", l.name)
		// Those that drip bodies may be refused, and those that say nothing given up,
		// before a newcomer needs their places.
		if open > bound || closed == 0 {
			t.Errorf("%s: /metrics tells of %v open, %v closed", l.name, open, closed)
		}
		allowed += bound * l.per
		grown := resident() - before
		if grown > bound*l.per {
			t.Errorf("%s: resident memory grew by %d MiB, docs/configuration.md says %d", l.name, grown>>20, bound*l.per>>20)
		}
		t.Logf("%s: %d connections in %v, %.0f open, %.0f closed; resident memory grew by %d MiB, %.1f KiB each",
			l.name, connections, took.Round(time.Millisecond), open, closed, grown>>20, float64(grown)/open/1024)
	}
	if grown := resident() - first; grown > allowed {
		t.Errorf("resident memory grew by %d MiB, docs/configuration.md says %d", grown>>20, allowed>>20)
	} else {
		t.Logf("in all it grew by %d MiB, of %d that docs/configuration.md says", grown>>20, allowed>>20)
	}
}
