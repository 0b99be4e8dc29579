package otlp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/agg"
	"tailscope/internal/store"
	"tailscope/test/payload"
)

func start(t testing.TB, o Options) *Server {
	t.Helper()
	o.GRPC, o.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return s
}

func dial(t testing.TB, s *Server) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestGRPC(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l})
	client := collectortrace.NewTraceServiceClient(dial(t, s))
	req := payload.Requests(1, 1, payload.Start)[0]
	want := strings.Join(reference(t, s.r.keys, marshal(t, req)), "\n")
	for _, compression := range []string{"identity", "gzip", "zstd"} {
		l.clear()
		resp, err := client.Export(context.Background(), req, grpc.UseCompressor(compression))
		if err != nil {
			t.Fatalf("%s: %v", compression, err)
		}
		if resp.PartialSuccess != nil {
			t.Errorf("%s: partial success %v", compression, resp.PartialSuccess)
		}
		if got := sortLines(l.text()); got != sortLines(want) {
			t.Errorf("%s: stored\n%s\nwant\n%s", compression, got, want)
		}
	}
	resp, err := client.Export(context.Background(), spansOf(nil, &trace.Span{StartTimeUnixNano: 2, EndTimeUnixNano: 1}, &trace.Span{StartTimeUnixNano: 1, EndTimeUnixNano: 2}))
	if err != nil {
		t.Fatal(err)
	}
	if p := resp.GetPartialSuccess(); p.GetRejectedSpans() != 1 || !strings.Contains(p.GetErrorMessage(), "check the clocks") {
		t.Errorf("partial success %v", p)
	}
	st := s.Stats()
	if st.Spans != 3*payload.SpansPerRequest+1 || st.GRPC.Requests != 4 || st.InFlightBytes != 0 || st.InFlightRequests != 0 {
		t.Errorf("stats %+v", st)
	}
}

func sortLines(s string) string {
	lines := strings.Split(s, "\n")
	sortStrings(lines)
	return strings.Join(lines, "\n")
}

// sendRaw makes a gRPC call with any bytes.
func sendRaw(conn *grpc.ClientConn, method string, b []byte, opts ...grpc.CallOption) error {
	var out message
	return conn.Invoke(context.Background(), method, &message{data: b}, &out, append(opts, grpc.ForceCodecV2(rawCodec{}))...)
}

const exportTraces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

func TestGRPCErrors(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l, MaxRequestBytes: 1 << 20, RetryAfter: 3 * time.Second})
	conn := dial(t, s)
	expect := func(err error, code codes.Code, text string, retry time.Duration) {
		t.Helper()
		st := status.Convert(err)
		if st.Code() != code || !strings.Contains(st.Message(), text) {
			t.Errorf("got %v, want %v with %q", err, code, text)
		}
		var delay time.Duration
		for _, d := range st.Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok {
				delay = r.RetryDelay.AsDuration()
			}
		}
		if delay != retry {
			t.Errorf("%v: retry after %v, want %v", err, delay, retry)
		}
	}
	expect(sendRaw(conn, exportTraces, []byte("hello")), codes.InvalidArgument, "malformed payload", 0)
	good := payload.Traces(1, 1)[0]
	expect(sendRaw(conn, exportTraces, good[:len(good)-1]), codes.InvalidArgument, "malformed payload", 0)
	expect(sendRaw(conn, exportTraces, make([]byte, 2<<20)), codes.ResourceExhausted, "larger than max", 0)
	expect(sendRaw(conn, exportTraces, make([]byte, 64<<20), grpc.UseCompressor("gzip")), codes.ResourceExhausted, "larger than max", 0)
	expect(sendRaw(conn, exportTraces, make([]byte, 64<<20), grpc.UseCompressor("zstd")), codes.ResourceExhausted, "larger than max", 0)
	err := sendRaw(conn, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", nil)
	expect(err, codes.Unimplemented, "takes traces, metrics and logs", 0)
	l.answer(true, nil)
	expect(sendRaw(conn, exportTraces, good), codes.ResourceExhausted, "retry later", 3*time.Second)
	l.answer(false, agg.ErrOverloaded)
	expect(sendRaw(conn, exportTraces, good), codes.ResourceExhausted, "retry later", 3*time.Second)
	l.answer(false, errors.New("write journal: input/output error"))
	expect(sendRaw(conn, exportTraces, good), codes.Unavailable, "retry later", 3*time.Second)
	if l.len() != 0 {
		t.Errorf("%d observations", l.len())
	}
	st := s.Stats().GRPC
	if st.Malformed != 2 || st.TooLarge != 3 || st.Overloaded != 2 || st.Unavailable != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestGRPCDamaged: a message that does not unpack is the sender's fault, like
// one that does not decode.
func TestGRPCDamaged(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l, MaxRequestBytes: 1 << 20})
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	var whole bytes.Buffer
	w := gzip.NewWriter(&whole)
	_, _ = w.Write(payload.Traces(1, 1)[0])
	_ = w.Close()
	wrong := bytes.Clone(whole.Bytes())
	wrong[len(wrong)-5]++ // of the checksum
	for _, tt := range []struct {
		name, encoding string
		message        []byte
		want           codes.Code
	}{
		{"whole", "gzip", whole.Bytes(), codes.OK},
		{"not packed", "gzip", []byte("hello"), codes.InvalidArgument},
		{"cut short", "gzip", whole.Bytes()[:whole.Len()/2], codes.InvalidArgument},
		{"wrong checksum", "gzip", wrong, codes.InvalidArgument},
		{"not packed", "zstd", []byte("hello"), codes.InvalidArgument},
	} {
		body := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(tt.message))), tt.message...)
		req, err := http.NewRequest(http.MethodPost, "http://"+s.GRPCAddr().String()+exportTraces, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Grpc-Encoding", tt.encoding)
		req.Header.Set("Te", "trailers")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		got := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
		if want := strconv.Itoa(int(tt.want)); err != nil || got != want {
			t.Errorf("%s %s: status %s, want %s, %v", tt.encoding, tt.name, got, want, err)
		}
	}
	if st := s.Stats().GRPC; st.Malformed != 4 || st.Requests != 5 || l.len() != payload.SpansPerRequest {
		t.Errorf("stats %+v and %d spans", st, l.len())
	}
}

// Messages of any size are unpacked: at once, or as a stream.
func TestGRPCUnpacks(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l})
	conn := dial(t, s)
	want := 0
	for _, n := range []int{0, 1, 3, 40} { // requests in one
		for _, compression := range []string{"gzip", "zstd"} {
			if err := sendRaw(conn, exportTraces, bytes.Join(payload.Traces(1, n), nil), grpc.UseCompressor(compression)); err != nil {
				t.Fatalf("%d by %s: %v", n, compression, err)
			}
			if want += n * payload.SpansPerRequest; l.len() != want {
				t.Fatalf("%d by %s: %d spans, want %d", n, compression, l.len(), want)
			}
		}
	}
	if n := unpacking.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// Compressed messages are refused, to be sent again, while those being unpacked
// take all the memory they may; what was held is given back.
func TestGRPCUnpackingIsBounded(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l, RetryAfter: 3 * time.Second})
	conn := dial(t, s)
	good := payload.Traces(1, 1)[0]
	for _, compression := range []string{"gzip", "zstd"} {
		if !unpacking.hold(int(unpacking.maxBytes) - len(good)/2) {
			t.Fatal("memory is held by nobody")
		}
		err := sendRaw(conn, exportTraces, good, grpc.UseCompressor(compression))
		unpacking.release(int(unpacking.maxBytes) - len(good)/2)
		if st := status.Convert(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
			t.Errorf("%s: got %v, want RESOURCE_EXHAUSTED with a retry", compression, err)
		}
		if err := sendRaw(conn, exportTraces, good, grpc.UseCompressor(compression)); err != nil {
			t.Errorf("%s: %v", compression, err)
		}
	}
	if n := unpacking.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
	if st := s.Stats().GRPC; st.Overloaded != 2 || st.Malformed != 0 || l.len() != 2*payload.SpansPerRequest {
		t.Errorf("stats %+v and %d spans", st, l.len())
	}
}

func post(t testing.TB, s *Server, path, contentType, contentEncoding string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+s.HTTPAddr().String()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if contentEncoding != "" {
		req.Header.Set("Content-Encoding", contentEncoding)
	}
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp
}

func body(t testing.TB, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zst(t testing.TB, b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// jsonOf is the OTLP JSON form, as the collector's library writes it.
func jsonOf(t testing.TB, b []byte) []byte {
	t.Helper()
	req := ptraceotlp.NewExportRequest()
	if err := req.UnmarshalProto(b); err != nil {
		t.Fatal(err)
	}
	out, err := req.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func snappyFramed(b []byte) []byte {
	var out bytes.Buffer
	w := s2.NewWriter(&out, s2.WriterSnappyCompat())
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// A page of an allowed host may send, and is told so before it does; others may not.
func TestPagesThatSend(t *testing.T) {
	s := start(t, Options{Sink: newLedger(), Origins: []string{"shop.example.com"}})
	ask := func(method, origin, kind string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+s.HTTPAddr().String()+"/v1/traces", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "content-type,x-own")
		} else {
			r.Header.Set("Content-Type", kind)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	const own, other = "https://shop.example.com:8443", "https://evil.example.com"
	if r := ask("OPTIONS", own, ""); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Origin") != own || r.Header.Get("Access-Control-Allow-Headers") != "content-type,x-own" || r.Header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("asked before: %s %v", r.Status, r.Header)
	}
	if r := ask("POST", own, "application/json"); r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != own {
		t.Errorf("sent: %s %v", r.Status, r.Header)
	}
	for _, method := range []string{"OPTIONS", "POST"} {
		if r := ask(method, other, "application/json"); r.StatusCode != 403 || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s of another page: %s %v", method, r.Status, r.Header)
		}
	}
}

func TestHTTP(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l})
	b := payload.Traces(1, 1)[0]
	want := sortLines(strings.Join(reference(t, s.r.keys, b), "\n"))
	j := jsonOf(t, b)
	for _, c := range []struct {
		contentType, encoding string
		body                  []byte
	}{
		{"application/x-protobuf", "", b},
		{"application/x-protobuf", "identity", b},
		{"application/x-protobuf", "gzip", zip(b)},
		{"application/x-protobuf", "zstd", zst(t, b)},
		{"application/x-protobuf", "deflate", deflated(b)},
		{"application/x-protobuf", "zlib", deflated(b)},
		{"application/x-protobuf", "snappy", s2.EncodeSnappy(nil, b)},
		{"application/x-protobuf", "snappy", snappyFramed(b)},
		{"application/json", "", j},
		{"application/json; charset=utf-8", "gzip", zip(j)},
	} {
		l.clear()
		r := post(t, s, "/v1/traces", c.contentType, c.encoding, c.body)
		got := body(t, r)
		if r.StatusCode != 200 {
			t.Fatalf("%s %s: %s %s", c.contentType, c.encoding, r.Status, got)
		}
		if strings.HasPrefix(c.contentType, "application/json") {
			if string(got) != `{"partialSuccess":{}}` {
				t.Errorf("answer %s", got)
			}
		} else if len(got) != 0 {
			t.Errorf("answer %q", got)
		}
		if text := sortLines(l.text()); text != want {
			t.Errorf("%s %s: stored\n%s\nwant\n%s", c.contentType, c.encoding, text, want)
		}
	}
}

func TestHTTPErrors(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l, MaxRequestBytes: 1 << 20, RetryAfter: 2500 * time.Millisecond})
	good := payload.Traces(1, 1)[0]
	f := func(path, contentType, contentEncoding string, b []byte, code int, text string) {
		t.Helper()
		r := post(t, s, path, contentType, contentEncoding, b)
		got := body(t, r)
		var st spb.Status
		var err error
		if r.Header.Get("Content-Type") == "application/x-protobuf" {
			err = proto.Unmarshal(got, &st)
		} else {
			err = protojson.Unmarshal(got, &st)
		}
		if err != nil || r.StatusCode != code || !strings.Contains(st.Message, text) {
			t.Errorf("%s %s: %s %q (%v), want %d with %q", contentType, contentEncoding, r.Status, got, err, code, text)
		}
		if (contentType == "application/x-protobuf") != (r.Header.Get("Content-Type") == "application/x-protobuf") {
			t.Errorf("asked in %s, answered in %s", contentType, r.Header.Get("Content-Type"))
		}
		if again := r.Header.Get("Retry-After"); (code == 429 || code == 503) != (again == "3") {
			t.Errorf("%d: Retry-After %q", code, again)
		}
	}
	const pb, js = "application/x-protobuf", "application/json"
	f("/v1/traces", pb, "", good[:len(good)-1], 400, "malformed")
	f("/v1/traces", js, "", []byte(`{"resourceSpans": 3}`), 400, "malformed")
	f("/v1/metrics", js, "", []byte(`{`), 400, "malformed")
	f("/v1/traces", js, "", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano": -1}]}]}]}`), 400, "malformed")
	f("/v1/traces", js, "", []byte("{\"resourceSpans\":\xff\xfe}"), 400, "malformed")
	f("/v1/traces", pb, "gzip", good, 400, "gzip")
	f("/v1/traces", pb, "gzip", zip(good)[:100], 400, "gzip")
	f("/v1/traces", pb, "zstd", good, 400, "zstd")
	f("/v1/traces", pb, "br", good, 415, "gzip, zstd")
	f("/v1/traces", pb, "deflate", good, 400, "deflate")
	f("/v1/traces", pb, "snappy", []byte("\xff\xff\xff\xff\x7f"), 400, "snappy")
	f("/v1/traces", pb, "snappy", snappyFramed(good)[:40], 400, "snappy")
	f("/v1/traces", pb, "deflate", deflated(make([]byte, 64<<20)), 413, "smaller batches")
	f("/v1/traces", pb, "snappy", s2.EncodeSnappy(nil, make([]byte, 64<<20)), 413, "smaller batches")
	f("/v1/traces", pb, "snappy", snappyFramed(make([]byte, 64<<20)), 413, "smaller batches")
	f("/v1/traces", "text/plain", "", good, 415, "application/x-protobuf")
	f("/v1/traces", pb, "", make([]byte, 2<<20), 413, "smaller batches")
	f("/v1/traces", pb, "gzip", zip(make([]byte, 64<<20)), 413, "smaller batches")
	f("/v1/traces", pb, "zstd", zst(t, make([]byte, 64<<20)), 413, "smaller batches")
	f("/v1development/profiles", pb, "", nil, 501, "/v1/traces, /v1/metrics and /v1/logs")
	f("/x", js, "", nil, 404, "/v1/traces")
	l.answer(true, nil)
	f("/v1/traces", pb, "", good, 429, "retry later")
	l.answer(false, fmt.Errorf("%w: journal: %w", agg.ErrOverloaded, store.ErrFull))
	f("/v1/traces", pb, "", good, 429, "disk is full")
	l.answer(false, errors.New("disk gone"))
	f("/v1/traces", js, "", jsonOf(t, good), 503, "retry later")
	l.answer(false, nil)
	r, err := http.Get("http://" + s.HTTPAddr().String() + "/v1/traces")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %s", r.Status)
	}
	if l.len() != 0 {
		t.Errorf("%d observations", l.len())
	}
	p := post(t, s, "/v1/traces", js, "", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a","startTimeUnixNano":"2","endTimeUnixNano":"1"}]}]}]}`))
	var answer struct {
		PartialSuccess struct{ RejectedSpans, ErrorMessage string }
	}
	if err := json.Unmarshal(body(t, p), &answer); err != nil || answer.PartialSuccess.RejectedSpans != "1" || answer.PartialSuccess.ErrorMessage == "" {
		t.Errorf("partial success %+v, %v", answer, err)
	}
	if st := s.Stats(); st.InFlightBytes != 0 || st.InFlightRequests != 0 || st.HTTP.TooLarge != 6 || st.HTTP.Overloaded != 2 || st.HTTP.Unavailable != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestTooLargeIsHeard: a client that reads nothing until it has sent
// everything gets the reason of its refusal.
func TestTooLargeIsHeard(t *testing.T) {
	s := start(t, Options{Sink: newLedger(), MaxRequestBytes: 8 << 20})
	conn, err := net.Dial("tcp", s.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 24 << 20
	fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n", size)
	if _, err := conn.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s", resp.Status)
	}
}

// greedy is a receiver of frames that asks for as many bytes as it is told.
type greedy struct{}

func (greedy) Receive(_ context.Context, h http.Header, _ []byte, reserve func(int) bool) (int, []byte) {
	if n, err := strconv.Atoi(h.Get("Bytes")); err != nil || !reserve(n) {
		return http.StatusTooManyRequests, []byte("{}")
	}
	return http.StatusOK, []byte("{}")
}

// A frame that can never fit is refused for good; one that does not fit now is asked for again.
func TestFrameThatNeverFits(t *testing.T) {
	s := start(t, Options{Sink: newLedger(), Frames: []Frames{{Path: "/v1/x", ContentType: "x/y", Answers: http.Header{"Name": {"a"}}, Receiver: greedy{}}}})
	l := &s.limits[overHTTP]
	for _, c := range []struct {
		asks, used int64
		code       int
	}{{l.maxBytes / 2, 0, 200}, {l.maxBytes / 2, l.maxBytes * 3 / 4, 429}, {l.maxBytes + 1, 0, 413}, {l.maxBytes, 0, 413}} {
		l.hold(int(c.used))
		req, err := http.NewRequest(http.MethodPost, "http://"+s.HTTPAddr().String()+"/v1/x", strings.NewReader("frame"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "x/y")
		req.Header.Set("Bytes", strconv.FormatInt(c.asks, 10))
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if text := body(t, r); r.StatusCode != c.code || (c.code == 429) != (r.Header.Get("Retry-After") != "") || r.Header.Get("Name") != "a" {
			t.Errorf("%d bytes asked for with %d of %d in use: %s %s, want %d", c.asks, c.used, l.maxBytes, r.Status, text, c.code)
		}
		l.release(int(c.used))
	}
}

// TestInFlight: requests beyond the bound are turned away, and the bound is
// free again afterwards.
func TestInFlight(t *testing.T) {
	l := newLedger()
	l.commit = make(chan struct{})
	s := start(t, Options{Sink: l, MaxInFlight: 2})
	conn := dial(t, s)
	good := payload.Traces(1, 1)[0]
	results := make(chan error, 8)
	for range 8 {
		go func() { results <- sendRaw(conn, exportTraces, good) }()
	}
	for range 6 {
		if err := <-results; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v", err)
		}
	}
	if n := s.Stats().InFlightRequests; n != 2 {
		t.Errorf("%d in flight", n)
	}
	close(l.commit)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := sendRaw(conn, exportTraces, good); err != nil {
		t.Error(err)
	}
}

func TestInFlightBytes(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l, MaxRequestBytes: 1 << 20})
	good := payload.Traces(1, 1)[0]
	conn := dial(t, s)
	for full := range s.limits {
		l := &s.limits[full]
		l.hold(int(l.maxBytes) - 10)
		byGRPC, byHTTP := status.Code(sendRaw(conn, exportTraces, good)), post(t, s, "/v1/traces", "application/x-protobuf", "", good).StatusCode
		l.release(int(l.maxBytes) - 10)
		// The other protocol has bounds of its own.
		if protocol(full) == overGRPC && (byGRPC != codes.ResourceExhausted || byHTTP != 200) ||
			protocol(full) == overHTTP && (byGRPC != codes.OK || byHTTP != 429) {
			t.Errorf("protocol %d is full: gRPC answers %v, HTTP %d", full, byGRPC, byHTTP)
		}
	}
	if r := post(t, s, "/v1/traces", "application/x-protobuf", "gzip", zip(good)); r.StatusCode != 200 {
		t.Errorf("HTTP: %s", r.Status)
	}
}

// TestChunked: a body of unknown length.
func TestChunked(t *testing.T) {
	l := newLedger()
	s := start(t, Options{Sink: l})
	reqs := payload.Traces(1, 10)
	var all []byte // requests concatenate
	for _, r := range reqs {
		all = append(all, r...)
	}
	for _, encoding := range []string{"identity", "gzip"} {
		b := all
		if encoding == "gzip" {
			b = zip(all)
		}
		l.clear()
		req, err := http.NewRequest(http.MethodPost, "http://"+s.HTTPAddr().String()+"/v1/traces", io.MultiReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("Content-Encoding", encoding)
		tr := &http.Transport{}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.StatusCode != 200 || l.len() != 10*payload.SpansPerRequest {
			t.Errorf("%s: %s, %d spans", encoding, resp.Status, l.len())
		}
		if n := s.Stats().InFlightBytes; n != 0 {
			t.Errorf("%s: %d bytes still held", encoding, n)
		}
	}
}

func TestStart(t *testing.T) {
	if _, err := Start(context.Background(), Options{}); err == nil || !strings.Contains(err.Error(), "no sink") {
		t.Errorf("without a sink: %v", err)
	}
	if _, err := Start(context.Background(), Options{Sink: newLedger(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:none"}); err == nil || !strings.Contains(err.Error(), "otlp over HTTP") {
		t.Errorf("bad address: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(context.Background(), Options{Sink: newLedger(), GRPCListener: ln, ExtraLabels: []string{"a=service"}}); err == nil {
		t.Error("bad label accepted")
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listener left open: %v", err)
	}
	s, err := Start(context.Background(), Options{Sink: newLedger()})
	if err != nil || s.GRPCAddr() != nil || s.HTTPAddr() != nil {
		t.Errorf("nothing to serve: %v", err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestShutdownCutsOff: a request that does not end is not waited for forever.
func TestShutdownCutsOff(t *testing.T) {
	l := newLedger()
	l.commit, l.waiting = make(chan struct{}), make(chan struct{}, 1)
	s, err := Start(context.Background(), Options{Sink: l, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, s)
	done := make(chan error, 1)
	go func() { done <- sendRaw(conn, exportTraces, payload.Traces(1, 1)[0]) }()
	<-l.waiting
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the request succeeded")
	}
}

// TestSDK: the Go SDK's own exporters, unmodified.
func TestSDK(t *testing.T) {
	ctx := context.Background()
	l := newLedger()
	s := start(t, Options{Sink: l})
	res := sdkresource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.instance.id", "i"))

	grpcTraces, err := otlptracegrpc.New(ctx, otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(s.GRPCAddr().String()), otlptracegrpc.WithCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	httpTraces, err := otlptracehttp.New(ctx, otlptracehttp.WithInsecure(), otlptracehttp.WithEndpoint(s.HTTPAddr().String()), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*otlptrace.Exporter{grpcTraces, httpTraces} {
		l.clear()
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e), sdktrace.WithResource(res))
		for range 300 {
			_, span := tp.Tracer("t").Start(ctx, "work")
			span.SetAttributes(attribute.Int("tenant.id", 5))
			span.End()
		}
		if err := tp.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if l.len() != 300 {
			t.Errorf("%d spans of 300", l.len())
		}
		if want := `service="shop" operation="work" component="app" kind="internal" status="ok" tenant="5" instance="i": `; !strings.HasPrefix(l.text(), want) {
			t.Errorf("stored %.200s", l.text())
		}
	}

	grpcMetrics, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithEndpoint(s.GRPCAddr().String()))
	if err != nil {
		t.Fatal(err)
	}
	httpMetrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithEndpoint(s.HTTPAddr().String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []sdkmetric.Exporter{grpcMetrics, httpMetrics} {
		l.clear()
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e)), sdkmetric.WithResource(res))
		h, err := mp.Meter("t").Float64Histogram("http.server.request.duration")
		if err != nil {
			t.Fatal(err)
		}
		c, err := mp.Meter("t").Int64Counter("orders")
		if err != nil {
			t.Fatal(err)
		}
		h.Record(ctx, 3)
		c.Add(ctx, 4)
		if err := mp.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		text := l.text()
		if l.len() != 2 || !strings.Contains(text, `counter orders_total{instance="i", service="shop"}: 4 at `) ||
			!strings.Contains(text, `distribution http_server_request_duration{instance="i", service="shop"}: cumulative schema -53 count 1 sum 3 min 3 max 3`) {
			t.Errorf("stored %s", text)
		}
	}
}

// FuzzJSON: whatever the JSON, an answer and no half request.
func FuzzJSON(f *testing.F) {
	f.Add(false, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a","kind":2,"startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}`))
	f.Add(true, []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"timeUnixNano":"1","asInt":"4"}]}}]}]}]}`))
	f.Fuzz(func(t *testing.T, m bool, b []byte) {
		sig := traceSignal
		if m {
			sig = metricSignal
		}
		out, err := fromJSON(sig, b)
		if err != nil {
			var bad *MalformedError
			if !errors.As(err, &bad) {
				t.Fatalf("%v is not malformed", err)
			}
			return
		}
		l := newLedger()
		if _, err := testReceiver(t, l).ingest(context.Background(), sig, out); err != nil {
			t.Fatalf("its protobuf form: %v", err)
		}
	})
}
