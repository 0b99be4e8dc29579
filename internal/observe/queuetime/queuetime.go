// Package queuetime parses the headers in which balancers and routers send when they put
// a request into a queue: X-Request-Start and X-Queue-Start.
//
// The value has no standard. In use are nginx' `t=1700000000.123` (seconds), Heroku's
// `1700000000123` (milliseconds), Apache's `t=1700000000123456` (microseconds), and
// nanoseconds; each hop may add its own. The magnitude of a present time determines its
// unit, so Parse needs nothing else, and of several times returns the earliest: that is
// when the waiting began.
package queuetime

import (
	"math"
	"strings"
	"time"
)

// Most is how far from a request's start a time may be to concern that request, even if
// only by a wrong clock of the balancer.
const Most = 24 * time.Hour

// Plausible reports whether queued is at most Most before or after start (both Unix
// nanoseconds, not negative). Requests neither wait for hours nor are queued after their
// start; the latter shows clocks that disagree, which traces counts and shows.
func Plausible(queued, start int64) bool {
	return max(queued-start, start-queued) <= int64(Most)
}

// Parse returns the earliest time in a header's value, in Unix nanoseconds. The value
// may hold several, separated by commas, semicolons or spaces, each with or without the
// prefix `t=`; anything else is skipped. ok is false if there is no time.
func Parse(value string) (nanos int64, ok bool) {
	nanos = math.MaxInt64
	for value != "" {
		var word string
		if i := strings.IndexAny(value, ",; \t"); i >= 0 {
			word, value = value[:i], value[i+1:]
		} else {
			word, value = value, ""
		}
		if len(word) > 2 && word[0]|0x20 == 't' && word[1] == '=' {
			word = word[2:]
		}
		if t, good := parse(word); good {
			nanos, ok = min(nanos, t), true
		}
	}
	if !ok {
		return 0, false
	}
	return nanos, true
}

// parse parses digits with an optional fraction. A number with too few digits for
// seconds since the epoch (less than 1e8, in 1973) is not a time.
func parse(s string) (int64, bool) {
	var n, fraction uint64
	scale := uint64(1) // of the fraction: 10 to the number of its digits
	i := 0
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		if n >= 1e18 {
			return 0, false // no unit is so small
		}
		n = n*10 + uint64(s[i]-'0')
	}
	if i == 0 || n < 1e8 {
		return 0, false
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
			if scale < 1e9 {
				fraction, scale = fraction*10+uint64(s[i]-'0'), scale*10
			}
		}
	}
	if i < len(s) {
		return 0, false
	}
	unit := uint64(1) // nanoseconds
	switch {
	case n < 1e11:
		unit = 1e9
	case n < 1e14:
		unit = 1e6
	case n < 1e17:
		unit = 1e3
	}
	if n > (math.MaxInt64-unit)/unit {
		return 0, false
	}
	return int64(n*unit + fraction*unit/scale), true
}
