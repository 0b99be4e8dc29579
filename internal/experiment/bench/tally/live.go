package tally

import (
	"time"

	"tailscope/api"
	"tailscope/hist"
)

// Live describes the last seconds of a run that goes on.
type Live struct {
	Seconds float64         // covered
	Latency *hist.Histogram // of answers that came in them, from when due
	Service *hist.Histogram // the same from when sent
	Late    *hist.Histogram
	Rate    float64         // answered a second
	Errors  uint64          // in them
	Last    *hist.Histogram // of answers collected since the moment before, from when due
	Recent  []api.BenchSlot // the last minute, second by second; what is under way is not in it yet
}

// second holds the counts of one Collect.
type second struct {
	at                     time.Time
	latency, service, late *hist.Histogram
	answered, errors       uint64
}

// liveSeconds is the number of collections that Live covers.
const liveSeconds = 5

// recall keeps for Live what was just collected.
func (t *Tally) recall(now time.Time) {
	s := second{at: now}
	if len(t.last) > liveSeconds { // one more: it says when the first began
		s = t.last[0]
		copy(t.last, t.last[1:])
		t.last = t.last[:liveSeconds]
	} else {
		s.latency, s.service, s.late = hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)
	}
	for _, h := range []*hist.Histogram{s.latency, s.service, s.late} {
		h.Reset(hist.DefaultSchema)
	}
	s.at, s.answered, s.errors = now, 0, 0
	for i := range t.since.phases {
		p := &t.since.phases[i]
		merge(s.latency, p.latency)
		merge(s.service, p.service)
		s.answered, s.errors = s.answered+p.answered, s.errors+p.errors
	}
	merge(s.late, t.since.late)
	t.last = append(t.last, s)
}

// Live returns the last seconds of the run; began is when the first request was due.
func (t *Tally) Live(began time.Time) Live {
	l := Live{Latency: hist.New(hist.DefaultSchema), Service: hist.New(hist.DefaultSchema), Late: hist.New(hist.DefaultSchema), Last: hist.New(hist.DefaultSchema)}
	if len(t.last) == 0 {
		return l
	}
	last := t.last
	from := began
	if len(last) > liveSeconds {
		from, last = last[0].at, last[1:]
	}
	var answered uint64
	for _, s := range last {
		merge(l.Latency, s.latency)
		merge(l.Service, s.service)
		merge(l.Late, s.late)
		answered += s.answered
		l.Errors += s.errors
	}
	merge(l.Last, last[len(last)-1].latency)
	l.Seconds = last[len(last)-1].at.Sub(from).Seconds()
	if l.Seconds > 0 {
		l.Rate = float64(answered) / l.Seconds
	}
	l.Recent = t.recent.result(began)
	return l
}

// Warmed returns the number of requests that were sent in the warm-up.
func (t *Tally) Warmed() uint64 { return t.sums.warmed }
