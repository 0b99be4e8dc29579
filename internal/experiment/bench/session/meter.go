package session

import (
	"math"
	"time"

	"tailscope/api"
)

// A Meter measures what the generator and its machine use between two moments, for
// loads that are measured piece by piece.
type Meter struct {
	usage   usage
	delays  *delays
	delayed time.Duration // when it was read last
}

// NewMeter returns a Meter whose first piece begins now.
func NewMeter(now time.Time) *Meter {
	return &Meter{usage: measureUsage(now), delays: newDelays()}
}

// Sample adds up the delays of threads that may end and take their count along. Call
// it about once a second.
func (m *Meter) Sample() { m.delays.sample() }

// Lap ends a piece in which sent requests were sent, and begins the next. It leaves
// out lateness and the load of single threads, which it does not know.
func (m *Meter) Lap(now time.Time, sent uint64) api.BenchGenerator {
	g := api.BenchGenerator{Busiest: api.Float(math.NaN()), CPUPerRequest: api.Float(math.NaN())}
	at := measureUsage(now)
	m.delays.sample()
	fill(&g, at.since(m.usage), m.delays.sum-m.delayed, m.delays.known, sent)
	m.usage, m.delayed = at, m.delays.sum
	return g
}

// fill writes what was used for sent requests.
func fill(g *api.BenchGenerator, used usage, delayed time.Duration, known bool, sent uint64) {
	g.CPUSeconds, g.Cores, g.Host = api.Float(used.cpu.Seconds()), api.Float(used.cores), api.Float(used.host)
	g.Delayed = api.Float(math.NaN())
	if sent == 0 {
		return
	}
	g.CPUPerRequest = api.Float(used.cpu.Seconds() / float64(sent))
	if known {
		g.Delayed = api.Float(delayed.Seconds() / float64(sent))
	}
}
