package load

import (
	"bytes"
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
)

// target2 speaks HTTP/2 by hand, to do what servers seldom do.
type target2 struct {
	t        *testing.T
	l        net.Listener
	settings []http2.Setting
	// answer is called with each request's id, from one goroutine of each
	// connection.
	answer func(c *served2, id uint32)
	conns  atomic.Int64
	wg     sync.WaitGroup
}

// served2 is a connection of one.
type served2 struct {
	*http2.Framer
	n      int64 // of the connection, from 0
	block  bytes.Buffer
	hpack  *hpack.Encoder
	closer io.Closer
	open   atomic.Int64 // requests
}

func (c *served2) ok(id uint32) {
	c.block.Reset()
	_ = c.hpack.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true})
}

func (s *target2) start() {
	var err error
	if s.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	s.wg.Go(func() {
		for {
			conn, err := s.l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	s.t.Cleanup(func() {
		_ = s.l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		s.wg.Wait()
	})
}

func (s *target2) serve(conn net.Conn) {
	defer conn.Close()
	b := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != http2.ClientPreface {
		return
	}
	c := &served2{Framer: http2.NewFramer(conn, conn), closer: conn}
	c.hpack = hpack.NewEncoder(&c.block)
	_ = c.WriteSettings(s.settings...)
	first := true
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := f.(*http2.HeadersFrame); ok {
			if first {
				first, c.n = false, s.conns.Add(1)-1
			}
			s.answer(c, h.StreamID)
		}
	}
}

func (s *target2) load(o Options) (Account, *engine) {
	s.t.Helper()
	s.start()
	e := &engine{t: s.t, protocol: HTTP2}
	o.Address, o.Protocol, o.Recorder = s.l.Addr().String(), HTTP2, func(int, int) Recorder { return e }
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	a, err := Run(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.Due != a.Sent+a.Dropped+a.Unsent || a.Sent != uint64(len(e.seen)) {
		s.t.Errorf("the account does not close: %+v, %d observed", a, len(e.seen))
	}
	return a, e
}

// What a connection that goes away has not looked at is sent on another; what it
// has, it finishes.
func TestGoAway(t *testing.T) {
	s := &target2{t: t}
	s.answer = func(c *served2, id uint32) {
		if c.n == 0 && id == 5 {
			_ = c.WriteGoAway(3, http2.ErrCodeNo, nil)
			c.ok(3)
			return
		}
		if c.n > 0 || id != 3 {
			c.ok(id)
		}
	}
	a, e := s.load(Options{Connections: 3, Source: requests(20, Request{Path: "/"})})
	if e.causes()[Answered] != 20 || s.conns.Load() != 2 || a.Connections != 2 {
		t.Errorf("%+v %v on %d connections", a, e.causes(), s.conns.Load())
	}
}

// A stream that is refused was not looked at: it is tried again, but not for ever.
func TestRefusedStreams(t *testing.T) {
	s := &target2{t: t}
	s.answer = func(c *served2, id uint32) {
		if id%4 == 1 || id > 41 {
			_ = c.WriteRSTStream(id, http2.ErrCodeRefusedStream)
			return
		}
		c.ok(id)
	}
	a, e := s.load(Options{Connections: 1, Source: requests(12, Request{Path: "/"})})
	if n := e.causes(); a.Sent != 12 || n[Answered] != 10 || n[Reset] != 2 {
		t.Errorf("%+v %v", a, n)
	}
}

// As many connections are opened as the limit of streams asks for, and it is kept.
func TestLimitOfStreams(t *testing.T) {
	s := &target2{t: t, settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 4}}}
	var broken atomic.Bool
	s.answer = func(c *served2, id uint32) {
		if c.open.Add(1) > 4 {
			broken.Store(true)
		}
		if c.open.Load() == 4 { // all at once
			for k := range uint32(4) {
				c.open.Add(-1)
				c.ok(id - 2*k)
			}
		}
	}
	a, e := s.load(Options{Connections: 12, Source: requests(120, Request{Path: "/"}), Timeout: 30 * time.Second, Drain: 300 * time.Millisecond})
	if n := e.causes(); a.Sent != 120 || n[Answered] < 100 || n[Answered]+n[CutOff] != 120 || a.Connections != 3 || broken.Load() {
		t.Errorf("%+v %v, more than allowed: %v", a, n, broken.Load())
	}
}

func TestBrokenHTTP2(t *testing.T) {
	for name, answer := range map[string]func(c *served2, id uint32){
		"push":        func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FramePushPromise, 0, id, make([]byte, 8)) },
		"no status":   func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FrameHeaders, 5, id, nil) },
		"bad block":   func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FrameHeaders, 5, id, []byte{0xff, 0xff}) },
		"no stream":   func(c *served2, id uint32) { c.ok(id + 2) },
		"padding":     func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FrameData, 8, id, []byte{9}) },
		"early body":  func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FrameData, 1, id, []byte("a")) },
		"large frame": func(c *served2, id uint32) { _ = c.WriteRawFrame(http2.FrameData, 0, id, make([]byte, maxFrame+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &target2{t: t, answer: answer}
			_, e := s.load(Options{Connections: 1, Source: requests(2, Request{Path: "/"})})
			if n := e.causes(); n[NotHTTP] != 2 {
				t.Errorf("%v", n)
			}
		})
	}
}

// Long header blocks come in pieces, with padding, after interim answers, and
// have trailers.
func TestPiecesOfAnAnswer(t *testing.T) {
	s := &target2{t: t}
	s.answer = func(c *served2, id uint32) {
		fields := func(f ...string) []byte {
			c.block.Reset()
			for i := 0; i < len(f); i += 2 {
				_ = c.hpack.WriteField(hpack.HeaderField{Name: f[i], Value: f[i+1]})
			}
			return bytes.Clone(c.block.Bytes())
		}
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fields(":status", "103", "link", "x"), EndHeaders: true})
		block := fields(":status", "201", "x-long", strings.Repeat("v", 20000))
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:10], PadLength: 3, Priority: http2.PriorityParam{Weight: 1, StreamDep: 0}})
		_ = c.WriteContinuation(id, false, block[10:8000])
		_ = c.WriteContinuation(id, true, block[8000:])
		_ = c.WritePing(false, [8]byte{1})
		_ = c.WriteDataPadded(id, false, []byte("ab"), []byte{0, 0})
		_ = c.WriteRawFrame(0x77, 0, id, []byte("who knows"))
		_ = c.WriteData(id, false, []byte("c"))
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fields("x-sum", "1"), EndHeaders: true, EndStream: true})
	}
	check := &checkFunc{func(_, status int, header []Field, body []byte) int {
		if status != 201 || len(header) != 1 || header[0].Name != "x-long" || len(header[0].Value) != 20000 || string(body) != "abc" {
			return 0
		}
		return -1
	}}
	_, e := s.load(Options{Connections: 2, Source: requests(6, Request{Path: "/"}), Checker: check})
	for _, o := range e.seen {
		if o.Status != 201 || o.Check != -1 {
			t.Errorf("%+v", o)
		}
	}
}

// A window that opens by drops is filled by drops.
func TestSmallWindows(t *testing.T) {
	e := &engine{t: t, protocol: HTTP2, run: Run}
	e.serve(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		b := make([]byte, 700)
		for {
			k, err := r.Body.Read(b)
			if n += k; err != nil {
				break
			}
		}
		_, _ = fmt.Fprint(w, n)
	})
	e.server.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 10, MaxReceiveBufferPerConnection: 1 << 16}
	check := &checkFunc{func(_, status int, _ []Field, body []byte) int {
		if string(body) != "200000" {
			return 0
		}
		return -1
	}}
	e.load(t.Context(), Options{Connections: 4, Checker: check, Source: requests(8, Request{Method: "PUT", Path: "/", Body: make([]byte, 200_000)})})
	for _, o := range e.seen {
		if o.Status != 200 || o.Check != -1 {
			t.Errorf("%+v", o)
		}
	}
}

func FuzzHTTP2Frames(f *testing.F) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3})
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true})
	_ = fr.WriteData(1, true, []byte("a"))
	_ = fr.WriteGoAway(1, 0, nil)
	f.Add(b.Bytes())
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Skip(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write(answer)
				_ = c.(*net.TCPConn).CloseWrite()
				go func() {
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}()
			}
		}()
		e := &engine{t: t, protocol: HTTP2}
		a, err := Run(t.Context(), Options{Address: l.Addr().String(), Protocol: HTTP2, Connections: 2, Timeout: time.Second,
			Source: requests(3, Request{Path: "/"}), Recorder: func(int, int) Recorder { return e }})
		if err == nil && a.Sent != uint64(len(e.seen)) {
			t.Errorf("%+v, %d observed", a, len(e.seen))
		}
	})
}
