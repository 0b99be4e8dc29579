package notify

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// What one result costs on its way to NSCA, by encryption.
func BenchmarkNSCAPacket(b *testing.B) {
	r := someResult("orders", 42, time.Now())
	iv := make([]byte, nscaIV)
	for _, method := range []string{"none", "xor", "3des", "aes128"} {
		b.Run("encryption="+method, func(b *testing.B) {
			n, err := newNSCA(spec.NSCA{Encryption: method, Password: &spec.Secret{Env: "X"}}, time.Now)
			if err != nil {
				b.Fatal(err)
			}
			encrypt := n.method("s3cret", iv)
			buf := make([]byte, 0, 8192)
			b.ReportAllocs()
			for b.Loop() {
				buf = n.packet(buf[:0], &r, 1)
				encrypt(buf)
			}
		})
	}
}

func BenchmarkGraphiteLines(b *testing.B) {
	r := someResult("orders", 42, time.Now())
	buf := make([]byte, 0, 8192)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendGraphite(buf[:0], "tailscope", &r)
	}
}

// What one result costs from Results to the acknowledgement of a receiver in the
// same process, both ends and the sockets between counted, 1,000 of them at a time;
// and what it costs to keep one for a receiver that is dead.
func BenchmarkDelivery(b *testing.B) {
	sink := func(b *testing.B, hello []byte) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write(hello)
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		})
		b.Cleanup(func() { l.Close(); wg.Wait() })
		return l.Addr().String()
	}
	const batch = 1000
	run := func(b *testing.B, r spec.Receiver, dead bool) {
		n, err := Open(b.Context(), Options{
			Dir: b.TempDir(), Receivers: map[string]spec.Receiver{"r": r}, Logger: slog.New(slog.DiscardHandler),
			make: func(r spec.Receiver) (sender, error) {
				s, err := newSender(r, time.Now)
				return unhurried{s}, err
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		results := make([]event.Result, batch)
		for i := range results {
			results[i] = someResult("orders", i, time.Now())
		}
		b.ReportAllocs()
		cpu := processorTime(b)
		b.ResetTimer()
		for range b.N {
			n.Results([]string{"r"}, results)
			for !dead && n.worker("r").length() > 0 {
				time.Sleep(50 * time.Microsecond)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/float64(b.N)/batch, "cpu-ns/result")
		if err := n.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("to=graphite", func(b *testing.B) {
		run(b, spec.Receiver{Graphite: &spec.Graphite{Address: sink(b, nil)}}, false)
	})
	b.Run("to=nsca-xor", func(b *testing.B) {
		run(b, spec.Receiver{NSCA: &spec.NSCA{Address: sink(b, make([]byte, nscaIV+4)), Encryption: "xor"}}, false)
	})
	b.Run("to=icinga", func(b *testing.B) {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		b.Cleanup(server.Close)
		run(b, spec.Receiver{Icinga: &spec.Icinga{URL: server.URL, Insecure: true}}, false)
	})
	b.Run("to=nobody", func(b *testing.B) {
		run(b, spec.Receiver{Graphite: &spec.Graphite{Address: "127.0.0.1:1"}}, true)
	})
}

// unhurried is a sender without a pause between batches.
type unhurried struct{ sender }

func (u unhurried) capabilities() capabilities {
	a := u.sender.capabilities()
	a.pause = 0
	return a
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What it costs to accept one event: a write and a sync.
func BenchmarkEvents(b *testing.B) {
	n, err := Open(b.Context(), Options{
		Dir: b.TempDir(), Receivers: map[string]spec.Receiver{"r": {FileOut: &spec.FileOut{Path: b.TempDir() + "/out"}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	e := []event.Event{someEvent("i", 1, event.Changed, event.OK, event.Critical, time.Now())}
	b.ReportAllocs()
	for b.Loop() {
		if err := n.Events(b.Context(), []string{"r"}, e); err != nil {
			b.Fatal(err)
		}
	}
	if err := n.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
