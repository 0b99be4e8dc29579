package httpapi

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/api"
	"tailscope/internal/query"
)

// These are kinds of parameters. Their methods read one and say what is wrong.
type (
	// Time is RFC 3339, Unix seconds, `now`, or `now` plus or minus a duration.
	Time string
	// Duration is Prometheus' (1d, 5m30s), Go's (1.5h) or plain seconds.
	Duration string
	// Selector is a PromQL vector selector: {service="checkout",tenant=~"a|b"}.
	Selector string
	// List is names or numbers parted by commas.
	List string
	// Int is a whole number.
	Int string
	// Bool is true or false.
	Bool string
)

const timeHint = "write RFC 3339 (2026-05-09T08:00:00Z), Unix seconds, now or now-6h"

// Parse reads the time relative to now; empty means def.
func (t Time) Parse(field string, now, def time.Time) (time.Time, error) {
	s := strings.TrimSpace(string(t))
	if s == "" {
		return def, nil
	}
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		if rest == "" {
			return now, nil
		}
		if rest[0] == ' ' { // an unescaped plus in a URL
			rest = "+" + rest[1:]
		}
		if rest[0] == '+' || rest[0] == '-' {
			if d, ok := parseDuration(rest[1:]); ok {
				if rest[0] == '-' {
					d = -d
				}
				return now.Add(d), nil
			}
		}
		return time.Time{}, query.Invalid(field, "%q is not a time; %s", s, timeHint)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(f) || math.Abs(f) > 1e15 {
			return time.Time{}, query.Invalid(field, "%q is not a time; %s", s, timeHint)
		}
		if f > 1e11 {
			return time.Time{}, query.Invalid(field, "%s is too large for Unix seconds; if it is milliseconds, write %s", s, strconv.FormatFloat(f/1e3, 'f', -1, 64))
		}
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(frac*1e9)), nil
	}
	for _, v := range [...]string{s, strings.Replace(s, " ", "+", 1)} {
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at, nil
		}
	}
	return time.Time{}, query.Invalid(field, "%q is not a time; %s", s, timeHint)
}

// Parse reads the duration; empty means 0. A leading minus is allowed.
func (d Duration) Parse(field string) (time.Duration, error) {
	s := strings.TrimSpace(string(d))
	if s == "" {
		return 0, nil
	}
	rest, negative := strings.CutPrefix(s, "-")
	v, ok := parseDuration(rest)
	if !ok {
		return 0, query.Invalid(field, "%q is not a duration; write seconds or a duration such as 30s, 5m, 1d, 1w", s)
	}
	if negative {
		v = -v
	}
	return v, nil
}

// parseDuration reads an unsigned duration of less than about 100 years.
func parseDuration(s string) (time.Duration, bool) {
	const most = 36500 * 24 * time.Hour
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, false
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(f) || f < 0 || f > most.Seconds() {
			return 0, false
		}
		return time.Duration(math.Round(f * 1e9)), true
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), time.Duration(d) <= most
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && d <= most
}

// Parse reads the matchers. A metric name, if any, is returned apart.
func (s Selector) Parse(field string) (family string, ms []*labels.Matcher, err error) {
	text := strings.TrimSpace(string(s))
	if text == "" || text == "{}" {
		return "", nil, nil
	}
	if err := query.CheckText(field, text); err != nil {
		return "", nil, err
	}
	all, err := promParser.ParseMetricSelector(text)
	if err != nil {
		return "", nil, query.Invalid(field, `%s is not a selection (%s); write matchers such as {service="checkout",tenant=~"a|b"}`, quote(text), parseErrorText(err))
	}
	for _, m := range all {
		if m.Name != labels.MetricName {
			ms = append(ms, m)
			continue
		}
		if m.Type != labels.MatchEqual || family != "" {
			return "", nil, query.Invalid(field, "a selection names one family at most; write it in the family parameter")
		}
		family = m.Value
	}
	return family, ms, nil
}

var promParser = parser.NewParser(parser.Options{})

// parseErrorText drops the position of a parse error and further ones after the first.
func parseErrorText(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, rest, ok := strings.Cut(text, "parse error: "); ok {
		return rest
	}
	return text
}

func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strconv.Quote(s)
}

// Names reads label names; duplicates are dropped.
func (l List) Names(field string) ([]string, error) {
	var out []string
	for name := range strings.SplitSeq(string(l), ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			if strings.TrimSpace(string(l)) != "" {
				return nil, query.Invalid(field, "%s has an empty name; write label names parted by commas, such as service,operation", quote(string(l)))
			}
			continue
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
		if len(out) > maxNames {
			return nil, query.Invalid(field, "more than %d names are given; write fewer", maxNames)
		}
	}
	return out, nil
}

// maxNames bounds a list of labels.
const maxNames = 100

// Floats reads numbers.
func (l List) Floats(field string) ([]float64, error) {
	if strings.TrimSpace(string(l)) == "" {
		return nil, nil
	}
	var out []float64
	for s := range strings.SplitSeq(string(l), ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, query.Invalid(field, "%s is not a number; write seconds such as 0.2", quote(s))
		}
		out = append(out, f)
	}
	if len(out) > 1000 {
		return nil, query.Invalid(field, "%d values are more than 1000; ask for fewer", len(out))
	}
	return out, nil
}

// Parse reads the number; empty means 0.
func (i Int) Parse(field string) (int, error) {
	if i == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(i), 10, 32)
	if err != nil {
		return 0, query.Invalid(field, "%s is not a whole number", quote(string(i)))
	}
	if n <= 0 && field != "offset" {
		return 0, query.Invalid(field, "%d is not positive; leave %s out for its default", n, field)
	}
	return int(n), nil
}

// Parse reads the truth value; empty means false.
func (b Bool) Parse(field string) (bool, error) {
	switch b {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, query.Invalid(field, "%s is neither true nor false", quote(string(b)))
}

func overlay(o api.EarlierDay) (query.Overlay, error) {
	zone, err := query.Zone("tz", o.Zone)
	return query.Overlay{Name: o.Overlay, Zone: zone}, err
}

// wholeSeconds returns a duration that has to be whole seconds.
func wholeSeconds(field string, d time.Duration) (int64, error) {
	if d%time.Second != 0 {
		return 0, query.Invalid(field, "%q is not whole seconds; write a duration such as 10s or 1m", d.String())
	}
	return int64(d / time.Second), nil
}
