package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

// leaves are the scalars of files.
var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"nodes":      new(nodes),
	"seconds of": new(span),
	"queries":    new(queries),
	"amount":     new(positive),
	"number":     new(number),
	"rate":       new(rate),
	"quantile":   new(quantile),
	"below one":  new(belowOne),
})

// nodes is a number of nodes.
type nodes int

func (v *nodes) ReadText(s string) error {
	n, err := strconv.Atoi(s)
	if *v = nodes(n); err != nil || n < 1 || n > simulate.MaxNodes {
		return strictyaml.Wrong(fmt.Sprintf("write a whole number from 1 to %d", simulate.MaxNodes), "%q is out of range", s)
	}
	return nil
}

func (nodes) Schema() strictyaml.M {
	return strictyaml.M{"type": []string{"integer", "string"}, "minimum": 1, "maximum": simulate.MaxNodes}
}

// span is a duration, in seconds.
type span float64

func (v *span) ReadText(s string) error {
	var d strictyaml.Duration
	err := d.ReadText(s)
	*v = span(time.Duration(d).Seconds())
	return err
}

func (span) Schema() strictyaml.M { return strictyaml.Duration(0).Schema() }

// queries is a number of queries, such as 100k.
type queries uint64

func (v *queries) ReadText(s string) error {
	times := int64(1)
	digits := s
	for suffix, by := range map[string]int64{"k": 1000, "M": 1_000_000} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			digits, times = rest, by
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if n *= times; err != nil || n < leastQueries || n > mostQueries {
		return strictyaml.Wrong(fmt.Sprintf("write a number from %d to 20M, such as 100k", leastQueries), "%q is out of range", s)
	}
	*v = queries(n)
	return nil
}

func (queries) Schema() strictyaml.M { return strictyaml.Either(`^[0-9]+[kM]?$`) }

// number is a number from 0 on; 150% is 1.5.
type number float64

func (v *number) ReadText(s string) error {
	f, _, ok := strictyaml.ParseShare(s, math.MaxFloat64)
	if *v = number(f); !ok {
		return strictyaml.Wrong("write one such as 1.5 or 150%", "%q is not a number from 0 on", s)
	}
	return nil
}

func (number) Schema() strictyaml.M { return strictyaml.Either(`^[0-9.eE+-]+%?$`) }

// positive is a number above 0.
type positive number

func (v *positive) ReadText(s string) error {
	if err := (*number)(v).ReadText(s); err != nil || *v > 0 {
		return err
	}
	return strictyaml.Wrong("write a number such as 1.5", "%q is not above 0", s)
}

func (positive) Schema() strictyaml.M { return number(0).Schema() }

// rate is a rate in queries a second: 50, 50/s, 3000/m.
type rate float64

func (v *rate) ReadText(s string) error {
	digits, per, _ := strings.Cut(s, "/")
	f, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	seconds, known := map[string]float64{"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[strings.TrimSpace(per)]
	if err != nil || !(f > 0) || math.IsInf(f, 0) || !known {
		return strictyaml.Wrong("write queries a second such as 50 or 50/s, or 3000/m", "%q is not a rate", s)
	}
	*v = rate(f / seconds)
	return nil
}

func (rate) Schema() strictyaml.M { return strictyaml.Either(`^[0-9.eE+-]+(/(s|m|min|h))?$`) }

// quantile is p99, p99.9, p999 (which is 99.9) or 0.99.
type quantile float64

func (v *quantile) ReadText(s string) error {
	digits, percentile := strings.CutPrefix(s, "p")
	f, err := strconv.ParseFloat(digits, 64)
	if percentile {
		if f /= 100; len(digits) > 2 && digits[0] == '9' && !strings.Contains(digits, ".") {
			f = f * 100 / math.Pow10(len(digits))
		}
	}
	if err != nil || !(f > 0 && f < 1) {
		return strictyaml.Wrong("write one such as p99 or 0.99", "%q is not a quantile", s)
	}
	*v = quantile(f)
	return nil
}

func (quantile) Schema() strictyaml.M { return strictyaml.Either(`^(p[0-9.]+|0?\.[0-9]+)$`) }

// belowOne is a share below 1.
type belowOne float64

func (v *belowOne) ReadText(s string) error {
	f, _, ok := strictyaml.ParseShare(s, 1)
	switch *v = belowOne(f); {
	case !ok:
		return strictyaml.Wrong("write a share such as 30% or 0.3", "%q is out of range", s)
	case f == 1:
		return strictyaml.Wrong("write less, such as 90%", "1 leaves nothing to be simulated")
	}
	return nil
}

func (belowOne) Schema() strictyaml.M { return strictyaml.Share(0).Schema() }
