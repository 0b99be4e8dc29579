package record

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// session makes requests as of a shop: a few operations, thousands of items, a
// trace of its own for each, fields of browsers.
func session(n int) []Entry {
	r := rand.New(rand.NewPCG(1, 2))
	agents := []string{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
		"okhttp/4.12.0",
	}
	at := time.Duration(0)
	out := make([]Entry, n)
	for i := range out {
		at += time.Duration(r.ExpFloat64() * 1e6)
		e := &out[i]
		*e = Entry{Offset: at, Method: "GET", Host: "shop.example.com", BodyBytes: 0, Status: 200, AnswerBytes: r.Int64N(5000), Tenant: fmt.Sprintf("tenant-%d", int(r.ExpFloat64()*20))}
		e.FirstByte = time.Duration(1e6 * (1 + r.ExpFloat64()))
		e.Total = e.FirstByte + time.Duration(r.Int64N(1e5))
		switch v := r.IntN(10); {
		case v < 6:
			e.Operation, e.Target = "GET /items/{id}", fmt.Sprintf("/items/%d", r.IntN(20000))
		case v < 9:
			e.Operation, e.Target = "GET /search", fmt.Sprintf("/search?q=word%d&page=%d", r.IntN(3000), r.IntN(5))
		default:
			e.Method, e.Operation, e.Target, e.Status = "POST", "POST /cart", "/cart", 201
			e.Body = fmt.Appendf(nil, `{"item":%d,"count":%d,"note":"gift for customer %d"}`, r.IntN(20000), 1+r.IntN(4), r.IntN(100000))
			e.BodyBytes = int64(len(e.Body))
		}
		e.Fields = []Field{
			{"User-Agent", agents[r.IntN(3)]}, {"Accept", "application/json, text/plain, */*"},
			{"Accept-Language", "en-GB,en;q=0.5"}, {"Accept-Encoding", "gzip, deflate, br, zstd"},
			{"Cookie", fmt.Sprintf("sid=%d", r.IntN(2000))},
			{"Traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", r.Uint64(), r.Uint64(), r.Uint64())},
			{"X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", r.IntN(4), r.IntN(256), r.IntN(256))},
		}
	}
	return out
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// BenchmarkWrite writes a whole session; the queue is large enough for all of it.
func BenchmarkWrite(b *testing.B) {
	entries := session(20000)
	for _, bodies := range []bool{false, true} {
		b.Run(fmt.Sprintf("bodies=%v", bodies), func(b *testing.B) {
			b.ReportAllocs()
			bytes, raw := int64(0), int64(0)
			for _, e := range entries {
				raw += int64(len(e.Method) + len(e.Target) + len(e.Host) + 30)
				for _, f := range e.Fields {
					raw += int64(len(f.Name) + len(f.Value) + 4)
				}
				if bodies {
					raw += int64(len(e.Body))
				}
			}
			for b.Loop() {
				w := newWriter(b, discard{}, Options{Header: Header{Bodies: bodies}, Queue: 1 << 30})
				for _, e := range entries {
					for !offer(w, e) {
						time.Sleep(time.Millisecond)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				bytes = w.State().Bytes
			}
			n := float64(len(entries))
			b.ReportMetric(float64(bytes)/n, "B/request")
			b.ReportMetric(float64(raw)/n, "sentB/request")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n/float64(b.N), "ns/request")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	var buf buffer
	w := newWriter(b, &buf, Options{Header: Header{Bodies: true}, Queue: 1 << 30})
	for _, e := range session(20000) {
		for !offer(w, e) {
			time.Sleep(time.Millisecond)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, got, _, err := all(b, buf.Bytes()); err != io.EOF || len(got) != 20000 {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/20000/float64(b.N), "ns/request")
}
