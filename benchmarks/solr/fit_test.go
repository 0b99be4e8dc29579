package solr

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"tailscope/internal/experiment/simulate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine makes what would be measured of queries whose parts are known.
func machine(chance *rand.Rand, classes []Class, truth []Parts, neighbours float64) Measured {
	m := Measured{Classes: classes, Leaves: map[int][]Pair{}, Neighbours: neighbours}
	for _, shards := range []int{1, 2, 4, 8} {
		for range 3000 {
			class := chance.IntN(len(classes))
			p, t := Pair{Class: class, Leaves: make([]Sample, shards)}, truth[class]
			alike := chance.NormFloat64()
			noise := func() float64 { return 20e-6 * chance.NormFloat64() }
			sum, longest := 0.0, 0.0
			for i := range p.Leaves {
				leaf := 1e-3 * math.Exp(0.4*(0.8*alike+0.6*chance.NormFloat64())) * (0.3 + 0.7/float64(shards))
				p.Leaves[i].CPU = t.Gather.Value + leaf + noise()
				p.Leaves[i].Wall = p.Leaves[i].CPU + t.Idle.Value + noise()
				leaf = (leaf + t.Again.Value) * (1 + neighbours)
				sum, longest = sum+leaf, max(longest, leaf)
			}
			p.Whole = Sample{CPU: t.Gather.Value + sum + noise(), Wall: t.Idle.Value + t.Gather.Value + max(longest, sum/2) + t.Apart.Value + noise()}
			m.Leaves[shards] = append(m.Leaves[shards], p)
		}
	}
	return m
}

func TestParts(t *testing.T) {
	classes := []Class{{Name: "plain", Weight: 0.5}, {Name: "slow", Weight: 0.3}, {Name: "facet", Weight: 0.2}}
	parts := func(gather, again, apart, idle float64) Parts {
		v := func(ms float64) Estimate { return Estimate{Value: ms / 1e3} }
		return Parts{Gather: v(gather), Again: v(again), Apart: v(apart), Idle: v(idle)}
	}
	// What a class that asks again gathers is taken from others, so that it is theirs.
	truth := []Parts{parts(0.7, 0, 0.3, 0.05), parts(0.9, 0, 0.5, 0.1), parts(0.8, 1.2, 0.4, 0.02)}
	for _, neighbours := range []float64{0, 0.2} {
		m := machine(rand.New(rand.NewPCG(1, 1)), classes, truth, neighbours)
		got, err := m.Parts()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range got {
			for _, c := range []struct {
				what string
				got  Estimate
				want Estimate
			}{{"gather", p.Gather, truth[i].Gather}, {"again", p.Again, truth[i].Again}, {"apart", p.Apart, truth[i].Apart}, {"idle", p.Idle, truth[i].Idle}} {
				if math.Abs(c.got.Value-c.want.Value) > 0.06e-3 {
					t.Errorf("neighbours %g: %s of %s is %.3f ms, want %.3f ms", neighbours, c.what, classes[i].Name, 1e3*c.got.Value, 1e3*c.want.Value)
				}
			}
		}
		// The parts found from one and two shards hold for eight.
		model, err := m.Model(8, got)
		if err != nil {
			t.Fatal(err)
		}
		res, err := simulate.Run(context.Background(), model, m.Layout(8, got), simulate.Options{Queries: 40_000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range res.Classes {
			sum, n := 0.0, 0.0
			for _, p := range m.Leaves[8] {
				if p.Class == i {
					sum, n = sum+p.Whole.Wall, n+1
				}
			}
			if math.Abs(k.Mean/(sum/n)-1) > 0.04 {
				t.Errorf("neighbours %g: %s in eight shards takes %.3f ms, want %.3f ms", neighbours, k.Name, 1e3*k.Mean, 1e3*sum/n)
			}
		}
	}
}

func TestPartsOfFew(t *testing.T) {
	classes := []Class{{Name: "plain", Weight: 0.5}, {Name: "other", Weight: 0.4}, {Name: "rare", Weight: 0.1}}
	truth := Parts{Gather: Estimate{Value: 0.7e-3}, Apart: Estimate{Value: 0.3e-3}, Idle: Estimate{Value: 0.05e-3}}
	m := machine(rand.New(rand.NewPCG(3, 3)), classes, []Parts{truth, truth, truth}, 0)
	for n, pairs := range m.Leaves {
		rare := 0
		m.Leaves[n] = slices.DeleteFunc(pairs, func(p Pair) bool {
			if p.Class == 2 {
				rare++
			}
			return p.Class == 2 && rare > 3
		})
	}
	got, err := m.Parts()
	if err != nil {
		t.Fatal(err)
	}
	if p := got[2]; math.Abs(p.Gather.Value-0.7e-3) > 0.05e-3 || p.Again.Value != 0 || p.Gather.Error <= got[0].Gather.Error/2 {
		t.Errorf("a class of few questions has %+v, not what others have", p)
	}
	m.Leaves[2] = m.Leaves[2][:5]
	if _, err := m.Parts(); !errors.Is(err, ErrTooFew) {
		t.Errorf("five questions in all: %v", err)
	}
}

func TestTogether(t *testing.T) {
	chance := rand.New(rand.NewPCG(2, 2))
	for _, want := range []float64{0, 0.3, 0.8, 1} {
		queries := make([][]float64, 3000)
		for i := range queries {
			common := chance.NormFloat64()
			for range 4 {
				queries[i] = append(queries[i], math.Exp(math.Sqrt(want)*common+math.Sqrt(1-want)*chance.NormFloat64()))
			}
		}
		if got := Together(queries); math.Abs(got-want) > 0.03 {
			t.Errorf("Together of %g is %g", want, got)
		}
	}
	if got := Together([][]float64{{1}, {2}}); got != 0 {
		t.Errorf("Together of single leaves is %g", got)
	}
}

func TestClasses(t *testing.T) {
	dir, err := Example()
	if err != nil {
		t.Fatal(err)
	}
	all, err := classes(dir + "/solr.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, c := range all {
		sum += c.Weight
	}
	if len(all) < 10 || math.Abs(sum-1) > 1e-9 {
		t.Errorf("%d classes with weights of %g in all", len(all), sum)
	}
}
