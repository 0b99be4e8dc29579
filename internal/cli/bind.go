package cli

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/internal/config"
)

// bind registers a flag for each named parameter of a request. The tags of the field
// describe it (api/requests.go). A value that the request already holds is the
// default of the flag. A flag that is not given leaves its field alone, and a zero
// field leaves the choice to the server.
func bind(fs *pflag.FlagSet, request any, flags ...string) {
	v := reflect.ValueOf(request).Elem()
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("query"); name != "" {
			fields[cmp.Or(f.Tag.Get("flag"), dashed.Replace(name))] = f
		}
	}
	for _, name := range flags {
		f, ok := fields[name]
		if !ok {
			panic(fmt.Sprintf("cli: %s has no parameter for --%s", v.Type(), name)) // tests build every command
		}
		bindField(fs, v.FieldByIndex(f.Index).Addr().Interface(), name, cmp.Or(f.Tag.Get("help"), f.Tag.Get("doc")), f.Tag)
	}
}

// bindField registers a flag for a field, or for any other variable.
func bindField(fs *pflag.FlagSet, field any, name, usage string, tag reflect.StructTag) {
	v := reflect.ValueOf(field).Elem()
	if !v.IsZero() {
		usage, _, _ = strings.Cut(usage, "; default ") // that of the server
	}
	switch p := field.(type) {
	case *bool:
		fs.BoolVar(p, name, *p, usage)
	case *int:
		fs.IntVar(p, name, *p, usage)
	default:
		b := &boundFlag{called: "--" + name, field: v, def: reflect.ValueOf(v.Interface()), tag: tag}
		b.typ, b.parse = b.kind(field)
		b.typ = cmp.Or(tag.Get("value"), b.typ)
		if v.Kind() == reflect.String {
			b.text = v.String()
		}
		fs.Var(b, name, usage)
	}
}

// boundFlag is a flag whose value is a field of a request.
type boundFlag struct {
	called string // in messages: --level, or --set level
	typ    string // in help
	field  reflect.Value
	def    reflect.Value
	tag    reflect.StructTag
	parse  func(text string) error
	text   string
}

func (b *boundFlag) String() string { return b.text }
func (b *boundFlag) Type() string   { return b.typ }

// Set implements pflag.Value. An empty text is a flag that is not given.
func (b *boundFlag) Set(text string) error {
	b.field.Set(b.def)
	if b.text = text; text == "" {
		return nil
	}
	b.field.SetZero()
	if err := b.parse(text); err != nil {
		return usage{fmt.Errorf("%s %w", b.called, err)}
	}
	return nil
}

// kind returns the name of a field's type in help, and what parses a text into the
// field. A number with the unit seconds is a duration, any other a share of 1.
func (b *boundFlag) kind(field any) (name string, parse func(text string) error) {
	share := func(text string) (float64, error) { return parseShare(text, b.tag.Get("example")) }
	switch p := field.(type) {
	case *string:
		return "string", func(text string) error { *p = text; return nil }
	case *api.Time:
		return "moment", into(p, parseTime)
	case *time.Duration:
		return "duration", into(p, b.parseDuration)
	case **time.Duration:
		return "duration", func(text string) error { *p = new(time.Duration); return into(*p, b.parseDuration)(text) }
	case *float64:
		if b.tag.Get("unit") == "seconds" {
			return "duration", into(p, parseSeconds)
		}
		return "share", into(p, share)
	case *api.Share:
		return "share", into((*float64)(p), share)
	case *api.Quantile:
		return "quantile", into((*float64)(p), b.parseQuantile)
	case *api.Quantiles:
		return "quantiles", func(text string) error { *p = splitList(text); return nil }
	case *[]string:
		return "list", func(text string) error { *p = splitList(text); return nil }
	case *[]float64:
		return "values", into(p, parseValues)
	case **float64:
		return "value", func(text string) error { *p = new(float64); return into(*p, parseValue)(text) }
	}
	panic(fmt.Sprintf("cli: a parameter of type %T", field)) // tests build every command
}

// into returns a parser that puts what parse returns into a variable.
func into[T any](p *T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) (err error) {
		*p, err = parse(text)
		return err
	}
}

// parseDuration reads a duration of 0 or more, above 0 if the tag positive says so.
// The tag signed allows those below 0 too.
func (b *boundFlag) parseDuration(text string) (time.Duration, error) {
	plain := text
	if b.tag.Get("signed") != "" {
		plain = strings.TrimPrefix(text, "-")
	}
	d, err := parseDuration(plain)
	if err != nil || d == 0 && b.tag.Get("positive") != "" {
		return 0, notDuration(text)
	}
	if plain != text {
		d = -d
	}
	return d, nil
}

func (b *boundFlag) parseQuantile(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v < 1) {
		return 0, fmt.Errorf("%q is not a quantile: write one between 0 and 1, such as %s", text, b.tag.Get("example"))
	}
	return v, nil
}

// longest is the longest duration of a flag: 100 years.
const longest = 36500 * 24 * time.Hour

func notDuration(text string) error {
	return fmt.Errorf("%q is not a time: write one such as 500ms or 0.5", text)
}

// parseDuration reads 500ms, 1.5h, 1d or plain seconds, from 0 to 100 years.
func parseDuration(text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err != nil {
		v, wrong := strconv.ParseFloat(text, 64)
		if wrong != nil || !(v >= 0 && v <= longest.Seconds()) {
			return 0, notDuration(text)
		}
		d = time.Duration(math.Round(v * float64(time.Second)))
	}
	if d < 0 || d > longest {
		return 0, notDuration(text)
	}
	return d, nil
}

// parseSeconds reads a duration above 0, and returns it in seconds.
func parseSeconds(text string) (float64, error) {
	d, err := parseDuration(text)
	if err == nil && d == 0 {
		err = notDuration(text)
	}
	return d.Seconds(), err
}

// parseValue reads a finite number, or a duration as seconds.
func parseValue(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		d, err = config.ParseDuration(text)
		v = d.Seconds()
	}
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: write a value such as 200ms or 0.2", text)
	}
	return v, nil
}

// parseValues reads a list of values.
func parseValues(text string) (values []float64, err error) {
	for _, item := range splitList(text) {
		v, err := parseValue(item)
		if err != nil {
			return nil, fmt.Errorf("%q: write values such as 200ms or 0.2", item)
		}
		values = append(values, v)
	}
	return values, nil
}

// parseShare reads 99%, 99.9 % or 0.99; example is a number, for the error.
func parseShare(s, example string) (float64, error) {
	v, isPercent, err := shareNumber(s)
	switch {
	case err != nil || math.IsNaN(v):
	case v > 0 && v < 1:
		return math.Round(v*1e9) / 1e9, nil
	case !isPercent && v > 1 && v < 100:
		return 0, fmt.Errorf("%q is more than everything: write %s%%", s, strings.TrimSpace(s))
	}
	if v, err := strconv.ParseFloat(example, 64); err == nil {
		example = fmt.Sprintf("%.4g%%", 100*v)
	}
	return 0, fmt.Errorf("%q is not a share: write one between 0%% and 100%%, such as %s", s, cmp.Or(example, "1%"))
}

// shareNumber reads 99% as 0.99, and a number without the sign as it is.
func shareNumber(s string) (v float64, isPercent bool, err error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	return v, isPercent, err
}

// splitList reads a,b,c.
func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
