package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// bounded compares a store's raw samples of the family queue, series q, with all that
// were put.
type bounded struct {
	t    rapid.TB
	st   store.Store
	keep int // least number of samples kept of each series
	read SampleReader
	gen  uint64
	put  []map[int64]float64        // by series, by ms
	gone map[int]map[int64]struct{} // by series, hours (ms) that were once missing
}

const hourMillis = 3600_000

// SampleReader reads the samples in [start, end] of the series of the family queue
// with the label q, and the times within it whose samples may have been dropped.
type SampleReader func(st store.Store, q string, start, end int64) ([]series.Sample, []store.Span, error)

// readByID reads through the contract's Samples.
func readByID(st store.Store, q string, start, end int64) ([]series.Sample, []store.Span, error) {
	s := gauge("q", q)
	id, _ := s.ID(nil)
	got, err := st.Samples(context.Background(), store.SampleQuery{Family: "queue", IDs: []series.ID{id}, StartMillis: start, EndMillis: end, Dropped: true})
	if err != nil || len(got) == 0 {
		return nil, nil, err
	}
	if len(got) > 1 || !labels.Equal(got[0].Labels, s.Labels) || got[0].Kind != s.Kind {
		return nil, nil, fmt.Errorf("the first of %d series is %v, want %v alone", len(got), got[0].Labels, s.Labels)
	}
	return got[0].Samples, got[0].Dropped, nil
}

func newBounded(t rapid.TB, st store.Store, keep, many int, read SampleReader) *bounded {
	if read == nil {
		read = readByID
	}
	b := &bounded{t: t, st: st, keep: keep, read: read, gone: map[int]map[int64]struct{}{}}
	for i := range many {
		b.put = append(b.put, map[int64]float64{})
		b.gone[i] = map[int64]struct{}{}
	}
	return b
}

func (b *bounded) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// puts stores one batch of new samples, by series: those not put before.
func (b *bounded) puts(times map[int][]int64) {
	b.t.Helper()
	b.gen++
	batch := &store.Batch{Writer: "w", Generation: b.gen, Resolution: series.Base}
	for i := range b.put {
		var ss []series.Sample
		for _, t := range times[i] {
			if _, ok := b.put[i][t]; !ok {
				b.put[i][t] = float64(t%1000) + float64(i)
				ss = append(ss, series.Sample{TimeMillis: t, Value: b.put[i][t]})
			}
		}
		slices.SortFunc(ss, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) })
		if len(ss) > 0 {
			batch.Series = append(batch.Series, gauge("q", fmt.Sprint(i)))
			batch.Samples = append(batch.Samples, store.Samples{Series: uint32(len(batch.Series) - 1), Samples: ss})
		}
	}
	b.ok(b.st.Put(context.Background(), batch))
}

// holds checks what every store promises to keep, and returns how many samples are kept,
// and how many must be. late are series that got samples later than newer ones: a few of
// those may be dropped with others of their hour.
func (b *bounded) holds(when string, late map[int]bool) (kept, must int) {
	b.t.Helper()
	ctx := context.Background()
	for i, all := range b.put {
		if len(all) == 0 {
			continue
		}
		var times []int64
		for t := range all {
			times = append(times, t)
		}
		slices.Sort(times)
		first, last := times[0]-times[0]%hourMillis, times[len(times)-1]
		got, dropped, err := b.read(b.st, fmt.Sprint(i), first, last)
		b.ok(err)
		kept += len(got)
		read, err := b.st.Samples(ctx, store.SampleQuery{Family: "queue", Matchers: equals("q", fmt.Sprint(i)), StartMillis: first, EndMillis: last})
		b.ok(err)
		if len(read) == 0 {
			read = append(read, store.SampleSeries{})
		}
		if d := sampleDiff(got, read[0].Samples); d != "" {
			b.t.Fatalf("%s: series %d: by identity and by matchers differ: %s", when, i, d)
		}
		n := min(len(times), b.keep)
		must += n
		for k := range n {
			want := times[len(times)-1-k]
			at := len(got) - 1 - k
			if at < 0 || got[at].TimeMillis != want || got[at].Value != all[want] {
				if late[i] {
					break
				}
				b.t.Fatalf("%s: series %d: of the newest %d the %dth is not there: %d found", when, i, n, k, len(got))
			}
		}
		for hour := first; hour <= last; hour += hourMillis {
			part, _, err := b.read(b.st, fmt.Sprint(i), hour, hour+hourMillis-1)
			b.ok(err)
			lo, _ := slices.BinarySearch(times, hour)
			hi, _ := slices.BinarySearch(times, hour+hourMillis)
			if slices.ContainsFunc(dropped, func(d store.Span) bool { return hour >= d.Start && hour < d.End }) {
				if hi > lo { // an hour without samples of any series is not recorded, and may yet be
					b.gone[i][hour] = struct{}{}
				}
				if len(part) > 0 {
					b.t.Fatalf("%s: series %d, hour %d: dropped, and yet there are %d samples", when, i, (hour-first)/hourMillis, len(part))
				}
				continue
			}
			if _, ok := b.gone[i][hour]; ok {
				b.t.Fatalf("%s: series %d, hour %d: kept again", when, i, (hour-first)/hourMillis)
			}
			if len(part) != hi-lo {
				b.t.Fatalf("%s: series %d, hour %d: said to be kept, %d of %d samples", when, i, (hour-first)/hourMillis, len(part), hi-lo)
			}
			for k, v := range part {
				if v.TimeMillis != times[lo+k] || v.Value != all[v.TimeMillis] {
					b.t.Fatalf("%s: series %d, hour %d: sample %d is %v", when, i, (hour-first)/hourMillis, k, v)
				}
			}
			if len(part) > 0 {
				mid := part[len(part)/2]
				near, err := b.st.Nearest(ctx, "queue", equals("q", fmt.Sprint(i)), mid.TimeMillis)
				if err != nil || len(near) != 1 || near[0].Samples[0] != mid {
					b.t.Fatalf("%s: series %d: nearest to %v is %v, %v", when, i, mid, near, err)
				}
			}
		}
	}
	return kept, must
}

// sampleDiff describes the first difference of got and want.
func sampleDiff(got, want []series.Sample) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Sprintf("got %d, want %d, other from %d on: %v and %v", len(got), len(want), i, got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
		}
	}
	return ""
}

// suiteSamples is how many samples of each series the stores of the suite must keep.
const suiteSamples = 15_000

// testSampleBounds has fast series beside slow ones: none keeps the samples of others
// for longer.
func testSampleBounds(t *testing.T, st store.Store) {
	const many, hours = 4, 14
	b := newBounded(t, st, suiteSamples, many, nil)
	every := [many]int64{1000, 1500, 600_000, 3_000_000}
	for h := range int64(hours) {
		times := map[int][]int64{}
		for i, e := range every {
			for at := int64(0); at < hourMillis; at += e {
				times[i] = append(times[i], T0*1000+h*hourMillis+at)
			}
		}
		b.puts(times)
		check(t, st.Maintain(context.Background(), time.Unix(T0+(h+1)*3600, 0)))
		if h%3 == 0 {
			b.holds(fmt.Sprint("after ", h, " hours"), nil)
		}
	}
	for range 2 { // the second time there is nothing left to do
		check(t, st.Maintain(context.Background(), time.Unix(T0+(hours+1)*3600, 0)))
		kept, must := b.holds("in the end", nil)
		if _, all := st.(*Twin); !all && kept > 2*must+2*(3600+2400) {
			t.Errorf("%d samples are kept, %d must be", kept, must)
		}
	}
	// Late samples for an hour whose samples were dropped are dropped too.
	b.puts(map[int][]int64{0: {T0*1000 + 1}, 2: {T0*1000 + 1}})
	b.holds("late", nil)
	check(t, st.Maintain(context.Background(), time.Unix(T0+(hours+2)*3600, 0)))
	b.holds("late, maintained", nil)
}

// RunSampleBounds plays random puts of series of different speed, some late, and
// maintenance, on stores that keep few samples of each, and reads them through read,
// default Samples. reopen, if not nil, sometimes replaces the store by one as after a
// crash.
func RunSampleBounds(t *testing.T, keep int, read SampleReader, open func(t *testing.T) store.Store, reopen func(t *testing.T, st store.Store) store.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		const many = 5
		b := newBounded(rt, open(t), keep, many, read)
		defer func() { b.ok(b.st.Close()) }()
		late := map[int]bool{}
		every := [many]int64{}
		for i := range every {
			every[i] = rapid.SampledFrom([]int64{30_000, 60_000, 600_000, 5_000_000}).Draw(rt, "every")
		}
		now := int64(T0) * 1000
		for range rapid.IntRange(3, 16).Draw(rt, "operations") {
			switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
			case op < 5:
				length := rapid.SampledFrom([]int64{600_000, hourMillis, 2 * hourMillis}).Draw(rt, "length")
				times := map[int][]int64{}
				for i, e := range every {
					for at := now - now%e + e; at <= now+length; at += e {
						times[i] = append(times[i], at+rng.Int64N(1000))
					}
				}
				now += length
				b.puts(times)
			case op == 5:
				i := rng.IntN(many)
				b.puts(map[int][]int64{i: {T0*1000 + rng.Int64N(now-T0*1000+1)}})
				late[i] = true
			case op < 9:
				b.ok(b.st.Maintain(context.Background(), time.UnixMilli(now+rng.Int64N(2*hourMillis))))
			case reopen != nil:
				b.st = reopen(t, b.st)
				for i := range b.gone { // maintenance may have been undone
					clear(b.gone[i])
				}
			}
			if b.gen > 0 && rng.IntN(2) == 0 {
				b.holds("", late)
			}
		}
	})
}
