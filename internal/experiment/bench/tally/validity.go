package tally

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Limits bounds the generator's own error in a run. A zero field means its default.
type Limits struct {
	// Late bounds the generator's lateness at the 99th percentile of requests for
	// which a connection was free, whatever the run measures; default 1 ms. The bound
	// is half as high at the median and five times as high at the 99.9th percentile.
	Late time.Duration
	// Share bounds lateness beyond Late as a share of the measured latency at the
	// same percentile; default 0.1.
	Share float64
	// Busiest bounds the share of time in which the generator's busiest thread runs or
	// is ready to run, 0..1; default 0.95.
	Busiest float64
	// Starved bounds the share of time in which that thread is ready to run and has no
	// core, 0..1; default 0.1. What a thread does later than it could makes the target
	// look slower.
	Starved float64
	// Host bounds how busy all cores of the machine are on average, 0..1; default
	// 0.95. More is a reason only if the generator's threads waited for a core longer
	// than Share of the mean latency, or if their wait is not known.
	Host float64
}

// WithDefaults returns l with the default in each zero field.
func (l Limits) WithDefaults() Limits {
	if l.Late == 0 {
		l.Late = time.Millisecond
	}
	if l.Share == 0 {
		l.Share = 0.1
	}
	if l.Busiest == 0 {
		l.Busiest = 0.95
	}
	if l.Starved == 0 {
		l.Starved = 0.1
	}
	if l.Host == 0 {
		l.Host = 0.95
	}
	return l
}

// lateAt are the percentiles at which lateness is judged, if that many requests
// were sent; floor multiplies Limits.Late.
var lateAt = []struct {
	quantile, name string
	floor          float64
	requests       uint64
}{
	{"0.5", "the median", 0.5, 10},
	{"0.99", "p99", 1, 100},
	{"0.999", "p99.9", 5, 10_000},
}

// Judge returns the reasons why the generator did not keep its schedule, a sentence
// each; none means that it did. A slow target is never a reason: what waits for a
// connection is latency.
func (l Limits) Judge(r *api.BenchResult) []string {
	l = l.WithDefaults()
	g := &r.Generator
	out := []string{}
	for _, at := range lateAt {
		late, of := float64(g.Late.Quantiles[at.quantile]), float64(r.Latency.Quantiles[at.quantile])
		floor := at.floor * l.Late.Seconds()
		if g.Late.Count < at.requests || !(late > floor) || late <= l.Share*of {
			continue
		}
		text := fmt.Sprintf("the generator sent late: at %s %s after requests were due although a connection was free", at.name, Short(late))
		if of > 0 {
			text += fmt.Sprintf(", which is %s of the latency of %s measured there", share(late/of), Short(of))
		}
		out = append(out, text+fmt.Sprintf(" (allowed: %s or %s of it); ask for a lower rate, or run it on a machine with idle cores", Short(floor), share(l.Share)))
		break
	}
	if starved := float64(g.Starved); starved > l.Starved {
		out = append(out, fmt.Sprintf("the generator's busiest thread was ready to run and had no core for %s of the time (allowed: %s), so that the target seems slower than it is; end other programs on this machine, or ask for a lower rate", share(starved), share(l.Starved)))
	} else if float64(g.Busiest) > l.Busiest {
		out = append(out, fmt.Sprintf("the generator's busiest thread ran %s of the time (allowed: %s), so that it and not the target set the pace; ask for a lower rate, or let several machines send", share(float64(g.Busiest)), share(l.Busiest)))
	}
	if delayed, mean := float64(g.Delayed), float64(r.Uncorrected.Mean); float64(g.Host) > l.Host && !(delayed <= l.Share*mean) {
		text := fmt.Sprintf("the cores of this machine were busy %s of the time (allowed: %s)", share(float64(g.Host)), share(l.Host))
		if delayed > 0 && mean > 0 {
			text += fmt.Sprintf(", and the generator waited for one for %s a request, %s of the mean latency (allowed: %s)", Short(delayed), share(delayed/mean), share(l.Share))
		}
		out = append(out, text+"; move the target or the generator to another machine, end other programs, or ask for a lower rate")
	}
	if n := r.Account.Dropped; n > 0 {
		out = append(out, fmt.Sprintf("%s of %s requests were dropped, since as many as may wait were waiting for a connection: their latency, which would have been the longest, is missing; allow more connections or a lower rate", figure.Thousands(n), figure.Thousands(r.Account.Due)))
	}
	return out
}

// Short writes seconds with three digits.
func Short(s float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}, {1e-9, " ns"}} {
		if v := s / u.size; v >= 0.9995 || u.size == 1e-9 {
			decimals := 2 - min(2, max(0, int(math.Floor(math.Log10(max(v, 1)*1.0005)))))
			return strconv.FormatFloat(v, 'f', decimals, 64) + u.name
		}
	}
	return ""
}

func share(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + " %" }
