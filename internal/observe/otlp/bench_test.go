package otlp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"tailscope/internal/agg"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/observe/traces"
	"tailscope/internal/store"
	"tailscope/test/payload"
)

const benchRequests = 1000 // 200,000 spans

// perSpan reports what a span cost since before.
func perSpan(b *testing.B, before time.Duration) {
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N)/payload.SpansPerRequest, "cpu-ns/span")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/payload.SpansPerRequest, "ns/span")
}

// BenchmarkTraces decodes requests of 200 spans: step=walk reads every field
// that matters and resolves nothing, step=map adds recognising each span among
// those seen, step=agg puts them into an aggregator that journals to a file,
// step=assemble is map that also makes what an assembler takes, step=learn is map where
// a fifth of the spans are requests whose routes are learned.
func BenchmarkTraces(b *testing.B) {
	reqs := payload.TracesAt(1, benchRequests, time.Now())
	run := func(name string, take func([]byte) error) {
		b.Run("step="+name, func(b *testing.B) {
			for _, p := range reqs { // warm
				if err := take(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(reqs[0])))
			i := 0
			before := cpu()
			for b.Loop() {
				if err := take(reqs[i%len(reqs)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			perSpan(b, before)
		})
	}
	r := testReceiver(b, nullSink{})
	d := &decoder{r: r, batch: nullBatch{}}
	run("walk", func(p []byte) error { return d.walkOnly(p) })
	run("map", func(p []byte) error { _, err := r.ingest(context.Background(), traceSignal, p); return err })
	with := reqs
	reqs = withoutRoutes(b)
	learning := testReceiver(b, nullSink{})
	run("learn", func(p []byte) error { _, err := learning.ingest(context.Background(), traceSignal, p); return err })
	reqs = with
	withNames := testReceiver(b, nullSink{})
	withNames.assembler = &nullAssembler{}
	run("assemble", func(p []byte) error {
		_, err := withNames.ingest(context.Background(), traceSignal, p)
		return err
	})
	a := openAgg(b)
	r = testReceiver(b, Into(a))
	run("agg", func(p []byte) error { _, err := r.ingest(context.Background(), traceSignal, p); return err })
	b.Logf("%+v", a.Stats())
}

// BenchmarkHistograms puts requests of 100 histograms into an aggregator that
// journals to a file, over ten slots, and flushes it into a store that drops
// what it is given.
func BenchmarkHistograms(b *testing.B) {
	for _, form := range []payload.HistogramForm{{Cumulative: true}, {Explicit: true, Cumulative: true}, {}} {
		reqs := payload.Histograms(1, payload.HistogramProcesses, 10*payload.HistogramProcesses, time.Now().Add(-5*time.Minute), form)
		b.Run(form.String(), func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				a := openAgg(b)
				r := testReceiver(b, Into(a))
				for _, p := range reqs {
					if _, err := r.ingest(context.Background(), metricSignal, p); err != nil {
						b.Fatal(err)
					}
				}
				if err := a.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			points := float64(len(reqs)) * payload.PointsPerRequest * float64(b.N)
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/points, "cpu-ns/point")
		})
	}
}

// walkOnly reads as traces does, up to the key by which a span is recognised.
func (d *decoder) walkOnly(b []byte) error {
	sel := 0
	d.payload = b
	err := eachBytes(b, 1, func(rs []byte) error {
		res, err := d.resource(rs)
		if err != nil {
			return err
		}
		d.res = res
		return eachBytes(rs, 2, func(ss []byte) error {
			return eachBytes(ss, 2, func(s []byte) error {
				var of spanFields
				if err := d.read(s, &of); err != nil {
					return err
				}
				sel += int(semconv.Select(of.of, d.present))
				return nil
			})
		})
	})
	if sel < 0 {
		return fmt.Errorf("%d", sel)
	}
	return err
}

// nullAssembler numbers identities and drops spans.
type nullAssembler struct{ names uint32 }

func (*nullAssembler) Epoch() uint32                                   { return 1 }
func (n *nullAssembler) Name(*traces.Identity) traces.Name             { n.names++; return traces.Name(n.names) }
func (n *nullAssembler) OfTenant(of traces.Name, _ string) traces.Name { return of }
func (*nullAssembler) TextBytes([]byte) traces.Text                    { return 1 }
func (*nullAssembler) Add([]traces.Span)                               {}

// openAgg opens an aggregator over a store that drops what it is given.
func openAgg(b testing.TB) *agg.Aggregator {
	b.Helper()
	a, err := agg.Open(context.Background(), dropStore{}, agg.Options{Writer: "local", Dir: b.TempDir(), MemoryBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return a
}

type dropStore struct{ store.Store }

func (dropStore) Put(context.Context, *store.Batch) error                              { return nil }
func (dropStore) Flushed(context.Context, string) (uint64, error)                      { return 0, nil }
func (dropStore) Durable(context.Context, string) (uint64, error)                      { return 0, nil }
func (dropStore) State(context.Context, string, []byte, func(k, v []byte) error) error { return nil }

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServer sends over the loopback. The CPU time is that of client and
// server together; the client sends bytes that were made before.
func BenchmarkServer(b *testing.B) {
	reqs := payload.TracesAt(1, benchRequests, time.Now())
	packed := make([][]byte, len(reqs))
	for i, r := range reqs {
		packed[i] = zip(r)
	}
	s := start(b, Options{Sink: Into(openAgg(b))})
	conn := dial(b, s)
	run := func(name string, send func(i int) error) {
		b.Run("by="+name, func(b *testing.B) {
			for i := range reqs {
				if err := send(i); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := 0
			before := cpu()
			for b.Loop() {
				if err := send(i % len(reqs)); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric((cpu()-before).Seconds()/float64(b.N)/payload.SpansPerRequest*1e6, "cpu-s/Mspan")
			perSpan(b, before)
		})
	}
	run("grpc", func(i int) error { return sendRaw(conn, exportTraces, reqs[i]) })
	run("grpc+gzip", func(i int) error { return sendRaw(conn, exportTraces, reqs[i], grpc.UseCompressor("gzip")) })
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	over := func(encoding string, bodies [][]byte) func(int) error {
		return func(i int) error {
			req, err := http.NewRequest(http.MethodPost, "http://"+s.HTTPAddr().String()+"/v1/traces", bytes.NewReader(bodies[i]))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/x-protobuf")
			req.Header.Set("Content-Encoding", encoding)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != 200 {
				return fmt.Errorf("%s", resp.Status)
			}
			return nil
		}
	}
	run("http", over("identity", reqs))
	run("http+gzip", over("gzip", packed))
}

// BenchmarkGunzip is what unpacking alone costs.
func BenchmarkGunzip(b *testing.B) {
	p := payload.Traces(1, 1)[0]
	z := zip(p)
	var out []byte
	b.SetBytes(int64(len(p)))
	before := cpu()
	for b.Loop() {
		var err error
		if out, err = gzipFormat.unpack(out[:0], z, 1<<20, func(int) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(p))/float64(len(z)), "ratio")
	perSpan(b, before)
}
