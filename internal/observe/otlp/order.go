package otlp

import (
	"encoding/binary"

	"tailscope/internal/observe/semconv"
)

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
	minOrderedKey = 8 - keyFrame
	maxOrderedKey = 48 - keyFrame // bytes of a key that is predicted, which make a node 64 bytes

	keyFrame = 3 // bytes of a KeyValue around its key, short of the value: two tags and a length
)

// orderedKey is one key, after those of the nodes above it, as it begins a KeyValue: its
// field, and the tag of the value. The words overlap in short keys and leave no gap in any.
type orderedKey struct {
	next   [2]uint8 // nodes of the key that came last after it, and of the last other one; 0 if there is none
	slot   semconv.Slot
	rank   uint8
	size   uint8     // bytes of the beginning; 0 in the root
	second uint8     // offset of words[1]
	third  uint8     // offset of words[2]; words[3] ends the beginning
	words  [6]uint64 // at 0, second, third, size-8, and 16 and 24 if size is over 32
}

// begin begins a span.
func (p *keyOrder) begin() { p.at = 0 }

// find returns what keys.Find does of the next key of the span. begin is the beginning of its
// KeyValue, up to the value's tag.
func (p *keyOrder) find(keys *semconv.Keys, begin []byte) (semconv.Slot, uint8) {
	if n := p.predict(begin); n != nil && int(n.size) == len(begin) {
		return n.slot, n.rank
	}
	return p.learn(keys, begin)
}

// predict returns the node of the KeyValue that is the next of the span, or nil if it is not
// one of those that are expected.
func (p *keyOrder) predict(kv []byte) *orderedKey {
	next := &p.nodes[p.at].next
	i := next[0]
	n := &p.nodes[i]
	if !n.begins(kv) {
		if i = next[1]; !p.nodes[i].begins(kv) {
			return nil
		}
		n = &p.nodes[i]
		next[0], next[1] = i, next[0]
	}
	p.at = i
	return n
}

// begins reports whether a KeyValue begins with the node's key; none does with the root's.
func (n *orderedKey) begins(kv []byte) bool {
	size := int(n.size)
	if size == 0 || len(kv) < size {
		return false
	}
	kv = kv[:size]
	w := &n.words
	differs := binary.LittleEndian.Uint64(kv) ^ w[0] | binary.LittleEndian.Uint64(kv[n.second:]) ^ w[1] |
		binary.LittleEndian.Uint64(kv[n.third:]) ^ w[2] | binary.LittleEndian.Uint64(kv[size-8:]) ^ w[3]
	if size > 32 {
		differs |= binary.LittleEndian.Uint64(kv[16:]) ^ w[4] | binary.LittleEndian.Uint64(kv[24:]) ^ w[5]
	}
	return differs == 0
}

// learn is find of a key that is not predicted.
func (p *keyOrder) learn(keys *semconv.Keys, begin []byte) (semconv.Slot, uint8) {
	slot, rank := keys.Find(view(begin[2 : len(begin)-1]))
	size := len(begin)
	if size < minOrderedKey+keyFrame || size > maxOrderedKey+keyFrame {
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
	n.slot, n.rank, n.size = slot, rank, uint8(size)
	n.second, n.third = uint8(min(8, size-8)), uint8(max(size-16, 0))
	for i, at := range [...]int{0, int(n.second), int(n.third), size - 8} {
		n.words[i] = binary.LittleEndian.Uint64(begin[at:])
	}
	if size > 32 {
		n.words[4], n.words[5] = binary.LittleEndian.Uint64(begin[16:]), binary.LittleEndian.Uint64(begin[24:])
	}
	at.next[0], at.next[1] = i, at.next[0]
	p.at = i
	return slot, rank
}
