package otlp

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/agg"
	"tailscope/internal/listen"
)

const (
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
)

// handler serves OTLP over HTTP: POST /v1/traces, /v1/metrics and /v1/logs.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/traces", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, traceSignal) })
	mux.HandleFunc("/v1/metrics", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, metricSignal) })
	mux.HandleFunc("/v1/logs", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, logSignal) })
	for _, f := range s.o.Frames {
		mux.HandleFunc(f.Path, func(w http.ResponseWriter, r *http.Request) { s.serveFrame(w, r, &f) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		code, st := http.StatusNotFound, codes.NotFound
		if strings.HasPrefix(r.URL.Path, "/v1") {
			code, st = http.StatusNotImplemented, codes.Unimplemented
		}
		s.refuse(w, contentType(r), code, status.Newf(st, "%s is not served here: tailscope takes /v1/traces, /v1/metrics and /v1/logs; turn the exporter for anything else off", r.URL.Path))
	})
	names := s.o.Names
	names.Allowed = slices.Concat(names.Allowed, s.o.Origins)
	g := listen.Guard{
		Names:   names,
		Setting: "otlp.origins",
		Refuse: func(w http.ResponseWriter, r *http.Request, code int, message string) {
			s.counters[overHTTP].requests.Add(1)
			s.counters[overHTTP].broken.Add(1)
			if origin := r.Header.Get("Origin"); s.refused.isNew(origin) {
				s.o.Log.Warn("a page that sends from a browser is refused", "origin", origin, "why", message)
			}
			s.refuse(w, contentType(r), code, status.New(codes.PermissionDenied, message))
		},
		// Senders address the server by any name that their network has for it. Browsers
		// send the origin with every POST, so one without it is not a browser's; JSON is
		// still restricted to the names.
		Tool: func(r *http.Request) bool {
			t := contentType(r)
			return r.Method == http.MethodPost && (t == protobufType || slices.ContainsFunc(s.o.Frames, func(f Frames) bool { return f.ContentType == t }))
		},
	}
	return g.Handler(sharing(mux))
}

// strangers are the origins of pages that were refused. Their browsers keep the answer from
// them, so the log says once of each why it was; of so many, since anybody makes them up.
type strangers struct {
	mu   sync.Mutex
	seen map[string]bool
}

const mostStrangers = 32

// isNew reports whether an origin, which is not empty, is seen for the first time.
func (s *strangers) isNew(origin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if origin == "" || len(origin) > 256 || len(s.seen) == mostStrangers || s.seen[origin] {
		return false
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[origin] = true
	return true
}

// sharing lets the pages that the guard has let pass read answers, and answers the question
// that a browser asks before it sends another site's (https://fetch.spec.whatwg.org/#http-cors-protocol).
func sharing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked) // SDKs send any that they are configured with
		}
		h.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
	})
}

func contentType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, sig signal) {
	c := &s.counters[overHTTP]
	c.requests.Add(1)
	t := contentType(r)
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		c.broken.Add(1)
		s.refuse(w, t, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "%s %s: only POST is served", r.Method, r.URL.Path))
		return
	}
	if t != protobufType && t != jsonType {
		c.broken.Add(1)
		s.refuse(w, jsonType, http.StatusUnsupportedMediaType, status.Newf(codes.InvalidArgument, "content type %q: send %s or %s", r.Header.Get("Content-Type"), protobufType, jsonType))
		return
	}
	var unpack *decompressor
	switch e := strings.ToLower(r.Header.Get("Content-Encoding")); e {
	case "", "identity":
	case "gzip":
		unpack = gzipFormat
	case "zstd":
		unpack = zstdFormat
	case "deflate", "zlib":
		unpack = deflateFormat
	case "snappy":
		unpack = snappyFormat
	default:
		c.broken.Add(1)
		w.Header().Set("Accept-Encoding", "gzip, zstd, deflate, snappy")
		s.refuse(w, t, http.StatusUnsupportedMediaType, status.Newf(codes.InvalidArgument, "content encoding %q: send gzip, zstd, deflate, snappy or none", e))
		return
	}
	b := arrival{limit: &s.limits[overHTTP]}
	defer b.free()
	p, err := s.body(w, r, &b, c, sig, t, unpack)
	if err != nil {
		s.fail(w, c, t, err)
		return
	}
	w.Header().Set("Content-Type", t)
	if t == jsonType {
		_, _ = w.Write(appendJSON(nil, sig, p)) // an error means that the client is gone
		return
	}
	_, _ = w.Write(appendResponse(nil, p))
}

// Frames is a path beside those of OTLP at which frames of this program's own forms are taken.
type Frames struct {
	Path, ContentType string
	Sender            string      // who sends here, for people
	Answers           http.Header // of every answer
	Receiver          FrameReceiver
}

// FrameReceiver receives frames: see packages agents and forward.
type FrameReceiver interface {
	// Receive takes a frame, which may be empty, and h, the header of its request. Both are
	// the caller's. It asks reserve before it allocates so many bytes. It returns the status
	// code and the body of the answer, which is JSON.
	Receive(ctx context.Context, h http.Header, frame []byte, reserve func(bytes int) bool) (code int, answer []byte)
}

// serveFrame receives a frame. It is bounded as requests of OTLP are.
func (s *Server) serveFrame(w http.ResponseWriter, r *http.Request, f *Frames) {
	maps.Copy(w.Header(), f.Answers)
	c := &s.counters[overHTTP]
	c.requests.Add(1)
	if r.Method != http.MethodPost || contentType(r) != f.ContentType {
		c.broken.Add(1)
		s.refuse(w, jsonType, http.StatusUnsupportedMediaType, status.Newf(codes.InvalidArgument, "%s takes POST requests of type %s, which %s sends", r.URL.Path, f.ContentType, f.Sender))
		return
	}
	b := arrival{limit: &s.limits[overHTTP]}
	defer b.free()
	frame, err := b.read(w, r, &s.arriving[overHTTP], s.o.MaxRequestBytes)
	if err == nil && !b.limit.enter() {
		err = agg.ErrOverloaded
	}
	if err != nil {
		s.fail(w, c, jsonType, err)
		return
	}
	defer b.limit.leave()
	c.bytes.Add(uint64(len(frame)))
	never := false // a retry would not fit either
	code, answer := f.Receiver.Receive(r.Context(), r.Header, frame, func(n int) bool {
		never = int64(n) > b.limit.maxBytes-int64(b.reserved)
		return !never && b.reserve(b.reserved+n)
	})
	if never {
		c.tooLarge.Add(1)
		s.refuse(w, jsonType, http.StatusRequestEntityTooLarge, status.Newf(codes.ResourceExhausted, "unpacked it takes more than the %d bytes that limits.memory of this server allows: raise that", b.limit.maxBytes))
		return
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		c.overloaded.Add(1)
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.o.RetryAfter.Seconds()))))
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	_, _ = w.Write(answer) // an error means that the sender is gone
}

// body reads, decompresses and decodes a request's body. The request takes no slot of
// work until its body has arrived.
func (s *Server) body(w http.ResponseWriter, r *http.Request, b *arrival, c *counters, sig signal, t string, unpack *decompressor) (Partial, error) {
	payload, err := b.read(w, r, &s.arriving[overHTTP], s.o.MaxRequestBytes)
	if err != nil {
		return Partial{}, err
	}
	c.bytes.Add(uint64(len(payload)))
	if !b.limit.enter() {
		return Partial{}, agg.ErrOverloaded
	}
	defer b.limit.leave()
	if unpack != nil {
		if payload, err = b.unpack(unpack, payload, s.o.MaxRequestBytes); err != nil {
			return Partial{}, err
		}
	}
	if t == jsonType {
		if payload, err = fromJSON(sig, payload); err != nil {
			return Partial{}, err
		}
		if !b.reserve(b.reserved + len(payload)) {
			return Partial{}, agg.ErrOverloaded
		}
	}
	return s.receive(r.Context(), sig, payload)
}

// brokenError reports that a body could not be read to its end.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "read the request: " + e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// fromJSON translates OTLP's JSON form to protobuf.
func fromJSON(sig signal, b []byte) ([]byte, error) {
	var req interface {
		UnmarshalJSON([]byte) error
		MarshalProto() ([]byte, error)
	}
	switch sig {
	case traceSignal:
		req = ptraceotlp.NewExportRequest()
	case metricSignal:
		req = pmetricotlp.NewExportRequest()
	default:
		req = plogotlp.NewExportRequest()
	}
	if err := req.UnmarshalJSON(b); err != nil {
		return nil, malformed("JSON: %v", err)
	}
	out, err := req.MarshalProto()
	if err != nil {
		return nil, malformed("JSON: %v", err)
	}
	return out, nil
}

// fail writes the error with its status code.
func (s *Server) fail(w http.ResponseWriter, c *counters, t string, err error) {
	var broken *brokenError
	if errors.Is(err, errSlow) { // not counted here: see protocol
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.o.RetryAfter.Seconds()))))
		s.refuse(w, t, http.StatusServiceUnavailable, s.retry(codes.Unavailable, errSlow.Error()))
		return
	}
	if errors.As(err, &broken) {
		c.broken.Add(1)
		s.refuse(w, t, http.StatusBadRequest, status.New(codes.InvalidArgument, broken.Error()))
		return
	}
	st := s.status(c, err)
	code := http.StatusServiceUnavailable
	switch st.Code() {
	case codes.InvalidArgument:
		code = http.StatusBadRequest
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
		if errors.Is(err, errTooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.o.RetryAfter.Seconds()))))
	}
	s.refuse(w, t, code, st)
}

// refuse writes a google.rpc.Status in the request's own encoding.
func (s *Server) refuse(w http.ResponseWriter, t string, code int, st *status.Status) {
	var body []byte
	var err error
	p := st.Proto()
	p.Message = strings.ToValidUTF8(p.Message, "\ufffd") // it may quote what was sent
	if t == protobufType {
		body, err = proto.Marshal(p)
	} else {
		t = jsonType
		body, err = protojson.Marshal(p)
	}
	if err != nil {
		http.Error(w, st.Message(), code)
		return
	}
	w.Header().Set("Content-Type", t)
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// appendJSON appends the response in OTLP's JSON form.
func appendJSON(dst []byte, sig signal, p Partial) []byte {
	if p.Rejected == 0 && p.Message == "" {
		return append(dst, `{"partialSuccess":{}}`...)
	}
	name := [...]string{"rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"}[sig]
	text, err := json.Marshal(p.Message)
	if err != nil {
		text = []byte(`""`)
	}
	return fmt.Appendf(dst, `{"partialSuccess":{%q:"%d","errorMessage":%s}}`, name, p.Rejected, text)
}

func protowireAppend(dst []byte, p Partial) []byte {
	if p.Rejected != 0 {
		dst = append(dst, 1<<3|varint)
		dst = appendUvarint(dst, uint64(p.Rejected))
	}
	if p.Message != "" {
		dst = append(dst, 2<<3|bytesT)
		dst = appendUvarint(dst, uint64(len(p.Message)))
		dst = append(dst, p.Message...)
	}
	return dst
}

func appendUvarint(dst []byte, n uint64) []byte { return binary.AppendUvarint(dst, n) }
