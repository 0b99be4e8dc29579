package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tailscope/test/program"
)

// Connections bounds the requests under way at once: connections of HTTP/1.1, or
// streams of HTTP/2 if a sender has several to a connection.
const Connections = 64

// Sender is a program that sends load.
type Sender struct {
	Name string
	// Open says that it can send at a rate, Speaks what it can speak.
	Open   bool
	Speaks []Protocol
	find   func(context.Context) (string, error)
	args   func(j job) ([]string, error)
}

// job is a sender's task.
type job struct {
	url      string
	protocol Protocol
	rate     int // 0: as fast as it is answered
	during   time.Duration
	dir      string // for files of its own
}

func (j job) seconds() string { return strconv.Itoa(int(j.during.Seconds())) }

// http2 reports whether a flag is needed.
func (j job) http2() bool { return j.protocol == HTTP2 || j.protocol == HTTP2TLS }

var http1 = []Protocol{Plain, TLS}

// Senders take turns, Tailscope first.
func Senders() []Sender {
	return []Sender{
		{"tailscope", true, []Protocol{Plain, TLS, HTTP2, HTTP2TLS}, built("tailscope"), tailscope},
		{"tailscope, precise", true, []Protocol{Plain, TLS, HTTP2, HTTP2TLS}, built("tailscope"), precise},
		{"wrk", false, http1, installed("wrk"), func(j job) ([]string, error) {
			return []string{"-t1", "-c" + strconv.Itoa(Connections), "-d" + j.seconds() + "s", j.url}, nil
		}},
		{"h2load", true, []Protocol{Plain, TLS, HTTP2, HTTP2TLS}, installed("h2load"), func(j job) ([]string, error) {
			args := []string{"-t1", "-D", j.seconds()}
			clients := 1
			if j.http2() {
				args = append(args, "-c1", "-m"+strconv.Itoa(Connections))
			} else {
				clients = 50
				args = append(args, "--h1", "-m1", "-c"+strconv.Itoa(clients))
			}
			if j.rate > 0 {
				args = append(args, "--rps", strconv.Itoa(j.rate/clients))
			}
			return append(args, j.url), nil
		}},
		{"ab", false, http1, installed("ab"), func(j job) ([]string, error) {
			return []string{"-q", "-k", "-c", strconv.Itoa(Connections), "-t", j.seconds(), "-n", "50000000", j.url}, nil
		}},
		{"vegeta", true, []Protocol{Plain, TLS, HTTP2, HTTP2TLS}, built("vegeta"), vegeta},
		{"hey", true, []Protocol{Plain, TLS, HTTP2TLS}, built("hey"), func(j job) ([]string, error) {
			args := []string{"-z", j.during.String(), "-disable-compression"}
			if j.http2() {
				args = append(args, "-h2")
			}
			if j.rate > 0 { // its rate is of each worker
				return append(args, "-c", "50", "-q", strconv.Itoa(j.rate/50), j.url), nil
			}
			return append(args, "-c", strconv.Itoa(Connections), j.url), nil
		}},
		{"k6", true, []Protocol{Plain, TLS, HTTP2TLS}, built("k6"), k6},
	}
}

func tailscope(j job) ([]string, error) {
	args := []string{"bench", j.url, "--for", j.during.String(), "--connections", strconv.Itoa(Connections), "--set", "tls.insecure=true"}
	if j.http2() {
		args = append(args, "--set", "protocol=HTTP/2")
	}
	if j.rate > 0 {
		return append(args, "--rate", strconv.Itoa(j.rate)), nil
	}
	return append(args, "--arrivals", "closed"), nil
}

// precise sends each request at its own time. A closed loop has none.
func precise(j job) ([]string, error) {
	if j.rate == 0 {
		return nil, ErrCannot
	}
	args, err := tailscope(j)
	return append(args, "--set", "precise=true"), err
}

func vegeta(j job) ([]string, error) {
	targets := filepath.Join(j.dir, "targets")
	if err := os.WriteFile(targets, []byte("GET "+j.url+"\n"), 0o644); err != nil {
		return nil, err
	}
	n := strconv.Itoa(Connections)
	return []string{"attack", "-targets", targets, "-rate", strconv.Itoa(j.rate), "-workers", n, "-max-workers", n, "-connections", n,
		"-duration", j.during.String(), "-insecure", "-output", filepath.Join(j.dir, "results"),
		"-http2=" + strconv.FormatBool(j.protocol == HTTP2TLS), "-h2c=" + strconv.FormatBool(j.protocol == HTTP2)}, nil
}

func k6(j job) ([]string, error) {
	scenario := fmt.Sprintf(`executor: "constant-vus", vus: %d, duration: "%s"`, Connections, j.during)
	if j.rate > 0 {
		scenario = fmt.Sprintf(`executor: "constant-arrival-rate", rate: %d, timeUnit: "1s", preAllocatedVUs: %d, duration: "%s"`, j.rate, Connections, j.during)
	}
	script := filepath.Join(j.dir, "script.js")
	err := os.WriteFile(script, fmt.Appendf(nil, `import http from "k6/http";
export const options = { insecureSkipTLSVerify: true, discardResponseBodies: true, scenarios: { load: { %s } } };
export default function () { http.get(%q); }
`, scenario, j.url), 0o644)
	return []string{"run", "--quiet", "--no-usage-report", "--no-summary", "--address", "", script}, err
}

func built(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return program.Build(ctx, name) }
}

func installed(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%s is not installed: run scripts/install-servers", name)
		}
		return path, nil
	}
}

// Speed is the rate of a sender in a stretch of its run.
type Speed struct {
	Rate float64       // requests a second
	CPU  time.Duration // of its process, user and system, a request
}

// ErrCannot says that a sender cannot do what it was to do.
var ErrCannot = errors.New("it cannot do that")

// Measure runs a sender against a target and measures a stretch of its run, after
// a second that it may take to begin.
func (s *Sender) Measure(ctx context.Context, t *Target, rate int, stretch time.Duration, dir string) (Speed, error) {
	if rate > 0 && !s.Open || !slices.Contains(s.Speaks, t.Protocol) {
		return Speed{}, ErrCannot
	}
	path, err := s.find(ctx)
	if err != nil {
		return Speed{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Speed{}, err
	}
	args, err := s.args(job{url: t.URL, protocol: t.Protocol, rate: rate, during: stretch + 20*time.Second, dir: dir})
	if err != nil {
		return Speed{}, err
	}
	before, err := t.Requests(ctx)
	if err != nil {
		return Speed{}, err
	}
	p, err := program.Start(filepath.Join(dir, "log"), nil, path, args...)
	if err != nil {
		return Speed{}, err
	}
	defer p.Kill()
	for range 200 { // until it sends
		n, err := t.Requests(ctx)
		if err != nil {
			return Speed{}, err
		}
		if n > before+1000 {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return Speed{}, err
		}
	}
	if err := pause(ctx, time.Second); err != nil {
		return Speed{}, err
	}
	begin, err := t.reading(ctx, p)
	if err != nil {
		return Speed{}, fmt.Errorf("%w: it has ended: %s", err, tail(p.Log()))
	}
	if err := pause(ctx, stretch); err != nil {
		return Speed{}, err
	}
	end, err := t.reading(ctx, p)
	if err != nil {
		return Speed{}, fmt.Errorf("%w: it has ended: %s", err, tail(p.Log()))
	}
	n := end.requests - begin.requests - 1
	select {
	case <-p.Done():
		return Speed{}, fmt.Errorf("it ended too soon: %s", tail(p.Log()))
	default:
	}
	if n < 100 {
		return Speed{}, fmt.Errorf("it sent %d requests in %s: %s", n, stretch, tail(p.Log()))
	}
	return Speed{
		Rate: float64(n) / end.at.Sub(begin.at).Seconds(),
		CPU:  (end.cpu - begin.cpu) / time.Duration(n),
	}, nil
}

type reading struct {
	at       time.Time
	requests int64
	cpu      time.Duration
}

func (t *Target) reading(ctx context.Context, p *program.Process) (r reading, err error) {
	u, err := p.Usage()
	if err != nil {
		return r, err
	}
	r.at, r.cpu = time.Now(), u.CPU()
	r.requests, err = t.Requests(ctx)
	return r, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func tail(log string) string { return log[max(0, len(log)-500):] }
