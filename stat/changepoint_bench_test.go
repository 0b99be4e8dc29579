package stat

import (
	"fmt"
	"math"
	"testing"
)

func BenchmarkChangePoints(b *testing.B) {
	for _, slots := range []int{360, 1500} {
		for _, changes := range []int{0, 3} {
			s := jumps(source(1), slots, 50, 0.3, func(t int) float64 {
				return math.Log(1.4) * float64(t*(changes+1)/slots%2)
			})
			b.Run(fmt.Sprintf("slots=%d/changes=%d", slots, changes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ChangePoints(s, ChangeOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
