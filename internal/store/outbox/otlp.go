package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"tailscope/hist"
	"tailscope/internal/backoff"
	"tailscope/internal/experiment/otlpsink"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/packed"
)

// otlpSender sends the distributions of frames as OTLP metrics, for receivers that are not
// Tailscope. OTLP does not number requests: what is sent again after a lost answer counts
// twice there.
type otlpSender struct {
	decoder *packed.Decoder
	zstd    *zstd.Encoder
	gzip    bool // the receiver does not take zstd
}

func newOTLPSender() (*otlpSender, error) {
	d, err := packed.NewDecoder()
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &otlpSender{decoder: d, zstd: z}, nil
}

// points returns the distributions of a batch that another receiver understands: those with
// all labels, without the breakdown, whose families mean something to Tailscope alone.
func (o *otlpSender) points(b *store.Batch) ([]series.Point, error) {
	var out []series.Point
	for _, p := range b.Points {
		s := b.Whole(int(p.Series))
		if s.Kind != series.Distribution || s.View != series.Full || series.IsBreakdown(s.Family) {
			continue
		}
		h := hist.New(hist.DefaultSchema)
		if err := h.UnmarshalBinary(p.Data); err != nil {
			return nil, err
		}
		out = append(out, series.Point{Family: s.Family, Labels: s.Labels, TimeNanos: p.Slot*1e9 + int64(b.Resolution)*1e9 - 1, Hist: h})
	}
	for _, ss := range b.Samples {
		s := b.Whole(int(ss.Series))
		for _, v := range ss.Samples {
			out = append(out, series.Point{Family: s.Family, Labels: s.Labels, Kind: s.Kind, TimeNanos: v.TimeMillis * 1e6, Value: v.Value, Sampled: true})
		}
	}
	return out, nil
}

// body returns a compressed request and its Content-Encoding; nil if there is nothing to send.
func (o *otlpSender) body(frame []byte) (body []byte, encoding string, err error) {
	h, err := packed.Peek(frame)
	if err != nil || h.Kind != packed.Batch {
		return nil, "", err
	}
	b, err := o.decoder.Batch(frame, h.Memory)
	if err != nil {
		return nil, "", err
	}
	points, err := o.points(b)
	if err != nil || len(points) == 0 {
		return nil, "", err
	}
	plain, err := otlpsink.Encode("tailscope.agent", points)
	if err != nil {
		return nil, "", err
	}
	if !o.gzip {
		return o.zstd.EncodeAll(plain, nil), "zstd", nil
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(plain)
	err = errors.Join(err, w.Close())
	return out.Bytes(), "gzip", err
}

// send posts a frame's distributions. A receiver that refuses zstd gets gzip.
func (o *otlpSender) send(ctx context.Context, client *http.Client, to string, frame []byte) (sent int, err error) {
	body, encoding, err := o.body(frame)
	if err != nil {
		return 0, &refusal{fmt.Errorf("encode as OTLP: %w", err)}
	}
	if body == nil {
		return 0, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("send to the receiver: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", encoding)
	res, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("send to the receiver: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode/100 == 2: // OTLP says 200; some receivers answer 202 or 204
		var answer collector.ExportMetricsServiceResponse
		if proto.Unmarshal(text, &answer) == nil && answer.GetPartialSuccess().GetRejectedDataPoints() > 0 {
			return len(body), &partial{fmt.Errorf("%s refuses %d data points: %s", to, answer.GetPartialSuccess().GetRejectedDataPoints(), answer.GetPartialSuccess().GetErrorMessage())}
		}
		return len(body), nil
	case err != nil:
		return 0, fmt.Errorf("answer of %s: %w", to, err)
	case (res.StatusCode == http.StatusUnsupportedMediaType || res.StatusCode == http.StatusBadRequest) && !o.gzip:
		o.gzip = true
		return o.send(ctx, client, to, frame)
	}
	var st status.Status
	said := res.Status
	if proto.Unmarshal(text, &st) == nil && st.GetMessage() != "" {
		said += ": " + st.GetMessage()
	}
	err = fmt.Errorf("%s answers %s", to, said)
	if res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusRequestEntityTooLarge {
		return 0, &refusal{err}
	}
	return 0, &retryLater{err, backoff.RetryAfter(res.Header.Get("Retry-After"))}
}

// partial is a warning: the receiver took a request, but for some points.
type partial struct{ error }

// otlpAddress returns the address of a receiver's metrics.
func otlpAddress(to string) string {
	return strings.TrimSuffix(strings.TrimRight(to, "/"), "/v1/metrics") + "/v1/metrics"
}

// deliver sends a frame as the receiver wants it.
func (s *Store) deliver(ctx context.Context, frame []byte) (packed.Answer, error) {
	if s.otlp == nil {
		return s.post(ctx, frame)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	s.mu.Lock()
	s.stats.Attempts++
	s.mu.Unlock()
	_, err := s.otlp.send(ctx, s.o.HTTP, s.o.To, frame)
	var some *partial
	if errors.As(err, &some) {
		s.o.Logger.Warn("the receiver refuses some of what was measured", "err", err)
		err = nil
	}
	if err == nil {
		s.heard = s.o.Now()
	}
	return packed.Answer{}, err
}
