package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"tailscope/internal/agg"
	"tailscope/internal/store"
)

// message is a request or response in the form that gRPC gives the codec: bytes.
type message struct {
	data []byte
	hold mem.Buffer // the buffer that data is a view into, or nil
	pool *[]byte    // the buffer that data was copied into, or nil
}

func (m *message) free() {
	if m.hold != nil {
		m.hold.Free()
	}
	if m.pool != nil {
		*m.pool = m.data[:0]
		putBuffer(m.pool)
	}
	*m = message{}
}

// rawCodec passes messages unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	m.free()
	if len(data) == 0 {
		return nil
	}
	if len(data) == 1 {
		data[0].Ref()
		m.hold = data[0]
		m.data = data[0].ReadOnlyData()
		return nil
	}
	m.pool = getBuffer(data.Len())
	m.data = (*m.pool)[:data.Len()]
	data.CopyTo(m.data)
	return nil
}

// exporter is the type that the service descriptions below call.
type exporter interface {
	export(ctx context.Context, s signal, dec func(any) error) (any, error)
}

func service(name string, s signal) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: name,
		HandlerType: (*exporter)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Export",
			Handler: func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return srv.(exporter).export(ctx, s, dec)
			},
		}},
		Metadata: strings.ToLower(name),
	}
}

func (s *Server) newGRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.InTapHandle(s.admit),
		grpc.MaxRecvMsgSize(s.o.MaxRequestBytes),
		// Windows that hold a usual request whole, so that its sender need not wait;
		// setting them also saves the estimator's pings.
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(4<<20),
		grpc.MaxConcurrentStreams(256),
		grpc.MaxHeaderListSize(32<<10),
		grpc.ReadBufferSize(64<<10),
		grpc.WriteBufferSize(4<<10),
		grpc.SharedWriteBuffer(true),
		grpc.NumStreamWorkers(uint32(2*runtime.GOMAXPROCS(0))),
		grpc.ConnectionTimeout(20*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			name, _ := grpc.MethodFromServerStream(stream)
			return status.Errorf(codes.Unimplemented, "%s is not served here: tailscope takes traces, metrics and logs; turn the exporter for anything else off", strings.TrimPrefix(name, "/"))
		}),
	)
	g.RegisterService(service("opentelemetry.proto.collector.trace.v1.TraceService", traceSignal), s)
	g.RegisterService(service("opentelemetry.proto.collector.metrics.v1.MetricsService", metricSignal), s)
	g.RegisterService(service("opentelemetry.proto.collector.logs.v1.LogsService", logSignal), s)
	return g
}

// admit refuses a request before its message arrives if there is probably no memory for
// it. Later the only remedy would be to close a connection, with all its other requests.
func (s *Server) admit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if !s.arriving[overGRPC].Expects() {
		return ctx, nil
	}
	c := &s.counters[overGRPC]
	c.requests.Add(1)
	return ctx, s.grpcError(c, agg.ErrOverloaded)
}

// export serves one call.
func (s *Server) export(ctx context.Context, sig signal, dec func(any) error) (any, error) {
	c := &s.counters[overGRPC]
	c.requests.Add(1)
	var m message
	defer m.free()
	// The message arrives here: only then does it need a slot of work.
	if err := dec(&m); err != nil {
		// gRPC has answered already: RESOURCE_EXHAUSTED without a retry for a message
		// that is too large, INTERNAL for an unknown compression.
		switch status.Code(err) {
		case codes.Internal:
			c.malformed.Add(1)
		case codes.ResourceExhausted:
			c.tooLarge.Add(1)
		default:
			c.broken.Add(1)
		}
		return nil, err
	}
	if !s.limits[overGRPC].enter() {
		return nil, s.grpcError(c, agg.ErrOverloaded)
	}
	defer s.limits[overGRPC].leave()
	if !s.limits[overGRPC].hold(len(m.data)) {
		return nil, s.grpcError(c, agg.ErrOverloaded)
	}
	defer s.limits[overGRPC].release(len(m.data))
	c.bytes.Add(uint64(len(m.data)))
	if bytes.HasSuffix(m.data, crowded[:]) {
		return nil, s.grpcError(c, agg.ErrOverloaded)
	}
	if bytes.HasSuffix(m.data, damaged[:]) {
		return nil, s.grpcError(c, malformed("the compressed message does not unpack"))
	}
	p, err := s.receive(ctx, sig, m.data)
	if err != nil {
		return nil, s.grpcError(c, err)
	}
	return &message{data: appendResponse(nil, p)}, nil
}

// grpcError returns the status of an error, which says whether a retry helps. OTLP
// retries RESOURCE_EXHAUSTED only with RetryInfo.
func (s *Server) grpcError(c *counters, err error) error {
	return s.status(c, err).Err()
}

// status turns an error into the Status of both protocols, and counts it.
func (s *Server) status(c *counters, err error) *status.Status {
	var bad *MalformedError
	var fault *faultError
	switch {
	case errors.As(err, &bad):
		c.malformed.Add(1)
		return status.New(codes.InvalidArgument, bad.Error()+": nothing of it was accepted; send an OTLP export request")
	case errors.As(err, &fault):
		c.malformed.Add(1)
		s.o.Log.Error("a request could not be decoded: report this with its stack", "panic", fault.value, "stack", string(fault.stack))
		return status.New(codes.Internal, "a fault of the server while it decoded the request, of which its log says more: nothing of it was accepted; do not send it again")
	case errors.Is(err, errTooLarge):
		c.tooLarge.Add(1)
		return status.New(codes.ResourceExhausted, fmt.Sprintf("request over %d bytes, the lesser of otlp.max_request and what limits.memory allows: send smaller batches, or raise what bounds them", s.o.MaxRequestBytes))
	case errors.Is(err, agg.ErrOverloaded):
		c.overloaded.Add(1)
		if errors.Is(err, store.ErrFull) {
			return s.retry(codes.ResourceExhausted, "the server's disk is full: nothing of the request was accepted; retry later")
		}
		return s.retry(codes.ResourceExhausted, "overloaded: nothing of the request was accepted; retry later")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.broken.Add(1)
		return status.FromContextError(err)
	}
	c.unavailable.Add(1)
	s.o.Log.Error("observations cannot be kept", "err", err)
	return s.retry(codes.Unavailable, "what was sent cannot be kept now: retry later; the server's log says why")
}

func (s *Server) retry(code codes.Code, text string) *status.Status {
	st := status.New(code, text)
	if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(s.o.RetryAfter)}); err == nil {
		return with
	}
	return st
}

// appendResponse appends the response to an export of any signal:
// partial_success (1) with the number rejected (1) and a message (2). It appends nothing
// if all was accepted.
func appendResponse(dst []byte, p Partial) []byte {
	if p.Rejected == 0 && p.Message == "" {
		return dst
	}
	inner := protowireAppend(nil, p)
	dst = append(dst, 1<<3|bytesT)
	dst = appendUvarint(dst, uint64(len(inner)))
	return append(dst, inner...)
}
