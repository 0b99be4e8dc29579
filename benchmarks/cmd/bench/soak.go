package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/benchmarks/report"
	"tailscope/test/faults"
)

// soak runs the program for long, killed every few minutes, and fails where
// anything acknowledged is lost or doubled.
func soak(ctx context.Context, o *options, r *report.Report) error {
	long := cmp.Or(o.long, time.Hour)
	if o.quick {
		long = time.Minute
	}
	// Others may build meanwhile: a soak stays with one program.
	if err := os.Setenv("TAILSCOPE_TEST_CACHE", o.tmp); err != nil {
		return err
	}
	res, err := faults.Soak(ctx, faults.SoakOptions{For: long, KillEvery: o.killEvery, Rate: o.rate, Dir: o.tmp, Logf: o.logf})
	if res == nil {
		return err
	}
	pace := "at a given rate"
	if res.Capacity > 0 {
		pace = "at 70 % of what two workers of each kind, as fast as they were answered, had taken before"
	}
	sec := r.Section("The program under load, killed every few minutes", fmt.Sprintf(
		"%s of spans by gRPC and HTTP, %s, with histograms, a followed access log of 200 lines/s, PromQL and distributions twice a second each, the page every second, "+
			"a mirror of 100 requests/s and checks every 2 s; kill -9 %d times. After each start, what is stored is held against a ledger of what was acknowledged; at the end everything at once, after SIGTERM and one more start. "+
			"The last quarter of the time goes without a kill. Resident memory and goroutines are given as trends by least squares with Student's interval at 95 %%: "+
			"from life to life, over the means of their second halves, and within the last life, over ten batches of what follows its first third.", res.Took.Round(time.Second), pace, res.Kills))
	if res.Capacity > 0 {
		sec.Add("capacity", "tailscope", "spans/s", 0, res.Capacity)
	}
	sec.Add("rate", "tailscope", "spans/s", 0, res.Rate)
	sec.Add("spans acknowledged", "tailscope", "", 0, float64(res.Spans))
	sec.Add("lines of the access log", "tailscope", "", 0, float64(res.LogLines))
	sec.Add("observations in requests without an answer", "tailscope", "", 0, float64(res.Unknown))
	sec.Add("requests refused", "tailscope", "", 0, float64(res.Refused))
	sec.Add("observations lost", "tailscope", "", 0, float64(res.Difference.Lost))
	sec.Add("observations doubled", "tailscope", "", 0, float64(res.Difference.Doubled))
	for _, took := range res.Starts {
		sec.Add("from a start after kill -9 until ready", "tailscope", "s", 10, took.Seconds())
	}
	for _, name := range slices.Sorted(maps.Keys(res.Asked)) {
		a := res.Asked[name]
		sec.Add(name+": answered", "tailscope", "", 0, float64(a.Answered.Load()))
		sec.Add(name+": failed", "tailscope", "", 0, float64(a.Failed.Load())).Note = "while the server was away, and whatever else"
	}
	for _, what := range []struct {
		name, unit string
		of         func(faults.Sample) float64
	}{
		{"resident memory", "MB", func(s faults.Sample) float64 { return s.Resident / 1e6 }},
		{"goroutines", "", func(s faults.Sample) float64 { return s.Goroutines }},
	} {
		last, over, level := trends(res.Samples, what.of)
		sec.Add(what.name+", mean of the second halves", "tailscope", what.unit, 0, level)
		for _, tr := range []struct {
			name string
			trend
		}{{"within the last life", last}, {"from life to life", over}} {
			if math.IsNaN(tr.slope) {
				continue // of one life
			}
			f := sec.Add(what.name+", trend "+tr.name, "tailscope", what.unit+"/h", 0, tr.slope)
			f.Note = fmt.Sprintf("%.3g to %.3g; %s", tr.low, tr.high, tr.verdict(level))
			o.logf("%s, trend %s: %.3g/h (%.3g to %.3g) at a level of %.3g: %s", what.name, tr.name, tr.slope, tr.low, tr.high, level, tr.verdict(level))
		}
	}
	addParts(r, res.Samples)
	if err == nil && !res.Difference.Ok() {
		err = errors.New(res.Difference.String())
	}
	return err
}

// addParts reports the parts of resident memory and which of them grows.
func addParts(r *report.Report, samples []faults.Sample) {
	sec := r.Section("What resident memory is made of", "Mean of the second halves of the lives, and the trends as above. "+
		"The first three come to what is resident; `live heap` and `heap in use` are of Go's runtime, and all below are the parts of `tailscope_memory_bytes`.")
	if len(samples) == 0 {
		return
	}
	first := []string{"pages of files", "Go's runtime", "rest, of C", "live heap", "heap in use"}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(samples[len(samples)-1].Parts)), func(p string) bool { return slices.Contains(first, p) })
	for _, part := range slices.Concat(first, rest) {
		last, over, level := trends(samples, func(s faults.Sample) float64 { return s.Parts[part] / 1e6 })
		sec.Add(part, "tailscope", "MB", 0, level).Note = fmt.Sprintf("within the last life %.3g to %.3g MB/h; from life to life %.3g to %.3g MB/h", last.low, last.high, over.low, over.high)
	}
}

// trend is a slope an hour with its interval at 95 %.
type trend struct{ slope, low, high float64 }

func (t trend) verdict(level float64) string {
	switch {
	case math.IsNaN(t.low):
		return "too little for an interval"
	case t.low <= 0 && t.high >= 0:
		return "flat: the interval holds 0"
	case t.high < 0:
		return "falling"
	}
	return fmt.Sprintf("rising by %.1f %% of its level an hour", 100*t.slope/level)
}

// trends returns the slope within the last life, after its first third and over ten
// batches, since neighbouring samples say the same; the slope of the levels of
// the lives over the run; and the mean of those levels.
func trends(samples []faults.Sample, of func(faults.Sample) float64) (last, over trend, level float64) {
	if len(samples) == 0 {
		return trend{math.NaN(), math.NaN(), math.NaN()}, trend{math.NaN(), math.NaN(), math.NaN()}, math.NaN()
	}
	lives := make([][]faults.Sample, samples[len(samples)-1].Life+1)
	for _, s := range samples {
		lives[s.Life] = append(lives[s.Life], s)
	}
	batch := func(some []faults.Sample) (at, value float64) {
		for _, s := range some {
			at, value = at+s.At.Hours()/float64(len(some)), value+of(s)/float64(len(some))
		}
		return at, value
	}
	var at, levels []float64
	for _, life := range lives {
		if half := life[len(life)/2:]; len(half) >= 4 {
			x, y := batch(half)
			at, levels = append(at, x), append(levels, y)
		}
	}
	var x, y []float64
	rest := lives[len(lives)-1]
	rest = rest[len(rest)/3:]
	const batches = 10
	for i := range batches {
		if some := rest[i*len(rest)/batches : (i+1)*len(rest)/batches]; len(some) > 0 {
			at, value := batch(some)
			x, y = append(x, at), append(y, value)
		}
	}
	return interval(line(x, y)), interval(line(at, levels)), mean(levels)
}

func interval(b, se, df float64) trend {
	if df < 1 {
		return trend{b, math.NaN(), math.NaN()}
	}
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(0.975) * se
	return trend{b, b - half, b + half}
}

// line returns the least-squares slope of y on x, with its standard error and
// degrees of freedom.
func line(x, y []float64) (slope, se, df float64) {
	mx, my := mean(x), mean(y)
	var sxx, sxy, rss float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	slope, df = sxy/sxx, float64(len(x)-2)
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		rss += d * d
	}
	return slope, math.Sqrt(rss / df / sxx), df
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}
