package profile

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/strictyaml"
)

// Learned is a profile that was made from what was seen. It encodes as JSON.
//
// Samples are gathered by kind of day and hour of the local clock. Of each such
// hour the quantiles Low, Middle and High are taken (Hyndman and Fan, American
// Statistician 50 (1996), definition 7) after outliers have been left out. They
// hold for the whole hour, without a line between hours: values from 09:00 to 10:00 are
// judged by what was seen from 09:00 to 10:00, also where a job begins at 09:00.
//
// Outliers are left out in two steps. First whole days: where the median of a
// day's samples of the hour lies far from those of the other days, as in an
// outage, that day does not count. Then single samples, for each side of the
// median by itself, because latencies and counts are skewed. Neither is done if
// it concerned more than one day and a quarter of them: what comes again is
// not an outlier, however odd. Far is beyond 8 in the modified z-score of Iglewicz and
// Hoaglin (How to Detect and Handle Outliers, ASQC 1993, 3.3): 0.6745·distance/MAD,
// or distance/(1.2533·mean deviation) where the MAD is 0. They advise 3.5; but of
// lognormal noise with sigma 1 that takes 4 per cent, and the upper quantile would
// sink by a quarter; 8 takes half a per cent.
//
// An hour with fewer than Least samples also takes those of the hour before and
// after it, then of two, as percentiles of days of the year are taken from a
// window of days in climatology (Zhang and others, Journal of Climate 18 (2005),
// 1641); one that still has too few has no threshold. Quantiles describe what was
// seen: samples that follow each other are alike, and nothing here claims that
// they were drawn independently.
type Learned struct {
	At    time.Time `json:"at"` // the samples' end
	By    string    `json:"by"`
	Over  float64   `json:"over_seconds"`
	Low   float64   `json:"low"` // the quantiles, 0-1
	Mid   float64   `json:"middle"`
	High  float64   `json:"high"`
	Least int       `json:"least"`
	Kinds []Kind    `json:"kinds"`
}

// Kind is one kind of day.
type Kind struct {
	Name     string         `json:"name"` // every day, mon-fri, sat-sun, mon…sun
	Weekdays []time.Weekday `json:"weekdays"`
	Hours    [24]Hour       `json:"hours"`
}

// Hour is one hour of a kind of day.
type Hour struct {
	Low      float64 `json:"low"`
	Middle   float64 `json:"middle"`
	High     float64 `json:"high"`
	Samples  int     `json:"samples"`  // that the quantiles are of
	Outliers int     `json:"outliers"` // that were left out besides
	Window   int     `json:"window"`   // hours taken in on either side
	None     bool    `json:"none"`     // too few; the numbers are 0
}

// ends of a learned hour's window, in hours.
const widest = 2

var kinds = map[string][]Kind{
	"hour": {{Name: "every day", Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6}}},
	"weekday-weekend": {
		{Name: "mon-fri", Weekdays: []time.Weekday{1, 2, 3, 4, 5}},
		{Name: "sat-sun", Weekdays: []time.Weekday{6, 0}},
	},
	"weekday": {
		{Name: "mon", Weekdays: []time.Weekday{1}}, {Name: "tue", Weekdays: []time.Weekday{2}},
		{Name: "wed", Weekdays: []time.Weekday{3}}, {Name: "thu", Weekdays: []time.Weekday{4}},
		{Name: "fri", Weekdays: []time.Weekday{5}}, {Name: "sat", Weekdays: []time.Weekday{6}},
		{Name: "sun", Weekdays: []time.Weekday{0}},
	},
}

// Defaults fills in what a Learn leaves out.
func Defaults(l spec.Learn) spec.Learn {
	var usual spec.Learn
	strictyaml.Fill(&usual, nil)
	if l.Low == 0 && l.Middle == 0 && l.High == 0 {
		l.Low, l.Middle, l.High = usual.Low, usual.Middle, usual.High
	}
	l.By, l.Over, l.Least = cmp.Or(l.By, usual.By), cmp.Or(l.Over, usual.Over), cmp.Or(l.Least, usual.Least)
	l.Refresh = cmp.Or(l.Refresh, spec.Refresh{Every: 24 * time.Hour})
	return l
}

func checkLearn(l *spec.Learn, line int) error {
	d := Defaults(*l)
	switch {
	case kinds[d.By] == nil:
		return &Error{line, fmt.Sprintf("learn by %q is not known", d.By), "write hour, weekday-weekend or weekday"}
	case !(0 <= d.Low && d.Low < d.Middle && d.Middle < d.High && d.High <= 1):
		return &Error{line, fmt.Sprintf("learn low %g, middle %g and high %g do not rise within 0 to 1", d.Low, d.Middle, d.High), "write quantiles such as 0.05, 0.5 and 0.95"}
	case d.Over < 24*time.Hour:
		return &Error{line, fmt.Sprintf("learn over %s is less than a day", d.Over), "write 28d, or at least 1d"}
	case d.Least < 1:
		return &Error{line, fmt.Sprintf("learn least %d is not a number of samples", d.Least), "write 1 or more"}
	}
	return nil
}

// Learn makes a profile from the samples of [end−Over, end), in any order; those
// outside, and values that are not finite, are left out. A holiday of the calendar
// counts as a Sunday, here and in what Compile makes. It holds all samples in
// memory, 8 bytes each.
func Learn(l spec.Learn, cal *Calendar, end time.Time, samples iter.Seq2[time.Time, float64]) (*Learned, error) {
	if err := checkLearn(&l, 0); err != nil {
		return nil, err
	}
	l = Defaults(l)
	r := &Learned{At: end, By: l.By, Over: l.Over.Seconds(), Low: l.Low, Mid: l.Middle, High: l.High, Least: l.Least, Kinds: slices.Clone(kinds[l.By])}
	var kindOf [7]int
	for k := range r.Kinds {
		for _, w := range r.Kinds[k].Weekdays {
			kindOf[w] = k
		}
	}
	seen := gather(cal, kindOf, len(r.Kinds), end.Add(-l.Over), end, samples)
	for k := range r.Kinds {
		for h := range 24 {
			for window := 0; ; window++ {
				some := seen.around(k, h, window)
				if some.count() >= l.Least || window == widest {
					r.Kinds[k].Hours[h] = some.learn(l, window)
					break
				}
			}
		}
	}
	return r, nil
}

// heap is the samples of one hour of one day.
type heap struct {
	day  day
	v    []float64 // sorted once all are there
	m, d float64   // median, and median distance from it
}

// heaps are those of some hours of one kind of day, in any order.
type heaps []*heap

// samples are heaps by kind of day and hour.
type samples [][24]heaps

func gather(cal *Calendar, kindOf [7]int, kinds int, start, end time.Time, from iter.Seq2[time.Time, float64]) samples {
	all := make(samples, kinds)
	zone := cal.Zone()
	type slot struct {
		day  day
		hour int
	}
	known := map[slot]*heap{}
	var last slot
	var into *heap
	for t, v := range from {
		if t.Before(start) || !t.Before(end) || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		t = t.In(zone)
		if s := (slot{on(t), t.Hour()}); into == nil || s != last {
			last, into = s, known[s]
			if into == nil {
				into = &heap{day: s.day}
				known[s] = into
				w := s.day.weekday()
				if cal.holiday(s.day) {
					w = time.Sunday
				}
				h := &all[kindOf[w]][s.hour]
				*h = append(*h, into)
			}
		}
		into.v = append(into.v, v)
	}
	var distances []float64
	for _, h := range known {
		slices.Sort(h.v)
		h.m = quantile(h.v, 0.5)
		distances = distances[:0]
		for _, v := range h.v {
			distances = append(distances, math.Abs(v-h.m))
		}
		slices.Sort(distances)
		h.d = quantile(distances, 0.5)
	}
	return all
}

// around takes the hours h−window to h+window of a kind of day. Of a single
// weekday they go on into the days beside it; of several they end at midnight; of
// all they go around.
func (s samples) around(k, h, window int) (some heaps) {
	for i := h - window; i <= h+window; i++ {
		hour, kind := (i+24)%24, k
		if hour != i {
			if len(s) == 2 {
				continue
			}
			if i < 0 {
				kind = (k + len(s) - 1) % len(s)
			} else {
				kind = (k + 1) % len(s)
			}
		}
		some = append(some, s[kind][hour]...)
	}
	return some
}

func (some heaps) count() (n int) {
	for _, h := range some {
		n += len(h.v)
	}
	return n
}

func (some heaps) learn(l spec.Learn, window int) Hour {
	n := some.count()
	some = some.usual()
	v := make([]float64, 0, n)
	for _, h := range some {
		v = append(v, h.v...)
	}
	slices.Sort(v)
	low, high := limits(v)
	if some.rare(func(h *heap) bool { return h.v[0] < low }) {
		from, _ := slices.BinarySearch(v, low)
		v = v[from:]
	}
	if some.rare(func(h *heap) bool { return h.v[len(h.v)-1] > high }) {
		to, _ := slices.BinarySearch(v, math.Nextafter(high, math.Inf(1)))
		v = v[:to]
	}
	h := Hour{Samples: len(v), Outliers: n - len(v), Window: window}
	if len(v) < l.Least {
		h.None = true
		return h
	}
	h.Low, h.Middle, h.High = quantile(v, l.Low), quantile(v, l.Middle), quantile(v, l.High)
	return h
}

// rare reports whether something is so on few enough days to be left out, see
// Learned.
func (some heaps) rare(is func(*heap) bool) bool {
	n := 0
	for _, h := range some {
		if is(h) {
			n++
		}
	}
	return n <= max(1, len(some)/4)
}

// cut is the modified z-score beyond which something is far, see Learned.
const cut = 8

// usual leaves out the days whose medians lie far from those of the others, by
// the spread between days and that within them together.
func (some heaps) usual() heaps {
	if len(some) < 3 {
		return some
	}
	medians, within := make([]float64, len(some)), make([]float64, len(some))
	for i, h := range some {
		medians[i], within[i] = h.m, h.d
	}
	slices.Sort(medians)
	slices.Sort(within)
	m := quantile(medians, 0.5)
	between := make([]float64, len(some))
	for i, v := range medians {
		between[i] = math.Abs(v - m)
	}
	slices.Sort(between)
	far := cut * (quantile(within, 0.5) + quantile(between, 0.5)) / 0.6745
	if far == 0 {
		far = reach(between)
	}
	odd := func(h *heap) bool { return math.Abs(h.m-m) > far }
	if !some.rare(odd) {
		return some
	}
	return slices.DeleteFunc(slices.Clone(some), odd)
}

// limits returns the bounds beyond which a sample is an outlier. They are infinite for
// too few samples.
func limits(sorted []float64) (low, high float64) {
	if len(sorted) < 4 {
		return math.Inf(-1), math.Inf(1)
	}
	m := quantile(sorted, 0.5)
	var below, above []float64 // distances, sorted
	for _, v := range slices.Backward(sorted) {
		if v <= m {
			below = append(below, m-v)
		}
	}
	for _, v := range sorted {
		if v >= m {
			above = append(above, v-m)
		}
	}
	return m - reach(below), m + reach(above)
}

// reach is the distance beyond which something is an outlier, from sorted
// distances.
func reach(distances []float64) float64 {
	if mad := quantile(distances, 0.5); mad > 0 {
		return cut * mad / 0.6745
	}
	var sum float64
	for _, d := range distances {
		sum += d
	}
	return cut * 1.2533 * sum / float64(max(1, len(distances)))
}

// quantile is Hyndman and Fan's definition 7 of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Fits reports whether it was learned as l says now; if not it is to be learned
// again, whenever it was.
func (l *Learned) Fits(now spec.Learn) bool {
	d := Defaults(now)
	return l.By == d.By && l.Over == d.Over.Seconds() && l.Low == d.Low && l.Mid == d.Middle && l.High == d.High && l.Least == d.Least
}

// Empty reports that no hour had enough samples.
func (l *Learned) Empty() bool {
	for i := range l.Kinds {
		for _, h := range l.Kinds[i].Hours {
			if !h.None {
				return false
			}
		}
	}
	return true
}

// Compile makes the profile that takes the place of the one that is learned.
func (l *Learned) Compile(name string, cal *Calendar) (*Profile, error) {
	return Compile(name, l.Profile("", cal), cal, func(src string, line int) (*expr.Program, error) {
		return nil, &Error{line, fmt.Sprintf("%q is not a number", src), ""}
	})
}
