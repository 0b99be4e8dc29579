package history

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// recent holds the samples of the last minute that were observed here.
type recent struct {
	mu       sync.RWMutex
	families map[string]*recentFamily
	count    atomic.Int64 // of families
	observed int          // since idle series were looked for
	newest   int64
}

// recentFamily lists the series of a family in the order they came.
type recentFamily struct {
	series atomic.Pointer[[]*recentSeries]
	byID   map[series.ID]*recentSeries // guarded by recent.mu
	epoch  atomic.Uint64               // changes when series were taken out
}

type recentSeries struct {
	labels labels.Labels
	kind   series.Kind

	mu      sync.Mutex
	samples []series.Sample // ascending in time
}

const (
	recentMillis = 60_000  // how long samples stay: agg flushes every ten seconds
	idleMillis   = 600_000 // without a sample a series goes after this
	sweepEvery   = 100_000 // observations
)

func (r *recent) family(family string) *recentFamily {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.families[family]
}

func (r *recent) observe(s *series.Series, v series.Sample) {
	if math.IsNaN(v.Value) {
		return
	}
	var scratch [512]byte
	id, _ := s.ID(scratch[:0])
	var e *recentSeries
	r.mu.RLock()
	if f := r.families[s.Family]; f != nil {
		e = f.byID[id]
	}
	r.mu.RUnlock()
	if e == nil {
		e = r.add(s, id)
	}
	e.add(v)
	r.mu.Lock()
	r.newest = max(r.newest, v.TimeMillis)
	if r.observed++; r.observed >= sweepEvery {
		r.observed = 0
		r.sweep()
	}
	r.mu.Unlock()
}

func (r *recent) add(s *series.Series, id series.ID) *recentSeries {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.families[s.Family]
	if f == nil {
		f = &recentFamily{byID: map[series.ID]*recentSeries{}}
		f.series.Store(&[]*recentSeries{})
		if r.families == nil {
			r.families = map[string]*recentFamily{}
		}
		r.families[s.Family] = f
		r.count.Add(1)
	}
	e := f.byID[id]
	if e == nil {
		e = &recentSeries{labels: s.Labels.Copy(), kind: s.Kind}
		f.byID[id] = e
		// Readers hold shorter slices of the same array.
		all := append(*f.series.Load(), e)
		f.series.Store(&all)
	}
	return e
}

// sweep takes out series that have had no sample for long.
func (r *recent) sweep() {
	for _, f := range r.families {
		var kept []*recentSeries
		for id, e := range f.byID {
			if _, newest, ok := e.span(); !ok || newest < r.newest-idleMillis {
				delete(f.byID, id)
			} else {
				kept = append(kept, e)
			}
		}
		if len(kept) < len(*f.series.Load()) {
			f.series.Store(&kept)
			f.epoch.Add(1)
		}
	}
}

func (e *recentSeries) add(v series.Sample) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.samples)
	if n > 0 && e.samples[n-1].TimeMillis >= v.TimeMillis {
		if e.samples[n-1].TimeMillis-v.TimeMillis <= recentMillis {
			return
		}
		n, e.samples = 0, e.samples[:0] // the clock was set back
	}
	old := 0
	for old < n && e.samples[old].TimeMillis < v.TimeMillis-recentMillis {
		old++
	}
	if old > 0 {
		e.samples = e.samples[:copy(e.samples, e.samples[old:])]
	}
	e.samples = append(e.samples, v)
}

// span returns the times of the oldest and the newest sample.
func (e *recentSeries) span() (oldest, newest int64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.samples) == 0 {
		return 0, 0, false
	}
	return e.samples[0].TimeMillis, e.samples[len(e.samples)-1].TimeMillis, true
}

// after appends the samples in (from, until], ascending.
func (e *recentSeries) after(dst []series.Sample, from, until int64) []series.Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.samples {
		if v.TimeMillis > from && v.TimeMillis <= until {
			dst = append(dst, v)
		}
	}
	return dst
}

// nearest returns the sample closest to t (ties: the earlier) within the distance.
func (e *recentSeries) nearest(t, within int64) (best series.Sample, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.samples); n == 0 || e.samples[0].TimeMillis > t+within || e.samples[n-1].TimeMillis < t-within {
		return best, false
	}
	for _, v := range e.samples {
		if d := max(v.TimeMillis-t, t-v.TimeMillis); d <= within {
			best, ok, within = v, true, d-1
		}
	}
	return best, ok
}
