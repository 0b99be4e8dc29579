package otlp

import (
	"encoding/binary"
	"math"
	"strings"
)

const whole = 1 << 56 // sampling thresholds and randomness have 56 bits

// sampleWeight returns how many spans a sampled span stands for, by its trace state: 2^56 /
// (2^56 - T) for OpenTelemetry's rejection threshold T (`ot=th:`), or 1 if there is no
// valid one.
// https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling
//
// The number is rounded without bias: a span is sampled if its randomness R (the trace
// id's last 56 bits, or `rv:`) is at least T, so that R-T is uniform below 2^56-T, and
// is below the division's remainder with exactly the probability of the fraction. The
// same trace always rounds the same way.
func sampleWeight(state string, traceID []byte) uint32 {
	th, rv := "", ""
	for state != "" {
		var member string
		member, state, _ = strings.Cut(state, ",")
		value, ok := strings.CutPrefix(strings.TrimLeft(member, " \t"), "ot=")
		if !ok {
			continue
		}
		for value != "" {
			var pair string
			pair, value, _ = strings.Cut(value, ";")
			if v, ok := strings.CutPrefix(pair, "th:"); ok {
				th = strings.TrimRight(v, " \t")
			} else if v, ok := strings.CutPrefix(pair, "rv:"); ok {
				rv = strings.TrimRight(v, " \t")
			}
		}
		break
	}
	if th == "" {
		return 1
	}
	t, ok := parseHex56(th)
	if !ok {
		return 1
	}
	var r uint64
	if r, ok = parseHex56(rv); !ok || len(rv) != 14 {
		if len(traceID) != 16 {
			return 1
		}
		r = binary.BigEndian.Uint64(traceID[8:]) & (whole - 1)
	}
	kept := whole - t // >= 1, since t has at most 56 bits
	n, rest := whole/kept, whole%kept
	if (r-t)&(whole-1)%kept < rest {
		n++
	}
	return uint32(min(n, math.MaxUint32))
}

// parseHex56 parses up to 14 hexadecimal digits; missing digits at the end are zeros.
func parseHex56(s string) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 14 {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	return n << (4 * (14 - len(s))), true
}
