package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/simulate"
	"tailscope/internal/strictyaml"
)

// kinds are the scalars of files.
var kinds = strictyaml.With(strictyaml.Kinds{
	"span":     {Read: readSpan, Schema: strictyaml.Either(`^(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$`)},
	"back":     {Read: strictyaml.ReadDuration, Schema: strictyaml.Pattern(`^([0-9]+(ms|[smhdwy]))+$`)},
	"whole":    strictyaml.Whole(1, 100_000, "write a whole number from 1 to 100000"),
	"nodes":    strictyaml.Whole(1, simulate.MaxNodes, fmt.Sprintf("write a whole number from 1 to %d", simulate.MaxNodes)),
	"users":    strictyaml.Whole(1, 100_000, "write a whole number from 1 to 100000"),
	"some":     {Read: readSome, Schema: strictyaml.M{"type": []string{"integer", "string"}, "minimum": 0}},
	"queries":  {Read: readQueries, Schema: strictyaml.Either(`^[0-9]+[kM]?$`)},
	"positive": {Read: readPositive, Schema: strictyaml.Either(`^[0-9.eE+-]+%?$`)},
	"number":   {Read: readNumber, Schema: strictyaml.Either(`^[0-9.eE+-]+%?$`)},
	"rate":     {Read: readRate, Schema: strictyaml.Either(`^[0-9.eE+-]+(/(s|m|min|h))?$`)},
	"quantile": {Read: readQuantile, Schema: strictyaml.Either(`^(p[0-9.]+|0?\.[0-9]+)$`)},
	"below one": {Read: func(t *text, s string) (string, string) {
		message, hint := strictyaml.ReadShare(t, s, "write a share such as 30% or 0.3", 1)
		if message == "" && t.Number == 1 {
			return "1 leaves nothing to be simulated", "write less, such as 90%"
		}
		return message, hint
	}, Schema: strictyaml.Either(`^[0-9.]+%?$`)},
	"seed": {Read: func(_ *text, s string) (string, string) {
		if _, err := strconv.ParseUint(s, 10, 64); err != nil {
			return fmt.Sprintf("%q is not a seed", s), "write a whole number from 0 on"
		}
		return "", ""
	}, Schema: strictyaml.Either(`^[0-9]+$`)},
})

// readSpan reads a duration of Go's, such as 500ms or 1m30s, into Number as seconds
// too.
func readSpan(t *text, s string) (message, hint string) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		hint := "write one such as 20us, 5ms or 1.5s"
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			hint = "a duration needs a unit: write " + s + "ms or " + s + "s"
		}
		return fmt.Sprintf("%q is not a duration", s), hint
	}
	t.Duration, t.Number = d, d.Seconds()
	return "", ""
}

func readSome(t *text, s string) (message, hint string) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || n > 100_000 {
		return fmt.Sprintf("%q is out of range", s), "write a whole number from 0 to 100000"
	}
	t.Int = n
	return "", ""
}

func readQueries(t *text, s string) (message, hint string) {
	times := int64(1)
	number := s
	for suffix, by := range map[string]int64{"k": 1000, "M": 1_000_000} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			number, times = rest, by
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if n *= times; err != nil || n < leastQueries || n > mostQueries {
		return fmt.Sprintf("%q is out of range", s), fmt.Sprintf("write a number from %d to 20M, such as 100k", leastQueries)
	}
	t.Int = n
	return "", ""
}

// readPositive reads a number above 0; 150% is 1.5.
func readPositive(t *text, s string) (message, hint string) {
	if message, hint := readNumber(t, s); message != "" || t.Number > 0 {
		return message, hint
	}
	return fmt.Sprintf("%q is not above 0", s), "write a number such as 1.5"
}

func readNumber(t *text, s string) (message, hint string) {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return fmt.Sprintf("%q is not a number from 0 on", s), "write one such as 1.5 or 150%"
	}
	t.Number = f
	return "", ""
}

// readRate reads queries a second: 50, 50/s, 3000/m.
func readRate(t *text, s string) (message, hint string) {
	number, per, _ := strings.Cut(s, "/")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	seconds, known := map[string]float64{"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[strings.TrimSpace(per)]
	if err != nil || !(f > 0) || math.IsInf(f, 0) || !known {
		return fmt.Sprintf("%q is not a rate", s), "write queries a second such as 50 or 50/s, or 3000/m"
	}
	t.Number = f / seconds
	return "", ""
}

// readQuantile reads p99, p99.9, p999 (which is 99.9) or 0.99.
func readQuantile(t *text, s string) (message, hint string) {
	const example = "write one such as p99 or 0.99"
	number, percentile := strings.CutPrefix(s, "p")
	f, err := strconv.ParseFloat(number, 64)
	if percentile {
		if f /= 100; len(number) > 2 && number[0] == '9' && !strings.Contains(number, ".") {
			f = f * 100 / math.Pow10(len(number))
		}
	}
	if err != nil || !(f > 0 && f < 1) {
		return fmt.Sprintf("%q is not a quantile", s), example
	}
	t.Number = f
	return "", ""
}
