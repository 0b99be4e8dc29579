package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrBusy reports that all questions together hold as much memory as they may. A later
// retry may succeed.
var ErrBusy = errors.New("the memory for questions is in use")

// errOver refuses to reserve for a question that is over: nobody would release it.
var errOver = errors.New("the question is over")

// BudgetError reports that a question would hold more memory than it may. It matches
// ErrTooMany.
type BudgetError struct {
	LimitBytes int64
	AskedBytes int64 // what it would hold with the refused bytes; more would have followed
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the question takes more than %d MiB of memory", e.LimitBytes>>20)
}

func (e *BudgetError) Is(target error) bool { return target == ErrTooMany }

// Memory bounds the bytes that questions hold together. Its methods are safe for
// concurrent use.
type Memory struct {
	whole *Memory // the memory that this is a part of, or nil
	limit int64
	used  atomic.Int64
	peak  atomic.Int64
}

// NewMemory returns a bound of limitBytes on all questions together.
func NewMemory(limitBytes int64) *Memory { return &Memory{limit: limitBytes} }

// Part returns a bound of limitBytes within m, which counts its bytes too: so that one
// kind of question leaves some to others.
func (m *Memory) Part(limitBytes int64) *Memory { return &Memory{whole: m, limit: limitBytes} }

// Used returns the bytes reserved now, Peak the most ever reserved at once.
func (m *Memory) Used() int64  { return m.used.Load() }
func (m *Memory) Peak() int64  { return m.peak.Load() }
func (m *Memory) Limit() int64 { return m.limit }

func (m *Memory) take(n int64) bool {
	used := m.used.Add(n)
	if n > 0 && used > m.limit || m.whole != nil && !m.whole.take(n) {
		m.used.Add(-n)
		return false
	}
	for p := m.peak.Load(); used > p && !m.peak.CompareAndSwap(p, used); p = m.peak.Load() {
	}
	return true
}

// Question returns the budget of one question. Close releases its bytes.
func (m *Memory) Question(limitBytes int64) *Budget { return &Budget{memory: m, limit: limitBytes} }

// Budget bounds the bytes that one question holds, which are reserved before they are
// allocated. Its methods are safe for concurrent use; a nil Budget has no bound.
type Budget struct {
	whole  *Budget // the budget that this is a part of, or nil
	memory *Memory
	limit  int64
	used   atomic.Int64
	taken  atomic.Int64 // from memory, in pieces
	closed atomic.Bool
}

// budgetPiece is the number of bytes that a budget takes from Memory at once.
const budgetPiece = 256 << 10

// Reserve reserves n bytes. It returns a BudgetError if the question's share is used up,
// and wraps ErrBusy if all questions together use theirs. It refuses after Close.
func (b *Budget) Reserve(n int64) error {
	if b == nil || n <= 0 {
		return nil
	}
	if b.closed.Load() {
		return errOver
	}
	if b.whole != nil {
		err := b.whole.Reserve(n)
		if err == nil {
			b.used.Add(n)
		}
		return err
	}
	used := b.used.Add(n)
	if used > b.limit {
		b.used.Add(-n)
		return &BudgetError{b.limit, used}
	}
	for taken := b.taken.Load(); used > taken; taken = b.taken.Load() {
		more := min(max(used-taken, budgetPiece), b.limit-taken)
		if !b.memory.take(more) {
			b.used.Add(-n)
			return fmt.Errorf("all questions together take more than %d MiB: %w", b.memory.limit>>20, ErrBusy)
		}
		b.taken.Add(more)
	}
	if b.closed.Load() { // meanwhile; Close may have missed what was taken
		b.memory.take(-b.taken.Swap(0))
		return errOver
	}
	return nil
}

// Beside returns the budget of another question, which may last longer than b: it has the
// bound of b, and reserves from the same memory. Beside nil it has no bound. Close releases
// its bytes.
func (b *Budget) Beside() *Budget {
	if b == nil {
		return nil
	}
	if b.whole != nil {
		return b.whole.Beside()
	}
	return b.memory.Question(b.limit)
}

// Release releases n reserved bytes.
func (b *Budget) Release(n int64) {
	if b != nil && n > 0 {
		b.used.Add(-n)
		b.whole.Release(n)
	}
}

// Used returns the bytes reserved now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Left returns the bytes that can still be reserved.
func (b *Budget) Left() int64 {
	if b == nil {
		return 1 << 62
	}
	if b.whole != nil {
		return b.whole.Left()
	}
	return b.limit - b.used.Load()
}

// Close ends the question, or its part, and releases all its bytes.
func (b *Budget) Close() {
	if b == nil {
		return
	}
	b.closed.Store(true)
	if b.whole != nil {
		b.whole.Release(b.used.Swap(0))
	} else {
		b.memory.take(-b.taken.Swap(0))
	}
}

type budgetKey struct{}

// WithBudget returns a context whose questions reserve from b.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

// BudgetOf returns the budget of a question, or nil if it has none.
func BudgetOf(ctx context.Context) *Budget {
	b, _ := ctx.Value(budgetKey{}).(*Budget)
	return b
}

// Passing returns a context for a part of a question of which nothing that was read is
// kept: done releases what the part reserved, while the question goes on.
func Passing(ctx context.Context) (_ context.Context, done func()) {
	whole := BudgetOf(ctx)
	if whole == nil {
		return ctx, func() {}
	}
	b := &Budget{whole: whole}
	return WithBudget(ctx, b), b.Close
}
