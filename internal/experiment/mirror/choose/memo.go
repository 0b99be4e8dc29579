package choose

import (
	"hash/maphash"
	"sync"
)

// memo caches values by short texts. A text takes the place of another with the same
// hash, so that memo neither grows nor allocates.
type memo[V any] struct {
	seed  maphash.Seed
	slots [1024]memorised[V]
}

type memorised[V any] struct {
	mu    sync.Mutex
	size  int // of text; 0 if there is none
	text  [96]byte
	value V
}

func newMemo[V any]() *memo[V] { return &memo[V]{seed: maphash.MakeSeed()} }

func (m *memo[V]) get(text []byte) (value V, ok bool) {
	s := m.slot(text)
	if s == nil {
		return value, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size != len(text) || string(s.text[:s.size]) != string(text) {
		return value, false
	}
	return s.value, true
}

func (m *memo[V]) put(text []byte, value V) {
	if s := m.slot(text); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size = copy(s.text[:], text)
		s.value = value
	}
}

// slot returns the text's place, or nil if it is not cached.
func (m *memo[V]) slot(text []byte) *memorised[V] {
	if len(text) == 0 || len(text) > len(m.slots[0].text) {
		return nil
	}
	return &m.slots[maphash.Bytes(m.seed, text)%uint64(len(m.slots))]
}
