package changepoints

import (
	"math"
	"slices"
	"testing"

	"tailscope/stat"
)

func TestAgree(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels [][]int
		found  []int
		want   Score
	}{
		{"all agree on nothing", [][]int{{}, {}}, nil, Score{1, 1, 1, 1}},
		{"within the margin", [][]int{{50}}, []int{55}, Score{1, 1, 1, 0.5*50/55 + 0.5*45/50}},
		{"beyond it", [][]int{{50}}, []int{56}, Score{0.5, 0.5, 0.5, 0.5*50/56 + 0.5*44/50}},
		// One of two people sees it: right, and recall is (1/1 + 2/2)/2.
		{"people differ", [][]int{{}, {50}}, []int{50}, Score{1, 1, 1, 0.5*0.5 + 0.5}},
		{"one label matches once", [][]int{{50}}, []int{48, 52}, Score{2. / 3, 1, 0.8, 0.5*48/50 + 0.5*48/50}},
	} {
		got := Agree(c.labels, c.found, 100)
		for _, d := range []float64{got.Precision - c.want.Precision, got.Recall - c.want.Recall, got.F1 - c.want.F1, got.Covering - c.want.Covering} {
			if math.Abs(d) > 1e-12 {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestCountsAddUp(t *testing.T) {
	var c Counts
	c.Add([]int{100, 200}, []int{103, 150, 300})
	c.Add(nil, []int{10})
	c.Add([]int{50}, nil)
	if want := (Counts{Right: 1, Found: 4, True: 3}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if s := c.Score(); s.Precision != 0.25 || math.Abs(s.Recall-1./3) > 1e-12 {
		t.Errorf("%+v", s)
	}
	if got := Merge([]int{12, 10, 30, 16}); !slices.Equal(got, []int{10, 16, 30}) {
		t.Errorf("%v, want 10 16 30", got)
	}
}

// A kind is what its name says: large changes are found where they are.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name != "all three times as slow" && k.Name != "lone slots twenty times as slow" {
			continue
		}
		slots, err := k.Simulate(1, 0.3)
		if err != nil {
			t.Fatal(err)
		}
		s, err := stat.NewSeries(slots)
		if err != nil {
			t.Fatal(err)
		}
		points, err := stat.ChangePoints(s, stat.ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var c Counts
		c.Add(k.Truth, Moments(points))
		if c.Right != len(k.Truth) || c.Found != c.Right {
			t.Errorf("%s: %v found, want %v", k.Name, Moments(points), k.Truth)
		}
	}
}
