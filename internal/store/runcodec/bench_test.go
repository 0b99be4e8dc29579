//go:build unix

package runcodec

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"tailscope/hist"
)

// cpu is the processor time this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sets are what is measured; runs of about 30,000 points at most.
var sets = []struct{ series, slots, n int }{
	{1, 360, 200}, {80, 360, 200}, {1000, 10, 200}, {100, 60, 1200}, {100, 20, 12000}, {10000, 3, 2}, {10000, 1, 1},
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range sets {
		b.Run(fmt.Sprintf("series=%d/slots=%d/observations=%d", c.series, c.slots, c.n), func(b *testing.B) {
			w := workload(7, c.series, c.slots, c.n)
			n, compact := sizes(w)
			var run []byte
			start := cpu()
			for b.Loop() {
				run = pack(b, w, nil)
			}
			per := float64(n)
			b.ReportMetric(float64(cpu()-start)/float64(b.N)/per, "cpu-ns/point")
			b.ReportMetric(float64(len(run))/per, "B/point")
			b.ReportMetric(float64(compact)/per, "compact-B/point")
			b.ReportMetric(entropy(w)/per, "entropy-B/point")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range sets {
		b.Run(fmt.Sprintf("series=%d/slots=%d/observations=%d", c.series, c.slots, c.n), func(b *testing.B) {
			w := workload(7, c.series, c.slots, c.n)
			run := pack(b, w, nil)
			n, _ := sizes(w)
			d, h := new(Decoder), hist.New(hist.DefaultSchema)
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				h.Reset(hist.DefaultSchema)
				_ = d.Reset(run)
				for range w {
					d.Series()
					for {
						_, ok, err := d.More()
						if err != nil {
							b.Fatal(err)
						}
						if !ok {
							break
						}
						if err := d.Merge(h); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N)/float64(n), "cpu-ns/point")
		})
	}
}

// entropy is what the buckets' counts alone would take, in bytes, for a coder
// that knew each series' shape beforehand (the shape taken from all its
// points): the counts are then multinomial.
func entropy(series [][]entry) float64 {
	bits := 0.0
	for _, s := range series {
		all := hist.New(hist.DefaultSchema)
		for _, p := range s {
			_ = all.MergeEncoded(p.data)
		}
		for _, p := range s {
			var h hist.Histogram
			_ = h.UnmarshalBinary(p.data)
			log, _ := math.Lgamma(float64(h.Count) + 1)
			for bk := range h.All() {
				l, _ := math.Lgamma(float64(bk.Count) + 1)
				log -= l
				i := bk.Index - all.Positive.Offset
				log += float64(bk.Count) * math.Log(float64(all.Positive.Counts[i])/float64(all.Count))
			}
			bits -= log / math.Ln2
		}
	}
	return bits / 8
}
