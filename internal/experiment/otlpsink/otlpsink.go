// Package otlpsink sends measurements of a mirror or a run of load to a server, by
// OTLP over HTTP.
//
// A point becomes a data point of its family: a distribution a delta exponential
// histogram of the same schema, buckets, sum, minimum and maximum, a counter a delta
// sum. Families have no unit, since their names are in base units already and stay as
// they are. The label service becomes the resource, the others attributes; the server
// makes the same labels of them.
//
// Points that a server refuses, or does not acknowledge, stay with the caller. If an
// answer is lost after the server stored the points they are counted twice, since
// OTLP cannot say which; such requests are counted.
package otlpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/series"
)

// Options configures a Sink.
type Options struct {
	// Address finds the server's OTLP over HTTP, such as http://127.0.0.1:4318. It is
	// called at first, and again after a failure.
	Address func(context.Context) (string, error)
	// HTTP sends the requests; default http.DefaultClient.
	HTTP *http.Client
	// Scope names the instrumentation scope, such as tailscope.bench.
	Scope string
	// Timeout bounds one request; default 10 s.
	Timeout time.Duration
	// Log receives points that are refused for good; default slog.Default.
	Log *slog.Logger
}

// Sink puts points into a server. Stats may be called at any time; Put by one
// goroutine at a time.
type Sink struct {
	o       Options
	address string // found, or empty

	mu    sync.Mutex
	stats Stats
}

// Stats are totals.
type Stats struct {
	Points    uint64 // taken by the server
	Rejected  uint64 // points that the server took not, for good
	Failures  uint64 // requests that were not taken and are put again
	Uncertain uint64 // failures of which it is not known whether the server took the points
	LastError string // of the last request, empty if it was taken
}

// New returns a sink; it sends nothing before Put.
func New(o Options) *Sink {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Sink{o: o}
}

// Stats returns the totals so far.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Put sends points in one request, of which the server stores all or none. A mirror
// sends some 2,000 at a time, about 1 MB unpacked, far below a server's limit.
func (s *Sink) Put(ctx context.Context, points []series.Point) error {
	if len(points) == 0 {
		return nil
	}
	body, err := encode(s.o.Scope, points)
	if err != nil {
		return err
	}
	return s.send(ctx, body, uint64(len(points)))
}

// refused is the error of a request that a server will never accept.
type refused struct{ error }

func (s *Sink) send(ctx context.Context, body []byte, count uint64) error {
	rejected, message, uncertain, err := s.post(ctx, body)
	var never refused
	s.mu.Lock()
	s.stats.LastError = ""
	switch {
	case err == nil:
		s.stats.Points += count - min(count, rejected)
		s.stats.Rejected += rejected
	case errors.As(err, &never):
		s.stats.Rejected += count
		s.stats.LastError = err.Error()
	default:
		s.stats.Failures++
		if uncertain {
			s.stats.Uncertain++
		}
		s.stats.LastError = err.Error()
	}
	s.mu.Unlock()
	switch {
	case never.error != nil:
		// Sending it again would keep everything behind it from the server.
		s.o.Log.Error("the server refuses what was measured", "points", count, "error", err)
		return nil
	case err != nil:
		s.address = ""
	case rejected > 0:
		s.o.Log.Warn("the server refuses some of what was measured", "points", rejected, "why", message)
	}
	return err
}

// post sends one request. uncertain reports that the server may have stored the
// points despite the error.
func (s *Sink) post(ctx context.Context, body []byte) (rejected uint64, message string, uncertain bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if s.address == "" {
		a, err := s.o.Address(ctx)
		if err != nil {
			return 0, "", false, err
		}
		s.address = strings.TrimSuffix(strings.TrimRight(a, "/"), "/v1/metrics")
	}
	url := s.address + "/v1/metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", false, fmt.Errorf("send what was measured: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := s.o.HTTP.Do(req)
	if err != nil {
		var failed *net.OpError // without a connection nothing was sent
		return 0, "", !errors.As(err, &failed) || failed.Op != "dial", fmt.Errorf("send what was measured: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if res.StatusCode != http.StatusOK {
		var st status.Status
		why := res.Status
		if proto.Unmarshal(answer, &st) == nil && st.GetMessage() != "" {
			why += ": " + st.GetMessage()
		}
		err := fmt.Errorf("send what was measured to %s: the server answers %s", url, why)
		if res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusRequestEntityTooLarge {
			return 0, "", false, refused{err}
		}
		return 0, "", false, err
	}
	var out collector.ExportMetricsServiceResponse
	if err != nil || proto.Unmarshal(answer, &out) != nil {
		// The server has stored the points; its remarks are not worth sending them
		// twice.
		return 0, "", false, nil
	}
	p := out.GetPartialSuccess()
	return uint64(max(0, p.GetRejectedDataPoints())), p.GetErrorMessage(), false, nil
}
