package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Value reads and writes one setting as text; it is also a flag's value
// (pflag.Value).
type Value interface {
	Set(string) error
	String() string
	Type() string // what a reader should write, for help
	YAML() string // String, quoted where YAML needs it
}

type text struct{ p *string }

func (v text) Set(s string) error { *v.p = s; return nil }
func (v text) String() string     { return *v.p }
func (v text) Type() string       { return "text" }
func (v text) YAML() string {
	if *v.p == "" || strings.HasPrefix(*v.p, ":") || strings.ContainsAny(*v.p, " #\"'\\[]{}&*!|>%@`") {
		return strconv.Quote(*v.p)
	}
	return *v.p
}

type number struct{ p *int }

func (v number) Set(s string) error {
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil {
		return fmt.Errorf("%q is not a whole number", s)
	}
	*v.p = n
	return nil
}
func (v number) String() string { return strconv.Itoa(*v.p) }
func (v number) Type() string   { return "number" }
func (v number) YAML() string   { return v.String() }

type duration struct{ p *time.Duration }

func (v duration) Set(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*v.p = d
	return nil
}
func (v duration) String() string { return FormatDuration(*v.p) }
func (v duration) Type() string   { return "duration" }
func (v duration) YAML() string   { return v.String() }

type size struct{ p *int64 }

func (v size) Set(s string) error {
	n, err := ParseSize(s)
	if err != nil {
		return err
	}
	*v.p = n
	return nil
}
func (v size) String() string { return FormatSize(*v.p) }
func (v size) Type() string   { return "size" }
func (v size) YAML() string   { return v.String() }

// derived is a size, or auto: then it is derived from something else.
type derived struct{ p *int64 }

func (v derived) Set(s string) error {
	if s == "auto" {
		*v.p = Auto
		return nil
	}
	return size(v).Set(s)
}
func (v derived) String() string {
	if *v.p == Auto {
		return "auto"
	}
	return FormatSize(*v.p)
}
func (v derived) Type() string { return "size" }
func (v derived) YAML() string { return v.String() }

// list is comma-separated as text and a sequence in YAML; setting it replaces it.
// Add appends to it, as a flag does that is given again.
type list struct{ p *[]string }

func (v list) Set(s string) error {
	*v.p = nil
	return v.Add(s)
}

// Add appends the items of s.
func (v list) Add(s string) error {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*v.p = append(*v.p, item)
		}
	}
	return nil
}
func (v list) String() string { return strings.Join(*v.p, ",") }
func (v list) Type() string   { return "list" }
func (v list) YAML() string {
	return "[" + strings.Join(*v.p, ", ") + "]"
}

// entries are texts that may hold commas: one per line as text, a sequence in
// YAML. Add appends to them, as a flag does that is given again.
type entries struct{ p *[]string }

func (v entries) Set(s string) error {
	*v.p = nil
	return v.Add(s)
}

// Add appends the lines of s.
func (v entries) Add(s string) error {
	for item := range strings.Lines(s) {
		if item = strings.TrimSpace(item); item != "" {
			*v.p = append(*v.p, item)
		}
	}
	return nil
}
func (v entries) String() string { return strings.Join(*v.p, "\n") }
func (v entries) Type() string   { return "text" }
func (v entries) YAML() string   { return "[" + strings.Join(quoted(*v.p), ", ") + "]" }

// yes is true or false.
type yes struct{ p *bool }

func (v yes) Set(s string) error {
	switch s {
	case "true", "yes", "on":
		*v.p = true
	case "false", "no", "off", "":
		*v.p = false
	default:
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return nil
}
func (v yes) String() string { return strconv.FormatBool(*v.p) }
func (v yes) Type() string   { return "bool" }
func (v yes) YAML() string   { return v.String() }

// decimal is a number that need not be whole.
type decimal struct{ p *float64 }

func (v decimal) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number: write one such as 0.5", s)
	}
	*v.p = n
	return nil
}
func (v decimal) String() string { return strconv.FormatFloat(*v.p, 'f', -1, 64) }
func (v decimal) Type() string   { return "number" }
func (v decimal) YAML() string   { return v.String() }

var durationUnits = []struct {
	name string
	d    time.Duration
}{{"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"ms", time.Millisecond}, {"m", time.Minute}, {"s", time.Second}}

// ParseDuration reads Go's durations, and days and weeks of 24 hours: 35d,
// 1d12h, 90m, 500ms. It refuses negative ones and those beyond 292 years.
func ParseDuration(s string) (time.Duration, error) {
	refuse := fmt.Errorf("%q is not a duration: write one such as 48h, 35d or 500ms", s)
	if s == "0" {
		return 0, nil
	}
	if s == "" {
		return 0, refuse
	}
	var total float64
	for rest := s; rest != ""; {
		i := 0
		for i < len(rest) && (rest[i] == '.' || rest[i] >= '0' && rest[i] <= '9') {
			i++
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		if err != nil {
			return 0, refuse
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
			return 0, refuse
		}
	}
	if total > math.MaxInt64/2 {
		return 0, refuse
	}
	return time.Duration(math.Round(total)), nil
}

// FormatDuration writes what ParseDuration reads, in the largest units that
// divide it: 35d, 1d12h, 90m becomes 1h30m.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if n := d / day; n > 0 {
		fmt.Fprintf(&b, "%dd", n)
		d -= n * day
	}
	if n := d / time.Hour; n > 0 {
		fmt.Fprintf(&b, "%dh", n)
		d -= n * time.Hour
	}
	if n := d / time.Minute; n > 0 {
		fmt.Fprintf(&b, "%dm", n)
		d -= n * time.Minute
	}
	switch {
	case d == 0:
	case d >= time.Second:
		b.WriteString(strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s")
	default:
		b.WriteString(strconv.FormatFloat(float64(d)/1e6, 'f', -1, 64) + "ms")
	}
	return b.String()
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// ParseSize reads bytes with an optional unit: 256MiB, 1.5GB, 4096.
func ParseSize(s string) (int64, error) {
	refuse := fmt.Errorf("%q is not a size: write one such as 256MiB, 10GB or 0", s)
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	n, err := strconv.ParseFloat(s[:i], 64)
	if err != nil {
		return 0, refuse
	}
	unit := strings.TrimSpace(s[i:])
	for _, u := range sizeUnits {
		if unit == u.name {
			if n *= float64(u.bytes); n < math.MaxInt64/2 {
				return int64(n), nil
			}
		}
	}
	return 0, refuse
}

// FormatSize writes what ParseSize reads, in the largest unit that divides it.
func FormatSize(n int64) string {
	if n == 0 {
		return "0"
	}
	for _, u := range []int{3, 2, 1, 0} {
		if b := sizeUnits[u].bytes; n%b == 0 {
			return fmt.Sprintf("%d%s", n/b, sizeUnits[u].name)
		}
	}
	for _, u := range []int{8, 7, 6} {
		if b := sizeUnits[u].bytes; n%b == 0 {
			return fmt.Sprintf("%d%s", n/b, sizeUnits[u].name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
