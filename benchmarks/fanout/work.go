// Package fanout is a scatter-gather system whose every time is known: nodes that
// wait, in a limited number of threads, for durations of a measured distribution,
// and an aggregator that asks them and answers when the last has. Both are
// processes of their own (benchmarks/cmd/fanout) that speak HTTP.
//
// Since leaves wait and do not work, two cores are enough for sixteen nodes, and
// what a query takes is what fan-out, rounds and queues make of the leaves: what a
// simulation of them has to come to.
package fanout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Work is the time of leaves. The same leaf of the same query always takes the same.
type Work struct {
	Seed uint64
	// Fixed is the part of a leaf's time that does not shrink with its shard.
	Fixed time.Duration
	// Together is the correlation of the normal scores of a query's leaves.
	Together float64
	// Even makes leaves nearly alike: 18 ms and a tenth of what they would take.
	Even bool
}

// Base is the number of shards for which Waits is meant.
const Base = 16

// waits are quantiles, in milliseconds, evenly spaced from 0 to 1: of all questions of
// docs/examples/solr to one shard with all documents, as measured, eight times as long
// and cut to 5 to 100 ms, so that neither timers nor cores matter.
var waits = []float64{
	5, 8.9, 10.3, 10.8, 11.4, 11.7, 12, 12.3, 12.6, 12.8, 13.2, 13.5, 13.9, 14.3,
	14.5, 14.8, 15.3, 15.6, 16, 16.4, 17.1, 17.9, 19, 19.8, 21.3, 22.4, 24.1, 25.6,
	27.5, 29.6, 31.6, 35, 37.5, 39.2, 43.5, 46.2, 49.9, 54.4, 63.5, 95.4, 100,
}

// Quantile returns the quantile function of waits at Base shards, seconds, for p in [0, 1].
func Quantile(p float64) float64 {
	at := p * float64(len(waits)-1)
	i := min(int(at), len(waits)-2)
	return (waits[i] + (at-float64(i))*(waits[i+1]-waits[i])) / 1e3
}

// Takes returns how long a leaf takes of data in so many shards.
func (w Work) Takes(query uint64, shard, shards int) time.Duration {
	own := normal(mix(w.Seed, query, uint64(shard)+1))
	common := normal(mix(w.Seed, query, 0))
	score := math.Sqrt(w.Together)*common + math.Sqrt(1-w.Together)*own
	x := Quantile(math.Erfc(-score/math.Sqrt2) / 2)
	if w.Even {
		x = 18e-3 + x/10
	}
	fixed := min(w.Fixed.Seconds(), x)
	return time.Duration((fixed + (x-fixed)*Base/float64(shards)) * float64(time.Second))
}

// mix makes a number in (0, 1) of three: splitmix64's finalizer over each in turn
// (Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Number Generators).
func mix(words ...uint64) float64 {
	h := uint64(0)
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return (float64(h>>11) + 0.5) / (1 << 53)
}

// normal returns the normal score of p in (0, 1).
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// String returns the work as ParseWork reads it.
func (w Work) String() string {
	return fmt.Sprintf("%d,%s,%g,%t", w.Seed, w.Fixed, w.Together, w.Even)
}

// ParseWork reads what String writes.
func ParseWork(s string) (w Work, err error) {
	f := strings.Split(s, ",")
	if len(f) != 4 {
		return w, fmt.Errorf("work %q: not seed,fixed,together,even", s)
	}
	if w.Seed, err = strconv.ParseUint(f[0], 10, 64); err == nil {
		if w.Fixed, err = time.ParseDuration(f[1]); err == nil {
			if w.Together, err = strconv.ParseFloat(f[2], 64); err == nil {
				w.Even, err = strconv.ParseBool(f[3])
			}
		}
	}
	if err == nil && !(w.Together >= 0 && w.Together <= 1) {
		err = fmt.Errorf("together is %g, not within 0 and 1", w.Together)
	}
	if err != nil {
		return w, fmt.Errorf("work %q: %w", s, err)
	}
	return w, nil
}
