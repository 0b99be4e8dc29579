package history

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// point stands for the samples of a number series in one slot: the sample if there is
// one, else the last of a counter, or the mean at the slot's middle.
type point struct {
	series.Sample
	slot    int64 // its start, ms
	several bool
}

// page is an hour of one series' points, in the finest slots that are left, or
// more hours in coarser ones.
type page struct {
	points []point // ascending in time
	half   int64   // of a slot, ms
	until  time.Time
}

type pageKey struct {
	stored     stored
	start, end int64 // ms, on the hour
}

// pages keep what was read of points for a while, because the same hour is asked
// for again and again while the clock goes through it.
type pages struct {
	mu    sync.Mutex
	m     map[pageKey]*list.Element
	lru   list.List // of *pageSlot, most recently used first
	bytes int64
}

type pageSlot struct {
	key pageKey
	*page
}

const (
	hourMillis = 3600_000
	pageFor    = 5 * time.Minute // then it is read again: late data, coarser slots
	pageBytes  = 32 << 20        // of all pages
)

func (p *page) size() int64 { return 200 + 32*int64(cap(p.points)) }

// get returns the page of the hours from start to end, ms.
func (c *pages) get(ctx context.Context, h *History, o *source, start, end int64) (*page, error) {
	key, now := pageKey{o.stored, start, end}, h.o.Now()
	c.mu.Lock()
	if e := c.m[key]; e != nil {
		if p := e.Value.(*pageSlot).page; now.Before(p.until) {
			c.lru.MoveToFront(e)
			c.mu.Unlock()
			return p, nil
		}
	}
	c.mu.Unlock()
	step := int64(series.Base)
	for _, r := range series.Resolutions {
		if step = int64(r); (end-start)/1000/step <= pagePoints {
			break
		}
	}
	p, err := h.loadPoints(ctx, o, start/1000, end/1000, step)
	if err != nil {
		return nil, err
	}
	p.until = now.Add(pageFor)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[pageKey]*list.Element{}
	}
	if e := c.m[key]; e != nil {
		c.drop(e)
	}
	c.m[key] = c.lru.PushFront(&pageSlot{key, p})
	c.bytes += p.size()
	for c.bytes > pageBytes && c.lru.Len() > 1 {
		c.drop(c.lru.Back())
	}
	return p, nil
}

func (c *pages) drop(e *list.Element) {
	s := e.Value.(*pageSlot)
	delete(c.m, s.key)
	c.lru.Remove(e)
	c.bytes -= s.size()
}

// loadPoints reads one series' points in slots that start in [start, end), seconds.
func (h *History) loadPoints(ctx context.Context, o *source, start, end, step int64) (*page, error) {
	var ms []*labels.Matcher
	o.labels.Range(func(l labels.Label) {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
	})
	res, err := h.o.Cache.Query(ctx, store.Query{Family: o.family, View: series.Full, Matchers: ms,
		Start: start, End: end, Step: step, Each: true, Schema: hist.DefaultSchema})
	if err != nil {
		return nil, err
	}
	p := &page{half: max(int64(res.Resolution), step) * 500}
	for _, g := range res.Groups {
		if g.Kind != o.kind || !labels.Equal(g.Labels, o.labels) {
			continue
		}
		p.points = make([]point, 0, len(g.Points))
		for _, m := range g.Points {
			n := m.Number
			v := point{series.Sample{TimeMillis: n.LastTimeMillis, Value: n.Last}, m.Start * 1000, n.Count > 1}
			if n.Count > 1 && o.kind == series.Gauge {
				v.TimeMillis, v.Value = m.Start*1000+p.half, n.Sum/float64(n.Count)
			}
			p.points = append(p.points, v)
		}
	}
	return p, nil
}

// nearest returns the point closest to t: within the distance, or t's own slot.
// None is from after now.
func (c *pages) nearest(ctx context.Context, h *History, o *source, t, within, now int64) (best series.Sample, ok bool, err error) {
	least := int64(1) << 62
	for hour := floorTo(t-within, hourMillis); hour <= t+within; hour += hourMillis {
		p, err := c.get(ctx, h, o, hour, hour+hourMillis)
		if err != nil {
			return best, false, err
		}
		for i := range p.points {
			v := &p.points[i]
			d := max(v.TimeMillis-t, t-v.TimeMillis)
			if v.several && t >= v.slot && t < v.slot+2*p.half {
				d = 0
			}
			if d < least && d <= within && v.TimeMillis <= now {
				best, ok, least = v.Sample, true, d
			}
		}
	}
	return best, ok, nil
}

const (
	// pagedHours is up to how many hours without samples are read page by page.
	pagedHours = 50
	pagePoints = 20_000
)

// instead appends the points of [from, to] in the hours that have no samples any more,
// and puts what was appended from mark on in order.
func (c *pages) instead(ctx context.Context, h *History, o *source, from, to int64, gaps []store.Span, dst []series.Sample, mark int) ([]series.Sample, error) {
	for _, g := range gaps {
		// A long time is read at once, a short one hour by hour, as many ask for it.
		length := int64(hourSeconds)
		if (g.End-g.Start)/hourSeconds > pagedHours {
			length = g.End - g.Start
		}
		for hour := g.Start; hour < g.End; hour += length {
			p, err := c.get(ctx, h, o, hour*1000, (hour+length)*1000)
			if err != nil {
				return dst, err
			}
			for i := range p.points {
				if v := &p.points[i]; v.TimeMillis >= from && v.TimeMillis <= to {
					dst = append(dst, v.Sample)
				}
			}
		}
	}
	slices.SortFunc(dst[mark:], func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) })
	return dst, nil
}

// floorTo rounds t down to a multiple of n.
func floorTo(t, n int64) int64 {
	r := t % n
	if r < 0 {
		r += n
	}
	return t - r
}
