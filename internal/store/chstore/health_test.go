package chstore

import (
	"math"
	"strings"
	"testing"

	"tailscope/api"
)

func TestFindingsOfNode(t *testing.T) {
	well := api.ClusterNode{Host: "ch1:8123", Answers: true, Ahead: 10, Crowded: 74, Delayed: 150, Free: 11, Total: 100}
	unknown := api.Float(math.NaN())
	for _, c := range []struct {
		what   string
		change func(n *api.ClusterNode)
		want   string
	}{
		{"nothing", func(*api.ClusterNode) {}, ""},
		{"figures that are not known", func(n *api.ClusterNode) { n.Ahead, n.Free, n.Total, n.Delayed = unknown, unknown, unknown, 0 }, ""},
		{"a clock ahead", func(n *api.ClusterNode) { n.Ahead = 95 }, "its clock is 1m35s ahead"},
		{"a clock behind", func(n *api.ClusterNode) { n.Ahead = -11 }, "its clock is 11s behind"},
		{"parts", func(n *api.ClusterNode) { n.Crowded = 75 }, "a partition has 75 parts, and from 150 on insertions are slowed down"},
		{"disk", func(n *api.ClusterNode) { n.Free = 9 }, "9 % of its disks is free"},
	} {
		n := well
		c.change(&n)
		var got []string
		for _, f := range findings(&n) {
			if f.Where != n.Host || f.Costs == "" || f.Next == "" {
				t.Errorf("%s: %+v", c.what, f)
			}
			got = append(got, f.What)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}
