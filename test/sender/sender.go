// Package sender sends OTLP requests that are marshalled already, so that
// what a benchmark measures is the receiver and hardly the sender.
package sender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// The gRPC methods of OTLP.
const (
	Traces  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	Metrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

// Sender sends one marshalled request at a time; it may be used by several
// goroutines at once. Send returns nil when the receiver has acknowledged the
// whole request.
type Sender interface {
	Send(ctx context.Context, payload []byte) error
	Close() error
}

// StatusError is an HTTP answer other than 200.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Status, bytes.TrimSpace(e.Body))
}

// ErrPartial says that the receiver refused a part of a request; it is
// wrapped with the answer.
var ErrPartial = errors.New("partial success")

// inFull reports whether a response is success in full: empty, or with an empty
// partial_success as the Collector writes it.
func inFull(response []byte) bool {
	return len(response) == 0 || string(response) == "\x0a\x00" || string(response) == `{"partialSuccess":{}}`
}

type grpcSender struct {
	conn   *grpc.ClientConn
	method string
}

// GRPC returns a sender of one method over one plain connection.
func GRPC(addr, method string) (Sender, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		return nil, err
	}
	return &grpcSender{conn, method}, nil
}

func (s *grpcSender) Send(ctx context.Context, payload []byte) error {
	var answer []byte
	if err := s.conn.Invoke(ctx, s.method, &payload, &answer); err != nil {
		return err
	}
	if !inFull(answer) {
		return fmt.Errorf("%w: %q", ErrPartial, answer)
	}
	return nil
}

func (s *grpcSender) Close() error { return s.conn.Close() }

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

type httpSender struct {
	url, contentType, encoding string
	client                     *http.Client
}

// HTTP returns a sender that posts to url, over kept-alive connections.
// encoding is the payloads' Content-Encoding, empty for none.
func HTTP(url, encoding string) Sender { return HTTPOf(url, "application/x-protobuf", encoding) }

// HTTPOf is HTTP for payloads of another type.
func HTTPOf(url, contentType, encoding string) Sender {
	return &httpSender{url, contentType, encoding, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
}

func (s *httpSender) Send(ctx context.Context, payload []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", s.contentType)
	if s.encoding != "" {
		req.Header.Set("Content-Encoding", s.encoding)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &StatusError{resp.StatusCode, resp.Header, body}
	}
	if !inFull(body) {
		return fmt.Errorf("%w: %q", ErrPartial, body)
	}
	return nil
}

func (s *httpSender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// All sends every payload once, by so many goroutines, and returns how long
// that took and how often a request was sent again after the receiver asked
// for it (retry says whether an error is such a wish, and how long to wait).
// Goroutine w sends payloads w, w+workers, … one after the other, so what has
// to arrive in order should lie a multiple of workers apart. The first other
// error ends it.
func All(ctx context.Context, s Sender, payloads [][]byte, workers int, retry func(error) (time.Duration, bool)) (took time.Duration, retries int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var again atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(payloads) && ctx.Err() == nil; i += workers {
				for {
					err := s.Send(ctx, payloads[i])
					if err == nil {
						break
					}
					wait, ok := retry(err)
					if !ok {
						cancel(err)
						return
					}
					again.Add(1)
					select {
					case <-time.After(wait):
					case <-ctx.Done():
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin), again.Load(), context.Cause(ctx)
}
