package otlp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"tailscope/test/payload"
)

// dripHTTP begins a request over HTTP whose body claims size bytes, of which it
// sends what is given.
func dripHTTP(t *testing.T, s *Server, size int, body []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", protobufType, size)
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// dripGRPC opens streams on one connection, each with a message of which it
// sends as many bytes as given, but never the last.
func dripGRPC(t *testing.T, s *Server, streams, size int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.GRPCAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	t.Cleanup(func() { conn.Close(); both.Wait() })
	both.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // so that the server is not held up
	both.Go(func() { _ = halfSend(conn, streams, size) })
	return conn
}

// halfSend is dripGRPC's; it waits while the server does not read on.
func halfSend(conn net.Conn, streams, size int) error {
	fmt.Fprint(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, nil)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := range streams {
		block.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", exportTraces}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
			if err := enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				return err
			}
		}
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			return err
		}
		message := binary.BigEndian.AppendUint32([]byte{0}, uint32(size+1))
		for message = append(message, make([]byte, size)...); len(message) > 0; {
			n := min(len(message), 16<<10)
			if err := f.WriteData(id, false, message[:n]); err != nil {
				return err
			}
			message = message[n:]
		}
	}
	return nil
}

// clock stands still until it is moved on, or runs.
type clock struct {
	nanos atomic.Int64
	runs  atomic.Pointer[time.Time] // since when; nil: it stands still
}

func (c *clock) now() time.Time {
	now := time.Unix(1000, c.nanos.Load())
	if since := c.runs.Load(); since != nil {
		now = now.Add(1000 * time.Since(*since))
	}
	return now
}

func (c *clock) add(d time.Duration) { c.nanos.Add(int64(d)) }

// expire lets what is half sent, and what of it is read only then, run out of time
// before the server stops: a connection that waits for room does not read on, and
// does not see that its client has gone.
func (c *clock) expire(t *testing.T) {
	t.Cleanup(func() { since := time.Now(); c.runs.Store(&since) })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after 5 s still not: %s", what)
}

// bothAnswer sends a good request by each protocol.
func bothAnswer(t *testing.T, s *Server) {
	t.Helper()
	good := payload.Traces(1, 1)[0]
	if err := sendRaw(dial(t, s), exportTraces, good); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	if r := post(t, s, "/v1/traces", protobufType, "gzip", zip(good)); r.StatusCode != 200 {
		t.Errorf("HTTP: %s", r.Status)
	}
}

// Senders that drip their bodies keep nobody out: neither those of their own
// protocol nor those of the other, however many there are.
func TestSlowSenders(t *testing.T) {
	var c clock
	s := start(t, Options{Sink: newLedger(), MaxInFlight: 8, MaxArriving: 32, now: c.now})
	c.expire(t)
	for range 32 {
		dripHTTP(t, s, 1<<20, []byte("x"))
	}
	dripGRPC(t, s, 32, 100)
	until(t, "as many arrive as may", func() bool { st := s.Stats(); return st.HTTP.Arriving == 32 && st.GRPC.Arriving == 32 })
	if st := s.Stats(); st.InFlightRequests != 0 {
		t.Errorf("%d slots of work are held by bodies that are not there", st.InFlightRequests)
	}
	// Each has had its time: one who sends at once takes the place of one.
	c.add(6 * time.Second)
	bothAnswer(t, s)
	st := s.Stats()
	if st.HTTP.Arriving >= 32 || st.GRPC.Arriving != 0 { // its one connection was cut off
		t.Errorf("over HTTP %d still arrive, over gRPC %d", st.HTTP.Arriving, st.GRPC.Arriving)
	}
}

// While no arriving body has had its Patience, a new request over HTTP is refused with
// Retry-After.
func TestCrowded(t *testing.T) {
	s := start(t, Options{Sink: newLedger(), MaxArriving: 4, now: new(clock).now})
	for range 4 {
		dripHTTP(t, s, 100, []byte("x"))
	}
	until(t, "four arrive", func() bool { return s.Stats().HTTP.Arriving == 4 })
	r := post(t, s, "/v1/traces", protobufType, "", payload.Traces(1, 1)[0])
	if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %s, want 429 with Retry-After", r.Status)
	}
	if err := sendRaw(dial(t, s), exportTraces, payload.Traces(1, 1)[0]); err != nil {
		t.Errorf("gRPC: %v", err)
	}
}

// A body that comes too slowly is cut off: over HTTP its sender gets an error, over gRPC
// its connection is closed.
func TestMinimumRate(t *testing.T) {
	var c clock
	s := start(t, Options{Sink: newLedger(), now: c.now})
	c.expire(t)
	slow, steady := dripHTTP(t, s, 1<<20, []byte("x")), dripHTTP(t, s, 1<<20, make([]byte, 300<<10))
	stream := dripGRPC(t, s, 1, 100)
	until(t, "all arrive", func() bool { st := s.Stats(); return st.HTTP.Arriving == 2 && st.GRPC.Arriving == 1 })
	// Its buffer grows to the whole once 256 KiB are there.
	until(t, "256 KiB are there", func() bool { return s.Stats().InFlightBytes > 1<<20 })
	c.add(26 * time.Second) // 168 KiB ought to be there, over HTTP
	for p := range s.arriving {
		s.arriving[p].Sweep()
	}
	res, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "too slowly") {
		t.Errorf("the slow one is answered %s %q", res.Status, body)
	}
	if _, err := stream.Write(make([]byte, 1)); err == nil {
		until(t, "the slow stream's connection is closed", func() bool { _, err := stream.Write(make([]byte, 1)); return err != nil })
	}
	st := s.Stats()
	if st.HTTP.Arriving != 1 || st.GRPC.Arriving != 0 || st.HTTP.Slow != 1 || st.GRPC.Slow != 1 {
		t.Errorf("got %+v and %+v", st.HTTP, st.GRPC)
	}
	if _, err := steady.Write([]byte("x")); err != nil {
		t.Errorf("the steady one: %v", err)
	}
	bothAnswer(t, s)
}

// What a body claims takes no memory, only what has come of it.
func TestClaimsTakeNothing(t *testing.T) {
	s := start(t, Options{Sink: newLedger(), MaxRequestBytes: 1 << 20, MaxInFlightBytes: 4 << 20})
	const senders = 100 // of 1 MiB each, of which the bound is 1.5 MiB in all
	for range senders {
		dripHTTP(t, s, 1<<20, []byte("x"))
	}
	until(t, "as many arrive as find room", func() bool { return s.Stats().HTTP.Arriving == 3<<19/firstBytes })
	if n := s.Stats().InFlightBytes; n != 3<<19 {
		t.Errorf("%d bytes are held", n)
	}
}

// Half-sent messages over gRPC hold a bounded number of bytes, over however
// many streams and connections.
func TestHalfSentBytes(t *testing.T) {
	var c clock
	s := start(t, Options{Sink: newLedger(), MaxRequestBytes: 1 << 20, MaxInFlightBytes: 8 << 20, now: c.now})
	c.expire(t)
	most := s.arriving[overGRPC].MaxBytes
	for range 4 {
		dripGRPC(t, s, 8, 512<<10) // 16 MiB in all
	}
	// From three quarters on, streams that have just begun are refused.
	until(t, "three quarters of the bound are reached", func() bool {
		n := s.arriving[overGRPC].Stats().Bytes
		if n > most {
			t.Errorf("%d bytes are half sent, of at most %d", n, most)
		}
		return n > most*3/4-32<<10
	})
	if r := post(t, s, "/v1/traces", protobufType, "", payload.Traces(1, 1)[0]); r.StatusCode != 200 {
		t.Errorf("HTTP: %s", r.Status)
	}
	conn := dial(t, s)
	c.add(6 * time.Second)
	until(t, "one that sends in one go gets through", func() bool {
		return sendRaw(conn, exportTraces, payload.Traces(1, 1)[0]) == nil
	})
}

// A client whose stream was refused before it was whole is left in peace.
func TestUnservedMethodsArriveNoMore(t *testing.T) {
	s := start(t, Options{Sink: newLedger()})
	conn := dial(t, s)
	for range 10 {
		err := sendRaw(conn, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", make([]byte, 200<<10))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	}
	if err := sendRaw(conn, exportTraces, make([]byte, 17<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("too large: %v", err)
	}
	until(t, "none arrives", func() bool { return s.Stats().GRPC.Arriving == 0 })
	if st := s.Stats(); st.InFlightBytes != 0 {
		t.Errorf("%d bytes still held", st.InFlightBytes)
	}
}

// FuzzFrames: whatever the pieces, the heads found are those of the frames.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
	_ = fr.WriteData(1, true, make([]byte, 300))
	_ = fr.WriteRSTStream(3, http2.ErrCodeCancel)
	f.Add(b.Bytes(), uint8(7))
	f.Add([]byte{0, 0, 0, 0, 1, 255, 255, 255, 255}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		var want []frame
		for at := 0; len(b)-at >= frameHead; {
			h, err := http2.ReadFrameHeader(bytes.NewReader(b[at:]))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, frame{int(h.Length), byte(h.Type), byte(h.Flags), h.StreamID})
			at += frameHead + int(h.Length)
		}
		var got []frame
		var s frames
		for rest := b; len(rest) > 0; {
			p := rest[:min(len(rest), int(piece)+1)]
			rest = rest[len(p):]
			for at := 0; at < len(p); {
				f, next, ok := s.next(p, at)
				if next < at || next == at && !ok {
					t.Fatalf("stays at %d of %d", at, len(p))
				}
				at = next
				if ok {
					got = append(got, f)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
