package server

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"tailscope/internal/config"
	"tailscope/internal/observe/forward"
)

// Other servers reach this one where OTLP over HTTP listens, or where it is told.
func TestPeerAddress(t *testing.T) {
	for _, c := range []struct {
		listen, address string
		want            string // before the port
	}{
		{"127.0.0.1:0", "", "http://127.0.0.1:"},
		{"0.0.0.0:0", "", "http://127.0.0.1:"}, // the address towards the store
		{"127.0.0.1:0", "https://ts1.example:8443", "https://ts1.example:8443"},
		{"127.0.0.1:0", config.NoAddress, ""},
		{"", "", ""},
	} {
		var said strings.Builder
		s := &Server{log: slog.New(slog.NewTextHandler(&said, nil)), data: &dataStore{host: "127.0.0.1:8123"}}
		s.cfg.Cluster.Address = c.address
		port := ""
		if c.listen != "" {
			var err error
			if s.otlpHTTP, err = net.Listen("tcp", c.listen); err != nil {
				t.Fatal(err)
			}
			_, port, _ = net.SplitHostPort(s.OTLPHTTP())
			if err := s.otlpHTTP.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasSuffix(c.want, "1:") {
			c.want += port
		}
		if got := s.peerAddress(t.Context()); got != c.want {
			t.Errorf("listening on %q, cluster.address %q: %q, want %q", c.listen, c.address, got, c.want)
		}
		if near := strings.HasPrefix(c.want, "http://127."); near != strings.Contains(said.String(), "servers on other machines cannot reach") {
			t.Errorf("listening on %q, cluster.address %q: it says %q", c.listen, c.address, said.String())
		}
	}
}

// A server says that it takes spans while it is ready alone.
func TestSpansWhileReady(t *testing.T) {
	s := &Server{}
	spans := s.whileReady("http://10.0.0.7:4318")
	for _, ready := range []bool{false, true, false} {
		s.ready.Store(ready)
		if got := spans(); (got != "") != ready {
			t.Errorf("ready %v: %q", ready, got)
		}
	}
}

// Spans that were not sent are told for a day.
func TestForwardProblems(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := forward.Stats{}
	problems := forwardProblems(func() forward.Stats { return st }, func() time.Time { return now })
	if got := problems(); got != nil {
		t.Errorf("nothing dropped: %+v", got)
	}
	st = forward.Stats{Dropped: 1200, LastDrop: now, LastError: "send spans to server ab: connection refused"}
	got := problems()
	if len(got) != 1 || got[0].Code != problemTraces || !strings.HasPrefix(got[0].Summary, "1,200 spans missing") ||
		!strings.Contains(got[0].Text, "connection refused") || !strings.Contains(got[0].Next, "cluster.address") {
		t.Errorf("%+v", got)
	}
	now = now.Add(lossShown + time.Second)
	if got := problems(); got != nil {
		t.Errorf("a day later: %+v", got)
	}
}
