//go:build servers

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
)

const (
	upstreamSleep = 30 * time.Millisecond
	failSleep     = 10 * time.Millisecond // of the upstream that fails first
	queueTime     = 25 * time.Millisecond
)

// directive returns the log_format that the documentation asks people to paste.
func directive(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/access-logs.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "log_format ") {
			return line
		}
	}
	t.Fatal("docs/access-logs.md has no log_format")
	return ""
}

// nginx runs Debian's nginx in front of upstreams until the test ends.
type nginx struct {
	t        *testing.T
	url, log string
	cmd      *exec.Cmd
}

func startNginx(t *testing.T, dir, good, failing string) *nginx {
	t.Helper()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		bin, err = exec.LookPath("/usr/sbin/nginx") // where not everybody looks
	}
	if err != nil {
		t.Fatal("nginx is not installed; scripts/install-servers does it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	conf := user + fmt.Sprintf(`daemon off;
worker_processes 2;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 512; }
http {
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	%[2]s
	access_log %[1]s/access.log tailscope;
	upstream app { server %[3]s; keepalive 32; }
	upstream shaky { server %[4]s max_fails=0; server %[3]s backup; keepalive 32; }
	server {
		listen %[5]s;
		proxy_http_version 1.1;
		proxy_set_header Connection "";
		location / { proxy_pass http://app; }
		location /retry/ { proxy_pass http://shaky; proxy_next_upstream error http_503; }
		location = /local { return 204; }
	}
}
`, dir, directive(t), good, failing, addr)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	n := &nginx{t: t, url: "http://" + addr, log: filepath.Join(dir, "access.log"), cmd: exec.Command(bin, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error.log"))}
	var out strings.Builder
	n.cmd.Stdout, n.cmd.Stderr = &out, &out
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %s", out.String())
		}
		pause(t, 20*time.Millisecond)
	}
}

func (n *nginx) stop() {
	if n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Signal(syscall.SIGQUIT)
		_ = n.cmd.Wait()
	}
}

// rotate does what logrotate does.
func (n *nginx) rotate(i int) {
	n.t.Helper()
	if err := os.Rename(n.log, fmt.Sprintf("%s.%d", n.log, i)); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		n.t.Fatal(err)
	}
}

// logged is the content of the log, read by other means than the server's.
type logged struct {
	lines                    int
	request, upstream, queue float64 // seconds
	within                   float64 // of upstream, what fits into the requests: each time is rounded by itself
}

func readLogs(t *testing.T, pattern string) (sum logged) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatalf("the log has %q for a number", s)
		}
		return f
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			quoted := strings.Split(s.Text(), `"`) // every second field lay in quotes
			times := strings.Fields(quoted[6])
			end, took := number(times[0]), number(times[1])
			sum.lines++
			sum.request += took
			if quoted[9] != "-" {
				calls := 0.0
				for one := range strings.SplitSeq(quoted[9], ", ") {
					calls += number(one)
				}
				sum.upstream += calls
				sum.within += min(calls, took)
			}
			if q, ok := strings.CutPrefix(quoted[21], "t="); ok {
				sum.queue += end - took - number(q)
			}
		}
		f.Close()
	}
	return sum
}

// Real nginx, in the format that the documentation gives, rotated under load:
// every request is counted once, and the time of upstreams and of the queue is
// what the log says and what is known of them.
func TestNginx(t *testing.T) {
	var slept [2]atomic.Int64 // nanoseconds in the good and in the failing upstream
	upstream := func(which int, sleep time.Duration, status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begin := time.Now()
			time.Sleep(sleep)
			slept[which].Add(int64(time.Since(begin)))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "hello\n")
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	good, failing := upstream(0, upstreamSleep, 200), upstream(1, failSleep, 503)

	dir := t.TempDir()
	conf := filepath.Join(dir, "tailscope.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "access_logs:\n  - path: %s/access.log\n    service: shop\n    tenant: 'host:^([a-z]+)\\.'\n", dir), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--config", conf)
	n := startNginx(t, dir, good, failing)

	const workers, each = 8, 150
	var wg sync.WaitGroup
	var retried, local atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	loadDone := make(chan struct{})
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				path, status := fmt.Sprintf("/cart/%d?x=%d", rng.IntN(1e6), i), 200
				switch i % 5 {
				case 3:
					path = fmt.Sprintf("/retry/%d", i)
					retried.Add(1)
				case 4:
					path, status = "/local", 204
					local.Add(1)
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Host = [...]string{"acme", "globex"}[w%2] + ".example.com"
				req.Header.Set("X-Request-Start", fmt.Sprintf("t=%.3f", float64(time.Now().Add(-queueTime).UnixMilli())/1e3))
				res, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != status {
					t.Errorf("%s answers %d, want %d", path, res.StatusCode, status)
				}
			}
		})
	}
	go func() { wg.Wait(); close(loadDone) }()
	rotations := 0
load:
	for {
		select {
		case <-loadDone:
			break load
		case <-time.After(1500 * time.Millisecond):
			rotations++
			n.rotate(rotations)
		}
	}
	n.stop() // so that everything is in the logs

	const total = workers * each
	sum := readLogs(t, n.log+"*")
	if sum.lines != total || rotations == 0 {
		t.Fatalf("nginx logged %d lines over %d rotations, %d requests were sent", sum.lines, rotations, total)
	}
	s.awaitCount("span_duration_seconds", `{service="shop",kind="server"}`, total)
	for match, want := range map[string]int64{
		`{service="shop",operation="GET /cart/{id}",kind="server"}`:           total - retried.Load() - local.Load(),
		`{service="shop",operation="GET /retry/{id}",kind="server"}`:          retried.Load(),
		`{service="shop",operation="GET /local",kind="server"}`:               local.Load(),
		`{service="shop",tenant="acme",kind="server"}`:                        total / 2,
		`{service="shop",operation="GET app",kind="client"}`:                  total - retried.Load() - local.Load(),
		`{service="shop",operation="GET shaky",kind="client",status="ok"}`:    retried.Load(),
		`{service="shop",operation="GET shaky",kind="client",status="error"}`: retried.Load(),
	} {
		s.awaitCount("span_duration_seconds", match, uint64(want))
	}

	var b api.BreakdownResponse
	for deadline := time.Now().Add(visibleWithin); ; pause(t, 200*time.Millisecond) {
		if b = get[api.BreakdownResponse](s, "/api/v1/breakdown", map[string]string{"match": `{service="shop"}`, "start": "now-15m", "end": "now+1m"}); b.Total == total {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests were broken down, want %d", b.Total, total)
		}
	}
	got := map[string]float64{}
	for _, p := range b.Components {
		got[p.Component] = float64(p.Seconds)
	}
	// What the server says is what the log says, to the microsecond per request.
	for _, x := range []struct {
		component string
		want      float64
	}{{"external", sum.within}, {"app", sum.request - sum.within}, {"queue", sum.queue}} {
		if math.Abs(got[x.component]-x.want) > 2e-6*total {
			t.Errorf("%s: %.6f s, the log says %.6f s", x.component, got[x.component], x.want)
		}
	}
	// And the log says what is known, to its millisecond: no less than was
	// slept, and no more than a busy machine adds on the way.
	calls := float64(total - local.Load())
	known := float64(slept[0].Load()+slept[1].Load()) / 1e9
	perCall := (sum.upstream - known) / calls
	if perCall < -0.001 || perCall > 0.010 {
		t.Errorf("upstreams took %.2f ms per call more than they slept", 1e3*perCall)
	}
	// start = end - duration, both rounded to a millisecond.
	if q := sum.queue/total - queueTime.Seconds(); q < -0.002 || q > 0.020 {
		t.Errorf("the queue took %.2f ms per request more than %s", 1e3*q, queueTime)
	}
	if lost := s.metric("tailscope_access_log_lost_files_total") + s.metric("tailscope_access_log_refused_total"); lost != 0 {
		t.Errorf("%v files lost or lines refused", lost)
	}
	t.Logf("%d requests over %d rotations; upstreams %+.3f ms per call beyond what they slept, queue %+.3f ms beyond %s",
		total, rotations, 1e3*perCall, 1e3*(sum.queue/total-queueTime.Seconds()), queueTime)
}
