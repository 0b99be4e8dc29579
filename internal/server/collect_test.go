package server

import (
	"math"
	"testing"
)

func TestCollectAfter(t *testing.T) {
	for _, c := range []struct {
		live, limit int64
		want        int
	}{
		{0, math.MaxInt64, 3200}, // before the first collection
		{1 << 20, 1 << 30, 3200},
		{32 << 20, 1 << 30, 100},
		{160 << 20, 1 << 30, 20},
		{1 << 30, 2 << 30, 15},
		{32 << 20, 64 << 20, 25},
	} {
		if got := collectAfter(c.live, c.limit); got != c.want {
			t.Errorf("collectAfter(%d, %d) = %d, want %d", c.live, c.limit, got, c.want)
		}
	}
}
