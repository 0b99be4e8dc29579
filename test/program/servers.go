package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// readyWithin bounds how long a program may take to start; replaying a large
// journal on a busy machine is the longest.
const readyWithin = 60 * time.Second

// Tailscope is a running `tailscope serve`.
type Tailscope struct {
	*Process
	Data     string // its data directory
	URL      string // of the page and the API, http://host:port
	OTLPGRPC string // host:port
	OTLPHTTP string // host:port
}

// StartTailscope runs `tailscope serve` on the directory data, on free ports,
// with further flags args, and returns once it answers. Its log is beside the
// data directory.
func StartTailscope(ctx context.Context, data string, args ...string) (*Tailscope, error) {
	return startTailscope(ctx, "serve", data, nil, args)
}

// StartAgent starts an agent that sends to a server's OTLP over HTTP, a URL.
func StartAgent(ctx context.Context, data, to string, args ...string) (*Tailscope, error) {
	return startTailscope(ctx, "agent", data, nil, append([]string{"--to", to}, args...))
}

// StartTailscopeIn is StartTailscope within a group that bounds its memory.
func StartTailscopeIn(ctx context.Context, group *MemoryGroup, data string, args ...string) (*Tailscope, error) {
	return startTailscope(ctx, "serve", data, group, args)
}

func startTailscope(ctx context.Context, command, data string, group *MemoryGroup, args []string) (*Tailscope, error) {
	path, err := Build(ctx, "tailscope")
	if err != nil {
		return nil, err
	}
	logPath := filepath.Clean(data) + ".log"
	from := int64(0)
	if st, err := os.Stat(logPath); err == nil {
		from = st.Size() // what earlier runs wrote is not ours
	}
	args = append([]string{command, "--data", data, "--listen", "127.0.0.1:0",
		"--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--log-format", "json"}, args...)
	if group != nil {
		path, args = group.command(path, args)
	}
	p, err := Start(logPath, nil, path, args...)
	if err != nil {
		return nil, err
	}
	t := &Tailscope{Process: p, Data: data}
	err = p.until(ctx, func() bool {
		b, err := os.ReadFile(logPath)
		return err == nil && t.readReady(b[from:])
	})
	if err == nil {
		err = p.until(ctx, func() bool { return answers(ctx, t.URL+"/readyz") })
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// readReady finds the line that says where the server listens.
func (t *Tailscope) readReady(log []byte) bool {
	for line := range bytes.Lines(log) {
		var ready struct {
			Msg      string `json:"msg"`
			Listen   string `json:"listen"`
			OTLPGRPC string `json:"otlp_grpc"`
			OTLPHTTP string `json:"otlp_http"`
		}
		if json.Unmarshal(line, &ready) == nil && ready.Msg == "ready" && ready.Listen != "" {
			t.URL, t.OTLPGRPC, t.OTLPHTTP = "http://"+ready.Listen, ready.OTLPGRPC, ready.OTLPHTTP
			return true
		}
	}
	return false
}

// Collector is a running OpenTelemetry Collector.
type Collector struct {
	*Process
	OTLPGRPC, OTLPHTTP string // host:port
}

// StartCollector runs a Collector with one of the configurations in
// benchmarks/peers/collector ("bare", "spanmetrics", "forward"); forward is
// the OTLP gRPC address it sends to, if it sends.
func StartCollector(ctx context.Context, logPath, config, forward string) (*Collector, error) {
	path, err := Build(ctx, "collector")
	if err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	c := &Collector{}
	if c.OTLPGRPC, err = freeAddr(); err != nil {
		return nil, err
	}
	if c.OTLPHTTP, err = freeAddr(); err != nil {
		return nil, err
	}
	c.Process, err = Start(logPath, []string{"OTLP_GRPC=" + c.OTLPGRPC, "OTLP_HTTP=" + c.OTLPHTTP, "FORWARD_GRPC=" + forward},
		path, "--config", filepath.Join(root, "benchmarks", "peers", "collector", config+".yaml"))
	if err != nil {
		return nil, err
	}
	return c, c.until(ctx, func() bool { return listens(c.OTLPGRPC) && listens(c.OTLPHTTP) })
}

// Prometheus is a running promotlp.
type Prometheus struct {
	*Process
	URL string // http://host:port
}

// MetricsURL returns where it takes OTLP metrics.
func (p *Prometheus) MetricsURL() string { return p.URL + "/api/v1/otlp/v1/metrics" }

// StartPrometheus runs Prometheus' database behind its OTLP write handler.
func StartPrometheus(ctx context.Context, data string) (*Prometheus, error) {
	path, err := Build(ctx, "promotlp")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := Start(filepath.Clean(data)+".log", nil, path, "--listen", addr, "--data", data)
	if err != nil {
		return nil, err
	}
	s := &Prometheus{Process: p, URL: "http://" + addr}
	return s, p.until(ctx, func() bool { return answers(ctx, s.URL+"/-/ready") })
}

// until waits for a condition of a process that is starting; if the process
// ends or the time is over it is an error with what the process wrote.
func (p *Process) until(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %v\n%s", p.Name, p.err, p.Log())
		case <-ctx.Done():
			log := p.Log()
			p.Kill()
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, ctx.Err(), log)
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// freeAddr finds a port that was free a moment ago, for programs that cannot report
// which one they chose. It is below those that systems give to outgoing connections (IANA's
// begin at 49152, Linux' at 32768), so that a program which is killed finds it free again.
func freeAddr() (addr string, err error) {
	const from, to, tries = 16384, 32768, 100
	for range tries {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+rand.IntN(to-from))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
