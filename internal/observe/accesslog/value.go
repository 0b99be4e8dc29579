package accesslog

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unsafe"
)

// isAbsent reports whether a value is absent: nginx writes "-" (and nothing, with
// escape=json) for it.
func isAbsent(v []byte) bool { return len(v) == 0 || len(v) == 1 && v[0] == '-' }

// view returns b as a string, for a call that does not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseDecimal parses a number that is not negative, times unit, rounded down.
func parseDecimal(v []byte, unit int64) (int64, bool) {
	whole, fraction, scale := int64(0), int64(0), int64(1)
	i := 0
	for ; i < len(v) && v[i] >= '0' && v[i] <= '9'; i++ {
		if whole > math.MaxInt64/10-1 {
			return 0, false
		}
		whole = whole*10 + int64(v[i]-'0')
	}
	digits := i
	if i < len(v) && v[i] == '.' {
		for i++; i < len(v) && v[i] >= '0' && v[i] <= '9'; i++ {
			digits++
			if scale < 1e9 {
				fraction, scale = fraction*10+int64(v[i]-'0'), scale*10
			}
		}
	}
	if digits == 0 {
		return 0, false
	}
	if i < len(v) { // an exponent, perhaps
		f, err := strconv.ParseFloat(view(v), 64)
		f *= float64(unit)
		if err != nil || !(f >= 0 && f < math.MaxInt64/2) {
			return 0, false
		}
		return int64(f), true
	}
	if whole > math.MaxInt64/2/unit {
		return 0, false
	}
	if unit >= scale {
		return whole*unit + fraction*(unit/scale), true
	}
	return whole*unit + fraction/(scale/unit), true
}

func parseNumber(v []byte) (int, bool) {
	n := 0
	if len(v) == 0 || len(v) > 9 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// clock parses times; it parses lines of the same second once.
type clock struct {
	last  [40]byte
	n     int
	nanos int64
}

// parse parses the forms of $time_local, $time_iso8601, RFC 3339 or a number of seconds,
// milliseconds, microseconds or nanoseconds since 1970. It returns Unix nanoseconds.
func (c *clock) parse(v []byte) (int64, bool) {
	if c.n > 0 && c.n == len(v) && bytes.Equal(c.last[:c.n], v) {
		return c.nanos, true
	}
	var t int64
	var ok bool
	switch {
	case len(v) > len(c.last):
		return 0, false
	case len(v) == 26 && v[2] == '/':
		t, ok = parseLocal(v)
	case len(v) == 24 && v[2] == '/' && v[20] == '.':
		t, ok = parseHere(v)
	case len(v) >= 20 && v[4] == '-':
		t, ok = parseISO(v)
	default:
		return parseEpoch(v)
	}
	if ok {
		c.n, c.nanos = copy(c.last[:], v), t
	}
	return t, ok
}

// parseEpoch derives the unit from the size: seconds until the year 5138, and so on.
func parseEpoch(v []byte) (int64, bool) {
	digits := bytes.IndexByte(v, '.')
	if digits < 0 {
		digits = len(v)
	}
	unit := int64(1e9)
	switch {
	case digits > 17:
		unit = 1
	case digits > 14:
		unit = 1e3
	case digits > 11:
		unit = 1e6
	}
	return parseDecimal(v, unit)
}

// parseTwoDigits parses two digits at v[i].
func parseTwoDigits(v []byte, i int) (int, bool) {
	a, b := v[i]-'0', v[i+1]-'0'
	return int(a)*10 + int(b), a <= 9 && b <= 9
}

const monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parseLocal parses 10/Oct/2000:13:55:36 -0700.
func parseLocal(v []byte) (int64, bool) {
	if v[6] != '/' || v[11] != ':' || v[14] != ':' || v[17] != ':' || v[20] != ' ' {
		return 0, false
	}
	month := 0
	for m := range 12 {
		if string(v[3:6]) == monthNames[3*m:3*m+3] {
			month = m + 1
		}
	}
	day, ok1 := parseTwoDigits(v, 0)
	century, ok2 := parseTwoDigits(v, 7)
	year, ok3 := parseTwoDigits(v, 9)
	h, ok4 := parseTwoDigits(v, 12)
	m, ok5 := parseTwoDigits(v, 15)
	s, ok6 := parseTwoDigits(v, 18)
	zone, ok7 := parseZone(v[21:])
	t, ok8 := unixSeconds(century*100+year, month, day, h, m, s)
	return (t - zone) * 1e9, month > 0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8
}

// parseHere parses 10/Oct/2000:13:55:36.123, which is HAProxy's, as of the zone of this machine.
func parseHere(v []byte) (int64, bool) {
	t, ok1 := parseLocal(append(v[:20:20], " +0000"...))
	millis, ok2 := parseNumber(v[21:])
	u := time.Unix(0, t).UTC()
	here := time.Date(u.Year(), u.Month(), u.Day(), u.Hour(), u.Minute(), u.Second(), millis*1e6, time.Local)
	return here.UnixNano(), ok1 && ok2
}

// parseISO parses 2000-10-10T13:55:36[.fraction](Z|±07:00|±0700).
func parseISO(v []byte) (int64, bool) {
	if v[7] != '-' || v[10] != 'T' && v[10] != ' ' || v[13] != ':' || v[16] != ':' {
		return 0, false
	}
	century, ok1 := parseTwoDigits(v, 0)
	year, ok2 := parseTwoDigits(v, 2)
	month, ok3 := parseTwoDigits(v, 5)
	day, ok4 := parseTwoDigits(v, 8)
	h, ok5 := parseTwoDigits(v, 11)
	m, ok6 := parseTwoDigits(v, 14)
	s, ok7 := parseTwoDigits(v, 17)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) {
		return 0, false
	}
	i, fraction := 19, int64(0)
	if v[i] == '.' || v[i] == ',' {
		i++
		for scale := int64(1e8); i < len(v) && v[i] >= '0' && v[i] <= '9'; i, scale = i+1, scale/10 {
			fraction += int64(v[i]-'0') * scale
		}
	}
	zone, ok := parseZone(v[i:])
	t, ok8 := unixSeconds(century*100+year, month, day, h, m, s)
	return (t-zone)*1e9 + fraction, ok && ok8
}

func parseZone(v []byte) (seconds int64, ok bool) {
	if len(v) == 1 && (v[0] == 'Z' || v[0] == 'z') {
		return 0, true
	}
	if len(v) == 6 && v[3] == ':' {
		v = append(v[:3:3], v[4:]...)
	}
	if len(v) != 5 || v[0] != '+' && v[0] != '-' {
		return 0, false
	}
	h, ok1 := parseTwoDigits(v, 1)
	m, ok2 := parseTwoDigits(v, 3)
	seconds = int64(h)*3600 + int64(m)*60
	if v[0] == '-' {
		seconds = -seconds
	}
	return seconds, ok1 && ok2 && h < 24 && m < 60
}

var monthDays = [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// unixSeconds returns Unix seconds of a moment in UTC, by the algorithm of
// http://howardhinnant.github.io/date_algorithms.html.
func unixSeconds(y, m, d, hour, minute, second int) (int64, bool) {
	if m < 1 || m > 12 || d < 1 || hour > 23 || minute > 59 || second > 60 || y < 1970 {
		return 0, false
	}
	days := monthDays[m-1]
	if m == 2 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		days++
	}
	if d > days {
		return 0, false
	}
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	t := int64(era*146097+doe-719468) * 86400
	return t + int64(hour)*3600 + int64(minute)*60 + int64(second), true
}
