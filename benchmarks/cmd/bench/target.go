package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"tailscope/api"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// target is a running program that takes requests.
type target struct {
	proc *program.Process
	dir  string
	grpc string // host:port
	http string // base URL of the path the requests go to
	url  string // of Tailscope's API
}

// load is one case's work and what it is measured by.
type load struct {
	method   string // gRPC
	path     string // HTTP
	payloads [][]byte
	gzipped  [][]byte
	items    int           // spans or points in payloads
	workers  int           // concurrent senders
	lasts    time.Duration // of what is paced; payloads are not sent then
	// look, if set, is called before the program is asked to end.
	look func(context.Context, *target) error
}

// cost is what a load cost a program.
type cost struct {
	cpu     time.Duration // from start to end of the process, the last flush included
	start   time.Duration // of that, until it was ready
	stop    time.Duration // of that, after everything was sent: the last flush and the shutdown
	wall    time.Duration // of the sending
	peak    int64
	retries int64
	items   int
}

// spend starts a program, sends it everything by one protocol, stops it, and
// says what that cost. Between, the program lives for at least alive.
func spend(ctx context.Context, o *options, start func(dir string) (*target, error), protocol string, l *load, alive time.Duration) (cost, string, error) {
	dir, err := os.MkdirTemp(o.tmp, "run-")
	if err != nil {
		return cost{}, "", err
	}
	t, err := start(dir)
	if err != nil {
		return cost{}, "", err
	}
	defer t.proc.Kill()
	begin := time.Now() // the program may have had to be built first
	var s sender.Sender
	payloads := l.payloads
	switch protocol {
	case "gRPC", paced:
		if s, err = sender.GRPC(t.grpc, l.method); err != nil {
			return cost{}, "", err
		}
	case "HTTP":
		s = sender.HTTP(t.http+l.path, "")
	case "HTTP gzip":
		s, payloads = sender.HTTP(t.http+l.path, "gzip"), l.gzipped
	}
	defer s.Close()
	ready, err := t.proc.Usage()
	if err != nil {
		return cost{}, "", err
	}
	c := cost{items: l.items}
	if protocol == paced {
		var retries int
		c.items, retries, err = sendPaced(ctx, s, 0, l.lasts, func(int) error { return nil })
		c.wall, c.retries = time.Since(begin), int64(retries)
	} else {
		c.wall, c.retries, err = sender.All(ctx, s, payloads, l.workers, wishesRetry)
	}
	if err != nil {
		return cost{}, "", fmt.Errorf("send by %s: %w\n%s", protocol, err, t.proc.Log())
	}
	if rest := alive - time.Since(begin); rest > 0 {
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return cost{}, "", ctx.Err()
		}
	}
	if l.look != nil {
		if err := l.look(ctx, t); err != nil {
			return cost{}, "", err
		}
	}
	sent, err := t.proc.Usage()
	if err != nil {
		return cost{}, "", err
	}
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	u, err := t.proc.Stop(stopping)
	if err != nil {
		return cost{}, "", fmt.Errorf("%w\n%s", err, t.proc.Log())
	}
	c.cpu, c.peak = u.CPU(), u.PeakBytes
	c.start, c.stop = ready.CPU(), u.CPU()-sent.CPU()
	return c, dir, nil
}

// wishesRetry waits a moment where a sender should wait seconds: what is
// measured is the receiver's work, not the sender's patience.
func wishesRetry(err error) (time.Duration, bool) {
	if c := status.Code(err); c == codes.ResourceExhausted || c == codes.Unavailable {
		return 50 * time.Millisecond, true
	}
	if e, ok := err.(*sender.StatusError); ok && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable) {
		return 50 * time.Millisecond, true
	}
	return 0, false
}

func startTailscope(ctx context.Context, args ...string) func(string) (*target, error) {
	return func(dir string) (*target, error) {
		p, err := program.StartTailscope(ctx, filepath.Join(dir, "data"), args...)
		if err != nil {
			return nil, err
		}
		return &target{p.Process, dir, p.OTLPGRPC, "http://" + p.OTLPHTTP, p.URL}, nil
	}
}

func startCollector(ctx context.Context, config string) func(string) (*target, error) {
	return func(dir string) (*target, error) {
		p, err := program.StartCollector(ctx, filepath.Join(dir, "log"), config, "")
		if err != nil {
			return nil, err
		}
		return &target{p.Process, dir, p.OTLPGRPC, "http://" + p.OTLPHTTP, ""}, nil
	}
}

func startPrometheus(ctx context.Context) func(string) (*target, error) {
	return func(dir string) (*target, error) {
		p, err := program.StartPrometheus(ctx, filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		return &target{p.Process, dir, "", p.URL + "/api/v1/otlp", ""}, nil
	}
}

// stored starts Tailscope again on what a run has left and counts a family's
// observations in [start, end]: a benchmark that loses data measures nothing.
func stored(ctx context.Context, dir, family string, start, end time.Time) (uint64, error) {
	p, err := program.StartTailscope(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	return observations(ctx, p.URL, family, start, end)
}

// observations counts a family's observations in [start, end].
func observations(ctx context.Context, base, family string, start, end time.Time) (uint64, error) {
	r, err := ask[api.DistributionResponse](ctx, base, "/api/v1/distribution", url.Values{
		"family": {family}, "start": {strconv.FormatInt(start.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)}})
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, g := range r.Groups {
		n += g.Count
	}
	return n, nil
}

// ask asks the API and decodes the answer.
func ask[T any](ctx context.Context, base, path string, q url.Values) (out T, err error) {
	body, err := askRaw(ctx, base, path, q)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(body, &out)
}

// start starts a server with the flags asked for on a directory of its own. End stops it and
// removes the directory.
func (o *options) start(ctx context.Context) (p *program.Tailscope, end func(), err error) {
	dir, err := os.MkdirTemp(o.tmp, "run-")
	if err != nil {
		return nil, nil, err
	}
	if p, err = program.StartTailscope(ctx, dir+"/data", strings.Fields(o.flags)...); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return p, func() { p.Kill(); os.RemoveAll(dir) }, nil
}
