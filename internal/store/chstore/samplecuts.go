package chstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	due := make([]cuts, len(s.shards))
	err = s.eachShard(ctx, func(ctx context.Context, i int, n *node) (err error) {
		due[i], err = s.cutsDue(ctx, n, m)
		return err
	})
	if err != nil {
		return err
	}
	// Those who hold samples in memory, and questions, look for cuts from here on.
	if err := s.noteCuts(ctx, due); err != nil {
		return err
	}
	err = s.eachShard(ctx, func(ctx context.Context, i int, n *node) error {
		// A cut that is there twice is one.
		return s.client.repeated(ctx, func() error { return s.client.insertAlike(ctx, n, s.local("cuts"), cutColumns, due[i].rows) })
	})
	if err != nil {
		return err
	}
	s.maintenance.bounded = at
	return s.deleteCut(ctx, at)
}

var cutColumns = columnsOf("cuts")

// cuts are those that move on one shard.
type cuts struct {
	rows  []byte           // of the table cuts
	until map[string]int64 // the latest of each family, in ms
}

// cutsDue finds the series of one shard that have enough newer samples.
func (s *Store) cutsDue(ctx context.Context, n *node, m *meta) (c cuts, err error) {
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
		return c, err
	}
	c.until = map[string]int64{}
	for r.next() {
		family, k, cut := r.string(), r.sampledKey(), r.int64()
		c.until[family] = max(c.until[family], cut)
		c.rows = appendString(c.rows, family)
		c.rows = append(append(c.rows, k.id[:]...), byte(k.kind))
		c.rows = appendInt64(c.rows, cut)
	}
	return c, r.err
}

// noteCuts notes in the records of the families that cuts move.
func (s *Store) noteCuts(ctx context.Context, due []cuts) error {
	until := map[string]int64{}
	for _, c := range due {
		for f, cut := range c.until {
			until[f] = max(until[f], cut)
		}
	}
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
