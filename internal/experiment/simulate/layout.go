package simulate

import (
	"errors"
	"fmt"
	"math"
)

// Layout is the hardware that leaves run on. Durations are seconds; the zero value of
// a field means that there is no such thing, if its comment does not give a default.
// Tags are the keys of files, which internal/experiment/simulate/spec reads.
type Layout struct {
	Name string  `key:"name" is:"word" doc:"Of the layout, or of the curve if something is varied."`
	X    float64 // value of what layouts differ in; NaN if it is not a number

	Nodes    int   `key:"nodes" is:"nodes" need:"yes" doc:"How many serve leaves."`
	Shards   int   `key:"shards" is:"1..100000" need:"yes" doc:"In how many the data is; a query asks all of them."`
	Split    Split `key:"split" is:"as given|binary|arbitrary" doc:"Into how many the data can be divided: as given, the next power of two, or arbitrary: as many as make every node's share come out even."`
	Replicas int   `key:"replicas" is:"1..100000" doc:"Nodes that hold each shard; default 1."`
	Pick     Pick  `key:"pick" is:"random|rotate|least" doc:"Which of them is asked: any, in turn, or the one with the fewest leaves under way; default random."`

	Threads int     `key:"threads" is:"1..100000" doc:"Of a node, each with one leaf at a time; default as many as there are leaves."`
	Cores   float64 `key:"cores" is:"amount" doc:"Of a node, shared by the leaves that run; default a core for each thread."`
	// Speed divides the time for which a core is needed; default 1.
	Speed float64 `key:"speed" is:"amount" doc:"Of a core against those that leaves were measured on, such as 150%."`
	// Neighbours (memory bandwidth, shared caches) grows with the share of cores that
	// are busy. It needs Cores.
	Neighbours float64 `key:"neighbours" is:"number" doc:"How much longer work takes when all other cores of its node are busy, such as 30%."`
	Overhead   float64 `key:"overhead" is:"seconds of" doc:"Of a core, added to each leaf whatever its size."`
	Network    float64 `key:"network" is:"seconds of" doc:"There and back, added to each leaf, nobody busy with it."`

	Arrivals Arrivals `key:"arrivals" is:"poisson|even|closed" doc:"How they come; closed is by users who wait for their answers; default poisson."`
	Rate     float64  `key:"rate" is:"rate" doc:"Queries a second, such as 50 or 3000/m."`
	Users    int      `key:"users" is:"1..100000" doc:"Of closed arrivals."`
	Think    float64  `key:"think" is:"seconds of" doc:"Mean time between an answer and the user's next query."` // exponential

	Slow       Slow       `key:"slow" doc:"Nodes that take longer than others: {nodes: 1, times: 3}"`
	Pause      Pause      // its distribution is made of what a file says
	Hedge      Hedge      `key:"hedge" doc:"Asks another replica when a leaf is late: {quantile: p95, cancel: yes}"`
	Cache      Cache      `key:"cache" doc:"Answers without the work: {queries: 30%, leaves: 10%}"`
	Aggregator Aggregator `key:"aggregator" doc:"Work of who asks leaves and merges their answers: {after: {query: 1ms, leaf: 50us}, nodes: 2, cores: 8}"`

	Price float64 `key:"price" is:"number" doc:"Of a node and hour."`
}

// Split is the number of shards that data can be divided into.
type Split string

const (
	// AsGiven is Layout.Shards, spread over nodes as evenly as they go.
	AsGiven Split = ""
	// Binary is the next power of two.
	Binary Split = "binary"
	// Arbitrary adds shards until every node's share, and the rounds of its threads,
	// come out even.
	Arbitrary Split = "arbitrary"
)

// Pick is the choice of a shard's replica.
type Pick string

const (
	Random Pick = ""       // any, for each leaf anew
	Rotate Pick = "rotate" // in turn, all leaves of a query the same
	Least  Pick = "least"  // the one with the fewest leaves under way
)

// Arrivals is the law by which queries arrive.
type Arrivals string

const (
	Poisson Arrivals = ""
	Even    Arrivals = "even"
	Closed  Arrivals = "closed" // by Users; Rate is not used
)

// Slow makes the first nodes slower than others.
type Slow struct {
	Nodes int     `key:"nodes" is:"0..100000" need:"yes" doc:"How many."`
	Times float64 `key:"times" is:"amount" need:"yes" doc:"As long, such as 3."`
}

// Pause stops a node altogether, as a garbage collector does.
type Pause struct {
	Every   float64       `key:"every" is:"seconds of" need:"yes" doc:"Mean time from the end of one to the next."` // exponential
	Lasts   *Distribution // nil: no pauses
	Regular bool          `key:"regular" doc:"Exactly so far apart; default at random."` // each node begins at a moment of its own
}

// Hedge asks another replica of a leaf that has not answered in time; the first answer
// counts.
type Hedge struct {
	After    float64 `key:"after" is:"seconds of" doc:"When a leaf has not answered for so long."`
	Quantile float64 `key:"quantile" is:"quantile" doc:"Or for as long as this share of leaves takes on an idle node, such as p95."` // of the leaf's class
	Cancel   bool    `key:"cancel" doc:"The slower one is stopped, or leaves its queue; default no."`
	// Alike is the correlation of the two answers' normal scores beyond what leaves
	// of one query share. 1 is data that is slow wherever it is.
	Alike float64 `key:"alike" is:"share" doc:"How much the second answer's time follows the first's, from 0 to 1; default 0."`
}

func (h Hedge) on() bool { return h.After > 0 || h.Quantile > 0 }

// Cache answers some queries, or leaves, without the work.
type Cache struct {
	Queries float64 `key:"queries" is:"below one" doc:"Share of queries that ask no leaf."`
	Leaves  float64 `key:"leaves" is:"below one" doc:"Share of leaves that are found ready."`
	Takes   float64 `key:"takes" is:"seconds of" doc:"How long such an answer takes; of a leaf, of a core."` // and of a thread
}

// Aggregator asks leaves and merges their answers. After begins when the last leaf
// has answered.
type Aggregator struct {
	Before Cost `key:"before" doc:"Before leaves are asked: {query: 1ms}"`
	After  Cost `key:"after" doc:"When the last leaf has answered: {query: 1ms, leaf: 50us}"`
	// Nodes are used in turn. With 0 the work is on the leaves' nodes, in turn, and on
	// their cores if these are limited.
	Nodes int     `key:"nodes" is:"0..100000" doc:"Machines of their own; with 0 the work is done on the leaves' nodes, and cores. Default: 0."`
	Cores float64 `key:"cores" is:"amount" doc:"Of such a machine; default 1."`
	Speed float64 `key:"speed" is:"amount" doc:"Of its cores."` // as Layout.Speed
	Price float64 `key:"price" is:"number" doc:"Of such a machine and hour."`
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

// split returns the number of shards that the data is divided into.
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

// Bounds of a simulation: values beyond them are typing errors, not layouts.
const (
	MaxNodes   = 10_000
	MaxShards  = 100_000
	MaxUsers   = 100_000
	MaxQueries = 20_000_000
	MaxThreads = 10_000_000 // of all nodes, and aggregators' cores
	MaxCopies  = 1_000_000  // of shards
)

// Validate reports every problem of the layout at once; errors wrap ErrInvalid.
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

// perNode returns the shards that a query asks of the fullest node, with one replica.
// With more it is the mean of the fullest one.
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

// rounds returns how often the fullest node uses its threads for one query.
func (l *Layout) rounds() int {
	if l.Threads == 0 {
		return 1
	}
	return max(1, int(math.Ceil(l.perNode()/float64(l.Threads)-1e-9)))
}

// times returns the slowness of a node; 1 is normal.
func (l *Layout) times(node int) float64 {
	if node < l.Slow.Nodes {
		return l.Slow.Times
	}
	return 1
}
