//go:build servers && campaign

package chstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// TestCostOfPoints says what points cost, for docs/scaling-out.md: bytes on disk by
// resolution, and CPU time of ClickHouse, of points of 150 to 250 log-normal observations, as
// `bench store` has them, and of points of one to three.
func TestCostOfPoints(t *testing.T) {
	for _, kind := range []struct {
		name        string
		least, most int // observations of a point
	}{{"dense", 150, 250}, {"sparse", 1, 3}} {
		t.Run(kind.name, func(t *testing.T) {
			const wide, slots = 1000, 66 // eleven minutes: the first slot of ten minutes is over
			ctx := t.Context()
			c := nodes(t, 1)
			s := open(t, on(t, c))
			defer s.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			begin, err := c.Nodes[0].Usage()
			if err != nil {
				t.Fatal(err)
			}
			spent := func() time.Duration {
				t.Helper()
				u, err := c.Nodes[0].Usage()
				if err != nil {
					t.Fatal(err)
				}
				return u.CPU() - begin.CPU()
			}
			for slot := range int64(slots) {
				b := &store.Batch{Writer: "w", Generation: uint64(slot) + 1, Resolution: series.Base}
				for i := range wide {
					values := make([]float64, kind.least+rng.IntN(kind.most-kind.least+1))
					for k := range values {
						values[k] = math.Round(1e9*0.02*math.Exp(rng.NormFloat64())) / 1e9
					}
					b.Series = append(b.Series, storetest.Span(series.Full, "service", "shop", "tenant", fmt.Sprintf("tenant-%04d", i)))
					b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: storetest.T0 + 10*slot, Data: storetest.Dist(values...)})
				}
				if err := s.Put(ctx, b); err != nil {
					t.Fatal(err)
				}
			}
			put := spent()
			if err := s.Maintain(ctx, time.Unix(storetest.T0+2*3600, 0)); err != nil {
				t.Fatal(err)
			}
			rolled := spent() - put
			if err := s.client.exec(ctx, s.first(), "OPTIMIZE TABLE "+s.qualified("points")+" FINAL"); err != nil {
				t.Fatal(err)
			}
			r, err := s.client.read(ctx, s.first(), "SELECT partition, toUInt64(sum(rows)), toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND table = 'points' AND database = "+quote(s.address.database)+" GROUP BY partition")
			if err != nil {
				t.Fatal(err)
			}
			points, resolutions := uint64(wide*slots), 0
			for r.next() {
				partition, rows, size := r.string(), r.uint64(), r.uint64()
				p, _ := partitionNumbers(partition)
				t.Logf("%s, slots of %d s: %d rows, %.1f B a row, %.2f B a point of 10 s", kind.name, p[0], rows, float64(size)/float64(rows), float64(size)/float64(points))
				if resolutions++; p[0] == 10 && rows != points {
					t.Errorf("%d rows of 10 s, want %d", rows, points)
				}
			}
			if r.err != nil || resolutions != 4 {
				t.Errorf("%d resolutions, %v", resolutions, r.err)
			}
			million := float64(points) / 1e6
			t.Logf("%s, CPU time of ClickHouse a million points of 10 s: %.1f s for Put with merges, %.1f s for roll-ups", kind.name, put.Seconds()/million, rolled.Seconds()/million)
		})
	}
}
