package api

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The fast encoders must write what encoding/json writes, byte for byte.
func TestAppendJSONMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats := rapid.SliceOfN(rapid.Map(rapid.Float64(), func(f float64) Float { return Float(f) }), 0, 5)
		ints := rapid.SliceOfN(rapid.Uint64(), 0, 5)
		h := &HeatmapResponse{
			Range: Range{rapid.Int64().Draw(t, "start"), rapid.Int64().Draw(t, "end")}, Family: rapid.String().Draw(t, "family"),
			Step: 10, Slot: 60, Error: floatOf(t), Bounds: append([]Float{}, floats.Draw(t, "bounds")...), Columns: []HeatmapColumn{}, Count: 3, MaxCell: 2,
		}
		h.Warnings = rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "warnings")
		for range rapid.IntRange(0, 3).Draw(t, "columns") {
			h.Columns = append(h.Columns, HeatmapColumn{
				Start: rapid.Int64().Draw(t, "at"), Count: rapid.Uint64().Draw(t, "count"), Sum: floatOf(t), Min: floatOf(t), Max: floatOf(t),
				Rows: append([]int{}, rapid.SliceOfN(rapid.Int(), 0, 4).Draw(t, "rows")...), Counts: append([]uint64{}, ints.Draw(t, "counts")...),
			})
		}
		same(t, h, h.AppendJSON(nil))

		tl := &TimelineResponse{Family: "f", Step: 1, Slot: 2, Offset: rapid.Int64Range(0, 1).Draw(t, "offset"), Slide: rapid.Int64Range(0, 1).Draw(t, "slide"), Times: append([]int64{}, rapid.SliceOf(rapid.Int64()).Draw(t, "times")...), Groups: []TimelineGroup{}, Per: rapid.SampledFrom([]string{"", "request"}).Draw(t, "per")}
		if rapid.Bool().Draw(t, "instead") {
			tl.Instead = &Instead{Label: "service", Name: rapid.String().Draw(t, "asked"), Nearest: []string{rapid.String().Draw(t, "nearest")}, Message: "m"}
		}
		if rapid.Bool().Draw(t, "overlay") {
			tl.Overlay = &Overlay{rapid.String().Draw(t, "name"), rapid.String().Draw(t, "of"), rapid.String().Draw(t, "zone")}
		}
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			tl.Groups = append(tl.Groups, TimelineGroup{
				Labels: append2(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "labels")),
				Count:  append([]uint64{}, ints.Draw(t, "counts")...), Rate: append([]Float{}, floats.Draw(t, "rate")...), Mean: append([]Float{}, floats.Draw(t, "mean")...),
				ErrorRate: append([]Float{}, floats.Draw(t, "errors")...), Quantiles: map[string][]Float{"0.5": append([]Float{}, floats.Draw(t, "q")...), "0.99": {}},
				Error: floatOf(t), Value: floats.Draw(t, "value"),
			})
		}
		same(t, tl, tl.AppendJSON(nil))

		s := &ServicesResponse{Range: h.Range, Step: 10, Services: []Service{}}
		if rapid.Bool().Draw(t, "misnamed") {
			s.Instead = &Instead{Label: "service", Name: rapid.String().Draw(t, "asked"), Nearest: []string{"shop"}, Message: "m"}
		}
		s.WholeUntil = rapid.Int64Range(0, 1).Draw(t, "whole")
		quantiles := func() map[string]Float { return map[string]Float{"0.5": floatOf(t), "0.99": Float(math.NaN())} }
		for range rapid.IntRange(0, 2).Draw(t, "services") {
			of := Service{
				Name: rapid.String().Draw(t, "name"), Environment: rapid.String().Draw(t, "environment"), Requests: rapid.Uint64().Draw(t, "requests"), Effective: rapid.Uint64Range(0, 1).Draw(t, "effective"),
				Rate: floatOf(t), Errors: 3, ErrorRate: floatOf(t), Apdex: floatOf(t), ApdexT: 0.5, Mean: floatOf(t), Quantiles: quantiles(), Error: floatOf(t),
				Sparkline: Sparkline{Rate: append([]Float{}, floats.Draw(t, "rates")...), P95: append([]Float{}, floats.Draw(t, "p95")...)}, Weighted: rapid.Bool().Draw(t, "weighted"),
			}
			if rapid.Bool().Draw(t, "all") {
				bandOf := func() UsualBand { return UsualBand{floatOf(t), floatOf(t), floatOf(t)} }
				of.Strip = &Strip{Bounds: append([]Float{}, floats.Draw(t, "bounds")...), From: []int{1, 0}, Counts: [][]uint64{append([]uint64{}, ints.Draw(t, "cells")...), {}}}
				of.Now = &ServiceNow{Range: h.Range, Requests: 4, Rate: floatOf(t), Errors: 1, ErrorRate: floatOf(t), Quantiles: quantiles(), Apdex: floatOf(t), Last: rapid.Int64Range(0, 1).Draw(t, "last")}
				of.Usual = &ServiceUsual{Of: "days", Minutes: 30, Rate: bandOf(), Errors: bandOf(), P50: bandOf(), P99: bandOf()}
				if rapid.Bool().Draw(t, "apdex") {
					apdex := bandOf()
					of.Usual.Apdex = &apdex
				}
				of.State, of.Outside, of.Why = Worse, map[string]ServiceState{"rate": Odd, "p99": Worse}, rapid.String().Draw(t, "why")
				of.Whom = &ServiceWhom{Sentence: "worst for acme", Tenants: []string{rapid.String().Draw(t, "tenant")}}
				of.LatestMark = &Mark{ID: "1", Name: rapid.String().Draw(t, "mark")}
			}
			s.Services = append(s.Services, of)
		}
		same(t, s, s.AppendJSON(nil))
	})
}

func append2(m map[string]string) Labels {
	if m == nil {
		return Labels{}
	}
	return m
}

func floatOf(t *rapid.T) Float { return Float(rapid.Float64().Draw(t, "float")) }

func same(t *rapid.T, v any, got []byte) {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestFloatNull(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if b, err := json.Marshal(Float(v)); err != nil || string(b) != "null" {
			t.Errorf("Float(%v): got %s, %v; want null", v, b, err)
		}
	}
	f := Float(1)
	if err := json.Unmarshal([]byte("null"), &f); err != nil || !math.IsNaN(float64(f)) {
		t.Errorf("null: got %v, %v; want NaN", f, err)
	}
	if err := json.Unmarshal([]byte("2.5e-9"), &f); err != nil || f != 2.5e-9 {
		t.Errorf("2.5e-9: got %v, %v", f, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &f); err == nil {
		t.Error("a string was read as a number")
	}
}

// Numbers with a text of their own are written as the others are.
func TestAppendInts(t *testing.T) {
	ns := []int64{math.MinInt64, -1000, -1, math.MaxInt64}
	for n := range int64(1100) {
		ns = append(ns, n)
	}
	want, err := json.Marshal(ns)
	if got := appendInts(nil, ns); err != nil || string(got) != string(want) {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}
}
