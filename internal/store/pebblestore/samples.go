package pebblestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// sampleReader reads raw samples of one family hour by hour.
type sampleReader struct {
	*view
	ctx      context.Context
	scope    scope
	matchers []*labels.Matcher
	ids      []series.ID // in place of matchers
	scan     *scanner
	days     map[int64]*sampleDay
	byKey    map[string]int
	series   []store.SampleSeries
}

type sampleDay struct {
	selection
}

func (s *Store) newSampleReader(ctx context.Context, f *family, matchers []*labels.Matcher) (*sampleReader, error) {
	sc := makeScope(f.number, series.Full)
	r := &sampleReader{view: s.openView(sc), ctx: ctx, scope: sc, matchers: matchers,
		days: map[int64]*sampleDay{}, byKey: map[string]int{}}
	var err error
	if r.scan, err = s.newScanner(ctx, r.snap); err != nil {
		r.view.close()
		return nil, err
	}
	return r, nil
}

func (r *sampleReader) close() error {
	err := r.scan.close()
	r.view.close()
	return err
}

// day evaluates the matchers; groups are indices into r.series.
func (r *sampleReader) day(day int64) (*sampleDay, error) {
	if d := r.days[day]; d != nil {
		return d, nil
	}
	u, err := r.s.units.get(day, r.scope)
	if err != nil {
		return nil, err
	}
	d := &sampleDay{}
	var cols *columns
	var numbers []uint32
	if r.ids != nil {
		numbers, cols = u.identified(r.s.familyName(r.scope), r.ids)
	} else {
		cols = u.columnsNow()
		sel, err := cols.match(r.ctx, r.matchers)
		if err != nil {
			return nil, err
		}
		for n, ok := range sel {
			if ok && cols.kinds[n] != series.Distribution {
				numbers = append(numbers, uint32(n))
			}
		}
	}
	if err := store.BudgetOf(r.ctx).Reserve(int64(len(cols.kinds)) * selectedBytes); err != nil {
		return nil, err
	}
	known := len(r.series)
	d.group = make([]int32, len(cols.kinds))
	for n := range d.group {
		d.group[n] = -1
	}
	d.numbers = numbers
	var b labels.ScratchBuilder
	var buf []byte
	for _, n := range numbers {
		ls := cols.labels(n, &b)
		buf = append(ls.Bytes(buf), byte(cols.kinds[n]))
		i, ok := r.byKey[string(buf)]
		if !ok {
			i = len(r.series)
			r.series = append(r.series, store.SampleSeries{Labels: ls, Kind: cols.kinds[n]})
			r.byKey[string(buf)] = i
		}
		d.group[n] = int32(i)
	}
	r.days[day] = d
	return d, store.BudgetOf(r.ctx).Reserve(int64(len(r.series)-known) * groupBytes)
}

// hour calls fn with the samples of each selected series in an hour. A series may come
// several times.
func (r *sampleReader) hour(part int64, sel *selection, fn func(i int, ss []series.Sample)) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	var ss []series.Sample
	return r.scan.scan(area{tier: tierSamples, part: part, hi: 1}, r.scope, sel, func(number uint32, _ int, data []byte) error {
		var err error
		if ss, err = decodeSamples(ss[:0], data); err != nil {
			return err
		}
		fn(int(sel.group[number]), ss)
		return nil
	})
}

// dropped records which of the selected series have lost their samples of an hour.
func (r *sampleReader) dropped(part int64, sel *selection) error {
	gone, err := r.s.goneIfKnown(r.snap, part, r.scope)
	if err != nil || len(gone) == 0 {
		return err
	}
	start, end := part*1000, (part+tierPart[tierSamples])*1000
	for _, n := range sel.numbers {
		if !gone.has(uint64(n)) {
			continue
		}
		d := &r.series[sel.group[n]].Dropped
		if last := len(*d) - 1; last >= 0 && (*d)[last].End >= start {
			(*d)[last].End = end
		} else {
			*d = append(*d, store.Span{Start: start, End: end})
		}
	}
	return nil
}

// bounds returns the first and the last hour that hold samples of any family; ok is
// false if none does.
func (r *sampleReader) bounds() (first, last int64, ok bool, err error) {
	prefix := tierPrefix(nil, tierSamples)
	it := r.scan.it
	it.SetBounds(prefix, prefixEnd(prefix))
	if !it.First() || len(it.Key()) < 6 {
		return 0, 0, false, classify(it.Error())
	}
	first = readTime(it.Key()[2:])
	if !it.Last() || len(it.Key()) < 6 {
		return 0, 0, false, classify(it.Error())
	}
	return max(first, partOf(tierSamples, r.floor[tierSamples])), readTime(it.Key()[2:]), true, nil
}

// sampleBytes is the memory of a sample in an answer.
const sampleBytes = 16

// Samples returns the raw samples in [StartMillis, EndMillis], series in order of
// labels. It leaves out series without samples, except with Dropped those whose samples
// were dropped.
func (s *Store) Samples(ctx context.Context, q store.SampleQuery) (out []store.SampleSeries, err error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	f := s.family(q.Family)
	if f == nil || q.EndMillis < q.StartMillis {
		return nil, nil
	}
	r, err := s.newSampleReader(ctx, f, q.Matchers)
	if err != nil {
		return nil, fmt.Errorf("samples of %s: %w", q.Family, err)
	}
	defer r.close()
	r.ids = q.IDs
	first, last, ok, err := r.bounds()
	if err != nil {
		return nil, fmt.Errorf("samples of %s: %w", q.Family, err)
	}
	if !ok {
		return nil, nil
	}
	from := max(first, partOf(tierSamples, floorDiv(q.StartMillis, 1000)))
	to := min(last, partOf(tierSamples, floorDiv(q.EndMillis, 1000)))
	held := int64(0)
	for part := from; part <= to; part += tierPart[tierSamples] {
		d, err := r.day(dayOf(part))
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", q.Family, err)
		}
		if q.MaxSeries > 0 && len(r.series) > q.MaxSeries {
			return nil, fmt.Errorf("samples of %s: more than %d series match: %w", q.Family, q.MaxSeries, store.ErrTooMany)
		}
		more := int64(0)
		err = r.hour(part, &d.selection, func(i int, ss []series.Sample) {
			for _, v := range ss {
				if v.TimeMillis >= q.StartMillis && v.TimeMillis <= q.EndMillis {
					before := cap(r.series[i].Samples)
					r.series[i].Samples = append(r.series[i].Samples, v)
					more += int64(cap(r.series[i].Samples)-before) * sampleBytes
				}
			}
		})
		held += more
		if err == nil && q.Dropped {
			err = r.dropped(part, &d.selection)
		}
		if err == nil {
			err = store.BudgetOf(ctx).Reserve(more)
		}
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", q.Family, err)
		}
		if held > s.opts.AnswerBytes {
			return nil, fmt.Errorf("samples of %s: the answer takes more than %d MiB: %w", q.Family, s.opts.AnswerBytes>>20, store.ErrTooMany)
		}
	}
	for i := range r.series {
		r.series[i].Samples = mergeSamples(r.series[i].Samples)
	}
	return sortSampleSeries(r.series), nil
}

func sortSampleSeries(ss []store.SampleSeries) []store.SampleSeries {
	ss = slices.DeleteFunc(ss, func(s store.SampleSeries) bool { return len(s.Samples)+len(s.Dropped) == 0 })
	slices.SortFunc(ss, func(a, b store.SampleSeries) int { return labels.Compare(a.Labels, b.Labels) })
	return ss
}

// Nearest searches outwards from the moment, hour by hour, and only on days whose index
// holds a series that may still have a closer sample.
func (s *Store) Nearest(ctx context.Context, family string, matchers []*labels.Matcher, timeMillis int64) ([]store.SampleSeries, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	f := s.family(family)
	if f == nil {
		return nil, nil
	}
	r, err := s.newSampleReader(ctx, f, matchers)
	if err != nil {
		return nil, fmt.Errorf("nearest sample of %s: %w", family, err)
	}
	defer r.close()
	if err := r.nearest(timeMillis); err != nil {
		return nil, fmt.Errorf("nearest sample of %s: %w", family, err)
	}
	return sortSampleSeries(r.series), nil
}

func (r *sampleReader) nearest(at int64) error {
	first, last, ok, err := r.bounds()
	if err != nil || !ok {
		return err
	}
	for day := dayOf(first); day <= last; day += secondsPerDay {
		if _, err := r.day(day); err != nil {
			return err
		}
	}
	distance := func(t int64) uint64 {
		if t < at {
			return uint64(at - t)
		}
		return uint64(t - at)
	}
	consider := func(i int, ss []series.Sample) {
		// ss ascends: the nearest is beside the moment's place.
		k, _ := slices.BinarySearchFunc(ss, at, func(s series.Sample, t int64) int {
			switch {
			case s.TimeMillis < t:
				return -1
			case s.TimeMillis > t:
				return 1
			}
			return 0
		})
		for _, v := range ss[max(k-1, 0):min(k+1, len(ss))] {
			best := r.series[i].Samples
			if len(best) == 0 {
				r.series[i].Samples = []series.Sample{v}
				continue
			}
			d, b := distance(v.TimeMillis), distance(best[0].TimeMillis)
			if d < b || d == b && v.TimeMillis <= best[0].TimeMillis {
				best[0] = v
			}
		}
	}
	// reach is the least distance of the part from the moment.
	open := func(day int64, reach uint64) (*selection, error) {
		d, err := r.day(day)
		if err != nil {
			return nil, err
		}
		sel := &selection{group: make([]int32, len(d.group))}
		for n := range sel.group {
			sel.group[n] = -1
		}
		for _, n := range d.numbers {
			best := r.series[d.group[n]].Samples
			if len(best) == 0 || distance(best[0].TimeMillis) >= reach {
				sel.group[n] = d.group[n]
				sel.numbers = append(sel.numbers, n)
			}
		}
		return sel, nil
	}
	const hour = 3600
	step := func(part int64) error {
		reach := uint64(0)
		if lo := part * 1000; lo > at {
			reach = uint64(lo - at)
		} else if hi := (part+hour)*1000 - 1; hi < at {
			reach = uint64(at - hi)
		}
		sel, err := open(dayOf(part), reach)
		if err != nil || len(sel.numbers) == 0 {
			return err
		}
		return r.hour(part, sel, consider)
	}
	mid := min(max(partOf(tierSamples, floorDiv(at, 1000)), first), last)
	before, after := mid, mid+hour
	for before >= first || after <= last {
		if before >= first {
			if err := step(before); err != nil {
				return err
			}
			before -= hour
		}
		if after <= last {
			if err := step(after); err != nil {
				return err
			}
			after += hour
		}
	}
	return nil
}
