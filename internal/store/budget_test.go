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

// A question that is over reserves nothing, also where it does so while it ends.
func TestBudgetAfterClose(t *testing.T) {
	all := NewMemory(64 << 20)
	for range 1000 {
		b := all.Question(16 << 20)
		passing, done := Passing(WithBudget(t.Context(), b))
		done()
		if err := BudgetOf(passing).Reserve(1); err == nil {
			t.Fatal("a part that is over reserves")
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for b.Reserve(100_000) == nil {
			}
		})
		b.Close()
		wg.Wait()
		if err := b.Reserve(1); err == nil {
			t.Fatal("a question that is over reserves")
		}
		if used := all.Used(); used != 0 {
			t.Fatalf("%d bytes are held after the question", used)
		}
	}
}

// What a part of a question reserved is released with it, and no more.
func TestPassing(t *testing.T) {
	m := NewMemory(10 << 20)
	question := m.Question(1 << 20)
	ctx := WithBudget(t.Context(), question)
	if err := question.Reserve(1000); err != nil {
		t.Fatal(err)
	}
	passing, done := Passing(ctx)
	part := BudgetOf(passing)
	if err := part.Reserve(500 << 10); err != nil {
		t.Fatal(err)
	}
	part.Release(100 << 10)
	if got, want := question.Used(), int64(1000+(400<<10)); got != want {
		t.Errorf("the question holds %d, want %d", got, want)
	}
	var refused *BudgetError
	if err := part.Reserve(1 << 20); !errors.As(err, &refused) {
		t.Errorf("more than the question's memory: got %v", err)
	}
	if got, want := part.Left(), question.Left(); got != want {
		t.Errorf("left %d, want %d", got, want)
	}
	done()
	if got := question.Used(); got != 1000 {
		t.Errorf("the question holds %d after its part, want 1000", got)
	}
	question.Close()
	if m.Used() != 0 {
		t.Errorf("%d are held after the question", m.Used())
	}
	if same, done := Passing(t.Context()); BudgetOf(same) != nil {
		t.Error("a question without a bound has one")
	} else {
		done()
	}
}
