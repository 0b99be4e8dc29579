package agg

// list is a slice that grows without moving its elements. A copy of the list keeps the
// elements that it had when it was made.
type list[T any] struct {
	pages [][]T
	n     int
}

const (
	pageBits = 12
	pageLen  = 1 << pageBits
)

// newList returns a list of n zero values.
func newList[T any](n int) list[T] {
	var p list[T]
	for range n {
		var zero T
		p.push(zero)
	}
	return p
}

func (p *list[T]) at(i uint32) *T { return &p.pages[i>>pageBits][i&(pageLen-1)] }

// get returns element i, or element 0 if i is out of range.
func (p *list[T]) get(i uint32) *T {
	if int(i) >= p.n {
		i = 0
	}
	return p.at(i)
}

func (p *list[T]) push(v T) {
	if p.n == len(p.pages)<<pageBits {
		p.pages = append(p.pages, make([]T, pageLen))
	}
	p.n++
	*p.at(uint32(p.n - 1)) = v
}

// trim keeps the first n values.
func (p *list[T]) trim(n int) {
	for p.n > n {
		p.n--
		var zero T
		*p.at(uint32(p.n)) = zero
	}
	keep := (n + pageLen - 1) >> pageBits
	clear(p.pages[keep:])
	p.pages = p.pages[:keep]
}

// capacity reports how many values fit without growing.
func (p *list[T]) capacity() int64 { return int64(len(p.pages)) << pageBits }
