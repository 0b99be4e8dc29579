package chstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// A series' samples are cut at an hour: what is before it was dropped. Cuts only move forward,
// so that samples of an hour that was dropped do not come back. Questions leave out what is
// before them; the rows themselves are deleted once a day.

// boundSamples cuts the samples of each series that has enough newer ones, once an hour.
func (s *Store) boundSamples(ctx context.Context, now time.Time) error {
	at := tier.Floor(now.Unix(), hour)
	if at <= s.maintenance.bounded {
		return nil
	}
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	numbers := false
	for _, f := range m.families {
		numbers = numbers || f.Kind != 0
	}
	if !numbers {
		s.maintenance.bounded = at
		return nil
	}
	until := map[string]int64{} // of the families that were cut, ms
	var mu sync.Mutex
	err = s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		found, err := s.cutSamples(ctx, n, m)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for f, cut := range found {
			until[f] = max(until[f], cut)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.noteCuts(ctx, until); err != nil {
		return err
	}
	s.maintenance.bounded = at
	return s.deleteCut(ctx, at)
}

// cutSamples moves the cuts on one shard. It returns the families of those that moved, with
// the latest.
func (s *Store) cutSamples(ctx context.Context, n *node, m *meta) (map[string]int64, error) {
	const hourMs = hour * 1000
	// The hours of a series from the newest on, and in how many samples each ends.
	hours := fmt.Sprintf("SELECT family, id, kind, intDiv(ms, %d) * %d AS h, uniqExact(ms) AS n FROM %s WHERE ms >= %d AND %s GROUP BY family, id, kind, h",
		hourMs, hourMs, s.local("samples"), m.tiers.SampleFloor*1000, m.visible.rows(false))
	lists := "SELECT family, id, kind, arrayReverseSort(groupArray(h)) AS hs, arrayCumSum(arrayReverseSort((x, y) -> y, groupArray(n), groupArray(h))) AS sums FROM (" + hours + ") GROUP BY family, id, kind"
	due := fmt.Sprintf("SELECT family, id, kind, toInt64(hs[arrayFirstIndex(c -> c >= %d, sums)]) AS due FROM (%s) WHERE length(hs) > arrayFirstIndex(c -> c >= %d, sums) AND sums[length(sums)] >= %d",
		s.opts.SampleCount, lists, s.opts.SampleCount, s.opts.SampleCount)
	have := "SELECT family, id, kind, max(cut) AS cut FROM " + s.local("cuts") + " GROUP BY family, id, kind"
	r, err := s.client.read(ctx, n, "SELECT family, id, kind, due FROM ("+due+") ANY LEFT JOIN ("+have+") USING family, id, kind WHERE due > cut")
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	var rows []byte
	for r.next() {
		family, k, cut := r.string(), r.sampledKey(), r.int64()
		found[family] = max(found[family], cut)
		rows = appendString(rows, family)
		rows = append(append(rows, k.id[:]...), byte(k.kind))
		rows = appendInt64(rows, cut)
	}
	if r.err != nil {
		return nil, r.err
	}
	// A cut that is there twice is one.
	err = s.client.repeated(ctx, func() error { return s.client.insert(ctx, n, s.local("cuts"), columnsOf("cuts"), rows) })
	return found, err
}

// noteCuts tells those who hold samples in memory.
func (s *Store) noteCuts(ctx context.Context, until map[string]int64) error {
	if len(until) == 0 {
		return nil
	}
	l := s.log(metaKind)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		m, err := s.decodeMeta(l)
		if err != nil {
			return err
		}
		var writes []logWrite
		for _, f := range slices.Sorted(maps.Keys(until)) {
			x := m.families[f]
			x.Dropped = store.SamplesDropped{Times: x.Dropped.Times + 1, Until: max(x.Dropped.Until, until[f]/1000)}
			writes = append(writes, logWrite{prefixFamily + f, encodeMeta(&x), m.of[prefixFamily+f]})
		}
		if _, err := s.appendLog(ctx, l, writes); !isConflict(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// deleteCut deletes the samples before the cuts, once a day.
func (s *Store) deleteCut(ctx context.Context, at int64) error {
	today := tier.Floor(at, day)
	if s.maintenance.reclaimed == 0 {
		s.maintenance.reclaimed = today // not at every start
	}
	if today <= s.maintenance.reclaimed {
		return nil
	}
	const hourMs = hour * 1000
	err := s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		gone := "SELECT DISTINCT family, id, kind, h FROM (SELECT DISTINCT family, id, kind, intDiv(ms, " + fmt.Sprint(hourMs) + ") AS h FROM " + s.local("samples") +
			") ANY LEFT JOIN (SELECT family, id, kind, max(cut) AS cut FROM " + s.local("cuts") + " GROUP BY family, id, kind) USING family, id, kind WHERE h * " + fmt.Sprint(hourMs) + " < cut"
		return s.client.exec(ctx, n, "ALTER TABLE "+s.local("samples")+" DELETE WHERE (family, id, kind, intDiv(ms, "+fmt.Sprint(hourMs)+")) IN ("+gone+")")
	})
	if err == nil {
		s.maintenance.reclaimed = today
	}
	return err
}
