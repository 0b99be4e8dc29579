package query

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// A window that slides is what merging its steps directly gives, to the byte.
func TestSlideIsADirectMerge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cells := make([]timelineCell, rapid.IntRange(0, 40).Draw(rt, "cells"))
		for i := range cells {
			for range rapid.IntRange(0, 3).Draw(rt, "requests") {
				if cells[i].hist == nil {
					cells[i].hist = hist.New(rapid.SampledFrom([]int8{3, 5}).Draw(rt, "schema"))
				}
				if err := cells[i].hist.RecordNanos(rapid.Int64Range(0, 20_000_000_000).Draw(rt, "ns"), 1); err != nil {
					rt.Fatal(err)
				}
			}
			if cells[i].hist != nil {
				cells[i].errors = rapid.Uint64Range(0, cells[i].hist.Count).Draw(rt, "errors")
			}
		}
		window := rapid.IntRange(1, 50).Draw(rt, "window")
		got, err := slideCells(cells, window)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range cells {
			var want *hist.Histogram
			var failed uint64
			for j := max(0, i-window+1); j <= i; j++ {
				failed += cells[j].errors
				if want, err = plus(want, cells[j].hist); err != nil {
					rt.Fatal(err)
				}
			}
			if a, b := packed(rt, got[i].hist), packed(rt, want); a != b || got[i].errors != failed {
				rt.Fatalf("cell %d of a window of %d: got %x and %d errors, want %x and %d", i, window, a, got[i].errors, b, failed)
			}
		}
	})
}

func packed(t *rapid.T, h *hist.Histogram) string {
	if h == nil {
		return ""
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The first steps shown have whole windows too, and a step's figures are those
// of a question about its window.
func TestTimelineSlides(t *testing.T) {
	ctx := t.Context()
	st := storetest.NewTwin()
	w := querytest.NewWriter()
	for i := range int64(3600) {
		for k, tenant := range []string{"acme", "acme", "tiny"} {
			if tenant == "tiny" && i%300 != 0 {
				continue
			}
			status := "ok"
			if i%7 == 0 {
				status = "error"
			}
			w.Span(querytest.Epoch+i, labels.FromStrings("service", "shop", "operation", "GET /", "component", "app", "kind", "server",
				"status", status, "tenant", tenant), 0.01*float64(1+k)+float64(i)/10_000)
		}
	}
	if err := w.Put(ctx, st, 1); err != nil {
		t.Fatal(err)
	}
	qs := []Quantile{{"0.95", 0.95}}
	sel := Selection{Start: time.Unix(querytest.Epoch+1800, 0), End: time.Unix(querytest.Epoch+3000, 0)}
	for _, by := range [][]string{nil, {"tenant"}, {"cohort"}} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			got, err := Timeline(ctx, st, TimelineRequest{Selection: sel, Grid: Grid{Step: 60}, By: by, Quantiles: qs, Slide: 570 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if got.Slide != 600 || got.Start != sel.Start.Unix() || len(got.Times) != 20 || len(got.Groups) == 0 {
				t.Fatalf("slide %d, start %d, %d steps, %d groups; want 600 s from the start of the range, 20 steps", got.Slide, got.Start, len(got.Times), len(got.Groups))
			}
			for _, g := range got.Groups {
				for i, from := range got.Times {
					one := Selection{Start: time.Unix(from+60-600, 0), End: time.Unix(from+60, 0)}
					one.Matchers = append(one.Matchers, matchersOf(t, g.Labels["tenant"], g.Labels["cohort"])...)
					want, err := Distribution(ctx, st, DistributionRequest{Selection: one, Quantiles: qs})
					if err != nil || len(want.Groups) != 1 {
						t.Fatal(err, len(want.Groups))
					}
					d := want.Groups[0]
					if g.Count[i] != d.Count || g.Mean[i] != d.Mean || g.Quantiles["0.95"][i] != d.Quantiles["0.95"] || float64(g.Rate[i]) != float64(d.Count)/600 {
						t.Fatalf("%v at %d: got %d, mean %v, p95 %v; want %d, %v, %v", g.Labels, from, g.Count[i], g.Mean[i], g.Quantiles["0.95"][i], d.Count, d.Mean, d.Quantiles["0.95"])
					}
				}
			}
		})
	}
}

// matchersOf are those of a group: acme is very large by its share, tiny is not.
func matchersOf(t *testing.T, tenant, cohort string) []*labels.Matcher {
	switch cohort {
	case series.VeryLarge:
		tenant = "acme"
	case series.Medium:
		tenant = "tiny"
	}
	if tenant == "" {
		return nil
	}
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "tenant", tenant)}
}
