package marks

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// fewRequests of a side, or lessThan times as many as those of the other, may be a part
	// of what comes late, as what is sent after the fact.
	fewRequests, lessThan = 1000, 4
	// recountAfter is how long after it was judged, or counted, the requests around a mark
	// are counted again; a sixtieth of its verdict's age if that is more, up to recountMost.
	recountAfter, recountMost = 30 * time.Second, 10 * time.Minute
	// openFor is how long after it was judged any mark is counted again.
	openFor = time.Hour
	// grownBy is by how many percent they have to have grown for it to be judged again.
	grownBy = 1
)

// counted is the number of requests before and after a mark when it was judged. Open says
// that more may come: they were few, or more had come since it was judged before.
type counted struct {
	Requests [2]uint64 `json:"requests,omitzero"`
	Open     bool      `json:"open,omitempty"`
}

// partial reports that the requests that v was made of may be a part of what is to come.
func (c *counted) partial(v *api.MarkVerdict) bool {
	least, most := min(c.Requests[0], c.Requests[1]), max(c.Requests[0], c.Requests[1])
	return least < fewRequests || lessThan*least < most || v.Verdict == judge.TooLittle ||
		slices.ContainsFunc(v.Services, func(s api.ServiceVerdict) bool { return s.Verdict == judge.TooLittle })
}

// grown reports that n is more than was counted.
func (c *counted) grown(n [2]uint64) bool {
	return 100*n[0] > (100+grownBy)*c.Requests[0] || 100*n[1] > (100+grownBy)*c.Requests[1]
}

// countedOf returns what is kept of the requests around a mark beside its verdict.
func (j *Judge) countedOf(id string, v *api.MarkVerdict, requests [2]uint64) counted {
	n := counted{Requests: requests}
	if v.State != Final && v.Verdict != judge.TooLittle {
		return n // there are looks to come
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	k := j.known[id]
	n.Open = n.partial(v) || k != nil && k.grew
	return n
}

// count returns how many requests lie before and after mark i, of its service or of all, on
// sides that leave out an outage about the mark as those do that are judged.
func (j *Judge) count(ctx context.Context, marks []store.Mark, i int, now time.Time) (n [2]uint64, err error) {
	m := &marks[i]
	var of []*labels.Matcher
	if m.Service != "" {
		if of, err = ofService(m.Service); err != nil {
			return n, err
		}
	}
	s := sidesOf(marks, i, m.Service, j.o.Window)
	if err := j.o.leaveOutage(ctx, marks, i, m.Service, of, &s, now); err != nil {
		return n, err
	}
	for k, side := range []span{s.before, s.after} {
		sel := query.Selection{Family: series.SpanDuration, Matchers: of, Start: time.Unix(side.start, 0), End: time.Unix(side.end, 0)}
		found, err := query.Services(ctx, j.o.Store, query.ServicesRequest{Selection: sel, Names: true})
		if err != nil {
			return n, err
		}
		for _, of := range found.Services {
			n[k] += of.Requests
		}
	}
	return n, nil
}

// recount counts the requests around one of the marks to which more may come, that which was
// counted the longest ago, so that a verdict on what had come is made anew once more has.
// However many such marks there are, a round counts one.
func (j *Judge) recount(ctx context.Context, marks []store.Mark, now time.Time) error {
	at := -1
	var oldest time.Time
	j.mu.RLock()
	for i := range marks {
		k := j.known[marks[i].ID]
		if k == nil || k.grew || k.brief.State == Waiting {
			continue
		}
		judged := k.brief.Judged.Time()
		if !k.Open && (k.brief.State != Final || now.Sub(judged) > openFor) {
			continue
		}
		last := judged
		if k.checked.After(last) {
			last = k.checked
		}
		if now.Sub(last) < max(recountAfter, min(now.Sub(judged)/60, recountMost)) || at >= 0 && !last.Before(oldest) {
			continue
		}
		if k.brief.Verdict != judge.TooLittle && marks[i].Time.Add(-j.o.Window).Before(now.Add(-j.o.Keep)) {
			continue // what it was judged on is no longer kept
		}
		at, oldest = i, last
	}
	j.mu.RUnlock()
	if at < 0 {
		return nil
	}
	n, err := j.count(ctx, marks, at, now)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if k := j.known[marks[at].ID]; k != nil {
		k.checked, k.grew = now, k.grown(n)
		k.Open = k.grew || k.partial(&k.brief)
	}
	return nil
}
