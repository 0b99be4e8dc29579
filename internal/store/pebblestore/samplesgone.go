package pebblestore

import (
	"slices"

	"tailscope/internal/store"
)

// hourBit is an hour's in a mask of its day.
func hourBit(hour int64) uint32 { return 1 << uint((hour-dayOf(hour))/3600) }

// isGone says whether the samples that a series had in an hour are gone.
func (set *sampleSet) isGone(number uint32, hour int64) bool {
	masks := (*set.gone.Load())[dayOf(hour)]
	return int(number) < len(masks) && masks[number]&hourBit(hour) != 0
}

// hide notes that samples of an hour are gone, or about to go, of the series that
// each yields by their numbers in the day's unit. The caller holds the store's
// write lock; shown takes it back.
func (set *sampleSet) hide(hour int64, each func(yield func(number uint64) bool)) (shown func(), err error) {
	names, err := set.names(dayOf(hour))
	if err != nil {
		return nil, err
	}
	before := set.gone.Load()
	masks := slices.Clone((*before)[dayOf(hour)])
	for n := range each {
		if n >= uint64(len(names.set)) || names.set[n] == 0 {
			continue
		}
		i := int(names.set[n] - 1)
		if i >= len(masks) {
			masks = append(masks, make([]uint32, i+1-len(masks))...)
		}
		masks[i] |= hourBit(hour)
	}
	gone := make(map[int64][]uint32, len(*before)+1)
	for day, m := range *before {
		gone[day] = m
	}
	gone[dayOf(hour)] = masks
	set.gone.Store(&gone)
	return func() { set.gone.Store(before) }, nil
}

// hideSamples lets lookups know that samples of an hour are about to go. The
// caller holds the write lock.
func (s *Store) hideSamples(sc scope, hour int64, drop []uint64) (shown func(), err error) {
	set := s.setOf(sc)
	if set == nil || len(drop) == 0 {
		return func() {}, nil
	}
	return set.hide(hour, slices.Values(drop))
}

// forgetSamples takes what is gone out of memory. The caller holds the write lock.
func (s *Store) forgetSamples(sc scope, hour int64, drop []uint64) {
	set := s.setOf(sc)
	if set == nil {
		return
	}
	set.mu.Lock()
	all := slices.Clone(set.lookups)
	set.mu.Unlock()
	for _, l := range all {
		if l != nil && set.isGone(l.number, hour) {
			l.drop(hour)
		}
	}
}

func (s *Store) setOf(sc scope) *sampleSet {
	s.sets.mu.RLock()
	defer s.sets.mu.RUnlock()
	return s.sets.m[sc]
}

// Kept goes by hours: of one that is there all samples of a series are, or none,
// which is known; and there is nothing yet after the last.
func (l *lookup) Kept(start, end int64) bool {
	hours := *l.set.hours.Load()
	if len(hours) == 0 {
		return false
	}
	first, last := hourOf(start), min(hourOf(end), hours[len(hours)-1])
	if first > last {
		return true
	}
	i, ok := slices.BinarySearch(hours, first)
	if n := int((last - first) / 3600); !ok || i+n >= len(hours) || hours[i+n] != last {
		return false
	}
	gone := *l.set.gone.Load()
	if len(gone) == 0 {
		return true
	}
	for hour := first; hour <= last; {
		next := dayOf(hour) + secondsPerDay
		if masks := gone[dayOf(hour)]; int(l.number) < len(masks) {
			// From hour's bit to that of the day's last hour that is asked for.
			until := min(last, next-3600)
			if masks[l.number]&(2*hourBit(until)-hourBit(hour)) != 0 {
				return false
			}
		}
		hour = next
	}
	return true
}

var _ store.Lookup = (*lookup)(nil)
