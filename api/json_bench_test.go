package api

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkAppendJSON writes the largest answers of the page by hand and by
// encoding/json: a heatmap of 360 columns, and a timeline of ten tenants.
func BenchmarkAppendJSON(b *testing.B) {
	heatmap := &HeatmapResponse{Family: "span_duration_seconds", Step: 60, Slot: 10, Error: 0.0218}
	for i := range 360 {
		c := HeatmapColumn{Start: int64(1_700_000_000 + 60*i), Count: 4321, Sum: 612.345678, Min: 0.001234, Max: 9.87654}
		for row := range 130 {
			c.Rows, c.Counts = append(c.Rows, row), append(c.Counts, uint64((row*7919+i)%1000))
		}
		heatmap.Columns = append(heatmap.Columns, c)
	}
	for i := range 150 {
		heatmap.Bounds = append(heatmap.Bounds, Float(0.001*float64(i)/7))
	}
	timeline := &TimelineResponse{Family: "span_duration_seconds", Step: 60, Slot: 10}
	for i := range 360 {
		timeline.Times = append(timeline.Times, int64(1_700_000_000+60*i))
	}
	for g := range 10 {
		group := TimelineGroup{Labels: Labels{"tenant": fmt.Sprint("tenant-", g)}, Quantiles: map[string][]Float{}, Error: 0.0218}
		for i := range timeline.Times {
			v := Float(float64(i+g) / 977)
			group.Count = append(group.Count, uint64(i*g))
			group.Rate, group.Mean, group.ErrorRate = append(group.Rate, v), append(group.Mean, v/3), append(group.ErrorRate, v/100)
			for _, q := range []string{"0.5", "0.95", "0.99"} {
				group.Quantiles[q] = append(group.Quantiles[q], v*2)
			}
		}
		timeline.Groups = append(timeline.Groups, group)
	}
	for _, c := range []struct {
		name   string
		answer interface{ AppendJSON([]byte) []byte }
	}{{"heatmap", heatmap}, {"timeline", timeline}} {
		b.Run("answer="+c.name+"/by=hand", func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = c.answer.AppendJSON(buf[:0])
			}
			b.SetBytes(int64(len(buf)))
		})
		b.Run("answer="+c.name+"/by=encoding-json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out, err := json.Marshal(c.answer)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(out)))
			}
		})
	}
}
