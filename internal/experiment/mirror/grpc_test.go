package mirror

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echo is a gRPC service without generated code.
var echo = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in wrapperspb.StringValue
		if err := decode(&in); err != nil {
			return nil, err
		}
		md, _ := metadata.FromIncomingContext(ctx)
		_ = grpc.SetHeader(ctx, metadata.Pairs("h", strings.Join(md["x"], ",")))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("t", "1", "t", "2"))
		if in.Value == "fail" {
			return nil, status.Error(codes.NotFound, "no such thing: ü")
		}
		return wrapperspb.String(in.Value), nil
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Both", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		for {
			var in wrapperspb.StringValue
			switch err := stream.RecvMsg(&in); {
			case err == io.EOF:
				stream.SetTrailer(metadata.Pairs("t", "end"))
				return nil
			case err != nil:
				return err
			}
			if err := stream.SendMsg(&in); err != nil {
				return err
			}
		}
	}}},
}

// TestGRPC passes calls of every kind, over h2c and over TLS, and copies them.
func TestGRPC(t *testing.T) {
	serve := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		s.RegisterService(&echo, new(any))
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Serve(l) }()
		t.Cleanup(func() { s.Stop(); <-done })
		return "h2c://" + l.Addr().String()
	}
	for _, from := range []string{"h2c", "h2-tls"} {
		t.Run(from, func(t *testing.T) {
			s := newSession(t, from, serve(), func(o *Options) {
				o.Candidates = []Pool{{Servers: []string{serve()}}}
				o.Unsafe = true // calls are POST
			})
			creds := insecure.NewCredentials()
			if from == "h2-tls" {
				creds = credentials.NewClientTLSFromCert(newAuthority().pool(), "localhost")
			}
			c, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()

			var header, trailer metadata.MD
			var out wrapperspb.StringValue
			asking := metadata.AppendToOutgoingContext(ctx, "x", "a", "x", "b")
			err = c.Invoke(asking, "/test.Echo/Once", wrapperspb.String("hello"), &out, grpc.Header(&header), grpc.Trailer(&trailer))
			if err != nil || out.Value != "hello" || strings.Join(header["h"], "|") != "a,b" || strings.Join(trailer["t"], "|") != "1|2" {
				t.Errorf("got %q, %v, %v, %v", out.Value, header, trailer, err)
			}
			err = c.Invoke(ctx, "/test.Echo/Once", wrapperspb.String("fail"), &out)
			if s := status.Convert(err); s.Code() != codes.NotFound || s.Message() != "no such thing: ü" {
				t.Errorf("got %v", err)
			}
			if err := c.Invoke(ctx, "/test.Echo/Nothing", wrapperspb.String(""), &out); status.Code(err) != codes.Unimplemented {
				t.Errorf("got %v", err)
			}

			st, err := c.NewStream(ctx, &echo.Streams[0], "/test.Echo/Both")
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"a", strings.Repeat("b", 100000), "c"} {
				if err := st.SendMsg(wrapperspb.String(text)); err != nil {
					t.Fatal(err)
				}
				if err := st.RecvMsg(&out); err != nil || out.Value != text {
					t.Fatalf("got %d bytes, %v", len(out.Value), err)
				}
			}
			_ = st.CloseSend()
			if err := st.RecvMsg(&out); err != io.EOF || strings.Join(st.Trailer()["t"], "|") != "end" {
				t.Errorf("got %v, %v", err, st.Trailer())
			}

			// Not by a deadline, which the primary would learn of and end the stream
			// first, and not before the primary has the request.
			short, stop := context.WithCancel(ctx)
			defer stop()
			if st, err = c.NewStream(short, &echo.Streams[0], "/test.Echo/Both"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(st.SendMsg(wrapperspb.String("a")), st.RecvMsg(&out)); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(50*time.Millisecond, stop)
			err = st.RecvMsg(&out)
			if status.Code(err) != codes.Canceled {
				t.Errorf("got %v", err)
			}
			// The one that is not there is answered before its body has passed, so
			// that its copy may be broken off.
			waitFor(t, func() bool {
				a := s.State().Shadows[0].Account
				return a.Offered == 5 && a.Paired >= 3 && a.Queued+a.Waiting+a.Pairing == 0
			}, func() any { return s.State() })
			closes(t, s.State().Shadows[0].Account)
		})
	}
}
