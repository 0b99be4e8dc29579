package otlp

import "tailscope/internal/observe/semconv"

// keyOrder predicts the keys of a span's attributes. A library sets them in one order, so
// that a key is nearly always the one that came after the same keys before. Comparing it is
// cheaper than hashing it.
//
// It is a tree: each node has a key, and the two keys that came last after it. It belongs to
// one decoder, and is not safe for concurrent use.
type keyOrder struct {
	at    uint8 // the node of the last key
	used  uint8 // nodes in use, without the root
	nodes [maxOrdered]orderedKey
}

const (
	maxOrdered    = 256 // nodes; the root is number 0
	maxOrderedKey = 43  // bytes of a key that is predicted, which make a node 48 bytes
)

// orderedKey is one key, after those of the nodes above it.
type orderedKey struct {
	next [2]uint8 // nodes of the key that came last after it, and of the last other one; 0 if there is none
	slot semconv.Slot
	rank uint8
	size uint8
	key  [maxOrderedKey]byte
}

// begin begins a span.
func (p *keyOrder) begin() { p.at = 0 }

// find returns what keys.Find does of the next key of the span.
func (p *keyOrder) find(keys *semconv.Keys, key []byte) (semconv.Slot, uint8) {
	next := &p.nodes[p.at].next
	i := next[0]
	n := &p.nodes[i]
	if !n.is(key) {
		if i = next[1]; !p.nodes[i].is(key) {
			return p.learn(keys, key)
		}
		n = &p.nodes[i]
		next[0], next[1] = i, next[0]
	}
	p.at = i
	return n.slot, n.rank
}

// is reports whether the node has a key; the root has none.
func (n *orderedKey) is(key []byte) bool {
	return uint(n.size) == uint(len(key)) && string(n.key[:len(key)]) == string(key)
}

// learn is find of a key that is not predicted.
func (p *keyOrder) learn(keys *semconv.Keys, key []byte) (semconv.Slot, uint8) {
	slot, rank := keys.Find(view(key))
	if len(key) == 0 || len(key) > maxOrderedKey {
		return slot, rank
	}
	at := &p.nodes[p.at]
	i := at.next[1] // replaced; what came after its key may come after this one
	if i == 0 {
		if p.used == maxOrdered-1 {
			p.used = 0
			at = &p.nodes[0]
			at.next = [2]uint8{}
		}
		p.used++
		i = p.used
		p.nodes[i].next = [2]uint8{}
	}
	n := &p.nodes[i]
	n.slot, n.rank, n.size = slot, rank, uint8(len(key))
	copy(n.key[:], key)
	at.next[0], at.next[1] = i, at.next[0]
	p.at = i
	return slot, rank
}
