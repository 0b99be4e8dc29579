package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// Traces returns the requests that match.
//
// It reads no bodies. A list holds the requests of one hour slowest first, so a question
// for the slowest reads of each hour only what is slower than the slowest found so far,
// at most q.Limit requests and two more. A question for the newest begins with the last
// hour and reads its list within the requested durations, and earlier hours only while
// fewer than q.Limit are found. Filters that have no list (tenant, reason, an operation
// without its service, moments within an hour) are applied one by one on the way: at
// worst to every request of the list in the range.
func (s *Store) Traces(ctx context.Context, q store.TraceQuery) ([]store.TraceHit, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{tableTraceEntry}, UpperBound: []byte{tableTraceEntry + 1}})
	if err != nil {
		return nil, fmt.Errorf("kept traces: %w", classify(err))
	}
	defer it.Close()
	f := newTraceFinder(it, q)
	if err := f.run(ctx); err != nil {
		return nil, fmt.Errorf("kept traces: %w", err)
	}
	return f.found, nil
}

// traceFinder collects the hits of one query.
type traceFinder struct {
	it      *pebble.Iterator
	q       store.TraceQuery
	list    traceList
	failed  []bool // which halves of the lists to read
	compare func(a, b *store.TraceHit) int

	found  []store.TraceHit // at most q.Limit, or twice that on the way to the newest
	sorted int              // how many of found, from the first on, are sorted
	from   int              // index in found of the first hit of the current hour
	key    []byte
	rows   int // requests read
}

func newTraceFinder(it *pebble.Iterator, q store.TraceQuery) *traceFinder {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if q.MaxNanos == 0 {
		q.MaxNanos = math.MaxInt64
	}
	f := &traceFinder{it: it, q: q, failed: []bool{false, true}, compare: slowestFirst}
	if q.Failed != nil {
		f.failed = []bool{*q.Failed}
	}
	if q.Order == store.Newest {
		f.compare = newestFirst
	}
	if q.Service != "" {
		f.list = listOf(q.Service, q.Operation)
	} else {
		f.list = listOf("", "")
	}
	return f
}

func slowestFirst(a, b *store.TraceHit) int {
	return cmp.Or(cmp.Compare(b.DurationNanos, a.DurationNanos), cmp.Compare(b.StartNanos, a.StartNanos), byID(a, b))
}

func newestFirst(a, b *store.TraceHit) int {
	return cmp.Or(cmp.Compare(b.StartNanos, a.StartNanos), cmp.Compare(b.DurationNanos, a.DurationNanos), byID(a, b))
}

func byID(a, b *store.TraceHit) int {
	return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), bytes.Compare(a.Span[:], b.Span[:]))
}

// run reads the hours backwards.
func (f *traceFinder) run(ctx context.Context) error {
	if f.q.StartNanos >= f.q.EndNanos || f.q.MaxNanos < f.q.MinNanos {
		return nil
	}
	first, part := tracePartOf(f.q.StartNanos), tracePartOf(f.q.EndNanos-1)
	for {
		// The last hour up to part that holds anything.
		if !f.it.SeekLT(appendTime([]byte{tableTraceEntry}, part+tracePart)) {
			return classify(f.it.Error())
		}
		if part = readTime(f.it.Key()[1:]); part < first {
			return nil
		}
		if f.q.Order == store.Newest && len(f.found) == f.q.Limit {
			return nil // older ones cannot be among them
		}
		f.from = len(f.found)
		for _, failed := range f.failed {
			if err := f.half(ctx, part, failed); err != nil {
				return err
			}
		}
		if f.q.Order == store.Newest {
			f.cut()
		}
		part -= tracePart
	}
}

// half reads the failed or the other requests of one hour, slowest first.
func (f *traceFinder) half(ctx context.Context, part int64, failed bool) error {
	f.key = listPrefix(f.key[:0], part, f.list, failed)
	f.key = appendFalling(f.key, f.q.MaxNanos)
	var hit store.TraceHit
	for ok := f.it.SeekGE(f.key); ok; ok = f.it.Next() {
		key := f.it.Key()
		if len(key) < traceListLen || !bytes.Equal(key[:traceListLen], f.key[:traceListLen]) {
			return nil
		}
		if f.rows++; f.rows%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := readTraceEntry(&hit, key); err != nil {
			return err
		}
		full := f.sorted == f.q.Limit
		if hit.DurationNanos < f.q.MinNanos || full && f.q.Order == store.Slowest && f.compare(&hit, &f.found[f.q.Limit-1]) > 0 {
			return nil // and so are all that follow
		}
		if hit.StartNanos < f.q.StartNanos || hit.StartNanos >= f.q.EndNanos || full && f.compare(&hit, &f.found[f.q.Limit-1]) > 0 {
			continue
		}
		v, err := f.it.ValueAndErr()
		if err != nil {
			return classify(err)
		}
		n, err := readNames(v)
		if err != nil {
			return fmt.Errorf("request %x of trace %x: %w", hit.Span, hit.ID, err)
		}
		if f.wants(&n) {
			hit.Why = n.why
			hit.Service, hit.Operation, hit.Tenant = string(n.service), string(n.operation), string(n.tenant)
			f.add(hit)
		}
	}
	return classify(f.it.Error())
}

func (f *traceFinder) wants(n *names) bool {
	return (f.q.Service == "" || string(n.service) == f.q.Service) &&
		(f.q.Operation == "" || string(n.operation) == f.q.Operation) &&
		(f.q.Tenant == "" || string(n.tenant) == f.q.Tenant) &&
		(f.q.Why == 0 || n.why&f.q.Why != 0)
}

// add inserts a hit and drops the last beyond the limit. An hour is read slowest first,
// so that the slowest come nearly in order; the newest do not, and are sorted from time
// to time.
func (f *traceFinder) add(hit store.TraceHit) {
	if f.q.Order == store.Newest {
		if f.found = append(f.found, hit); len(f.found) >= 2*f.q.Limit {
			f.cut()
		}
		return
	}
	i, _ := slices.BinarySearchFunc(f.found, &hit, func(a store.TraceHit, b *store.TraceHit) int { return f.compare(&a, b) })
	if len(f.found) == f.q.Limit {
		f.found = f.found[:len(f.found)-1]
	}
	f.found = slices.Insert(f.found, i, hit)
	f.sorted = len(f.found)
}

// cut sorts the hits of the current hour, which are older than all before them, and
// drops what is beyond the limit.
func (f *traceFinder) cut() {
	slices.SortFunc(f.found[f.from:], func(a, b store.TraceHit) int { return f.compare(&a, &b) })
	f.found = f.found[:min(len(f.found), f.q.Limit)]
	f.sorted = len(f.found)
}
