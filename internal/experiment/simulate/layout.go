package simulate

import (
	"errors"
	"fmt"
	"math"
)

// Layout is what leaves run on. Durations are seconds; the zero value of a field means
// that there is no such thing, unless said otherwise.
type Layout struct {
	Name string
	X    float64 // value of what layouts differ in; NaN if it is not a number

	Nodes  int // that serve leaves, at least 1
	Shards int // that the data is in and a query asks, at least 1
	Split  Split
	// Replicas is how many nodes hold each shard; 0 is 1. Pick says which of them is
	// asked.
	Replicas int
	Pick     Pick

	Threads int     // of a node, each with one leaf at a time; 0 is as many as there are leaves
	Cores   float64 // of a node, shared by what runs; 0 is enough
	// Speed is that of cores against those the leaves were measured on; 0 is 1. It
	// shortens what a core is needed for.
	Speed float64
	// Neighbours is how much longer work takes when all other cores of the node are
	// busy (memory bandwidth, shared caches), for instance 0.3; it grows with the share
	// of them that is. It needs Cores.
	Neighbours float64
	Overhead   float64 // of a core, added to each leaf whatever its size
	Network    float64 // there and back, added to each leaf, nobody busy with it

	Arrivals Arrivals
	Rate     float64 // queries a second
	Users    int     // of closed arrivals: each asks, waits for the answer, and thinks
	Think    float64 // mean time between an answer and the user's next query, exponential

	Slow       Slow
	Pause      Pause
	Hedge      Hedge
	Cache      Cache
	Aggregator Aggregator

	Price float64 // of a node and hour
}

// Split says into how many shards data can be divided.
type Split string

const (
	// AsGiven is Layout.Shards, spread over nodes as evenly as they go.
	AsGiven Split = ""
	// Binary is the next power of two.
	Binary Split = "binary"
	// Arbitrary is as many more as make every node's share, and the rounds of its
	// threads, come out even.
	Arbitrary Split = "arbitrary"
)

// Pick says which of a shard's replicas is asked.
type Pick string

const (
	Random Pick = ""       // any, for each leaf anew
	Rotate Pick = "rotate" // in turn, all leaves of a query the same
	Least  Pick = "least"  // the one with the fewest leaves under way
)

// Arrivals says how queries come.
type Arrivals string

const (
	Poisson Arrivals = ""
	Even    Arrivals = "even"
	Closed  Arrivals = "closed" // by Users; Rate is not used
)

// Slow is nodes that take longer than others: the first ones.
type Slow struct {
	Nodes int
	Times float64 // as long, for instance 3
}

// Pause stops a node altogether, as a garbage collector does.
type Pause struct {
	Every float64 // mean time between a pause's end and the next one's start, exponential; regular if Regular
	// Lasts is how long; nil is no pauses.
	Lasts   *Distribution
	Regular bool // exactly Every apart, each node beginning at a moment of its own
}

// Hedge asks another replica of a leaf that has not answered in time; the first answer
// counts.
type Hedge struct {
	After    float64 // seconds
	Quantile float64 // or once this share of leaves of the class would have answered on an idle node, for instance 0.95
	// Cancel takes the slower one out of its queue, or stops it.
	Cancel bool
	// Alike is how much the second answer's time follows the first's, beyond what
	// leaves of one query share anyway: the correlation of their normal scores, in
	// [0, 1]. 1 is data that is slow wherever it is.
	Alike float64
}

func (h Hedge) on() bool { return h.After > 0 || h.Quantile > 0 }

// Cache answers some queries, or leaves, without the work.
type Cache struct {
	Queries float64 // share that asks no leaf, in [0, 1)
	Leaves  float64 // share of leaves that is found ready, in [0, 1)
	Takes   float64 // seconds a cached answer takes, of a leaf with a core and a thread
}

// Aggregator is the work of whoever asks leaves and merges their answers. After begins
// when the last leaf has answered.
type Aggregator struct {
	Before, After Cost
	// Nodes is how many there are, used in turn; 0 puts the work on the leaves' nodes,
	// in turn, and on their cores if these are limited. Cores is of one aggregator; 0 is
	// 1.
	Nodes int
	Cores float64
	Speed float64 // as Layout.Speed, of own nodes
	Price float64 // of one and hour
}

func (l Layout) withDefaults() Layout {
	l.Replicas = max(1, l.Replicas)
	if l.Speed == 0 {
		l.Speed = 1
	}
	a := &l.Aggregator
	if a.Speed == 0 {
		a.Speed = 1
	}
	if a.Nodes > 0 && a.Cores == 0 {
		a.Cores = 1
	}
	l.Shards = l.split()
	return l
}

// split returns the number of shards that the data ends up in.
func (l Layout) split() int {
	switch l.Split {
	case Binary:
		n := 1
		for n < l.Shards {
			n *= 2
		}
		return n
	case Arbitrary:
		each := ceilDiv(l.Shards, l.Nodes)
		if l.Threads > 0 && each > l.Threads {
			each = ceilDiv(each, l.Threads) * l.Threads
		}
		return each * l.Nodes
	}
	return l.Shards
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Bounds of what is simulated: beyond them it is an error in the words rather than a
// layout somebody has.
const (
	MaxNodes   = 10_000
	MaxShards  = 100_000
	MaxUsers   = 100_000
	MaxQueries = 20_000_000
	MaxThreads = 10_000_000 // of all nodes, and aggregators' cores
	MaxCopies  = 1_000_000  // of shards
)

// Validate reports what is wrong with the layout, every problem at once; errors wrap
// ErrInvalid.
func (l Layout) Validate() error {
	var problems []error
	bad := func(format string, a ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...))
	}
	within := func(what string, n, low, high int) {
		if n < low || n > high {
			bad("%s: %d, not within %d and %d", what, n, low, high)
		}
	}
	within("nodes", l.Nodes, 1, MaxNodes)
	within("shards", l.Shards, 1, MaxShards)
	within("threads", l.Threads, 0, MaxShards)
	within("replicas", l.Replicas, 0, max(1, l.Nodes))
	within("slow nodes", l.Slow.Nodes, 0, max(1, l.Nodes))
	within("aggregators", l.Aggregator.Nodes, 0, MaxNodes)
	for _, f := range []struct {
		what  string
		value float64
	}{
		{"cores", l.Cores}, {"speed", l.Speed}, {"neighbours", l.Neighbours}, {"overhead", l.Overhead},
		{"network", l.Network}, {"rate", l.Rate}, {"think time", l.Think}, {"price", l.Price},
		{"slow: times", l.Slow.Times}, {"pause: every", l.Pause.Every}, {"hedge: after", l.Hedge.After},
		{"cache: takes", l.Cache.Takes}, {"aggregator: cores", l.Aggregator.Cores},
		{"aggregator: speed", l.Aggregator.Speed}, {"aggregator: price", l.Aggregator.Price},
	} {
		if !(f.value >= 0) || math.IsInf(f.value, 1) {
			bad("%s: %g, not a number of at least 0", f.what, f.value)
		}
	}
	for _, f := range []struct {
		what  string
		value float64
	}{{"hedge: quantile", l.Hedge.Quantile}, {"cache: queries", l.Cache.Queries}, {"cache: leaves", l.Cache.Leaves}} {
		if !(f.value >= 0 && f.value < 1) {
			bad("%s: %g, not at least 0 and below 1", f.what, f.value)
		}
	}
	if !(l.Hedge.Alike >= 0 && l.Hedge.Alike <= 1) {
		bad("hedge: alike: %g, not within 0 and 1", l.Hedge.Alike)
	}
	if l.Hedge.After > 0 && l.Hedge.Quantile > 0 {
		bad("hedge: after %g s or at quantile %g, not both", l.Hedge.After, l.Hedge.Quantile)
	}
	if l.Hedge.on() && l.Replicas < 2 {
		bad("hedge: no other replica to ask: set replicas to 2 or more")
	}
	if l.Neighbours > 0 && l.Cores == 0 {
		bad("neighbours: cores are not limited, so nobody has busy ones: set cores")
	}
	if l.Slow.Nodes > 0 && !(l.Slow.Times > 0) {
		bad("slow: %d nodes, but not how many times as long they take", l.Slow.Nodes)
	}
	if l.Pause.Lasts != nil && !(l.Pause.Every > 0) {
		bad("pause: no time between two of them")
	}
	if !l.Aggregator.Before.valid() || !l.Aggregator.After.valid() {
		bad("aggregator: costs %v and %v", l.Aggregator.Before, l.Aggregator.After)
	}
	if l.Split != AsGiven && l.Split != Binary && l.Split != Arbitrary {
		bad("split: %q, not binary or arbitrary", l.Split)
	}
	if l.Pick != Random && l.Pick != Rotate && l.Pick != Least {
		bad("pick: %q, not rotate or least", l.Pick)
	}
	switch l.Arrivals {
	case Poisson, Even:
		if !(l.Rate > 0) {
			bad("rate: no queries a second")
		}
	case Closed:
		within("users", l.Users, 1, MaxUsers)
	default:
		bad("arrivals: %q, not even or closed", l.Arrivals)
	}
	if n := float64(l.Nodes) * float64(l.Threads); n > MaxThreads {
		bad("threads: %g on all nodes, at most %d: nobody has as many", n, MaxThreads)
	}
	if n := float64(l.Shards) * float64(l.Replicas); n > MaxCopies {
		bad("replicas: %g copies of shards, at most %d", n, MaxCopies)
	}
	if n := float64(l.Aggregator.Nodes) * l.Aggregator.Cores; n > MaxThreads {
		bad("aggregator: %g cores, at most %d", n, MaxThreads)
	}
	return errors.Join(problems...)
}

// home returns the node of a shard's copy.
func (l *Layout) home(shard, replica int) int { return (shard + replica) % l.Nodes }

// perNode returns the shards of the fullest node that a query asks there: with one
// replica. With more it is the mean of the fullest one.
func (l *Layout) perNode() float64 {
	if l.Replicas == 1 {
		return float64(ceilDiv(l.Shards, l.Nodes))
	}
	copies := make([]int, l.Nodes)
	most := 0
	for s := range l.Shards {
		for r := range l.Replicas {
			n := l.home(s, r)
			copies[n]++
			most = max(most, copies[n])
		}
	}
	return float64(most) / float64(l.Replicas)
}

// rounds returns how often the fullest node must use its threads for one query.
func (l *Layout) rounds() int {
	if l.Threads == 0 {
		return 1
	}
	return max(1, int(math.Ceil(l.perNode()/float64(l.Threads)-1e-9)))
}

// times returns how much longer a node takes than it should.
func (l *Layout) times(node int) float64 {
	if node < l.Slow.Nodes {
		return l.Slow.Times
	}
	return 1
}
