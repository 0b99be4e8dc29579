package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// chunksOf counts the chunks of the finest slots, and the runs.
func chunksOf(t *testing.T, s *Store) (chunks, runs int) {
	t.Helper()
	check(t, s.each(tierPrefix(nil, 0), func(k, _ []byte) error {
		switch k[scopePrefixLen] {
		case classChunk:
			chunks++
		case classDirectory:
			runs++
		}
		return nil
	}))
	return chunks, runs
}

// Old data is settled when it is put, once for each address, in whatever parts and order
// it comes, whether or not the store believes its clock.
func TestOldDataIsPutAsRuns(t *testing.T) {
	const hours, every = 7, 30
	const start = t0 - t0%86400
	now := time.Unix(start+2*86400, 0)
	for _, leap := range []time.Duration{0, time.Hour} {
		for _, order := range []string{"in order", "shuffled"} {
			t.Run(fmt.Sprintf("leap=%v/%s", leap, order), func(t *testing.T) {
				fs := vfs.NewMem()
				options := Options{FS: fs, LeapWait: leap, Elapsed: func() time.Duration { return time.Hour }}
				s := open(t, options)
				defer func() { s.Close() }()
				check(t, s.Maintain(t.Context(), now))
				twin := storetest.NewTwin()
				rng := rand.New(rand.NewPCG(1, 5))
				h := hist.New(hist.DefaultSchema)
				all := append(denseSeries(10), storetest.Span(series.Marginal, "service", "service-00"), storetest.Span(series.Total, "service", "service-00"))
				batches := make([]*store.Batch, 4)
				for i := range batches {
					batches[i] = &store.Batch{Writer: "w", Generation: uint64(i + 1), Resolution: series.Base, Series: all}
				}
				at := 0
				for slot := start + 17*3600; slot < start+(17+hours)*3600+600; slot += every {
					for i := range all {
						b := batches[at*len(batches)/((hours*3600+600)/every)]
						if order == "shuffled" {
							b = batches[rng.IntN(len(batches))]
						}
						b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: int64(slot - slot%10), Data: logNormal(rng, h, 1+rng.IntN(4), 0.01, 0.5)})
					}
					at++
				}
				compare := func(when string) {
					t.Helper()
					for _, q := range []store.Query{{}, {Step: 10}, {Step: 60}, {Step: 3600}, {View: series.Marginal, Step: 600}, {View: series.Total, Step: 86400}, {Each: true, Step: 600}} {
						q.Family, q.Schema, q.Start, q.End = series.SpanDuration, hist.DefaultSchema, start, start+2*86400
						got, err := s.Query(t.Context(), q)
						check(t, err)
						want, err := twin.Query(t.Context(), q)
						check(t, err)
						if d := storetest.Diff(got, want); d != "" {
							t.Fatalf("%s, %+v: %s", when, q, d)
						}
					}
				}
				for i, b := range batches {
					check(t, s.Put(t.Context(), b))
					check(t, twin.Put(t.Context(), b))
					compare(fmt.Sprint("after ", i))
					for _, again := range batches[:i+1] {
						check(t, s.Put(t.Context(), again))
					}
					compare(fmt.Sprint("again after ", i))
					if i == 0 {
						chunks, runs := chunksOf(t, s)
						if want := 3 * hours * 6 / 4; order == "in order" && runs < want-3*4 || order == "shuffled" && runs < 4*want-3*4 {
							t.Errorf("the first batch left %d runs and %d chunks", runs, chunks)
						}
					}
					if i == 1 {
						check(t, s.Maintain(t.Context(), now))
						compare("maintained")
					}
				}
				if order == "in order" {
					if settled := s.Stats().Settled; settled == 0 {
						t.Error("nothing was settled")
					}
				}
				check(t, s.Close())
				s = open(t, options)
				compare("opened again")
				check(t, s.Maintain(t.Context(), now))
				compare("opened again and maintained")
				if back, err := s.Restore(t.Context(), batches[0], false); err != nil || back.Back > 0 {
					t.Errorf("restoring what is there put back %+v, %v", back, err)
				}
				compare("restored")
			})
		}
	}
}
