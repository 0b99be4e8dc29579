package explain

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/internal/series"
)

// change holds by how much requests, some or all, lie inside more often than before. All
// of it adds up: over rows, and with a factor.
//
// A stratum is a set of requests with the same labels but for status, which is an outcome.
// Of n requests now and m before, x and y lie inside: gain is W(x/n − y/m) with W =
// nm/(n+m), the weights of Mantel & Haenszel (1959, JNCI 22), to which a stratum that is
// missing on either side adds nothing.
type change struct {
	gain  float64
	noise float64 // variance of gain if requests were independent and nothing had changed
	// common is proportional to the gain of the same movement of all requests: of a shift
	// on the scale of the normal distribution's quantiles, W·φ(Φ⁻¹(x/n)).
	common    float64
	influence []float64 // of each slot on gain, those of the rectangle's time first
}

func (c *change) add(o *change, factor float64) {
	c.gain += factor * o.gain
	c.noise += math.Abs(factor) * o.noise
	c.common += factor * o.common
	if o.influence == nil {
		return
	}
	if c.influence == nil {
		c.influence = make([]float64, len(o.influence))
	}
	for t, v := range o.influence {
		c.influence[t] += factor * v
	}
}

// less returns c beyond what it would be if it had moved as rest did.
func (c *change) less(rest *change) (out change, moved float64) {
	factor := 0.0
	if rest.common > 0 {
		factor = c.common / rest.common
	}
	out.influence = make([]float64, len(c.influence))
	out.add(c, 1)
	out.add(rest, -factor)
	out.noise = c.noise + factor*factor*rest.noise
	return out, factor * rest.gain
}

// stratum holds the requests of the same labels but for status, and those before that
// they are compared with.
type stratum struct {
	labels      []int32 // values of all labels, status 0
	n           []float64
	now, before float64 // requests
	weight      float64
	was         float64 // share inside before
	common      float64
	like        []int // strata whose requests before are compared with: itself, or those alike
}

// strata are the rows of a table as changes.
type strata struct {
	*table
	v         *values
	names     []string // of all labels
	looked    []bool   // by name: its values are examined
	status    int      // index in names; −1
	list      []stratum
	of        []int // stratum of a row
	rows      []change
	inside    []float64 // of each row, now
	explained []bool    // rows that a cause holds
}

const anyValue = int32(-1)

// newStrata compares each row's requests with those before.
func newStrata(t *table, v *values, only []string) *strata {
	s := &strata{table: t, v: v, status: -1}
	s.names = t.allNames()
	differ := t.names(only)
	for i, name := range s.names {
		s.looked = append(s.looked, slices.Contains(differ, name))
		if name == series.LabelStatus {
			s.status = i
		}
	}
	index := map[string]int{}
	t.values = nil
	for i, l := range t.labels {
		numbers := make([]int32, len(s.names))
		for k, name := range s.names {
			numbers[k] = v.numberOf(labels.Label{Name: name, Value: l.Get(name)})
		}
		t.values = append(t.values, numbers)
		bare := slices.Clone(numbers)
		if s.status >= 0 {
			bare[s.status] = anyValue
		}
		k := key(bare)
		at, ok := index[k]
		if !ok {
			at = len(s.list)
			index[k] = at
			s.list = append(s.list, stratum{labels: bare, n: make([]float64, t.window+t.rest)})
		}
		for j, n := range t.rows[i].all {
			s.list[at].n[j] += n
		}
		s.of = append(s.of, at)
	}
	for i := range s.list {
		x := &s.list[i]
		x.now, x.before = sum(x.n[:t.window]), sum(x.n[t.window:])
		x.like = []int{i}
	}
	s.match()
	s.compare()
	return s
}

func key(numbers []int32) string {
	out := make([]byte, 0, 4*len(numbers))
	for _, n := range numbers {
		out = append(out, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return string(out)
}

// match finds for strata without requests before those that are alike but for values that
// are new, such as a version's or an instance's.
func (s *strata) match() {
	type amount struct{ now, before float64 }
	amounts := map[int32]*amount{}
	for i := range s.list {
		for _, n := range s.list[i].labels {
			if amounts[n] == nil {
				amounts[n] = &amount{}
			}
			amounts[n].now += s.list[i].now
			amounts[n].before += s.list[i].before
		}
	}
	alike := map[string]map[string][]int{} // by the labels that are new, then by the others
	for i := range s.list {
		x := &s.list[i]
		if x.before > 0 || x.now == 0 {
			continue
		}
		fresh := make([]bool, len(x.labels))
		some := false
		pattern := make([]int32, len(x.labels))
		for k, n := range x.labels {
			if n != anyValue && amounts[n].before < fewest {
				fresh[k], some, pattern[k] = true, true, 1
			}
		}
		if !some {
			continue
		}
		without := func(numbers []int32) string {
			out := slices.Clone(numbers)
			for k := range out {
				if fresh[k] {
					out[k] = anyValue
				}
			}
			return key(out)
		}
		p := key(pattern)
		if alike[p] == nil {
			alike[p] = map[string][]int{}
			for j := range s.list {
				if s.list[j].before > 0 {
					k := without(s.list[j].labels)
					alike[p][k] = append(alike[p][k], j)
				}
			}
		}
		x.like = alike[p][without(x.labels)]
	}
}

// compare fills in the changes of rows.
func (s *strata) compare() {
	slots, window := s.window+s.rest, s.window
	byStatus := make([]map[int32]int, len(s.list)) // rows of a stratum
	for i, at := range s.of {
		if byStatus[at] == nil {
			byStatus[at] = map[int32]int{}
		}
		byStatus[at][s.statusOf(i)] = i
	}
	s.rows = make([]change, len(s.of))
	s.inside, s.explained = make([]float64, len(s.of)), make([]bool, len(s.of))
	for at := range s.list {
		x := &s.list[at]
		n := slices.Clone(x.n) // and of those before that it is compared with
		clear(n[window:])
		for _, like := range x.like {
			for t := window; t < slots; t++ {
				n[t] += s.list[like].n[t]
			}
		}
		now, before := x.now, sum(n[window:])
		if now == 0 || before == 0 {
			continue
		}
		x.weight = now * before / (now + before)
		in, was := 0.0, 0.0
		var statuses []int32
		for _, like := range append([]int{at}, x.like...) {
			statuses = slices.AppendSeq(statuses, maps.Keys(byStatus[like]))
		}
		slices.Sort(statuses)
		var mine []int
		for _, status := range slices.Compact(statuses) {
			row, ok := byStatus[at][status]
			if !ok {
				row = s.addRow(at, status)
			}
			mine = append(mine, row)
			y := make([]float64, slots)
			copy(y, s.table.rows[row].in[:window])
			for _, like := range x.like {
				if other, ok := byStatus[like][status]; ok {
					for t := window; t < slots; t++ {
						y[t] += s.table.rows[other].in[t]
					}
				}
			}
			a, b := sum(y[:window]), sum(y[window:])
			c := &s.rows[row]
			c.gain = x.weight * (a/now - b/before)
			c.noise = noise(a, now, b, before)
			c.influence = make([]float64, slots)
			for t := range y {
				if t < window {
					c.influence[t] = x.weight / now * (y[t] - a/now*n[t])
				} else {
					c.influence[t] = -x.weight / before * (y[t] - b/before*n[t])
				}
			}
			s.inside[row] = a
			in, was = in+a, was+b
		}
		x.was = was / before
		share := (in + was) / (now + before)
		x.common = x.weight * density(share)
		for _, row := range mine {
			// By their parts of what is inside.
			part := 1 / float64(len(mine))
			if in+was > 0 {
				a, b := s.inside[row], 0.0
				b = before * (a/now - s.rows[row].gain/x.weight)
				part = (a + b) / (in + was)
			}
			s.rows[row].common = part * x.common
		}
	}
}

// noise returns the variance of the gain of a stratum with a of n requests inside now and
// b of m before if requests are independent and are inside as often now as before: the
// hypergeometric distribution's.
func noise(a, n, b, m float64) float64 {
	all, inside := n+m, a+b
	if all <= 1 {
		return 0
	}
	return n * m * inside * (all - inside) / (all * all * (all - 1))
}

// density returns φ(Φ⁻¹(share)).
func density(share float64) float64 {
	if !(share > 0 && share < 1) {
		return 0
	}
	return distuv.UnitNormal.Prob(distuv.UnitNormal.Quantile(share))
}

// addRow adds a row to a stratum that has no requests of a status.
func (s *strata) addRow(at int, status int32) int {
	numbers := slices.Clone(s.list[at].labels)
	numbers[s.status] = status
	s.values, s.of = append(s.values, numbers), append(s.of, at)
	s.table.rows = append(s.table.rows, s.table.empty())
	s.table.labels = append(s.table.labels, labels.EmptyLabels())
	s.rows, s.inside, s.explained = append(s.rows, change{}), append(s.inside, 0), append(s.explained, false)
	return len(s.of) - 1
}

func (s *strata) statusOf(row int) int32 {
	if s.status < 0 {
		return anyValue
	}
	return s.values[row][s.status]
}

// allNames returns the names of all labels, sorted.
func (t *table) allNames() []string {
	var out []string
	for _, l := range t.labels {
		l.Range(func(x labels.Label) {
			if at, ok := slices.BinarySearch(out, x.Name); !ok {
				out = slices.Insert(out, at, x.Name)
			}
		})
	}
	return out
}

// has reports whether a row has the candidate's labels.
func (s *strata) has(row int, c *suspect) bool {
	n := s.values[row]
	return (c.a < 0 || slices.Contains(n, c.a)) && (c.b < 0 || slices.Contains(n, c.b))
}
