package chstore

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Most questions are about few series. A statement over points that names their identities
// takes a fraction of one that selects or joins them from the table series: the oldest dialect
// analyses a query inside another again and again, which is most of what a small statement
// costs. So the series are listed first, once for all questions about them while nothing is
// committed, and shards without any are not asked.

// defaultMostFew bounds the series of a shard that a statement names.
const defaultMostFew = 256

// mostFewRows bounds the rows of points, with buckets, whose group is found for each bucket
// by itself, as it is without a query inside.
const mostFewRows = 1 << 19

// mostListed bounds the series of all listings that are kept, mostMany the selections that are
// known to have more than mostFew.
const (
	mostListed = 8 << 10
	mostMany   = 4 << 10
)

// listings keeps the series that selections have at a revision of the log.
type listings struct {
	mu       sync.Mutex
	revision uint64
	of       map[listingKey][]listedSeries
	listed   int
	many     map[listingKey]bool // have more than mostFew, of any revision
}

// listingKey is a shard and a condition on the table series.
type listingKey struct {
	shard    int
	selected string
}

// listedSeries is a series in the table series.
type listedSeries struct {
	id            [16]byte
	names, values []string
	days          []uint64 // with rows that count; of each kind
}

// get returns the listing of a revision, or that the selection has many series.
func (l *listings) get(revision uint64, k listingKey) (all []listedSeries, known, many bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.many[k] {
		return nil, true, true
	}
	if l.revision == revision {
		all, known = l.of[k]
	}
	return all, known, false
}

// put keeps a listing; many are more series than are listed.
func (l *listings) put(revision uint64, k listingKey, all []listedSeries, many bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if many {
		if l.many == nil || len(l.many) >= mostMany {
			l.many = map[listingKey]bool{}
		}
		l.many[k] = true
		return
	}
	if l.revision > revision {
		return
	}
	if l.of == nil || l.revision < revision || l.listed+len(all)+1 > mostListed {
		l.of, l.listed = map[listingKey][]listedSeries{}, 0
	}
	l.revision = revision
	l.of[k] = all
	l.listed += len(all) + 1
}

// list returns the series of a shard that are asked for, or that they are more than mostFew.
func (x *question) list(ctx context.Context, shard int, n *node) (all []listedSeries, many bool, err error) {
	key := listingKey{shard, x.selected}
	if all, known, many := x.s.lists.get(x.m.revision, key); known {
		return all, many, nil
	}
	// Who selects many series is told so by the first of them.
	r, err := x.read(ctx, shard, n, "SELECT id, any(names), any(values), groupUniqArrayIf(bitOr(bitShiftLeft(toUInt64(day), 8), toUInt64(kind)), "+x.m.visible.rows(false)+
		") FROM "+x.s.local("series")+" WHERE "+x.selected+fmt.Sprintf(" GROUP BY id LIMIT %d SETTINGS max_rows_to_group_by = %d, group_by_overflow_mode = 'break'", x.s.mostFew+1, max(1, x.s.mostFew)))
	if err != nil {
		return nil, false, err
	}
	for r.next() {
		var one listedSeries
		copy(one.id[:], r.take(16))
		one.names, one.values, one.days = r.strings(), r.strings(), r.uint64s()
		if r.err == nil && len(one.names) != len(one.values) {
			return nil, false, fmt.Errorf("%d names of labels, %d values: %w", len(one.names), len(one.values), store.ErrCorrupt)
		}
		all = append(all, one)
	}
	if r.err != nil {
		return nil, false, r.err
	}
	if many = len(all) > x.s.mostFew; many {
		all = nil
	}
	x.s.lists.put(x.m.revision, key, all, many)
	return all, many, nil
}

// namedSeries are the series on a shard that are asked for, and their groups.
type namedSeries []namedOne

type namedOne struct {
	id    [16]byte
	group uint64
}

// listFew lists the series that are asked for, with the labels of their groups, and counts
// them, if they are few on each shard.
func (x *question) listFew(ctx context.Context, res *store.Result) error {
	lists := make([][]listedSeries, len(x.s.shards))
	var mu sync.Mutex
	tooMany := false
	err := x.s.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		all, many, err := x.list(ctx, shard, n)
		mu.Lock()
		defer mu.Unlock()
		lists[shard], tooMany = all, tooMany || many
		return err
	})
	if err != nil || tooMany {
		return err
	}
	few := make([]namedSeries, len(lists))
	var found map[uint64]labels.Labels
	if x.q.Each || len(x.names) > 0 {
		found = map[uint64]labels.Labels{}
	}
	var b labels.ScratchBuilder
	for shard, all := range lists {
		for i := range all {
			one := &all[i]
			group := uint64(0)
			switch {
			case x.q.Each:
				group = binary.LittleEndian.Uint64(one.id[:]) // as eachOf
				found[group] = labelsOf(&b, one.names, one.values)
			case found != nil:
				values := make([]string, len(x.names))
				for j, name := range x.names {
					if k := slices.Index(one.names, name); k >= 0 {
						values[j] = one.values[k]
					}
				}
				ls := labelsOf(&b, x.names, values)
				group = ls.Hash()
				found[group] = ls
			}
			few[shard] = append(few[shard], namedOne{one.id, group})
		}
	}
	if x.q.Measure == store.Buckets && len(found) > 1 && !x.q.Each {
		slots := int64(0)
		for _, sp := range x.spans {
			slots += (sp.To - sp.From) / int64(series.Resolutions[sp.Tier])
		}
		for _, all := range few {
			if int64(len(all))*slots > mostFewRows {
				return nil
			}
		}
	}
	x.few, x.labels = few, found
	for _, all := range lists {
		res.Series += countListed(all, x.q.Each)
	}
	return x.refuse(res)
}

// countListed counts the series that exist, on the day with the most of them unless all of each
// are read. Kinds are series of their own.
func countListed(all []listedSeries, each bool) int {
	days, kinds := map[uint64]int{}, 0
	for i := range all {
		seen := uint64(0) // kinds
		for _, d := range all[i].days {
			days[d>>8]++
			seen |= 1 << (d & 63)
		}
		for ; seen > 0; seen &= seen - 1 {
			kinds++
		}
	}
	if each {
		return kinds
	}
	most := 0
	for _, n := range days {
		most = max(most, n)
	}
	return most
}

// only returns the series of some groups.
func (f namedSeries) only(groups []uint64) namedSeries {
	return slices.DeleteFunc(slices.Clone(f), func(one namedOne) bool { return !slices.Contains(groups, one.group) })
}

// ids returns literals of the identities.
func (f namedSeries) ids() string {
	out := make([]string, len(f))
	for i, one := range f {
		var b strings.Builder
		for _, c := range one.id {
			b.WriteString(`\x` + hex.EncodeToString([]byte{c}))
		}
		out[i] = "'" + b.String() + "'"
	}
	return strings.Join(out, ",")
}

// group returns the expression of the group of a row of points.
func (f namedSeries) group() string {
	of, groups := make([]uint64, len(f)), make([]uint64, len(f))
	same := true
	for i, one := range f {
		of[i], groups[i] = binary.LittleEndian.Uint64(one.id[:]), one.group
		same = same && one.group == f[0].group
	}
	if same {
		return fmt.Sprintf("toUInt64(%d)", groups[0])
	}
	return "transform(" + byID + ", CAST([" + list(of) + "], 'Array(UInt64)'), CAST([" + list(groups) + "], 'Array(UInt64)'), toUInt64(0))"
}

// eachShard asks the shards that have series of the question.
func (x *question) eachShard(ctx context.Context, f func(ctx context.Context, shard int, n *node) error) error {
	return x.s.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		if x.few != nil && len(x.few[shard]) == 0 {
			return nil
		}
		return f(ctx, shard, n)
	})
}
