package query

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// familiesStore has gauges of 20 series each, of ten services, on each of some
// days; the service old has series on the first day only, in every tenth.
func familiesStore(t testing.TB, families, days int, begin time.Time) store.Store {
	t.Helper()
	ctx := context.Background()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	for d := range days {
		slot := begin.Unix() + int64(d)*86400
		b := &store.Batch{Writer: "test", Generation: uint64(d + 1), Resolution: series.Base}
		data := store.AppendNumber(nil, series.Number{Count: 1, Last: 1, LastTimeMillis: slot * 1000})
		for f := range families {
			name := fmt.Sprintf("family_%03d", f)
			b.Families = append(b.Families, store.FamilyInfo{Name: name, Kind: series.Gauge})
			add := func(service string, n int) {
				b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series)), Slot: slot, Data: data})
				b.Series = append(b.Series, series.Series{Family: name, Kind: series.Gauge, Labels: labels.FromStrings("n", fmt.Sprint(n), "service", service)})
			}
			for n := range 20 {
				add(fmt.Sprint("s", n%10), n)
			}
			if d == 0 && f%10 == 0 {
				add("old", 0)
			}
		}
		if err := st.Put(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// counting counts questions, and how many are under way at once.
type counting struct {
	store.Store
	asked, now, most atomic.Int64
	fail             error
}

func (c *counting) LabelValues(ctx context.Context, family string, view series.View, name string, ms []*labels.Matcher, start, end int64) ([]string, error) {
	c.asked.Add(1)
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	if c.fail != nil {
		return nil, c.fail
	}
	return c.Store.LabelValues(ctx, family, view, name, ms, start, end)
}

// The families of a service are those that have it on any day of the range;
// most are known by the last.
func TestFamiliesOfAService(t *testing.T) {
	const families, days = 50, 5
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	st := &counting{Store: familiesStore(t, families, days, begin)}
	for _, tc := range []struct {
		service    string
		start, end time.Time
		want       int
		asked      int64 // at most
	}{
		{"s3", begin, begin.AddDate(0, 0, days-1).Add(time.Hour), families, families},
		{"old", begin, begin.AddDate(0, 0, days-1).Add(time.Hour), families / 10, 2 * families},
		{"old", begin.AddDate(0, 0, 2), begin.AddDate(0, 0, days-1), 0, 2 * families},
		{"none", begin, begin.Add(time.Hour), 0, families},
	} {
		st.asked.Store(0)
		r, err := Families(t.Context(), st, FamiliesRequest{Service: tc.service, Start: tc.start, End: tc.end})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Families) != tc.want || st.asked.Load() > tc.asked {
			t.Errorf("%s: %d families by %d questions, want %d by at most %d", tc.service, len(r.Families), st.asked.Load(), tc.want, tc.asked)
		}
	}
	if n := st.most.Load(); n > familiesAtOnce {
		t.Errorf("%d questions at once, want at most %d", n, familiesAtOnce)
	}
	st.fail = errors.New("broken")
	st.asked.Store(0)
	if _, err := Families(t.Context(), st, FamiliesRequest{Service: "s3", Start: begin, End: begin.Add(time.Hour)}); !errors.Is(err, st.fail) || st.asked.Load() > familiesAtOnce+1 {
		t.Errorf("got %v after %d questions", err, st.asked.Load())
	}
}

func BenchmarkFamiliesOfAService(b *testing.B) {
	const days = 30
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	st := familiesStore(b, 500, days, begin)
	for _, service := range []string{"s3", "none"} {
		b.Run(service, func(b *testing.B) {
			for b.Loop() {
				if _, err := Families(b.Context(), st, FamiliesRequest{Service: service, Start: begin, End: begin.AddDate(0, 0, days-1).Add(time.Hour)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
