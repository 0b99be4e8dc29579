package spec

import (
	"fmt"
	"math"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/strictyaml"
)

// Names of strictyaml that are used here often.
type (
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

// leaves are named by `is` tags. An enumeration has its words in the tag itself.
var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"encryption": strictyaml.Checked(func(s string) error {
		switch {
		case slices.Contains(encryptions, s):
			return nil
		case s == "aes192" || s == "aes256":
			return strictyaml.Wrong("use none, xor, 3des or aes128, whose key has 256 bits; aes128 is decryption_method=14 of the server", "%s does not exist any more", s)
		}
		return strictyaml.Wrong("use none, xor, 3des or aes128", "%q is not known", s)
	}, m{"enum": encryptions}),
	"zone": strictyaml.Checked(func(s string) error {
		if _, err := time.LoadLocation(s); err != nil || s == "" {
			return strictyaml.Wrong("write one such as Europe/Stockholm or UTC", "%q is not a time zone", s)
		}
		return nil
	}, m{"type": "string"}),
	"label": strictyaml.Checked(func(s string) error {
		if !labelName.MatchString(s) || strings.HasPrefix(s, "__") {
			return strictyaml.Wrong("write a name such as operation", "%q is not a label", s)
		}
		return nil
	}, strictyaml.Pattern(labelName.String())),
	"mail": strictyaml.Checked(func(s string) error {
		if _, err := mail.ParseAddress(s); err != nil {
			return strictyaml.Wrong("write one such as oncall@example.org", "%q is not a mail address", s)
		}
		return nil
	}, m{"type": "string"}),
	"template": strictyaml.Checked(func(s string) error {
		if _, err := template.New("").Funcs(template.FuncMap{"json": fmt.Sprint}).Parse(s); err != nil && !strings.Contains(err.Error(), "function ") {
			return strictyaml.Wrong("see Go's text/template", "%s", strings.TrimPrefix(err.Error(), "template: "))
		}
		return nil
	}, m{"type": "string"}),
	"measure": strictyaml.Checked(func(s string) error {
		if quantile.MatchString(s) {
			return nil
		}
		for _, known := range measures {
			if s == known {
				return nil
			}
		}
		return strictyaml.Wrong(strictyaml.Suggest(s, append([]string{"p50", "p95", "p99", "p99.9"}, measures...)), "unknown measure %s", s)
	}, strictyaml.Pattern(`^(p[0-9.]+|`+strings.Join(measures, "|")+`)$`)),
	"date": strictyaml.Checked(func(s string) error {
		if !isDate(s) {
			return strictyaml.Wrong("write 2026-12-24, 12-24 for every year, easter+1, 11-thu#4 for the fourth Thursday of November, 05-mon#L for the last Monday of May, or 06-20+sat for the first Saturday from then on", "%q is not a date", s)
		}
		return nil
	}, strictyaml.Pattern(aDate.String())),
	"weekday": strictyaml.Checked(func(s string) error {
		if !weekday.MatchString(s) {
			return strictyaml.Wrong("write mon, tue, wed, thu, fri, sat, sun, or mon-fri", "%q is not a day of the week", s)
		}
		return nil
	}, strictyaml.Pattern(weekday.String())),
	"clock": strictyaml.Checked(func(s string) error {
		if !clock.MatchString(s) {
			return strictyaml.Wrong(`write one such as "09:00", in quotes`, "%q is not a time of day", s)
		}
		return nil
	}, strictyaml.Pattern(clock.String())),
	"cron": strictyaml.Checked(func(s string) error {
		if n := len(strings.Fields(s)); (n < 5 || n > 6) && !strings.HasPrefix(s, "@") {
			return strictyaml.Wrong(`write five (minute hour day month weekday), or six with seconds first, such as "0 */5 * * * ?"`, "%q has %d fields", s, n)
		}
		return nil
	}, m{"type": "string"}),
	"moment": strictyaml.Checked(nil, strictyaml.Pattern(`^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?.*)?$`)),
	// Which labels an hour's expression may have is known where a check names the profile.
	"hour":     new(hour),
	"inverted": new(inverted),
	"selector": strictyaml.Checked(func(s string) error {
		_, err := parseSelector(s)
		return err
	}, m{"type": "string"}),
	"promql": strictyaml.Checked(checkPromQL, m{"type": "string"}),
})

// hour is a number, an expression or none. A key without a value is none too.
type hour string

func (h *hour) ReadText(s string) error {
	*h = hour(s)
	return nil
}

func (hour) ReadsNull() {}

func (hour) Schema() m { return m{"type": []string{"string", "number", "null"}} }

// inverted is false where a file says true.
type inverted bool

func (v *inverted) ReadText(s string) error {
	err := (*strictyaml.Bool)(v).ReadText(s)
	*v = !*v
	return err
}

func (inverted) Schema() m { return strictyaml.Bool(false).Schema() }

var ofProfile = regexp.MustCompile(`^profile +([^\s].*)$`)

// ReadText reads a number, profile NAME or an expression, in which value is known.
func (o *Of) ReadText(s string) error {
	*o = Of{}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		o.Number = &f
		return nil
	}
	if name := ofProfile.FindStringSubmatch(s); name != nil {
		o.Profile = name[1]
		return nil
	}
	var err error
	o.Expr, err = expr.Read(s, "value")
	return err
}

// Schema is that of texts and numbers.
func (*Of) Schema() m { return m{"type": []string{"string", "number"}} }

// ReadText reads a share of the threshold such as 10%, or an amount.
func (d *Distance) ReadText(s string) error {
	f, percent, ok := strictyaml.ParseShare(s, math.MaxFloat64)
	if !ok {
		return strictyaml.Wrong("write a share of the threshold such as 10%, or an amount such as 5", "%q is out of range", s)
	}
	if *d = (Distance{Absolute: f}); percent {
		*d = Distance{Share: f}
	}
	return nil
}

// Schema is a pattern of numbers with % or without.
func (*Distance) Schema() m { return strictyaml.Either(`^[0-9.eE+-]+%?$`) }

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
