package spec

import (
	"fmt"
	"math"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"tailscope/internal/strictyaml"
)

// Files are read by strictyaml; these are its words here.
type (
	text  = strictyaml.Text
	node  = strictyaml.Node
	field = strictyaml.Field
	place = strictyaml.Place
	m     = strictyaml.M
)

const days = `(mon|tue|wed|thu|fri|sat|sun)`

var (
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	// A date, one from Easter, the nth weekday of a month, the weekday from a date on.
	aDate    = regexp.MustCompile(`^(\d{4}-)?\d\d-\d\d$|^easter([+-]\d{1,3})?$|^(0[1-9]|1[0-2])-` + days + `#([1-5]|[Ll])$|^\d\d-\d\d[+-]` + days + `$`)
	clock    = regexp.MustCompile(`^([01]\d|2[0-3]):[0-5]\d$|^24:00$`)
	quantile = regexp.MustCompile(`^p(\d{1,2}(\.\d+)?|100)$`)
	weekday  = regexp.MustCompile(`^` + days + `(-` + days + `)?$`)
)

var measures = []string{"mean", "min", "max", "count", "rate", "errors", "apdex", "above", "below", "last", "sum"}

// encryptions are the methods of NSCA.
var encryptions = []string{"none", "xor", "3des", "aes128"}

// kinds are what `is` tags name. An enumeration has its words in the tag itself.
var kinds = strictyaml.With(strictyaml.Kinds{
	"month":    strictyaml.Whole(1, 12, "write 1 to 12"),
	"week":     strictyaml.Whole(1, 53, "write 1 to 53"),
	"monthday": strictyaml.Whole(-31, 31, "write 1 to 31, or -1 for the last"),
	"distance": {Read: func(t *text, s string) (string, string) {
		return strictyaml.ReadShare(t, s, "write a share of the threshold such as 10%, or an amount such as 5", math.Inf(1))
	}, Schema: strictyaml.Either(`^[0-9.eE+-]+%?$`)},
	"of": {Read: func(t *text, s string) (string, string) {
		a, b, ok := strings.Cut(s, " of ")
		if !ok {
			b = a
		}
		n, err := strconv.Atoi(strings.TrimSpace(a))
		k, err2 := strconv.Atoi(strings.TrimSpace(b))
		if err != nil || err2 != nil || n < 1 || n > k || k > 1000 {
			return fmt.Sprintf("%q is not an n of m", s), "write one such as 3 of 5"
		}
		t.Of = [2]int{n, k}
		return "", ""
	}, Schema: strictyaml.Either(`^ *[0-9]+( of [0-9]+)? *$`)},
	"encryption": {Read: func(_ *text, s string) (string, string) {
		switch {
		case slices.Contains(encryptions, s):
			return "", ""
		case s == "aes192" || s == "aes256":
			return s + " does not exist any more", "use none, xor, 3des or aes128, whose key has 256 bits; aes128 is decryption_method=14 of the server"
		}
		return fmt.Sprintf("%q is not known", s), "use none, xor, 3des or aes128"
	}, Schema: m{"enum": encryptions}},
	"zone": {Read: func(_ *text, s string) (string, string) {
		if _, err := time.LoadLocation(s); err != nil || s == "" {
			return fmt.Sprintf("%q is not a time zone", s), "write one such as Europe/Stockholm or UTC"
		}
		return "", ""
	}, Schema: m{"type": "string"}},
	"label": {Read: func(_ *text, s string) (string, string) {
		if !labelName.MatchString(s) || strings.HasPrefix(s, "__") {
			return fmt.Sprintf("%q is not a label", s), "write a name such as operation"
		}
		return "", ""
	}, Schema: strictyaml.Pattern(labelName.String())},
	"mail": {Read: func(_ *text, s string) (string, string) {
		if _, err := mail.ParseAddress(s); err != nil {
			return fmt.Sprintf("%q is not a mail address", s), "write one such as oncall@example.org"
		}
		return "", ""
	}, Schema: m{"type": "string"}},
	"template": {Read: func(_ *text, s string) (string, string) {
		if _, err := template.New("").Funcs(template.FuncMap{"json": fmt.Sprint}).Parse(s); err != nil && !strings.Contains(err.Error(), "function ") {
			return strings.TrimPrefix(err.Error(), "template: "), "see Go's text/template"
		}
		return "", ""
	}, Schema: m{"type": "string"}},
	"measure": {Read: func(_ *text, s string) (string, string) {
		if quantile.MatchString(s) {
			return "", ""
		}
		for _, known := range measures {
			if s == known {
				return "", ""
			}
		}
		return fmt.Sprintf("unknown measure %s", s), strictyaml.Suggest(s, append([]string{"p50", "p95", "p99", "p99.9"}, measures...))
	}, Schema: strictyaml.Pattern(`^(p[0-9.]+|` + strings.Join(measures, "|") + `)$`)},
	"date": {Read: func(_ *text, s string) (string, string) {
		if !isDate(s) {
			return fmt.Sprintf("%q is not a date", s), "write 2026-12-24, 12-24 for every year, easter+1, 11-thu#4 for the fourth Thursday of November, 05-mon#L for the last Monday of May, or 06-20+sat for the first Saturday from then on"
		}
		return "", ""
	}, Schema: strictyaml.Pattern(aDate.String())},
	"weekday": {Read: func(_ *text, s string) (string, string) {
		if !weekday.MatchString(s) {
			return fmt.Sprintf("%q is not a day of the week", s), "write mon, tue, wed, thu, fri, sat, sun, or mon-fri"
		}
		return "", ""
	}, Schema: strictyaml.Pattern(weekday.String())},
	"clock": {Read: func(_ *text, s string) (string, string) {
		if !clock.MatchString(s) {
			return fmt.Sprintf("%q is not a time of day", s), `write one such as "09:00", in quotes`
		}
		return "", ""
	}, Schema: strictyaml.Pattern(clock.String())},
	"cron": {Read: func(_ *text, s string) (string, string) {
		if n := len(strings.Fields(s)); (n < 5 || n > 6) && !strings.HasPrefix(s, "@") {
			return fmt.Sprintf("%q has %d fields", s, n), `write five (minute hour day month weekday), or six with seconds first, such as "0 */5 * * * ?"`
		}
		return "", ""
	}, Schema: m{"type": "string"}},
	"moment": {Read: strictyaml.Anything, Schema: strictyaml.Pattern(`^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?.*)?$`)},
	// What expressions are is found out when a check is put together, where the
	// labels that are substituted in them are known.
	"expression": {Read: strictyaml.Anything, Schema: m{"type": []string{"string", "number"}}},
	"quantity":   {Read: strictyaml.Anything, Schema: m{"type": []string{"string", "number"}}},
	"hour":       {Read: strictyaml.Anything, Schema: m{"type": []string{"string", "number", "null"}}, Null: true},
	"selector":   {Read: strictyaml.Anything, Schema: m{"type": "string"}},
	"series":     {Read: strictyaml.Anything, Schema: m{"type": "string"}},
	"matchers":   {Read: strictyaml.Anything, Schema: strictyaml.Pattern(`^\s*\{.*\}\s*$`)},
	"promql":     {Read: strictyaml.Anything, Schema: m{"type": "string"}},
})

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
