package series

// Table maps identities to numbers greater than 0. The caller owns the identities,
// indexed by number, and passes them to each call, so that a table takes eight bytes a
// slot, holds no pointers, and a successful look-up costs two loads from memory. The
// zero Table is empty.
type Table struct {
	slots []uint64 // low half of ID.Lo above bit 32, number below; 0 is empty
	n     int
}

// Len returns how many numbers the table holds.
func (t *Table) Len() int { return t.n }

// Bytes returns the memory that the table takes, in bytes.
func (t *Table) Bytes() int64 { return int64(len(t.slots)) * 8 }

// Find returns the number of id, or 0 if the table lacks it. ids holds the identity of
// every number of the table.
func (t *Table) Find(ids []ID, id ID) uint32 {
	if t.n == 0 {
		return 0
	}
	mask := uint32(len(t.slots) - 1)
	tag := uint32(id.Lo)
	for p := tag & mask; ; p = (p + 1) & mask {
		s := t.slots[p]
		if s == 0 {
			return 0
		}
		if uint32(s>>32) == tag && ids[uint32(s)] == id {
			return uint32(s)
		}
	}
}

// Add enters number, greater than 0, under id. The table must lack id.
func (t *Table) Add(id ID, number uint32) {
	if 3*t.n >= 2*len(t.slots) {
		t.Grow(max(t.n/2, 512)) // n/2 more fit into twice the slots; more would take four times
	}
	t.place(uint64(uint32(id.Lo))<<32 | uint64(number))
	t.n++
}

// Grow allocates slots for n more numbers.
func (t *Table) Grow(n int) {
	size := max(1024, len(t.slots))
	for 3*(t.n+n) > 2*size {
		size *= 2
	}
	if size == len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]uint64, size)
	for _, s := range old {
		if s != 0 {
			t.place(s)
		}
	}
}

// Shrink releases memory if most of the table is empty.
func (t *Table) Shrink() {
	if len(t.slots) <= 1024 || 8*t.n > len(t.slots) {
		return
	}
	old := t.slots
	t.slots = nil
	t.Grow(t.n)
	for _, s := range old {
		if s != 0 {
			t.place(s)
		}
	}
}

func (t *Table) place(s uint64) {
	mask := uint32(len(t.slots) - 1)
	p := uint32(s>>32) & mask
	for t.slots[p] != 0 {
		p = (p + 1) & mask
	}
	t.slots[p] = s
}

// Delete removes number if the table maps id to it.
func (t *Table) Delete(id ID, number uint32) {
	if t.n == 0 {
		return
	}
	mask := uint32(len(t.slots) - 1)
	want := uint64(uint32(id.Lo))<<32 | uint64(number)
	p := uint32(id.Lo) & mask
	for t.slots[p] != want {
		if t.slots[p] == 0 {
			return
		}
		p = (p + 1) & mask
	}
	t.n--
	// Entries behind the gap move up, unless that moves them before their own slot.
	for q := (p + 1) & mask; t.slots[q] != 0; q = (q + 1) & mask {
		home := uint32(t.slots[q]>>32) & mask
		if (q-home)&mask >= (q-p)&mask {
			t.slots[p] = t.slots[q]
			p = q
		}
	}
	t.slots[p] = 0
}
