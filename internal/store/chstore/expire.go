package chstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/store/tier"
)

// floors are the moments before which everything has expired.
type floors struct {
	points          [tier.Count]int64
	samples, traces int64
}

func (m *meta) floors() floors {
	return floors{m.tiers.Floor, m.tiers.SampleFloor, m.tiers.TraceFloor}
}

// dropAfter is how long after a floor was raised its partitions are dropped: questions that
// began before may still read them. It is longer than any question may take.
const dropAfter = 15 * time.Minute

// expire raises the floors to where they are due at now, and drops the partitions that have
// been below them for long.
func (s *Store) expire(ctx context.Context, now time.Time) error {
	keep, err := s.tracesThatFit(ctx)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	m, err := s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		t := m.tiers
		for k := range tier.Count {
			to := now.Add(-s.opts.Retention[k]).Unix()
			if k+1 < tier.Count {
				to = min(to, t.Done[k+1]) // what has not been rolled up stays, whatever its age
			}
			t.Floor[k] = max(t.Floor[k], tier.Floor(to, hour))
		}
		t.SampleFloor = max(t.SampleFloor, tier.Floor(now.Add(-s.opts.SampleAge).Unix(), samplePart))
		t.TraceFloor = max(t.TraceFloor, tier.Floor(now.Add(-s.opts.TraceAge).Unix(), tracePart), keep)
		if (floors{t.Floor, t.SampleFloor, t.TraceFloor}) == m.floors() {
			return nil, nil
		}
		return &t, nil
	})
	if err != nil {
		return err
	}
	w := &s.maintenance
	if f := m.floors(); f != w.floors {
		w.floors, w.floorsAt = f, s.opts.Now()
		return nil
	}
	if s.opts.Now().Sub(w.floorsAt) < dropAfter {
		return nil
	}
	w.floorsAt = s.opts.Now() // not again at once
	return s.dropExpired(ctx, w.floors)
}

// dropExpired drops the partitions that lie below the floors.
func (s *Store) dropExpired(ctx context.Context, f floors) error {
	oldest := slices.Min(f.points[:])
	below := func(table string, p []int64) bool {
		switch table {
		case "points":
			t := tierOf(uint16(p[0]))
			return len(p) == 2 && t >= 0 && (p[1]+1)*partLength[t] <= f.points[t]
		case "series": // of 30 days; a series is listed as long as anything of its day is kept
			return (p[0]+1)*30*day <= min(oldest, f.samples)
		case "puts":
			return (p[0]+1)*30*day <= oldest
		case "samples":
			return (p[0]+1)*samplePart <= f.samples
		case "traces", "requests":
			return (p[0]+1)*tracePart <= f.traces
		}
		return false
	}
	var errs []error
	for _, n := range s.nodes() {
		errs = append(errs, s.dropPartitions(ctx, n, below))
	}
	return errors.Join(errs...)
}

// dropPartitions drops the partitions of a node's tables that below chooses by their numbers.
func (s *Store) dropPartitions(ctx context.Context, n *node, below func(table string, p []int64) bool) error {
	r, err := s.client.read(ctx, n, "SELECT DISTINCT table, partition FROM system.parts WHERE active AND database = "+quote(s.address.database))
	if err != nil {
		return err
	}
	for r.next() {
		on, partition := r.string(), r.string()
		if r.err != nil {
			break
		}
		numbers, ok := partitionNumbers(partition)
		if !ok || !below(strings.TrimSuffix(on, "_local"), numbers) {
			continue
		}
		if err := s.client.exec(ctx, n, "ALTER TABLE "+s.qualified(on)+" DROP PARTITION "+partition); err != nil {
			return fmt.Errorf("drop partition %s of %s: %w", partition, on, err)
		}
		s.opts.Logger.Info("dropped what has expired", "node", n.host, "table", on, "partition", partition)
	}
	return r.err
}

// partitionNumbers reads a partition as system.parts names it: 20 or (10,20).
func partitionNumbers(p string) (out []int64, ok bool) {
	for f := range strings.SplitSeq(strings.Trim(p, "()"), ",") {
		v, err := strconv.ParseInt(strings.TrimSpace(f), 10, 64)
		if err != nil {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// tracesThatFit returns the moment from which on kept traces are within their bound on every
// shard.
func (s *Store) tracesThatFit(ctx context.Context) (int64, error) {
	from := make([]int64, len(s.shards))
	err := s.eachShard(ctx, func(ctx context.Context, i int, n *node) error {
		r, err := s.client.read(ctx, n, "SELECT toInt64OrZero(partition) AS p, toUInt64(sum(data_uncompressed_bytes)) FROM system.parts WHERE active AND database = "+quote(s.address.database)+
			" AND table IN ("+quote(s.localName("traces"))+", "+quote(s.localName("requests"))+") GROUP BY p ORDER BY p DESC")
		if err != nil {
			return err
		}
		held := int64(0)
		for first := true; r.next(); first = false {
			part := r.int64()
			if held += int64(r.uint64()); held > s.opts.TraceBytes && !first {
				from[i] = (part + 1) * tracePart
				break
			}
		}
		return r.err
	})
	return slices.Max(from), err
}
