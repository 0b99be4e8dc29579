package chstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tailscope/internal/store/tier"
)

// A step of roll-ups is begun in the log before anything is added up: from then on, what is
// put into its slots is late, and Put adds it to the coarser tiers itself. What was
// committed by then is what the step adds up; it is noted with it. Then each shard adds up
// its own series, and a row of the log finishes the step: from then on questions read it. A
// step that was not finished is done again under another number, so that nothing counts
// twice.

// stepSlots and stepRows bound what is rolled up at once: slots of the coarser tier, and rows
// of the finer one.
const (
	longestStep  = 6 * hour
	shortestStep = 600
	stepRows     = 2_000_000
)

// takeOver is how long another process may take for a step.
const takeOver = 2 * time.Minute

func (s *Store) rollUp(ctx context.Context, now time.Time) error {
	for {
		more := false
		err := waitForQuorum(ctx, func() error {
			m, err := s.readMeta(ctx)
			if err != nil {
				return err
			}
			if p := m.tiers.Plan; p != nil && !s.mayTakeOver(p) {
				return nil
			}
			more, err = s.rollNext(ctx, m, now.Add(-s.opts.Rollup).Unix())
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// mayTakeOver reports whether a step that was begun is abandoned: by this process, or for
// long by another.
func (s *Store) mayTakeOver(p *plan) bool {
	w := &s.maintenance
	if p.Step == w.own {
		return true
	}
	now := s.opts.Now()
	if w.begun != p.Step {
		w.begun, w.begunAt = p.Step, now
	}
	return now.Sub(w.begunAt) >= takeOver
}

// rollNext does one step for the slots that are over at over, and reports whether there may
// be another.
func (s *Store) rollNext(ctx context.Context, m *meta, over int64) (bool, error) {
	target := tier.Floor(over, tier.Slot(1))
	if m.tiers.Plan == nil {
		if target <= m.tiers.Ready[1] {
			return false, nil
		}
		var err error
		if target, err = s.stepEnd(ctx, m, target); err != nil {
			return false, err
		}
	}
	begun, err := s.beginStep(ctx, m.tiers.Plan, target)
	if err != nil || begun == nil {
		return false, err
	}
	if err := s.addUp(ctx, begun); err != nil {
		return false, fmt.Errorf("step %d: %w", begun.tiers.Plan.Step, err)
	}
	finished, err := s.finishStep(ctx, begun)
	if err != nil {
		return false, err
	}
	s.stats.rollUps.Add(1)
	return finished, nil
}

// stepEnd returns how far one step goes towards target.
func (s *Store) stepEnd(ctx context.Context, m *meta, target int64) (int64, error) {
	first, last := m.extent()
	from := m.tiers.Ready[1]
	if first >= last || last <= from || target <= first {
		return target, nil // there is nothing to add up
	}
	from = max(from, first)
	end := min(target, from+longestStep)
	for end-from > shortestStep {
		rows, err := s.countRows(ctx, m, tier.Span{Tier: 0, From: from, To: end})
		if err != nil {
			return 0, err
		}
		if rows <= stepRows {
			break
		}
		end = max(from+shortestStep, tier.Floor(from+(end-from)/2, tier.Slot(1)))
	}
	return end, nil
}

func (s *Store) countRows(ctx context.Context, m *meta, sp tier.Span) (most uint64, err error) {
	counts := make([]uint64, len(s.shards))
	err = s.eachShard(ctx, func(ctx context.Context, i int, n *node) error {
		r, err := s.client.read(ctx, n, "SELECT count() FROM "+s.local("points")+" WHERE "+inSpans([]tier.Span{sp}))
		if err != nil {
			return err
		}
		counts[i] = r.uint64()
		return r.err
	})
	for _, c := range counts {
		most = max(most, c)
	}
	return most, err
}

// beginStep begins a step up to target, or takes over the abandoned one. It returns nil if
// another process did something in between.
func (s *Store) beginStep(ctx context.Context, abandoned *plan, target int64) (*meta, error) {
	var own uint32
	m, err := s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		t := m.tiers
		own = 0
		switch {
		case abandoned != nil && t.Plan != nil && t.Plan.Step == abandoned.Step:
			// What it has inserted must not count.
			own = t.Plan.Step + 1
			t.AbortedSteps = t.AbortedSteps.with(numberOf(0, t.Plan.Step))
			t.Plan = &plan{Step: own, Seen: t.Plan.Seen}
			return &t, nil
		case abandoned != nil || t.Plan != nil || target <= t.Ready[1]:
			return nil, nil
		}
		t.Ready[1] = target
		for k := 2; k < tier.Count; k++ {
			t.Ready[k] = tier.Floor(t.Ready[k-1], tier.Slot(k))
		}
		own = t.Steps + 1
		t.Plan = &plan{Step: own, Seen: m.visible}
		// What is committed must still be what was seen, and by no other writers.
		check := []logWrite{{keyEpochs, checkOnly, m.of[keyEpochs]}}
		for w := range m.writers {
			check = append(check, logWrite{prefixWriter + w, checkOnly, m.of[prefixWriter+w]})
		}
		return &t, check
	})
	if err != nil || own == 0 {
		return nil, err
	}
	s.maintenance.own = own
	return m, nil
}

// finishStep has questions read what was added up. It returns false if another process has
// taken the step over.
func (s *Store) finishStep(ctx context.Context, begun *meta) (bool, error) {
	step := begun.tiers.Plan.Step
	finished := false
	_, err := s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		if finished = m.tiers.Plan != nil && m.tiers.Plan.Step == step; !finished {
			return nil, nil
		}
		t := m.tiers
		t.Done, t.Steps, t.Plan = t.Ready, step, nil
		return &t, nil
	})
	return finished, err
}

// addUp makes the coarser slots of the step on every shard. What fails may have been done,
// so nothing is sent again, nor to another replica: its rows would count twice. The step is
// begun anew under another number.
func (s *Store) addUp(ctx context.Context, m *meta) error {
	first, last := m.extent()
	p := m.tiers.Plan
	return s.eachShardOnce(ctx, func(ctx context.Context, n *node) error {
		for k := 1; k < tier.Count; k++ {
			// Nothing is older than the finer tier is kept.
			sp := tier.Span{Tier: k - 1, From: max(m.tiers.Done[k], first, tier.Floor(m.tiers.Floor[k-1], tier.Slot(k))), To: min(m.tiers.Ready[k], tier.Ceil(last, tier.Slot(k)))}
			if sp.From >= sp.To {
				continue
			}
			if err := s.client.insertSelected(ctx, n, s.local("points"), s.addUpStatement(k, sp, p)); err != nil {
				return err
			}
		}
		return nil
	})
}

// addUpStatement makes slots of a tier from those of the finer one: what was committed when
// the step began, and what the step has made of the finer tier.
func (s *Store) addUpStatement(t int, sp tier.Span, p *plan) string {
	size := tier.Slot(t)
	slot := fmt.Sprintf("(intDiv(slot, %d) * %d)", size, size)
	step := numberOf(0, p.Step)
	// Int64 ends at 9.22e18 ns, 292 years.
	const big = "abs(sum(toFloat64(nanos))) > 9e18"
	columns := []string{
		fmt.Sprintf("toUInt16(%d)", size),
		fmt.Sprintf("toInt32(intDiv(at, %d))", partLength[t]),
		"family", "view",
		fmt.Sprintf("toInt32(intDiv(at, %d))", blockSlots*size),
		"id", "kind", "at", fmt.Sprintf("toUInt64(%d)", step), "form",
		"sum(count)", "toUInt8(groupBitOr(flags))",
		"if(" + big + ", toInt64(0), sum(nanos))", "sum(rest) + if(" + big + ", sum(toFloat64(nanos)) / 1e9, toFloat64(0))",
		"min(low)", "max(high)",
		// Those of rows that are not weighted are their counts; see hist.Histogram.
		fmt.Sprintf("if(bitAnd(groupBitOr(flags), %d) != 0, sum(if(bitAnd(flags, %d) != 0, squares, toFloat64(count))), toFloat64(0))", flagWeighted, flagWeighted),
		"max(error)", "sum(zero)",
		"tupleElement(sumMap(buckets, counts), 1)", "tupleElement(sumMap(buckets, counts), 2)",
		"tupleElement(max((latestms, latest)), 2)", "tupleElement(max((latestms, latest)), 1)",
	}
	return "INSERT INTO " + s.local("points") + " " + pointColumns + " SELECT " + strings.Join(columns, ", ") +
		" FROM (SELECT *, " + slot + " AS at FROM " + s.local("points") + " WHERE " + inSpans([]tier.Span{sp}) +
		" AND (" + p.Seen.rows(true) + fmt.Sprintf(" OR put = %d)", step) + ") GROUP BY family, view, id, kind, form, at"
}
