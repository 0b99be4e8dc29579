// Package seconds keeps the newest minutes of requests in slots of one second, in memory,
// so that a gross change is seen within a minute.
//
// The aggregator appends an Observation for each request that it accepts to the ring's
// log (Begin, End), which takes a few nanoseconds and never allocates. Fold, called once
// a second by Run, sorts the log into seconds. Series are a service's operations, by
// environment, kind and whether they failed; tenants are not told apart. Read returns them. A service
// without spans of kind server or consumer has those of all kinds as its requests.
//
// A second holds a histogram in hist's binary form for each series with requests. It is
// sealed once most of it has come, and sealed anew when more does. Ripe reports how long
// after its end a second of a service should be waited for, from how late its requests
// arrived before.
//
// Memory is bounded. Beyond the bound the series with the fewest requests are left out,
// and a service of which one is left out cannot be read. The ring is empty after a start:
// Read reports from when on it is complete.
package seconds

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
)

// Options configures a Ring. The zero value of every field means its default.
type Options struct {
	Keep     time.Duration    // how long seconds are kept; default 15 min
	Bytes    int64            // bound on memory; default 32 MiB
	Log      int              // observations between two folds; more are left out; default 65,536, or an eighth of Bytes if that is less
	MaxNames int              // series; default 16,384
	Now      func() time.Time // default time.Now
}

func (o *Options) ensureDefaults() {
	if o.Keep <= 0 {
		o.Keep = 15 * time.Minute
	}
	if o.Bytes <= 0 {
		o.Bytes = 32 << 20
	}
	if o.Log <= 0 {
		o.Log = int(min(1<<16, o.Bytes/8/(2*observationBytes)))
	}
	if o.MaxNames <= 0 {
		o.MaxNames = 1 << 14
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Observation is a request that stands for Weight requests.
type Observation struct {
	Series uint32 // as Number returned it
	Weight uint32
	Second uint32 // Unix, in which it ended
	Came   uint32 // Unix, in which it was accepted
	Nanos  int64  // duration
}

const (
	observationBytes, secondBytes, nameBytes, lagBytes = 24, 104, 224, 16*(mostLag+1) + 64
	// ahead is how far ahead of the clock a second may lie, in seconds: as far as the
	// aggregator accepts.
	ahead = 600
	// sealAfter is the age at which a second is sealed, and sealBeyond the number of
	// observations from which on it is sealed before.
	sealAfter, sealBeyond = 6, 1 << 12
	// mostLag is the longest lag that is told from longer ones, in seconds.
	mostLag = 60
	// forgetLag is how long a lag counts after the last request that had it or a longer
	// one, in seconds. What a sender that was cut off, or an import, sent at once is not how
	// late a service is.
	forgetLag = 60
)

// Spare reports whether the log may take another observation of series n, whose service
// serves nobody: those take at most an othersShare of it. What is left out makes its
// service incomplete, and no other. Call it between Begin and End.
func (r *Ring) Spare(n uint32) bool {
	if r.others < cap(r.log)/othersShare {
		r.others++
		return true
	}
	r.dropped++
	r.Skip(r.kept[n].service)
	return false
}

// Skip says that observations of a service were left out. Call it between Begin and End.
func (r *Ring) Skip(service string) { r.short[service] = struct{}{} }

// othersShare of the log is for services that serve nobody, as a divisor.
const othersShare = 4

// Stats are running totals, and present sizes.
type Stats struct {
	Observations uint64 // folded into seconds
	Overflowed   uint64 // left out because the log was full: the ring is then complete from the next second on
	LeftOut      uint64 // of series that are left out
	Series       int    // that are kept
	SeriesOut    int    // that are left out
	Bytes        int64
}

// Ring holds the newest seconds. Its methods are safe for concurrent use.
type Ring struct {
	o Options

	logMu   sync.Mutex
	log     []Observation // what was accepted since the last fold; capacity Options.Log
	full    uint64        // observations that found it full
	epoch   uint32        // changes when numbers are given anew
	names   map[name]uint32
	kept    []name              // by number; 0 is never used
	refused map[string]struct{} // services with series beyond Options.MaxNames
	kick    chan struct{}
	others  int                 // observations in log that Spare has let in
	dropped uint64              // and those that it has not
	short   map[string]struct{} // services of which some was left out since the last fold

	mu      sync.RWMutex
	began   int64  // the first second that can be complete
	newest  int64  // the last fold, Unix seconds
	seen    []name // kept, as of the last fold
	without map[string]struct{}
	ring    []second
	state   []state          // by number
	whole   map[string]int64 // the first second from which on a service is complete, if that is not the ring's
	lags    map[string]*lag
	lastLag *lag // that of lastOf
	lastOf  string
	free    [][]Observation // buffers of seconds that are sealed
	bytes   int64
	minute  int64  // of the last aging
	renewed int64  // when numbers were last given anew
	lost    uint64 // full, as of the last fold
	pressed bool   // series were left out
	stats   Stats
	spare   []Observation // the other log
	scratch scratch
}

// name identifies a series.
type name struct {
	service, environment, operation, kind string
	failed                                bool
}

// state is what is known of a series.
type state struct {
	requests float64 // recent ones, halved each minute
	since    int64   // the first second that is complete; 0 is the ring's
	out      bool    // left out for lack of memory
}

// lag counts how many seconds after theirs requests of a service came.
type lag struct {
	n    [mostLag + 1]float64
	last [mostLag + 1]int64 // Unix second in which the last one of each came
}

// second holds the requests that ended in one second: those of series ids[i] in data up
// to ends[i].
type second struct {
	at      int64 // Unix
	ids     []uint32
	ends    []uint32
	data    []byte
	pending []Observation // not sealed yet
}

// New returns an empty ring.
func New(o Options) *Ring {
	o.ensureDefaults()
	now := o.Now().Unix()
	r := &Ring{
		o: o, began: now + 1, newest: now, minute: now / 60,
		log: make([]Observation, 0, o.Log), spare: make([]Observation, 0, o.Log),
		kick: make(chan struct{}, 1), names: map[name]uint32{}, kept: make([]name, 1), refused: map[string]struct{}{}, short: map[string]struct{}{}, whole: map[string]int64{},
		seen: make([]name, 1), state: make([]state, 1), lags: map[string]*lag{}, renewed: now,
		ring: make([]second, int(o.Keep/time.Second)+ahead),
	}
	r.bytes = 2*int64(o.Log)*observationBytes + int64(len(r.ring))*secondBytes
	return r
}

// Run folds the log once a second, and when it is half full, until ctx is done.
func (r *Ring) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.kick:
		}
		r.Fold()
	}
}

// Keep returns how long seconds are kept, in seconds.
func (r *Ring) Keep() int64 { return int64(r.o.Keep / time.Second) }

// Begin locks the log and returns it, with the epoch of the numbers of series. Append to
// the log at most up to its capacity, and call End.
func (r *Ring) Begin() (log []Observation, epoch uint32) {
	r.logMu.Lock()
	return r.log, r.epoch
}

// Number returns the number of the series that requests with these labels belong to, or 0
// if there are too many. It is valid in the epoch that Begin returned. The caller is
// between Begin and End.
func (r *Ring) Number(l labels.Labels) uint32 {
	n := name{l.Get(series.LabelService), l.Get(series.LabelEnvironment), l.Get(series.LabelOperation), l.Get(series.LabelKind), l.Get(series.LabelStatus) == statusError}
	if i, ok := r.names[n]; ok {
		return i
	}
	if len(r.kept) > r.o.MaxNames {
		r.refused[n.service] = struct{}{}
		return 0
	}
	i := uint32(len(r.kept))
	r.names[n] = i
	r.kept = append(r.kept, n)
	return i
}

const statusError = series.StatusError

// End takes the log back, with what was appended, and unlocks it. Full is the number of
// observations that it had no space for.
func (r *Ring) End(log []Observation, full int) {
	r.log = log
	r.full += uint64(full)
	half := 2*len(log) >= cap(log) || 2*r.others >= cap(log)/othersShare
	r.logMu.Unlock()
	if half {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// Stats returns the totals so far.
func (r *Ring) Stats() Stats {
	r.logMu.Lock()
	full, dropped := r.full, r.dropped
	r.logMu.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.stats
	s.Overflowed, s.Bytes = full+dropped, r.bytes
	for i := range r.state[1:] {
		if r.state[1+i].out {
			s.SeriesOut++
		} else {
			s.Series++
		}
	}
	return s
}

// Group is the requests of an operation in an environment, a histogram a slot, nil where
// there were none. They are the caller's.
type Group struct {
	Service, Environment, Operation string
	Good, Failed                    []*hist.Histogram
}

// Since returns the first second from which on everything of a service is complete; ok
// is false while some of it is left out.
func (r *Ring) Since(service string) (second int64, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.since(service)
}

func (r *Ring) since(service string) (second int64, ok bool) {
	if _, refused := r.without[service]; refused {
		return 0, false
	}
	second = max(r.began, r.newest-r.Keep(), r.whole[service])
	for i, n := range r.seen {
		if s := &r.state[i]; n.service == service {
			if s.out {
				return 0, false
			}
			second = max(second, s.since)
		}
	}
	return second, true
}

// Ripe returns how long after its end a second of a service is complete but for one
// request in a thousand, in seconds: at least 3. An empty name stands for all services
// together. ok is false if that is unknown, or longer than 30. Lags longer than any of the
// last minute are forgotten.
func (r *Ring) Ripe(service string) (seconds int64, ok bool) {
	const least, most, share, fewest = 3, 30, 0.001, 20
	r.mu.RLock()
	defer r.mu.RUnlock()
	l := r.lags[service]
	if service == "" {
		l = new(lag)
		for _, x := range r.lags {
			for i := range x.n {
				l.n[i] += x.n[i]
				l.last[i] = max(l.last[i], x.last[i])
			}
		}
	}
	if l == nil {
		return 0, false
	}
	top := mostLag
	for top >= 0 && l.last[top] < r.newest-forgetLag {
		top--
	}
	total := 0.0
	for _, n := range l.n[:top+1] {
		total += n
	}
	if total < fewest {
		return 0, false
	}
	later := total
	for i, n := range l.n[:top+1] {
		if later -= n; later <= share*total {
			seconds = max(least, int64(i)+1)
			return seconds, seconds <= most
		}
	}
	return 0, false
}

// Read returns the requests of a service in slots of step seconds of [start, end), Unix
// seconds: its spans of kind server or consumer, or all of them if it has neither there.
// matches may be nil, and selects series.
func (r *Ring) Read(service string, matches func(environment, operation, kind, status string) bool, start, end, step int64) ([]Group, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	type key struct{ environment, operation string }
	index := map[key]int{}
	var out []Group
	slots := int((end - start) / step)
	var found, entries []uint32
	for i, n := range r.seen {
		status := "ok"
		if n.failed {
			status = statusError
		}
		if n.service != service || i == 0 || matches != nil && !matches(n.environment, n.operation, n.kind, status) {
			continue
		}
		if found = append(found, uint32(i)); series.IsRequest(n.kind) {
			entries = append(entries, uint32(i))
		}
	}
	if len(entries) < len(found) && r.holds(entries, start, start+int64(slots)*step) {
		found = entries
	}
	of := map[uint32]int{} // groups, by number of the series
	for _, i := range found {
		n := &r.seen[i]
		k := key{n.environment, n.operation}
		g, ok := index[k]
		if !ok {
			g = len(out)
			index[k] = g
			out = append(out, Group{Service: service, Environment: n.environment, Operation: n.operation, Good: make([]*hist.Histogram, slots), Failed: make([]*hist.Histogram, slots)})
		}
		of[i] = g
	}
	for t := start; t < start+int64(slots)*step; t++ {
		s := r.second(t)
		if s.at != t {
			continue
		}
		for _, n := range found {
			i, ok := slices.BinarySearch(s.ids, n)
			if !ok {
				continue
			}
			g := &out[of[n]]
			to := g.Good
			if r.seen[n].failed {
				to = g.Failed
			}
			h := &to[(t-start)/step]
			if *h == nil {
				*h = &hist.Histogram{}
				if err := (*h).UnmarshalBinary(s.of(i)); err != nil {
					return nil, err
				}
			} else if err := (*h).MergeEncoded(s.of(i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Counts returns how many spans of a service in an environment, of any kind, ended in each
// second of [start, end), Unix seconds, as far as they have come.
func (r *Ring) Counts(service, environment string, start, end int64) []float64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := map[uint32]bool{}
	for i, n := range r.seen {
		if i > 0 && n.service == service && n.environment == environment {
			of[uint32(i)] = true
		}
	}
	out := make([]float64, max(0, end-start))
	var h hist.Histogram
	for i := range out {
		s := r.second(start + int64(i))
		if s.at != start+int64(i) {
			continue
		}
		for k, id := range s.ids {
			if of[id] {
				h.Reset(hist.DefaultSchema)
				if h.UnmarshalBinary(s.of(k)) == nil { // encoded here, so it decodes
					out[i] += float64(h.Count)
				}
			}
		}
		for _, o := range s.pending {
			if of[o.Series] {
				out[i] += float64(o.Weight)
			}
		}
	}
	return out
}

// holds reports whether a second of [start, end) has a request of one of the series.
func (r *Ring) holds(numbers []uint32, start, end int64) bool {
	for t := start; t < end; t++ {
		if s := r.second(t); s.at == t && slices.ContainsFunc(numbers, func(n uint32) bool {
			_, ok := slices.BinarySearch(s.ids, n)
			return ok
		}) {
			return true
		}
	}
	return false
}

// second returns the place of a second.
func (r *Ring) second(t int64) *second { return &r.ring[int(t%int64(len(r.ring)))] }

// of returns the histogram of series ids[i].
func (s *second) of(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.data[from:s.ends[i]]
}

func (s *second) bytes() int64 {
	return int64(cap(s.ids)+cap(s.ends))*4 + int64(cap(s.data)) + int64(cap(s.pending))*observationBytes
}
