package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sized returns a model whose leaves shrink with their shards, measured at so many.
func sized(d *Distribution, shards float64) Model {
	m := one(d)
	m.Classes[0].Sizes[0].Shards = shards
	return m
}

// With binary shards on nodes of one thread a query takes as many rounds as the fullest
// node has shards: more nodes gain nothing before the next divisor. An arbitrary split
// gains with each.
func TestStaircase(t *testing.T) {
	m := sized(Constant(0.01), 16)
	took := func(nodes int, split Split) float64 {
		l := Layout{Nodes: nodes, Shards: 16, Split: split, Threads: 1, Rate: 1, Arrivals: Even}
		r := run(t, m, l, Options{Queries: 1000})
		if split != Arbitrary {
			if want := ceilDiv(16, nodes); r.Rounds != want {
				t.Errorf("%d rounds on %d nodes, want %d", r.Rounds, nodes, want)
			}
		}
		return value(r, "0.99")
	}
	for nodes := 1; nodes <= 20; nodes++ {
		near(t, fmt.Sprintf("binary on %d nodes", nodes), took(nodes, Binary), 0.01*float64(ceilDiv(16, nodes)), 1e-5)
		near(t, fmt.Sprintf("arbitrary on %d nodes", nodes), took(nodes, Arbitrary), 0.16/float64(nodes), 1e-5)
	}
	if got := (Layout{Nodes: 3, Shards: 9, Split: Binary}).split(); got != 16 {
		t.Errorf("9 shards are %d in binary", got)
	}
}

// More of what helps does not hurt, whatever else the layout is: the same queries are
// drawn for both.
func TestMoreDoesNotHurt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := one(Exponential(0.01))
		l := Layout{
			Nodes: rapid.IntRange(1, 5).Draw(t, "nodes"), Shards: rapid.IntRange(1, 12).Draw(t, "shards"),
			Threads: rapid.IntRange(1, 4).Draw(t, "threads"), Rate: 5,
			Network: rapid.Float64Range(0, 0.01).Draw(t, "network"),
			Cache:   Cache{Leaves: rapid.Float64Range(0, 0.5).Draw(t, "cached")},
		}
		if rapid.Bool().Draw(t, "pauses") {
			l.Pause = Pause{Every: 1, Lasts: Constant(0.05)}
		}
		better := l
		switch rapid.IntRange(0, 3).Draw(t, "better") {
		case 0:
			better.Threads++
		case 1:
			better.Speed = 1.5
		case 2:
			better.Threads = 0
		case 3:
			better.Network = 0
		}
		o := Options{Queries: 1000, Seed: rapid.Uint64().Draw(t, "seed")}
		a, err := Run(context.Background(), m, l, o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(context.Background(), m, better, o)
		if err != nil {
			t.Fatal(err)
		}
		if a.Stable && b.Stable && float64(b.Mean.Value) > float64(a.Mean.Value)*(1+1e-9) {
			t.Fatalf("mean %g s, better %g s", a.Mean.Value, b.Mean.Value)
		}
	})
}

func TestFigures(t *testing.T) {
	exponential := one(Exponential(0.01))
	plain := Layout{Nodes: 4, Shards: 4, Threads: 4, Rate: 100, Replicas: 2}
	with := func(change func(l *Layout)) *Result {
		l := plain
		change(&l)
		return run(t, exponential, l, Options{Queries: 20_000})
	}
	base := with(func(*Layout) {})

	slow := with(func(l *Layout) { l.Slow = Slow{1, 3} })
	near(t, "busiest node of a slow one", float64(slow.Busiest), 3*100*0.01/4, 0.03)
	if !(value(slow, "0.5") > value(base, "0.5")) {
		t.Errorf("a slow node does not show: %g and %g", value(slow, "0.5"), value(base, "0.5"))
	}

	// A node is asked every 10 ms, and stops for 200 ms in 10.2 s: those queries see it
	// that came meanwhile, or while what piled up was done.
	pausing := with(func(l *Layout) { l.Pause = Pause{Every: 10, Lasts: Constant(0.2)}; l.Replicas = 1 })
	if got := value(pausing, "0.5"); got > 1.2*value(base, "0.5") {
		t.Errorf("p50 of pausing nodes is %g, of others %g", got, value(base, "0.5"))
	}
	if got := value(pausing, "0.99"); got < 0.15 || got > 0.4 {
		t.Errorf("p99 of pausing nodes is %g", got)
	}

	tail := one(twoPoint(0.005, 0.1))
	hedge := func(h Hedge) *Result {
		l := plain
		l.Rate, l.Hedge = 40, h
		return run(t, tail, l, Options{Queries: 20_000})
	}
	without, cancelled, kept := hedge(Hedge{}), hedge(Hedge{After: 0.02, Cancel: true}), hedge(Hedge{After: 0.02})
	if got := value(cancelled, "0.9"); got > 0.5*value(without, "0.9") {
		t.Errorf("p90 is %g with hedged requests, %g without", got, value(without, "0.9"))
	}
	near(t, "asked twice", float64(cancelled.Hedged), 0.1, 0.1)
	near(t, "load of hedged requests", float64(kept.Utilisation/without.Utilisation), 1.1, 0.03)
	if cancelled.Utilisation >= kept.Utilisation {
		t.Errorf("cancelling saves nothing: %g and %g", cancelled.Utilisation, kept.Utilisation)
	}
	same := hedge(Hedge{After: 0.02, Alike: 1})
	near(t, "p90 where data is slow wherever it is", value(same, "0.9"), value(without, "0.9"), 0.1)

	cached := with(func(l *Layout) { l.Cache = Cache{Queries: 0.6, Takes: 0.001} })
	near(t, "p50 of queries that are mostly cached", value(cached, "0.5"), 0.001, 1e-6)
	near(t, "utilisation", float64(cached.Utilisation), 0.4*float64(base.Utilisation), 0.05)

	own := with(func(l *Layout) { l.Aggregator = Aggregator{After: Cost{Query: 0.004, Leaf: 0.001}, Nodes: 1} })
	near(t, "aggregator's utilisation", float64(own.Aggregator), 0.8, 0.02)
	if own.Merge < 0.008 {
		t.Errorf("merging takes %g s, more than its work of 8 ms as there is a queue", own.Merge)
	}
	// On the nodes' own cores it takes from leaves.
	shared := with(func(l *Layout) {
		l.Threads, l.Cores = 0, 4
		l.Aggregator = Aggregator{After: Cost{Query: 0.004, Leaf: 0.001}}
	})
	near(t, "utilisation with the aggregator's work", float64(shared.Utilisation), (0.04+0.008)*100/16, 0.03)

	fast := with(func(l *Layout) { l.Speed = 2 })
	near(t, "utilisation of fast cores", float64(fast.Utilisation), float64(base.Utilisation)/2, 0.02)

	for name, l := range map[string]func(l *Layout){
		"least":  func(l *Layout) { l.Pick = Least },
		"rotate": func(l *Layout) { l.Pick = Rotate },
	} {
		if r := with(l); !r.Stable || math.Abs(float64(r.Utilisation/base.Utilisation)-1) > 0.03 {
			t.Errorf("%s: %+v", name, r.SimulationLayout)
		}
	}
	if least := with(func(l *Layout) { l.Pick, l.Threads = Least, 1; l.Rate = 70 }); least.Stable {
		r := with(func(l *Layout) { l.Threads = 1; l.Rate = 70 })
		if !(value(least, "0.99") < value(r, "0.99")) {
			t.Errorf("the least busy replica is no faster: p99 %g, any %g", value(least, "0.99"), value(r, "0.99"))
		}
	}
}

// Eight leaves at once on two cores take four times as long, and merging takes its
// share: what several shards on one machine come to.
func TestContention(t *testing.T) {
	m := one(Constant(0.01))
	r := run(t, m, Layout{Nodes: 1, Shards: 8, Cores: 2, Arrivals: Closed, Users: 1, Aggregator: Aggregator{Before: Cost{Query: 0.002}, After: Cost{Query: 0.001, Leaf: 0.001}}}, Options{Queries: 1000})
	near(t, "p50", value(r, "0.5"), 0.002+0.04+0.009, 1e-5)
	near(t, "rate", float64(r.Rate), 1/0.051, 1e-3)
	r = run(t, m, Layout{Nodes: 1, Shards: 8, Cores: 2, Neighbours: 0.25, Threads: 4, Arrivals: Closed, Users: 1}, Options{Queries: 1000})
	near(t, "p50, slowed by neighbours", value(r, "0.5"), 0.05, 1e-5)
	waits := one(Constant(0.01))
	waits.Classes[0].Waits = 0.5
	r = run(t, waits, Layout{Nodes: 1, Shards: 8, Cores: 2, Arrivals: Closed, Users: 1}, Options{Queries: 1000})
	near(t, "p50, half of it waiting", value(r, "0.5"), 8*0.005/2+0.005, 1e-5)
	near(t, "utilisation", float64(r.Utilisation), 0.02/0.025, 0.01)
}

func TestUnstableLayoutsAreSaidToBe(t *testing.T) {
	m := one(Exponential(0.01))
	for _, c := range []struct {
		name string
		l    Layout
		why  string
	}{
		{"threads", Layout{Nodes: 2, Shards: 4, Threads: 1, Rate: 60}, "threads of node 1"},
		{"cores", Layout{Nodes: 2, Shards: 4, Cores: 1, Rate: 60}, "cores of node 1"},
		{"threads for few cores", Layout{Nodes: 2, Shards: 4, Threads: 8, Cores: 1, Rate: 60}, "cores of node 1"},
		{"neighbours", Layout{Nodes: 1, Shards: 1, Cores: 2, Neighbours: 0.5, Rate: 150}, "cores of node 1"},
		{"slow node", Layout{Nodes: 2, Shards: 2, Threads: 1, Rate: 60, Slow: Slow{1, 2}}, "threads of node 1"},
		{"aggregator", Layout{Nodes: 2, Shards: 2, Rate: 60, Aggregator: Aggregator{Nodes: 1, After: Cost{Query: 0.02}}}, "aggregators"},
		{"pauses", Layout{Nodes: 1, Shards: 1, Threads: 1, Rate: 60, Pause: Pause{Every: 1, Lasts: Constant(1)}}, "threads of node 1"},
		// Sums do not know of these.
		{"hedged", Layout{Nodes: 2, Shards: 2, Replicas: 2, Threads: 1, Rate: 60, Hedge: Hedge{After: 0.0001}}, "piles up"},
	} {
		r := run(t, m, c.l, Options{Queries: 20_000, Units: 10})
		if r.Stable || !strings.Contains(r.Why, c.why) || !math.IsNaN(value(r, "0.5")) || r.Work != nil {
			t.Errorf("%s: stable %v, %q, p50 %g", c.name, r.Stable, r.Why, value(r, "0.5"))
		}
	}
	busy := run(t, m, Layout{Nodes: 1, Shards: 1, Threads: 1, Rate: 90}, Options{Queries: 100_000})
	if !busy.Stable {
		t.Errorf("90 %% busy is unstable: %s", busy.Why)
	}
}

// Runs that an interval is of cover what it is of, in about 95 of 100 cases.
func TestIntervalsCover(t *testing.T) {
	m := one(Exponential(0.01))
	means, tails := 0, 0
	const runs = 100
	for seed := range uint64(runs) {
		r := run(t, m, Layout{Nodes: 1, Shards: 1, Threads: 1, Rate: 60}, Options{Queries: 15_000, Seed: seed})
		if r.Mean.Low <= 0.025 && r.Mean.High >= 0.025 {
			means++
		}
		if q := r.Quantiles["0.95"]; float64(q.Low) <= 0.025*math.Log(20) && float64(q.High) >= 0.025*math.Log(20) {
			tails++
		}
	}
	t.Logf("means in %d, p95 in %d of %d", means, tails, runs)
	if means < 88 || tails < 88 {
		t.Errorf("means in %d, p95 in %d of %d", means, tails, runs)
	}
}

func TestSeedDecides(t *testing.T) {
	m := one(Exponential(0.01))
	m.Classes[0].Together = 0.3
	l := Layout{Nodes: 7, Shards: 20, Threads: 2, Rate: 20, Pause: Pause{Every: 1, Lasts: Constant(0.02)}}
	a := run(t, m, l, Options{Queries: 3000, Seed: 5, Workers: 1})
	b := run(t, m, l, Options{Queries: 3000, Seed: 5, Workers: 3})
	c := run(t, m, l, Options{Queries: 3000, Seed: 6, Workers: 3})
	if !slices.Equal(a.Latency, b.Latency) || a.Waiting != b.Waiting || a.Leaf["0.99"] != b.Leaf["0.99"] {
		t.Error("the number of workers changes what comes out")
	}
	if slices.Equal(a.Latency, c.Latency) {
		t.Error("the seed does not change what comes out")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, l := range []Layout{l, {Nodes: 1, Shards: 1, Cores: 1, Rate: 1}} {
		if _, err := Run(ctx, m, l, Options{Queries: 100_000}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// Moments hit all leaves alike, and each has its turn however short the run is.
func TestMomentsAreReplayed(t *testing.T) {
	m := one(Constant(0.01))
	m.Every = 10
	m.Classes[0].Sizes[0].Slots = []*Distribution{Constant(0.01), nil, Constant(0.03), Constant(0.01)}
	for _, queries := range []uint64{1600, 40_000} {
		r := run(t, m, Layout{Nodes: 4, Shards: 4, Rate: 100}, Options{Queries: queries})
		slow := 0
		for _, l := range r.Latency {
			if l > 0.02 {
				slow++
			}
		}
		near(t, "share of slow queries", float64(slow)/float64(queries), 0.25, 0.05)
		if short := queries == 1600; short != (len(r.Warnings) > 0) {
			t.Errorf("warnings of %d queries: %q", queries, r.Warnings)
		}
	}
	crowded := run(t, m, Layout{Nodes: 4, Shards: 4, Threads: 2, Rate: 70}, Options{Queries: 10_000})
	if !crowded.Stable || len(crowded.Warnings) != 1 || !strings.Contains(crowded.Warnings[0], "in 1 of 4 moments") {
		t.Errorf("a crowded moment: %v %q", crowded.Stable, crowded.Warnings)
	}
	m.Rates = []float64{1, 1, 4, 2}
	r := run(t, m, Layout{Nodes: 4, Shards: 4, Rate: 100}, Options{Queries: 40_000})
	slow := 0
	for _, l := range r.Latency {
		if l > 0.02 {
			slow++
		}
	}
	near(t, "share of slow queries at the rate of moments", float64(slow)/40_000, 0.5, 0.02)
}

func TestWorkToWatch(t *testing.T) {
	m := one(Exponential(0.01))
	for name, l := range map[string]Layout{
		"plain":   {Nodes: 3, Shards: 8, Threads: 2, Rate: 40},
		"large":   {Nodes: 50, Shards: 1024, Threads: 8, Rate: 20},
		"one":     {Nodes: 1, Shards: 1, Threads: 1, Rate: 70},
		"hedged":  {Nodes: 4, Shards: 8, Replicas: 2, Threads: 2, Rate: 40, Hedge: Hedge{After: 0.02, Cancel: true}, Pause: Pause{Every: 0.1, Lasts: Constant(0.02)}},
		"merging": {Nodes: 3, Shards: 8, Cores: 2, Rate: 30, Aggregator: Aggregator{Before: Cost{Query: 0.001}, After: Cost{Leaf: 0.001}}},
		"closed":  {Nodes: 3, Shards: 8, Threads: 2, Arrivals: Closed, Users: 3, Aggregator: Aggregator{Nodes: 2, After: Cost{Leaf: 0.001}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, m, l, Options{Queries: 2000, Units: MaxUnits})
			if len(r.Work) < 50 || len(r.Work) > MaxUnits {
				t.Fatalf("%d units", len(r.Work))
			}
			busy, queries := map[string]float64{}, map[int]bool{}
			for i, u := range r.Work {
				if u.Kind != "pause" {
					queries[u.Query] = true
				}
				if !(u.Ready >= 0 && u.Ready <= u.Start && u.Start <= u.End) || i > 0 && u.Start < r.Work[i-1].Start {
					t.Errorf("unit %+v", u)
				}
				if u.Node >= l.Nodes || u.Shard >= l.Shards || (u.Kind == "leaf") != (u.Shard >= 0) && u.Kind != "hedge" {
					t.Errorf("unit %+v", u)
				}
				if u.Kind == "pause" || u.Thread < 0 {
					continue
				}
				if l.Threads > 0 && u.Node >= 0 && u.Thread >= l.Threads {
					t.Errorf("thread of %+v", u)
				}
				at := fmt.Sprint(u.Node, " ", u.Thread)
				if float64(u.Start) < busy[at]-1e-12 {
					t.Errorf("%+v starts on a thread that is busy until %g", u, busy[at])
				}
				busy[at] = float64(u.End)
			}
			if len(queries) < 4 {
				t.Errorf("%d queries to watch", len(queries))
			}
		})
	}
}

func TestBadInputIsNamed(t *testing.T) {
	good := Layout{Nodes: 2, Shards: 2, Rate: 1}
	change := func(f func(l *Layout)) Layout {
		l := good
		f(&l)
		return l
	}
	for want, l := range map[string]Layout{
		"nodes":           change(func(l *Layout) { l.Nodes = 0 }),
		"shards":          change(func(l *Layout) { l.Shards = 0 }),
		"rate":            change(func(l *Layout) { l.Rate = 0 }),
		"rate: NaN":       change(func(l *Layout) { l.Rate = math.NaN() }),
		"users":           change(func(l *Layout) { l.Arrivals = Closed }),
		"replica":         change(func(l *Layout) { l.Hedge.After = 1 }),
		"set cores":       change(func(l *Layout) { l.Neighbours = 1 }),
		"cache: queries":  change(func(l *Layout) { l.Cache.Queries = 1 }),
		"pause":           change(func(l *Layout) { l.Pause.Lasts = Constant(1) }),
		"slow":            change(func(l *Layout) { l.Slow.Nodes = 1 }),
		"split":           change(func(l *Layout) { l.Split = "ternary" }),
		"pick":            change(func(l *Layout) { l.Pick = "best" }),
		"arrivals":        change(func(l *Layout) { l.Arrivals = "bursts" }),
		"aggregator":      change(func(l *Layout) { l.Aggregator.After.Leaf = -1 }),
		"after the split": change(func(l *Layout) { l.Shards, l.Split = MaxShards, Binary }),
		"nobody has":      change(func(l *Layout) { l.Nodes, l.Threads = MaxNodes, MaxShards }),
		"copies":          change(func(l *Layout) { l.Nodes, l.Shards, l.Replicas = MaxNodes, MaxShards, 11 }),
		"1e+12 cores":     change(func(l *Layout) { l.Aggregator = Aggregator{Nodes: 1, Cores: 1e12} }),
		"years":           change(func(l *Layout) { l.Rate = 1e-9 }),
		"pauses in":       change(func(l *Layout) { l.Pause = Pause{Every: 1e-6, Lasts: Constant(0)} }),
	} {
		_, err := Run(context.Background(), one(Constant(1)), l, Options{Queries: 10})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	class := one(Constant(1)).Classes[0]
	slots := func(ds ...*Distribution) []Size { return []Size{{Slots: ds}} }
	for want, m := range map[string]Model{
		"no class":        {},
		"weights":         {Classes: []Class{{Name: "a", Sizes: class.Sizes}}},
		"no distribution": {Classes: []Class{{Name: "a", Weight: 1}}},
		"together":        {Classes: []Class{{Name: "a", Weight: 1, Together: 2, Sizes: class.Sizes}}},
		"duration of one": {Classes: []Class{{Name: "a", Weight: 1, Sizes: slots(Constant(1), Constant(2))}}},
		"sizes ascend": {Classes: []Class{{Name: "a", Weight: 1, Sizes: []Size{
			{Shards: 4, Slots: slots(Constant(1))[0].Slots}, {Shards: 4, Slots: slots(Constant(1))[0].Slots}}}}},
	} {
		_, err := Run(context.Background(), m, good, Options{Queries: 10})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// However long moments are, and whether or not queries come in them, the next one comes:
// a moment's end may round to itself.
func TestMomentsGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := one(Constant(0.001))
		n := rapid.IntRange(2, 40).Draw(t, "moments")
		m.Every = rapid.Float64Range(0.001, 100).Draw(t, "every")
		m.Rates = make([]float64, n)
		for i := range m.Rates {
			m.Rates[i] = float64(rapid.IntRange(0, 2).Draw(t, "rate"))
		}
		m.Rates[0] = 1
		p, err := newPlan(m, Layout{Nodes: 1, Shards: 1, Rate: rapid.Float64Range(0.01, 1e4).Draw(t, "rate")}, Options{Queries: 500})
		if err != nil {
			t.Fatal(err)
		}
		p.drawArrivals()
		if !slices.IsSorted(p.arrive) || p.arrive[0] < 0 {
			t.Fatal("queries do not come one after another")
		}
	})
}
