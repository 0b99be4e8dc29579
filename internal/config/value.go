package config

import (
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// Value reads and writes one setting as text; it is also a flag's value
// (pflag.Value).
type Value interface {
	Set(string) error
	String() string
	Type() string // the form of the text, for help
}

// value is a setting, by a pointer to its field.
type value struct {
	field any
	is    string
}

func (v value) Set(s string) error {
	if no, ok := v.field.(*bool); ok && s == "" {
		*no = false
		return nil
	}
	return strictyaml.Set(v.field, v.is, leaves, s)
}

func (v value) String() string { return strictyaml.Format(v.field, v.is, leaves) }

func (v value) Type() string {
	switch v.field.(type) {
	case *int, *float64:
		return "number"
	case *int64:
		return "size"
	case *time.Duration:
		return "duration"
	case *bool:
		return "bool"
	}
	return "text"
}

// list is a setting with several texts; setting it replaces them.
type list struct{ value }

// Add appends a text, as a repeated flag does.
func (v list) Add(s string) error {
	items := v.field.(*[]string)
	before := *items
	err := v.Set(s)
	*items = append(before[:len(before):len(before)], *items...)
	return err
}

func (v list) Type() string {
	if v.is == "lines" {
		return "text"
	}
	return "list"
}

// leaves are the types that the tags of Config name.
var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"commas": new(commas), "lines": new(lines), "memory": new(memory), "start": new(start),
})

// commas is a list written as one text, separated by commas.
type commas []string

func (v *commas) ReadText(s string) error {
	*v = nil
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*v = append(*v, item)
		}
	}
	return nil
}

func (commas) Schema() strictyaml.M { return strictyaml.M{"type": "string"} }
func (v commas) String() string     { return strings.Join(v, ",") }

// lines is a list of texts that may hold commas, written one a line.
type lines []string

func (v *lines) ReadText(s string) error {
	*v = nil
	for item := range strings.Lines(s) {
		if item = strings.TrimSpace(item); item != "" {
			*v = append(*v, item)
		}
	}
	return nil
}

func (lines) Schema() strictyaml.M { return strictyaml.M{"type": "string"} }
func (v lines) String() string     { return strings.Join(v, "\n") }

// memory is a size, or auto for a derived one.
type memory int64

func (v *memory) ReadText(s string) error {
	if s == "auto" {
		*v = memory(Auto)
		return nil
	}
	return (*strictyaml.Bound)(v).ReadText(s)
}

func (memory) Schema() strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"const": "auto"}, strictyaml.Bound(0).Schema()}}
}

func (v memory) String() string {
	if int64(v) == Auto {
		return "auto"
	}
	return strictyaml.Bound(v).String()
}

// start is where the server begins to read a log; true is its beginning.
type start bool

func (v *start) ReadText(s string) error {
	if *v = s == "beginning"; !*v && s != "end" {
		return strictyaml.Wrong("", "%q is neither beginning nor end", s)
	}
	return nil
}

func (start) Schema() strictyaml.M { return strictyaml.M{"enum": []string{"beginning", "end"}} }

func (v start) String() string {
	if v {
		return "beginning"
	}
	return "end"
}

// ParseDuration parses Go's durations, and days, weeks and years: 35d, 1d12h, 90m,
// 500ms.
func ParseDuration(s string) (time.Duration, error) {
	var d strictyaml.Duration
	err := d.ReadText(s)
	return time.Duration(d), err
}

// FormatDuration writes d as ParseDuration reads it.
func FormatDuration(d time.Duration) string { return strictyaml.Duration(d).String() }

// ParseSize parses bytes with an optional unit: 256MiB, 1.5GB, 4096.
func ParseSize(s string) (int64, error) {
	var n strictyaml.Bound
	err := n.ReadText(s)
	return int64(n), err
}

// FormatSize writes n as ParseSize reads it.
func FormatSize(n int64) string { return strictyaml.Size(n).String() }
