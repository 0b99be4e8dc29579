package pair

import (
	"testing"
	"time"
)

func exchange(b *Ledger, copies []uint8, now int64) {
	x := b.Begin(Names{"GET /cart/{id}", "acme"}, copies, false)
	for i := range copies {
		x.Sent(i)
	}
	x.EndPrimary(Leg{Start: now, FirstByte: now + 1e6, End: now + 2e6 + now%1e6, Status: 200, Bytes: 1024})
	for i := range copies {
		x.EndCopy(i, Leg{Start: now, FirstByte: now + 1e6, End: now + 2e6 + now%999983, Status: 200, Bytes: 1024})
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, f := range []struct {
		name    string
		shadows []Shadow
	}{
		{"shadows=candidate", []Shadow{{"candidate", Candidate}}},
		{"shadows=control+candidate", both},
	} {
		copies := make([]uint8, len(f.shadows))
		for i := range copies {
			copies[i] = 1
		}
		system := func() int64 { return time.Now().UnixNano() }
		b.Run(f.name, func(b *testing.B) {
			ledger, _, c := testLedger(b, Options{Shadows: f.shadows, Now: system})
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				exchange(ledger, copies, c.nanos+i*997)
			}
		})
		b.Run(f.name+"/parallel", func(b *testing.B) {
			ledger, _, c := testLedger(b, Options{Shadows: f.shadows, Now: system})
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := c.nanos; p.Next(); i += 997 {
					exchange(ledger, copies, i)
				}
			})
		})
	}
}
