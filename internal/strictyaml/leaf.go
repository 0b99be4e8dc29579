package strictyaml

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Leaf is a type that is written as one text. It reads itself, says what is wrong
// with a text and what to write instead, and describes itself to editors.
type Leaf interface {
	ReadText(s string) error // a *Mistake, if it can say what to write
	Schema() M
}

// Leaves are what `is` tags name: a field of a plain type is read by the leaf that
// its tag names, whose type must be convertible to the field's.
type Leaves map[string]Leaf

// WithLeaves returns the usual leaves and more, which win.
func WithLeaves(more Leaves) Leaves {
	out := maps.Clone(usualLeaves)
	maps.Copy(out, more)
	return out
}

var usualLeaves = Leaves{
	"word": Checked(func(s string) error {
		if !IsName(s) {
			return Wrong("write one without quotes, brackets, braces, commas and $", "%q is not a name", s)
		}
		return nil
	}, M{"type": []string{"string", "number"}}),
	"duration": new(Duration),
	"seconds":  new(Seconds),
	"size":     new(Size),
	"bound":    new(Bound),
	"share":    new(Share),
	"positive": new(Positive),
	"url": Checked(func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return Wrong("write one such as https://shop.example/health", "%q is not a web address", s)
		}
		return nil
	}, Pattern(`^https?://`)),
	"address": Checked(func(s string) error {
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return Wrong("write host:port, such as mail.example:25", "%q is not an address", s)
		}
		return nil
	}, Pattern(`:[0-9a-z$]+$`)),
	"regexp": Checked(func(s string) error {
		if _, err := regexp.Compile(s); err != nil {
			return Wrong("", "%s", strings.TrimPrefix(err.Error(), "error parsing "))
		}
		return nil
	}, M{"type": "string"}),
}

// M is a part of a JSON Schema.
type M = map[string]any

// Pattern is the schema of a text that matches p.
func Pattern(p string) M { return M{"type": "string", "pattern": p} }

// Either is the schema of what may be written as a number or as text.
func Either(p string) M { return M{"type": []string{"string", "number"}, "pattern": p} }

var name = regexp.MustCompile(`^[^\s"'{}\[\],$](?:[^\n"'{}\[\],$]*[^\s"'{}\[\],$])?$`)

// IsName says whether s can be a name.
func IsName(s string) bool { return name.MatchString(s) }

// Mistake is what is wrong with a text.
type Mistake struct {
	Message, Hint string
	Offset        int // of the byte it is about, from 1; 0: the whole text
}

func (m *Mistake) Error() string {
	if m.Hint == "" {
		return m.Message
	}
	return m.Message + ": " + m.Hint
}

// Wrong returns a Mistake of a whole text.
func Wrong(hint, format string, args ...any) error {
	return &Mistake{Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Checked is a leaf that remains the text it is, if check has nothing against it.
func Checked(check func(s string) error, schema M) Leaf {
	return &checked{check: check, schema: schema}
}

type checked struct {
	check  func(s string) error
	schema M
	text   string
}

func (c *checked) ReadText(s string) error {
	c.text = s
	if c.check == nil {
		return nil
	}
	return c.check(s)
}
func (c *checked) Schema() M                 { return c.schema }
func (c *checked) into(v reflect.Value) bool { v.SetString(c.text); return true }

// enumLeaf is the leaf of an enumeration.
func enumLeaf(known []string) Leaf {
	return Checked(func(s string) error {
		for _, w := range known {
			if s == w {
				return nil
			}
		}
		return Wrong(Suggest(s, known), "%q is not known", s)
	}, M{"enum": known})
}

// Bool is true or false.
type Bool bool

// ReadText reads the words that YAML 1.1 has for it.
func (b *Bool) ReadText(s string) error {
	switch s {
	case "true", "yes", "on":
		*b = true
	case "false", "no", "off":
		*b = false
	default:
		return Wrong("", "%q is neither true nor false", s)
	}
	return nil
}

// Schema lists them.
func (Bool) Schema() M { return M{"enum": []any{true, false, "yes", "no", "on", "off"}} }

// Duration is a time that something takes.
type Duration time.Duration

var durationUnits = []struct {
	name string
	d    time.Duration
}{
	{"y", 365 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"ms", time.Millisecond},
	{"m", time.Minute}, {"s", time.Second}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"ns", time.Nanosecond},
}

// ReadText reads Go's durations, and days, weeks and years of 365 days: 35d,
// 1d12h, 1.5h, 500ms. It refuses negative ones and those beyond 146 years.
func (d *Duration) ReadText(s string) error {
	if v, ok := parseDuration(s); ok {
		*d = Duration(v)
		return nil
	}
	hint := "write one such as 500ms, 10s, 48h or 35d"
	if _, ok := parseDuration(strings.ToLower(s)); ok {
		hint = "units are small here: write " + strings.ToLower(s)
	} else if _, err := strconv.ParseFloat(s, 64); err == nil {
		hint = "a duration needs a unit: write " + s + "ms, " + s + "s or " + s + "m"
	}
	return Wrong(hint, "%q is not a duration", s)
}

func parseDuration(s string) (time.Duration, bool) {
	if s == "0" {
		return 0, true
	}
	var total float64
	for rest := s; rest != ""; {
		i := 0
		for i < len(rest) && (rest[i] == '.' || rest[i] >= '0' && rest[i] <= '9') {
			i++
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		if err != nil {
			return 0, false
		}
		rest = rest[i:]
		found := false
		for _, u := range durationUnits {
			if after, ok := strings.CutPrefix(rest, u.name); ok {
				total += n * float64(u.d)
				rest, found = after, true
				break
			}
		}
		if !found {
			return 0, false
		}
	}
	return time.Duration(math.Round(total)), s != "" && total <= math.MaxInt64/2
}

// Schema is a pattern of numbers with units; 0 needs none.
func (Duration) Schema() M {
	return M{"anyOf": []any{Pattern(`^(0|([0-9.]+(ns|us|µs|ms|[smhdwy]))+)$`), M{"const": 0}}}
}

// String writes what ReadText reads, in the largest units from days on that divide
// it: 35d, 1d12h, 1h30m.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	left := time.Duration(d)
	for _, u := range durationUnits[2:] {
		if n := left / u.d; u.d >= time.Minute && n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			left -= n * u.d
		}
	}
	switch {
	case left == 0:
	case left >= time.Second:
		b.WriteString(strconv.FormatFloat(left.Seconds(), 'f', -1, 64) + "s")
	default:
		b.WriteString(strconv.FormatFloat(float64(left)/1e6, 'f', -1, 64) + "ms")
	}
	return b.String()
}

// Seconds is a number of seconds, or a duration.
type Seconds float64

// ReadText reads 0.5 and 500ms as the same.
func (v *Seconds) ReadText(s string) error {
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && !math.IsInf(f, 0) {
		*v = Seconds(f)
		return nil
	}
	d, ok := parseDuration(s)
	if !ok {
		return Wrong("write seconds such as 0.5, or 500ms", "%q is not a duration", s)
	}
	*v = Seconds(d.Seconds())
	return nil
}

// Schema cannot say more than that it is one text.
func (Seconds) Schema() M { return M{"type": []string{"string", "number"}} }

// Size is a number of bytes above 0.
type Size int64

// Bound is a Size, or 0.
type Bound Size

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// ReadText reads bytes with a unit or without: 256MiB, 1.5GB, 4096.
func (v *Size) ReadText(s string) error {
	n, ok := parseSize(s)
	if *v = Size(n); !ok || n == 0 {
		return Wrong("write one such as 64KiB or 1MiB", "%q is not a size", s)
	}
	return nil
}

// ReadText takes 0 too.
func (v *Bound) ReadText(s string) error {
	n, ok := parseSize(s)
	if *v = Bound(n); !ok {
		return Wrong("write one such as 256MiB, 10GB or 0", "%q is not a size", s)
	}
	return nil
}

func parseSize(s string) (int64, bool) {
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	n, err := strconv.ParseFloat(s[:i], 64)
	unit := strings.TrimSpace(s[i:])
	for _, u := range sizeUnits {
		if n := n * float64(u.bytes); err == nil && unit == u.name && n < math.MaxInt64/2 {
			return int64(n), true
		}
	}
	return 0, false
}

// Schema is a pattern of numbers with units, of which a digit is not 0.
func (Size) Schema() M { return atLeast(1, `^[0-9.]*[1-9][0-9.]* *([KMGT]i?B|kB|B)?$`) }

// Schema is a pattern of numbers with units.
func (Bound) Schema() M { return atLeast(0, `^[0-9.]+ *([KMGT]i?B|kB|B)?$`) }

func atLeast(least int, pattern string) M {
	out := Either(pattern)
	out["minimum"] = least
	return out
}

// String writes what ReadText reads, in the largest unit that divides it.
func (v Size) String() string {
	if v == 0 {
		return "0"
	}
	for _, u := range []int{3, 2, 1, 0, 8, 7, 6} {
		if b := Size(sizeUnits[u].bytes); v%b == 0 {
			return fmt.Sprintf("%d%s", v/b, sizeUnits[u].name)
		}
	}
	return fmt.Sprintf("%dB", int64(v))
}

// String writes that of a Size.
func (v Bound) String() string { return Size(v).String() }

// Share is a number from 0 to 1.
type Share float64

// ReadText reads 50% and 0.5 as the same.
func (v *Share) ReadText(s string) error {
	f, _, ok := ParseShare(s, 1)
	if *v = Share(f); !ok {
		return Wrong("write one such as 50% or 0.5", "%q is out of range", s)
	}
	return nil
}

// ParseShare reads a number from 0 to most, with % or without.
func ParseShare(s string, most float64) (f float64, percent, ok bool) {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	return f, percent, err == nil && f >= 0 && f <= most && !math.IsInf(f, 0)
}

// Schema is a pattern of numbers with % up to 100, or without up to 1.
func (Share) Schema() M {
	out := atLeast(0, `^([0-9]{1,2}(\.[0-9]*)?|100(\.0*)?|\.[0-9]+) *%$|^(0(\.[0-9]*)?|1(\.0*)?|\.[0-9]+)$`)
	out["maximum"] = 1
	return out
}

// Number is a finite number.
type Number float64

// ReadText reads it as Go does.
func (v *Number) ReadText(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if *v = Number(f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return Wrong("write one such as 0.5", "%q is not a number", s)
	}
	return nil
}

// String writes it without an exponent.
func (v Number) String() string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }

// Schema is a pattern of numbers.
func (Number) Schema() M { return Either(`^[0-9.eE+-]+$`) }

// Positive is a Number above 0.
type Positive Number

// ReadText refuses what is not above 0.
func (v *Positive) ReadText(s string) error {
	if err := (*Number)(v).ReadText(s); err != nil || !(*v > 0) {
		return Wrong("", "%q is not a number above 0", s)
	}
	return nil
}

// Schema is that of a Number.
func (Positive) Schema() M { return Number(0).Schema() }

// whole is the leaf of whole numbers from min to max, 0 excepted if min is not 0; a
// max of 0 is no bound.
type whole struct {
	min, max int64
	any      bool // of whatever size
	n        int64
	u        uint64
}

func (w *whole) ReadText(s string) error {
	var err error
	digits := strings.ReplaceAll(s, "_", "")
	if w.any {
		if w.n, err = strconv.ParseInt(digits, 10, 64); err != nil {
			return Wrong("", "%q is not a whole number", s)
		}
		return nil
	}
	if w.min < 0 {
		w.n, err = strconv.ParseInt(digits, 10, 64)
	} else if w.u, err = strconv.ParseUint(digits, 10, 64); err == nil {
		w.n = int64(min(w.u, math.MaxInt64))
	}
	if err != nil || w.n < w.min || w.max != 0 && w.n > w.max || w.min != 0 && w.n == 0 {
		return w.outOfRange(s)
	}
	return nil
}

func (w *whole) outOfRange(s string) error {
	hint := fmt.Sprintf("write a number from %d to %d", w.min, w.max)
	if w.max == 0 {
		hint = fmt.Sprintf("write a whole number from %d on", w.min)
	}
	return Wrong(hint, "%q is out of range", s)
}

func (w *whole) Schema() M {
	out := M{"type": []string{"integer", "string"}, "pattern": "^-?[0-9_]+$"}
	if !w.any {
		out["minimum"] = w.min
	}
	if w.max != 0 {
		out["maximum"] = w.max
	}
	return out
}

func (w *whole) into(v reflect.Value) bool {
	if v.CanUint() {
		v.SetUint(w.u)
		return true
	}
	v.SetInt(w.n)
	return w.u <= math.MaxInt64 && !v.OverflowInt(w.n)
}

var (
	leafType     = reflect.TypeFor[Leaf]()
	durationType = reflect.TypeFor[time.Duration]()
)

// leafOf returns what reads a field of type t whose tag says is; nil if that is not
// one text. It panics if nothing is called so, which Undescribed finds.
func leafOf(t reflect.Type, is string, leaves Leaves) Leaf {
	if reflect.PointerTo(t).Implements(leafType) {
		return reflect.New(t).Interface().(Leaf)
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
	default:
		return nil
	}
	if strings.Contains(is, "|") {
		return enumLeaf(strings.Split(is, "|"))
	}
	if low, high, ok := strings.Cut(is, ".."); ok {
		from, err := strconv.ParseInt(low, 10, 64)
		to, err2 := strconv.ParseInt("0"+high, 10, 64)
		if err != nil || err2 != nil {
			panic("not a range of whole numbers: " + is)
		}
		return &whole{min: from, max: to}
	}
	if is != "" {
		l, ok := leaves[is]
		if !ok {
			panic("no leaf is called " + is)
		}
		if reflect.TypeOf(l).Elem().Kind() == reflect.Slice { // its items are texts
			return Checked(nil, plainSchema)
		}
		fresh := reflect.New(reflect.TypeOf(l).Elem())
		fresh.Elem().Set(reflect.ValueOf(l).Elem())
		return fresh.Interface().(Leaf)
	}
	switch {
	case t == durationType:
		return new(Duration)
	case t.Kind() == reflect.String:
		return Checked(nil, plainSchema)
	case t.Kind() == reflect.Bool:
		return new(Bool)
	case t.Kind() == reflect.Float64:
		return new(Number)
	}
	return &whole{any: true}
}

var plainSchema = M{"type": []string{"string", "number", "boolean"}}

// listLeaf returns what reads a list of texts that is written as one; nil if nothing
// does.
func listLeaf(t reflect.Type, is string, leaves Leaves) Leaf {
	if l, ok := leaves[is]; ok && t.Kind() == reflect.Slice && reflect.TypeOf(l).Elem().ConvertibleTo(t) {
		return reflect.New(reflect.TypeOf(l).Elem()).Interface().(Leaf)
	}
	return nil
}

// Set reads s into the field at a pointer, as one tagged is would be read.
func Set(field any, is string, leaves Leaves, s string) error {
	v := reflect.ValueOf(field).Elem()
	l := listLeaf(v.Type(), is, leaves)
	if l == nil {
		l = leafOf(v.Type(), is, leaves)
	}
	return read(l, s, v)
}

// Format writes the field at a pointer as Set reads it.
func Format(field any, is string, leaves Leaves) string {
	v := reflect.ValueOf(field).Elem()
	l := listLeaf(v.Type(), is, leaves)
	if l == nil {
		l = leafOf(v.Type(), is, leaves)
	}
	if t := reflect.TypeOf(l).Elem(); v.CanConvert(t) {
		return fmt.Sprint(v.Convert(t).Interface())
	}
	return fmt.Sprint(v.Interface())
}

// read reads s into v by l.
func read(l Leaf, s string, v reflect.Value) error {
	if err := l.ReadText(s); err != nil {
		return err
	}
	if to, ok := l.(interface{ into(reflect.Value) bool }); ok {
		if !to.into(v) {
			return Wrong("write a smaller number", "%q is out of range", s)
		}
		return nil
	}
	v.Set(reflect.ValueOf(l).Elem().Convert(v.Type()))
	return nil
}
