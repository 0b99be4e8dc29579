package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"tailscope/benchmarks/report"
	"tailscope/internal/series"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// wire measures what the same spans cost on the wire and at both ends, in each form in which
// they can reach a server.
func wire(ctx context.Context, o *options, r *report.Report) error {
	requests := 1_000 // 200,000 spans
	if o.quick {
		requests /= 10
	}
	spans := requests * payload.SpansPerRequest
	sec := r.Section("Forms on the wire", fmt.Sprintf(
		"%d requests of %d spans, of the moment at which they are sent, from one sender at %d spans a second, in each form to a server of its own. "+
			"JSON and OTLP spans go to the server itself. `OTLP histograms` and `packed` go through an agent beside the sender, which takes the spans by OTLP over HTTP and sends on distributions: "+
			"delta exponential histograms in zstd with `--forward otlp`, or the packed form. "+
			"Bytes are those of the bodies that reach the server. The server's CPU is user and system time from when it is ready until it has ended, with its last flush; `nothing` is a server that is sent nothing for as long, which shares leave out; "+
			"the sender's is that of the agent likewise, or of marshalling alone where there is none.",
		requests, payload.SpansPerRequest, wireRate))
	for rep := range o.reps {
		for _, form := range []string{idle, "JSON", "OTLP spans", "OTLP histograms", "packed"} {
			if !o.wants(form) && form != idle {
				continue
			}
			c, err := wireForm(ctx, o, form, requests, uint64(rep)+1)
			if err != nil {
				return fmt.Errorf("%s: %w", form, err)
			}
			per := 1e6 / float64(spans)
			o.logf("%d/%d %-16s %8.1f bytes a span, %7.3f CPU-s per million spans at the server, %7.3f at the sender, %d retries",
				rep+1, o.reps, form, float64(c.bytes)/float64(spans), c.server.Seconds()*per, c.sender.Seconds()*per, c.retries)
			if form == idle {
				sec.Add("server", form, "CPU-s per million spans", 0, c.server.Seconds()*per)
				continue
			}
			sec.Add("bytes", form, "bytes a span", 0, float64(c.bytes)/float64(spans))
			sec.Add("server", form, "CPU-s per million spans", 0, c.server.Seconds()*per)
			sec.Add("sender", form, "CPU-s per million spans", 0, c.sender.Seconds()*per)
		}
	}
	// Ratios to JSON, of medians.
	for _, form := range []string{"OTLP spans", "OTLP histograms", "packed"} {
		b, c := sec.Median("bytes", form), sec.Median("server", form)-sec.Median("server", idle)
		if b == 0 || sec.Median("bytes", "JSON") == 0 {
			continue
		}
		bytesTarget, cpuTarget := 0.0, 0.0
		if form == "packed" {
			bytesTarget, cpuTarget = 0.25, 0.2
		}
		sec.Add("bytes, of those of JSON", form, "share", bytesTarget, b/sec.Median("bytes", "JSON"))
		sec.Add("server's CPU beyond idle, of that for JSON", form, "share", cpuTarget, c/(sec.Median("server", "JSON")-sec.Median("server", idle)))
	}
	return nil
}

// idle is a server that is sent nothing for as long.
const idle = "nothing"

// wireRate is the pace of the sender, so that an agent makes generations as it would.
const wireRate = 10_000

type wireCost struct {
	bytes, retries int64
	server, sender time.Duration
}

// counter passes requests on to a server and counts their bodies.
type counter struct {
	bytes atomic.Int64
	srv   *http.Server
	url   string
}

func newCounter(to string) (*counter, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{url: "http://" + l.Addr().String()}
	proxy := httputil.NewSingleHostReverseProxy(u)
	c.srv = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, writerFunc(func(b []byte) { c.bytes.Add(int64(len(b))) })), r.Body}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = c.srv.Serve(l) }()
	return c, nil
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func wireForm(ctx context.Context, o *options, form string, requests int, seed uint64) (c wireCost, err error) {
	dir, err := os.MkdirTemp(o.tmp, "wire-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	server, err := program.StartTailscope(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return c, err
	}
	defer server.Kill()
	count, err := newCounter("http://" + server.OTLPHTTP)
	if err != nil {
		return c, err
	}
	defer count.srv.Close()
	to, contentType := count.url, "application/x-protobuf"
	var agent *program.Tailscope
	var agentReady program.Usage
	switch form {
	case "JSON":
		contentType = "application/json"
	case "OTLP histograms", "packed":
		forward := "packed"
		if form != "packed" {
			forward = "otlp"
		}
		if agent, err = program.StartAgent(ctx, filepath.Join(dir, "agent"), count.url, "--forward", forward); err != nil {
			return c, err
		}
		defer agent.Kill()
		to = "http://" + agent.OTLPHTTP
		if agentReady, err = agent.Usage(); err != nil {
			return c, err
		}
	}
	ready, err := server.Usage()
	if err != nil {
		return c, err
	}
	s := sender.HTTPOf(to+"/v1/traces", contentType, "")
	defer s.Close()
	begin := time.Now()
	each := payload.SpansPerRequest * time.Second / wireRate
	for i := range requests {
		at := begin.Add(time.Duration(i) * each)
		if wait := time.Until(at); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return c, ctx.Err()
			}
		}
		if form == idle {
			continue
		}
		body := payload.TracesAt(seed<<32+uint64(i), 1, time.Now().Add(-time.Second))[0]
		if agent == nil {
			var marshalled time.Duration
			if body, marshalled, err = marshalAs(contentType, body); err != nil {
				return c, err
			}
			c.sender += marshalled
		}
		_, n, err := sender.All(ctx, s, [][]byte{body}, 1, wishesRetry)
		c.retries += n
		if err != nil {
			return c, err
		}
	}
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if agent != nil {
		u, err := agent.Stop(stopping)
		if err != nil {
			return c, err
		}
		c.sender = u.CPU() - agentReady.CPU()
	}
	u, err := server.Stop(stopping)
	if err != nil {
		return c, err
	}
	c.server, c.bytes = u.CPU()-ready.CPU(), count.bytes.Load()
	want := uint64(requests * payload.SpansPerRequest)
	if form != "OTLP histograms" && form != idle { // these count under the same family, as metrics
		got, err := stored(ctx, dir, series.SpanDuration, begin.Add(-time.Hour), time.Now().Add(time.Hour))
		if err != nil {
			return c, err
		}
		if got != want {
			return c, fmt.Errorf("the server stored %d spans of %d", got, want)
		}
	}
	return c, nil
}

// marshalAs marshals a request in another form. It also returns the CPU time that the
// marshalling alone took.
func marshalAs(contentType string, protobuf []byte) ([]byte, time.Duration, error) {
	req := ptraceotlp.NewExportRequest()
	if err := req.UnmarshalProto(protobuf); err != nil {
		return nil, 0, err
	}
	begin := processCPU()
	marshal := req.MarshalProto
	if contentType == "application/json" {
		marshal = req.MarshalJSON
	}
	b, err := marshal()
	return b, processCPU() - begin, err
}

// processCPU returns the CPU time of this process.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
