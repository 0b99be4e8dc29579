package spec

import (
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
)

// text is a scalar and what it means, as its kind reads it.
type text struct {
	n  *node // nil: not given
	ok bool  // given, and right
	d  time.Duration
	f  float64
	i  int64
	b  bool // bool is true; of a distance: it is a share
	of [2]int
}

func (t text) given() bool { return t.n != nil }

// s is the text, empty if it was not given.
func (t text) s() string {
	if t.n == nil {
		return ""
	}
	return t.n.text
}

// or is the text, or what holds unless it is given.
func (t text) or(otherwise string) string {
	if t.n == nil {
		return otherwise
	}
	return t.n.text
}

// kind is a sort of scalar.
type kind struct {
	// read fills in t, or says what is wrong and what to write instead.
	read func(t *text, s string) (message, hint string)
	// schema is what JSON Schema can say of it.
	schema map[string]any
}

type m = map[string]any

func pattern(p string) m { return m{"type": "string", "pattern": p} }

// either is what may be written as a number or as text.
func either(p string) m { return m{"type": []string{"string", "number"}, "pattern": p} }

const days = `(mon|tue|wed|thu|fri|sat|sun)`

var (
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	word      = regexp.MustCompile(`^[^\s"'{}\[\],$](?:[^\n"'{}\[\],$]*[^\s"'{}\[\],$])?$`)
	// A date, one from Easter, the nth weekday of a month, the weekday from a date on.
	aDate    = regexp.MustCompile(`^(\d{4}-)?\d\d-\d\d$|^easter([+-]\d{1,3})?$|^(0[1-9]|1[0-2])-` + days + `#([1-5]|[Ll])$|^\d\d-\d\d[+-]` + days + `$`)
	clock    = regexp.MustCompile(`^([01]\d|2[0-3]):[0-5]\d$|^24:00$`)
	quantile = regexp.MustCompile(`^p(\d{1,2}(\.\d+)?|100)$`)
	weekday  = regexp.MustCompile(`^` + days + `(-` + days + `)?$`)
)

var measures = []string{"mean", "min", "max", "count", "rate", "errors", "apdex", "above", "below", "last", "sum"}

// kinds are what `is` tags name. An enumeration has its words in the tag itself.
var kinds = map[string]kind{
	"": {func(*text, string) (string, string) { return "", "" }, m{"type": []string{"string", "number", "boolean"}}},
	"word": {func(_ *text, s string) (string, string) {
		if !word.MatchString(s) {
			return fmt.Sprintf("%q is no name", s), "write one without quotes, brackets, braces, commas and $"
		}
		return "", ""
	}, m{"type": []string{"string", "number"}}},
	"bool": {func(t *text, s string) (string, string) {
		switch s {
		case "true", "yes", "on":
			t.b = true
		case "false", "no", "off":
		default:
			return fmt.Sprintf("%q is neither true nor false", s), ""
		}
		return "", ""
	}, m{"enum": []any{true, false, "yes", "no", "on", "off"}}},
	"duration": {readDuration, either(`^(0|([0-9]+(ms|[smhdwy]))+)$`)},
	"seconds": {func(t *text, s string) (string, string) {
		if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && !math.IsInf(f, 0) {
			t.f = f
			return "", ""
		}
		message, _ := readDuration(t, s)
		t.f = t.d.Seconds()
		return message, "write seconds such as 0.5, or 500ms"
	}, m{"type": []string{"string", "number"}}},
	"size": {func(t *text, s string) (string, string) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			n, err = units.ParseStrictBytes(s)
		}
		if err != nil || n <= 0 {
			return fmt.Sprintf("%q is no size", s), "write one such as 64KiB or 1MiB"
		}
		t.i = n
		return "", ""
	}, either(`^[0-9.]+ ?([KMGT]i?B|B)?$`)},
	"count":    whole(1, 1_000_000, "write a number from 1 to 1000000"),
	"status":   whole(100, 599, "write a status such as 200"),
	"month":    whole(1, 12, "write 1 to 12"),
	"week":     whole(1, 53, "write 1 to 53"),
	"monthday": whole(-31, 31, "write 1 to 31, or -1 for the last"),
	"share": {func(t *text, s string) (string, string) {
		return readShare(t, s, "write one such as 50% or 0.5", 1)
	}, either(`^[0-9.]+%?$`)},
	"distance": {func(t *text, s string) (string, string) {
		return readShare(t, s, "write a share of the threshold such as 10%, or an amount such as 5", math.Inf(1))
	}, either(`^[0-9.eE+-]+%?$`)},
	"of": {func(t *text, s string) (string, string) {
		a, b, ok := strings.Cut(s, " of ")
		if !ok {
			b = a
		}
		n, err := strconv.Atoi(strings.TrimSpace(a))
		k, err2 := strconv.Atoi(strings.TrimSpace(b))
		if err != nil || err2 != nil || n < 1 || n > k || k > 1000 {
			return fmt.Sprintf("%q is no n of m", s), "write one such as 3 of 5"
		}
		t.of = [2]int{n, k}
		return "", ""
	}, either(`^ *[0-9]+( of [0-9]+)? *$`)},
	"zone": {func(_ *text, s string) (string, string) {
		if _, err := time.LoadLocation(s); err != nil || s == "" {
			return fmt.Sprintf("%q is no time zone", s), "write one such as Europe/Stockholm or UTC"
		}
		return "", ""
	}, m{"type": "string"}},
	"label": {func(_ *text, s string) (string, string) {
		if !labelName.MatchString(s) || strings.HasPrefix(s, "__") {
			return fmt.Sprintf("%q is no label", s), "write a name such as operation"
		}
		return "", ""
	}, pattern(labelName.String())},
	"url": {func(_ *text, s string) (string, string) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Sprintf("%q is no web address", s), "write one such as https://shop.example/health"
		}
		return "", ""
	}, pattern(`^https?://`)},
	"address": {func(_ *text, s string) (string, string) {
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return fmt.Sprintf("%q is no address", s), "write host:port, such as mail.example:25"
		}
		return "", ""
	}, pattern(`:[0-9a-z$]+$`)},
	"mail": {func(_ *text, s string) (string, string) {
		if _, err := mail.ParseAddress(s); err != nil {
			return fmt.Sprintf("%q is no mail address", s), "write one such as oncall@example.org"
		}
		return "", ""
	}, m{"type": "string"}},
	"regexp": {func(_ *text, s string) (string, string) {
		if _, err := regexp.Compile(s); err != nil {
			return strings.TrimPrefix(err.Error(), "error parsing "), ""
		}
		return "", ""
	}, m{"type": "string"}},
	"template": {func(_ *text, s string) (string, string) {
		if _, err := template.New("").Funcs(template.FuncMap{"json": fmt.Sprint}).Parse(s); err != nil && !strings.Contains(err.Error(), "function ") {
			return strings.TrimPrefix(err.Error(), "template: "), "see Go's text/template"
		}
		return "", ""
	}, m{"type": "string"}},
	"measure": {func(_ *text, s string) (string, string) {
		if quantile.MatchString(s) {
			return "", ""
		}
		for _, known := range measures {
			if s == known {
				return "", ""
			}
		}
		return fmt.Sprintf("unknown measure %s", s), nearest(s, append([]string{"p50", "p95", "p99", "p99.9"}, measures...))
	}, pattern(`^(p[0-9.]+|` + strings.Join(measures, "|") + `)$`)},
	"date": {func(_ *text, s string) (string, string) {
		if !isDate(s) {
			return fmt.Sprintf("%q is no date", s), "write 2026-12-24, 12-24 for every year, easter+1, 11-thu#4 for the fourth Thursday of November, 05-mon#L for the last Monday of May, or 06-20+sat for the first Saturday from then on"
		}
		return "", ""
	}, pattern(aDate.String())},
	"weekday": {func(_ *text, s string) (string, string) {
		if !weekday.MatchString(s) {
			return fmt.Sprintf("%q is no day of the week", s), "write mon, tue, wed, thu, fri, sat, sun, or mon-fri"
		}
		return "", ""
	}, pattern(weekday.String())},
	"clock": {func(_ *text, s string) (string, string) {
		if !clock.MatchString(s) {
			return fmt.Sprintf("%q is no time of day", s), `write one such as "09:00", in quotes`
		}
		return "", ""
	}, pattern(clock.String())},
	"cron": {func(_ *text, s string) (string, string) {
		if n := len(strings.Fields(s)); (n < 5 || n > 6) && !strings.HasPrefix(s, "@") {
			return fmt.Sprintf("%q has %d fields", s, n), `write five (minute hour day month weekday), or six with seconds first, such as "0 */5 * * * ?"`
		}
		return "", ""
	}, m{"type": "string"}},
	"moment": {func(*text, string) (string, string) { return "", "" }, pattern(`^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?.*)?$`)},
	// What expressions are is found out when a check is put together, where the
	// labels that are substituted in them are known.
	"expression": {nothing, m{"type": []string{"string", "number"}}},
	"quantity":   {nothing, m{"type": []string{"string", "number"}}},
	"hour":       {nothing, m{"type": []string{"string", "number", "null"}}},
	"selector":   {nothing, m{"type": "string"}},
	"series":     {nothing, m{"type": "string"}},
	"matchers":   {nothing, pattern(`^\s*\{.*\}\s*$`)},
	"promql":     {nothing, m{"type": "string"}},
}

func nothing(*text, string) (string, string) { return "", "" }

func whole(low, high int64, hint string) kind {
	return kind{func(t *text, s string) (string, string) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < low || n > high || n == 0 {
			return fmt.Sprintf("%q is out of range", s), hint
		}
		t.i = n
		return "", ""
	}, m{"type": []string{"integer", "string"}, "minimum": low, "maximum": high}}
}

func readDuration(t *text, s string) (string, string) {
	d, err := model.ParseDuration(s)
	if err != nil {
		hint := "write one such as 10s, 5m, 36h or 4w"
		if _, err := model.ParseDuration(strings.ToLower(s)); err == nil {
			hint = "units are small here: write " + strings.ToLower(s)
		} else if _, err := strconv.ParseFloat(s, 64); err == nil {
			hint = "a duration needs a unit: write " + s + "s or " + s + "m"
		}
		return fmt.Sprintf("%q is no duration", s), hint
	}
	t.d = time.Duration(d)
	return "", ""
}

func readShare(t *text, s, hint string, most float64) (string, string) {
	number, share := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if share {
		f /= 100
	}
	if err != nil || math.IsNaN(f) || f < 0 || f > most || math.IsInf(f, 0) {
		return fmt.Sprintf("%q is out of range", s), hint
	}
	t.f, t.b = f, share
	return "", ""
}

func isDate(s string) bool {
	if !aDate.MatchString(s) {
		return false
	}
	if strings.HasPrefix(s, "easter") || strings.Contains(s, "#") {
		return true
	}
	if len(s) == len("06-20+sat") {
		s = s[:len("06-20")]
	}
	if len(s) == len("12-24") {
		s = "2024-" + s // a leap year
	}
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}
