package store

import (
	"errors"
	"sync"
	"testing"
)

func TestBudget(t *testing.T) {
	const mib = 1 << 20
	all := NewMemory(8 * mib)
	part := all.Part(5 * mib)
	a, b := part.Question(4*mib), part.Question(4*mib)
	if err := a.Reserve(4 * mib); err != nil {
		t.Fatal(err)
	}
	var budget *BudgetError
	if err := a.Reserve(1); !errors.Is(err, ErrTooMany) || !errors.As(err, &budget) || budget.LimitBytes != 4*mib {
		t.Errorf("more than a question's share: %v", err)
	}
	if err := b.Reserve(2 * mib); !errors.Is(err, ErrBusy) || errors.Is(err, ErrTooMany) {
		t.Errorf("more than the part has left: %v", err)
	}
	page := all.Question(4 * mib)
	if err := page.Reserve(4 * mib); err != nil {
		t.Errorf("beside the part: %v", err)
	}
	a.Release(3 * mib)
	if err := a.Reserve(3 * mib); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	a.Close()
	if err := b.Reserve(2 * mib); err != nil {
		t.Errorf("after the other's end: %v", err)
	}
	b.Close()
	page.Close()
	if all.Used() != 0 || part.Used() != 0 {
		t.Errorf("%d and %d bytes are held after the end of all", all.Used(), part.Used())
	}
	if p := all.Peak(); p != 8*mib {
		t.Errorf("peak %d, want 8 MiB", p)
	}
	var none *Budget
	if err := none.Reserve(1 << 40); err != nil || none.Used() != 0 {
		t.Errorf("without a budget: %v", err)
	}
	none.Release(1)
	none.Close()
}

// However many reserve at once, no more than the limit is taken.
func TestBudgetAtOnce(t *testing.T) {
	all := NewMemory(64 << 20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b := all.Question(16 << 20)
			defer b.Close()
			for b.Reserve(10_000) == nil {
			}
		})
	}
	wg.Wait()
	if all.Used() != 0 || all.Peak() > 64<<20 {
		t.Errorf("%d bytes are held after all, %d at most", all.Used(), all.Peak())
	}
}
