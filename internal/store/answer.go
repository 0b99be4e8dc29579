package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

type answerKey struct{}

// answer is what the questions of one answer share.
type answer struct {
	began  time.Time
	budget *Budget

	mu    sync.Mutex
	parts map[[sha256.Size]byte]*part
	kept  int64 // bytes
}

// part is something that was read, or is being read.
type part struct {
	done   chan struct{} // closed once the rest is set
	data   []byte
	err    error
	shared bool // its bytes are those of the answer
}

// OneAnswer returns a context of the questions that make one answer. A store in several
// processes may answer them as of a moment after the call, and not of each question; what this
// process put before a question is in its answer all the same. What they keep for each other
// is reserved from the budget of ctx.
func OneAnswer(ctx context.Context) context.Context {
	return context.WithValue(ctx, answerKey{}, &answer{began: time.Now(), budget: BudgetOf(ctx), parts: map[[sha256.Size]byte]*part{}})
}

// AnswerBegan returns when OneAnswer was called; ok is false if it was not.
func AnswerBegan(ctx context.Context) (began time.Time, ok bool) {
	a, ok := ctx.Value(answerKey{}).(*answer)
	if !ok {
		return time.Time{}, false
	}
	return a.began, true
}

// mostKept bounds the bytes that questions of one answer keep for each other, keptShare the
// part of the answer's memory that these are, and partBytes is what one takes beside its data.
const (
	mostKept  = 8 << 20
	keptShare = 8
	partBytes = 200
)

// Once returns what read returns, for the questions of one answer: read is called once for a
// key, as far as there is memory to keep what it returned, while it succeeds. The data must
// not be changed. A question outside of an answer reads for itself.
func Once(ctx context.Context, key string, read func() ([]byte, error)) ([]byte, error) {
	a, ok := ctx.Value(answerKey{}).(*answer)
	if !ok {
		return read()
	}
	id := sha256.Sum256([]byte(key))
	for {
		a.mu.Lock()
		p := a.parts[id]
		if p == nil {
			p = &part{done: make(chan struct{}), err: context.Canceled} // if read panics
			a.parts[id] = p
			a.mu.Unlock()
			return a.read(id, p, read)
		}
		a.mu.Unlock()
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case p.err != nil: // whoever read it may have ended
		case p.shared:
			return p.data, nil
		default:
			return p.data, BudgetOf(ctx).Reserve(int64(len(p.data)))
		}
	}
}

// read reads a part, and keeps it if there is memory for it.
func (a *answer) read(id [sha256.Size]byte, p *part, read func() ([]byte, error)) ([]byte, error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if p.err == nil {
			p.shared = a.mayKeep(int64(len(p.data)) + partBytes)
		}
		if p.shared {
			p.data = bytes.Clone(p.data) // without what is behind it
		} else {
			delete(a.parts, id)
		}
		close(p.done)
	}()
	p.data, p.err = read()
	return p.data, p.err
}

// mayKeep reserves bytes that are kept until the answer is made, if that leaves enough. The
// caller holds mu.
func (a *answer) mayKeep(size int64) bool {
	all := a.kept + size
	if all > mostKept || all > (a.budget.Left()+a.kept)/keptShare || a.budget.Reserve(size) != nil {
		return false
	}
	a.kept = all
	return true
}
