//go:build servers

package tcp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// run starts a server that listens on a free port of its own, until the test
// ends. The command gets the port where it says PORT.
func run(t testing.TB, command ...string) string {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("%s is not installed; scripts/install-servers does that", command[0])
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	ln.Close()
	args := slices.Clone(command[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	cmd := exec.Command(command[0], args...)
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	eventually(t, command[0]+" listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return addr
}

func redis(t testing.TB) string {
	return run(t, "redis-server", "--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--enable-debug-command", "yes")
}

// client speaks lines.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t, c, bufio.NewReader(c)}
}

// ask sends text, and reads as many lines as wanted.
func (c *client) ask(text string, want ...string) {
	c.t.Helper()
	io.WriteString(c, text)
	for _, w := range want {
		got, err := c.r.ReadString('\n')
		if err != nil || strings.TrimRight(got, "\r\n") != w {
			c.t.Fatalf("%q is answered by %q, %v; want %q", text, got, err, w)
		}
	}
}

// Strings, pipelines, transactions, blocking commands and values of a megabyte
// pass, and the shadows hold what the primary holds in the end.
func TestRedis(t *testing.T) {
	addrs := []string{redis(t), redis(t), redis(t)}
	w := start(t, Options{Primary: addrs[0], Shadows: both(addrs[1], addrs[2]), ConnBuffer: 16 << 20})

	c, other := dial(t, w.addr), dial(t, w.addr)
	c.ask("PING\r\n", "+PONG")
	c.ask("SET a 1\r\nINCR a\r\nINCR a\r\n", "+OK", ":2", ":3")
	c.ask("MULTI\r\nINCR a\r\nINCR a\r\nEXEC\r\n", "+OK", "+QUEUED", "+QUEUED", "*2", ":4", ":5")
	big := strings.Repeat("v", 1<<20)
	c.ask(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n%s\r\n", len(big), big), "+OK")
	c.ask("GET big\r\n", fmt.Sprintf("$%d", len(big)), big)
	c.ask("GET none\r\n", "$-1")
	// A client that waits for another one.
	io.WriteString(c, "BLPOP queue 10\r\n")
	other.ask("RPUSH queue x\r\n", ":1")
	c.ask("", "*2", "$5", "queue", "$1", "x")
	c.ask("QUIT\r\n", "+OK")
	other.ask("QUIT\r\n", "+OK")
	c.Close()
	other.Close()

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := dial(t, w.addr)
			defer c.Close()
			for j := range 500 {
				c.ask(fmt.Sprintf("SET k%d:%d %d\r\n", i, j, j), "+OK")
				c.ask(fmt.Sprintf("GET k%d:%d\r\n", i, j), fmt.Sprintf("$%d", len(fmt.Sprint(j))), fmt.Sprint(j))
			}
		})
	}
	wg.Wait()
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != 10 || s.DivergedWhy != "" {
			t.Errorf("%s: %+v, %s", s.Name, s.Account, s.DivergedWhy)
		}
	}
	if n := w.sink.counts["mirror_ratio turn new/control"]; n < 8000 {
		t.Errorf("%d turns are paired", n)
	}
	digests := map[string]bool{}
	for _, addr := range addrs {
		c := dial(t, addr)
		io.WriteString(c, "DEBUG DIGEST\r\n")
		line, err := c.r.ReadString('\n')
		if err != nil || len(line) < 40 {
			t.Fatal(line, err)
		}
		digests[line] = true
		c.Close()
	}
	if len(digests) != 1 {
		t.Errorf("the data differ: %v", digests)
	}
}

// A Redis that is stopped in the middle leaves the primary's clients alone.
func TestRedisShadowStops(t *testing.T) {
	primary := redis(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + port
	eventually(t, "redis listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	// The buffer holds all of it, so that a slow machine is not the cause.
	w := start(t, Options{Primary: primary, ConnBuffer: 16 << 20, Shadows: []Shadow{{Name: "new", Role: pair.Candidate, Servers: []string{addr}}}})
	c := dial(t, w.addr)
	defer c.Close()
	for i := range 2000 {
		c.ask("INCR a\r\n", fmt.Sprintf(":%d", i+1))
		if i == 1000 {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	c.Close()
	w.shutdown()
	s := w.p.Shadows()[0]
	if s.Account.Failed["reset"] != 1 || s.DivergedWhy == "" || len(w.p.Stats().Failed) != 0 {
		t.Errorf("%+v, %q, %v", s.Account, s.DivergedWhy, w.p.Stats().Failed)
	}
}

func TestMemcached(t *testing.T) {
	server := func() string {
		return run(t, "memcached", "-p", "PORT", "-U", "0", "-l", "127.0.0.1", "-u", "nobody")
	}
	addrs := []string{server(), server(), server()}
	w := start(t, Options{Primary: addrs[0], Shadows: both(addrs[1], addrs[2])})
	c := dial(t, w.addr)
	c.ask("set a 0 0 5\r\nhello\r\n", "STORED")
	c.ask("get a\r\n", "VALUE a 0 5", "hello", "END")
	c.ask("set b 0 0 1 noreply\r\n1\r\nincr b 4\r\n", "5")
	c.ask("get a b c\r\n", "VALUE a 0 5", "hello", "VALUE b 0 1", "5", "END")
	c.ask("delete a\r\n", "DELETED")
	c.ask("quit\r\n")
	if _, err := c.r.ReadString('\n'); err != io.EOF {
		t.Error(err)
	}
	c.Close()
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != 1 {
			t.Errorf("%s: %+v", s.Name, s.Account)
		}
	}
	for _, addr := range addrs {
		c := dial(t, addr)
		c.ask("get a b\r\n", "VALUE b 0 1", "5", "END")
		c.Close()
	}
}

// A client that never thinks, as redis-benchmark is: nothing goes wrong for it,
// and what the shadows lose is counted.
func TestRedisBenchmark(t *testing.T) {
	addrs := []string{redis(t), redis(t), redis(t)}
	w := start(t, Options{Primary: addrs[0], Shadows: both(addrs[1], addrs[2])})
	bench := func(addr string) ([]byte, error) {
		_, port, _ := net.SplitHostPort(addr)
		return exec.Command("redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "get,set", "-n", "50000", "-c", "20", "-q").CombinedOutput()
	}
	out, err := bench(w.addr)
	if err != nil || strings.Contains(string(out), "rror") {
		t.Fatalf("%v\n%s", err, out)
	}
	direct, err := bench(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	w.shutdown()
	last := func(out []byte) string {
		var keep []string
		for line := range strings.SplitSeq(strings.ReplaceAll(string(out), "\r", "\n"), "\n") {
			if strings.Contains(line, "requests per second") {
				keep = append(keep, strings.TrimSpace(line))
			}
		}
		return strings.Join(keep, "; ")
	}
	t.Logf("through the mirror: %s", last(out))
	t.Logf("directly:           %s", last(direct))
	turns, accounts := w.p.Turns()
	t.Logf("%d turns; paired %d at the control, %d at the candidate", turns.Requests, accounts[0].Paired, accounts[1].Paired)
	for _, s := range w.p.Shadows() {
		t.Logf("%s: %+v", s.Name, *s.Account)
	}
}
