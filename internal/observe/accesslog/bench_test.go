package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"context"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// benchLines are lines of a usual mix of requests in the recommended format.
func benchLines(n int) []byte {
	var b strings.Builder
	for i := range n {
		path := [...]string{"/cart/%d", "/login?x=%d", "/api/v1/orders/%08x-1111-4222-8333-444455556666", "/assets/app.%d.js", "/users/%d/photo"}[i%5]
		fmt.Fprintf(&b, `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET %s HTTP/1.1" 200 512 "https://example.com/somewhere" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36" 1772366370.%03d 0.120 "10.0.0.%d:8080" "0.100" "0.002" "0.090" "200" "backend" "t%d.example.com" "t=1772366370.100" "%032x" "-"`+"\n",
			fmt.Sprintf(path, i), i%1000, i%4, i%50, i+1)
	}
	return []byte(b.String())
}

// null takes everything and keeps nothing.
type null struct{ observations, spans int }

func (*null) SeriesTarget(series.Series) agg.Target                { return 2 }
func (*null) DeclareFamily(store.FamilyInfo)                       {}
func (*null) DeltaNumber(agg.Target, agg.StreamID, int64, float64) {}
func (*null) NamedTarget(*agg.SpanIdentity) agg.Target             { return 1 }
func (*null) RetryAfter() time.Duration                            { return 0 }
func (n *null) NewBatch() Batch                                    { return n }
func (*null) Epoch() uint32                                        { return 1 }
func (n *null) Observe(agg.Target, int64, int64, uint32)           { n.observations++ }
func (*null) Commit(context.Context) (agg.Rejects, error)          { return agg.Rejects{}, nil }
func (*null) Discard()                                             {}
func (*null) Name(*traces.Identity) traces.Name                    { return 1 }
func (n *null) AddWhole(s []traces.Span)                           { n.spans += len(s) }
func (n *null) feed(t testing.TB, c Config, lines []byte) (f *feed, block func()) {
	in := New(Options{Sink: n, Traces: n, Now: func() time.Time { return noon }})
	src, err := compile(t, c).ForLines(lines)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = in.feed(t.Context(), src, 1, "test"); err != nil {
		t.Fatal(err)
	}
	return f, func() {
		if err := f.ingestBlock(context.Background(), lines, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// From the bytes of a log to observations and spans, without what they cost
// where they go.
func BenchmarkLines(b *testing.B) {
	const n = 5000
	for _, bb := range []struct {
		name   string
		config Config
		lines  []byte
	}{
		{"format=tailscope", Config{Tenant: "host"}, benchLines(n)},
		{"format=json", Config{}, []byte(strings.Repeat(`{"time_iso8601":"2026-03-01T11:59:30+00:00","msec":"1772366370.250","request_time":0.120,"status":200,"request_method":"GET","request_uri":"/cart/4711?x=1","http_user_agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36","host":"acme.example.com","upstream_addr":"10.0.0.1:8080","upstream_response_time":"0.100","request_id":"4bf92f3577b34da6a3ce929d0e0e4736"}`+"\n", n))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			_, block := new(null).feed(b, bb.config, bb.lines)
			block()
			b.SetBytes(int64(len(bb.lines)))
			b.ReportAllocs()
			for b.Loop() {
				block()
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// A line seen before, in all but its numbers, allocates nothing.
func TestLinesAllocateNothing(t *testing.T) {
	lines := benchLines(1000)
	n := &null{}
	_, block := n.feed(t, Config{Tenant: "host"}, lines)
	block()
	if a := testing.AllocsPerRun(20, block); a > 3 { // per block of 1000
		t.Errorf("%v allocations for 1000 lines", a)
	}
	if n.observations == 0 || n.spans == 0 {
		t.Error("nothing was observed")
	}
}
