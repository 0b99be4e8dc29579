package history

import (
	"context"
	"time"

	"tailscope/hist"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/store"
)

const (
	slotMillis = 10_000
	// indexSlots bounds the slots that an index of distributions reaches back.
	indexSlots = 360
)

// lookUpDistributions answers from slots that had ended by at.
func (v *view) lookUpDistributions(ctx context.Context, r *resolved, s *expr.Selector, at time.Time, dst []expr.Sample) ([]expr.Sample, error) {
	d := &distributions{v: v, ctx: ctx, s: s, asked: r.ask(v.h, s)}
	if d.asked.invalid != nil {
		return dst, d.asked.invalid
	}
	end := floorTo(at.Add(-v.h.o.Lag).UnixMilli(), slotMillis) // of the last slot that is over
	switch s.By {
	case expr.ByTime:
		return d.closest(at.Add(-s.Ago).UnixMilli(), end, dst)
	case expr.ByTimeRange:
		from := int64(0)
		if s.Older >= 0 {
			from = at.Add(-s.Older).UnixMilli()
		}
		return d.between(from, at.Add(-s.Newer).UnixMilli(), end, dst)
	case expr.BySameTime:
		return d.sameTime(at, end, dst)
	}
	return d.byIndex(end, dst)
}

func (d *distributions) sameTime(at time.Time, end int64, dst []expr.Sample) ([]expr.Sample, error) {
	err := d.v.sameTime(at, d.s, func(t time.Time) error {
		var err error
		mark := len(dst)
		if d.s.Before == 0 && d.s.After == 0 {
			dst, err = d.closest(t.UnixMilli(), end, dst)
		} else {
			dst, err = d.between(t.Add(-d.s.Before).UnixMilli(), t.Add(d.s.After).UnixMilli(), end, dst)
		}
		if len(dst) == mark {
			dst = append(dst, expr.Sample{Null: true})
		}
		return err
	})
	return dst, err
}

type distributions struct {
	v     *view
	ctx   context.Context
	s     *expr.Selector
	asked *asked
}

// ask finds the shape of the selectors of r, once.
func (r *resolved) ask(h *History, s *expr.Selector) *asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = h.answers.noteSelector(s.Family, s.Matchers)
	}
	return r.asked
}

// query merges the slots that started in [from, to), ms, into one distribution per step,
// in seconds; a step of 0 merges all into one.
func (d *distributions) query(from, to, step int64) ([]store.MergedPoint, error) {
	return d.v.h.loadMerged(d.ctx, d.asked, from, to, step)
}

func distOf(p *store.MergedPoint) expr.Sample {
	return expr.Sample{Time: time.Unix(p.Start, 0), Dist: p.Hist, Null: p.Hist == nil || p.Hist.Count == 0}
}

// closest appends the slot that holds t, or the nearest with anything in it
// within the tolerance, or a null. Not long ago that is one of ten seconds. Before
// it is one of a minute: the same whether finer ones are left or not, and the
// same for all that is asked within the minute.
func (d *distributions) closest(t, end int64, dst []expr.Sample) ([]expr.Sample, error) {
	slot, width := min(floorTo(t, slotMillis), end-slotMillis), int64(slotMillis)
	if slot < end-tenMillis {
		slot, width = floorTo(slot, minuteMillis), minuteMillis
	}
	got, err := d.query(slot, slot+width, 0)
	if err != nil {
		return dst, err
	}
	if len(got) == 0 {
		tolerance := d.v.tolerance
		near, err := d.query(floorTo(slot-tolerance, width), min(floorTo(slot+tolerance, width)+width, end), width/1000)
		if err != nil {
			return dst, err
		}
		least := tolerance + 1
		for i := range near {
			// Both are starts of slots; of equally close ones the earlier.
			if far := max(near[i].Start*1000-slot, slot-near[i].Start*1000); far < least {
				least, got = far, near[i:i+1]
			}
		}
	}
	if len(got) == 0 {
		return append(dst, expr.Sample{Null: true}), nil
	}
	return append(dst, distOf(&got[0])), nil
}

const (
	minuteMillis = 60_000
	tenMillis    = 600_000
	// longRange is from when on ends are those of minutes, so that what is read
	// again every ten seconds is the newest part alone.
	longRange = 30 * minuteMillis
)

// between appends all of [from, to) as one distribution. A window that reaches beyond
// end is moved back to end there, at its length, so that what is divided by the length is right.
func (d *distributions) between(from, to, end int64, dst []expr.Sample) ([]expr.Sample, error) {
	from, to = floorTo(from, slotMillis), floorTo(to, slotMillis)
	if beyond := to - end; beyond > 0 {
		from, to = from-beyond, end
	}
	if from >= to {
		return dst, nil
	}
	parts := [][2]int64{{from, to}}
	if to-from >= longRange {
		// Slots of ten minutes in the middle, which stay the same for that long.
		from = floorTo(from, minuteMillis)
		if to < end-tenMillis {
			to = floorTo(to, minuteMillis)
		}
		a, b := floorTo(from+tenMillis-1, tenMillis), floorTo(to, tenMillis)
		parts = [][2]int64{{from, a}, {a, b}, {b, to}}
	}
	var all []*hist.Histogram
	for _, p := range parts {
		if p[0] >= p[1] {
			continue
		}
		got, err := d.query(p[0], p[1], 0)
		if err != nil {
			return dst, err
		}
		if len(got) > 0 && got[0].Hist != nil && got[0].Hist.Count > 0 {
			all = append(all, got[0].Hist)
		}
	}
	if len(all) == 0 {
		return dst, nil
	}
	h := all[0]
	if len(all) > 1 {
		h = h.Clone() // others share it
		for _, o := range all[1:] {
			if err := h.Merge(o); err != nil {
				return dst, err
			}
		}
	}
	return append(dst, expr.Sample{Time: time.UnixMilli(from), Dist: h}), nil
}

// byIndex counts the slots of 10 s that hold something, 0 the newest.
func (d *distributions) byIndex(end int64, dst []expr.Sample) ([]expr.Sample, error) {
	from, to := d.s.From, d.s.To
	if d.s.By == expr.ByIndex {
		for _, i := range d.s.Indexes {
			to = max(to, i)
		}
	}
	if to < 0 || to >= indexSlots {
		to = indexSlots - 1
	}
	// Mostly every slot holds something, so that a few are enough.
	var got []store.MergedPoint
	for _, slots := range []int64{int64(to) + 2, indexSlots} {
		var err error
		if got, err = d.query(end-min(slots, indexSlots)*slotMillis, end, 10); err != nil {
			return dst, err
		}
		if len(got) > to {
			break
		}
	}
	if d.s.By == expr.ByIndex {
		for _, i := range d.s.Indexes {
			if i < 0 || i >= len(got) {
				dst = append(dst, expr.Sample{Null: true})
			} else {
				dst = append(dst, distOf(&got[len(got)-1-i]))
			}
		}
		return dst, nil
	}
	for i := from; i <= to && i < len(got); i++ {
		dst = append(dst, distOf(&got[len(got)-1-i]))
	}
	return dst, nil
}
