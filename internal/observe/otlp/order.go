package otlp

import (
	"unsafe"

	"tailscope/internal/observe/semconv"
)

// keyOrder predicts the keys of a span's attributes. A library sets them in one order, so
// that a key is nearly always the one that came after the same keys before. Comparing it is
// cheaper than hashing it.
//
// It is a few trees: each node has a key, and the two keys that came last after it. Spans of
// different kinds and names begin at different roots, so that what differs between them is
// known before their keys. It belongs to one decoder, and is not safe for concurrent use.
type keyOrder struct {
	at    uint16                 // the node of the last key
	used  uint16                 // nodes in use, without the roots
	nodes [orderNodes]orderedKey // the roots are the first
}

const (
	orderRoots    = 32
	orderNodes    = 512 // with the roots
	minOrderedKey = 8 - keyFrame
	maxOrderedKey = 48 - keyFrame // bytes of a key that is predicted, which make a node 64 bytes

	keyFrame = 3 // bytes of a KeyValue around its key, short of the value: two tags and a length
)

// orderedKey is one key, after those of the nodes above it, as it begins a KeyValue: its
// field, and the tag of the value. The words overlap in short keys and leave no gap in any.
type orderedKey struct {
	next   [2]uint16 // nodes of the key that came last after it, and of the last other one; 0 if there is none
	slot   semconv.Slot
	rank   uint8
	size   uint8     // bytes of the beginning; 0 in a root
	second uint8     // offset of words[1]
	third  uint8     // offset of words[2]
	last   uint8     // offset of words[3], the end
	words  [6]uint64 // at 0, second, third, last, and 16 and 24 if size is over 32
}

// begin begins the attributes of spans that are alike in something: a hash of it.
func (p *keyOrder) begin(alike uint32) { p.at = uint16(alike % orderRoots) }

// find returns what keys.Find does of the next key of the span. begin is the beginning of its
// KeyValue, up to the value's tag.
func (p *keyOrder) find(keys *semconv.Keys, begin []byte) (semconv.Slot, uint8) {
	if n := p.predict(begin); n != nil && int(n.size) == len(begin) {
		return n.slot, n.rank
	}
	return p.learn(keys, begin)
}

// predict returns the node of the KeyValue that is the next of the span, or nil if another
// key is expected.
func (p *keyOrder) predict(kv []byte) *orderedKey {
	i := p.nodes[p.at].next[0]
	if n := &p.nodes[i]; n.begins(kv) {
		p.at = i
		return n
	}
	return p.predictOther(kv)
}

// predictOther is predict of what is not the key that came last.
func (p *keyOrder) predictOther(kv []byte) *orderedKey {
	next := &p.nodes[p.at].next
	i := next[1]
	n := &p.nodes[i]
	if !n.begins(kv) {
		return nil
	}
	next[0], next[1] = i, next[0]
	p.at = i
	return n
}

// begins reports whether a KeyValue begins with the node's key; none does with a root's.
func (n *orderedKey) begins(kv []byte) bool {
	size := uint(n.size)
	if uint(len(kv)) <= size-1 { // or 0
		return false
	}
	w := &n.words
	differs := word(kv, 0) ^ w[0] | word(kv, uint(n.second)) ^ w[1] | word(kv, uint(n.third)) ^ w[2] | word(kv, uint(n.last)) ^ w[3]
	return differs == 0 && (size <= 32 || word(kv, 16) == w[4] && word(kv, 24) == w[5])
}

// word returns the eight bytes of b at an index, which must be in it.
func word(b []byte, at uint) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
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
		if p.used == orderNodes-orderRoots {
			p.used = 0
			for i := range orderRoots {
				p.nodes[i].next = [2]uint16{}
			}
			p.at = 0
			at = &p.nodes[0]
		}
		i = orderRoots + p.used
		p.used++
		p.nodes[i].next = [2]uint16{}
	}
	n := &p.nodes[i]
	n.slot, n.rank, n.size = slot, rank, uint8(size)
	n.second, n.third, n.last = uint8(min(8, size-8)), uint8(max(size-16, 0)), uint8(size-8)
	n.words = [6]uint64{word(begin, 0), word(begin, uint(n.second)), word(begin, uint(n.third)), word(begin, uint(n.last))}
	if size > 32 {
		n.words[4], n.words[5] = word(begin, 16), word(begin, 24)
	}
	at.next[0], at.next[1] = i, at.next[0]
	p.at = i
	return slot, rank
}
