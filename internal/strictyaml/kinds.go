package strictyaml

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
)

// Text is a scalar and what it means, as its kind reads it.
type Text struct {
	Node     *Node // nil: not given
	OK       bool  // given, and right
	Duration time.Duration
	Number   float64
	Int      int64
	Bool     bool // of a share or a distance: it was written with %
	Of       [2]int
}

// Given says that the file has it, even as an empty text.
func (t Text) Given() bool { return t.Node != nil }

// S is the text, empty if it was not given.
func (t Text) S() string { return t.Or("") }

// Or is the text, or what holds unless it is given.
func (t Text) Or(otherwise string) string {
	if t.Node == nil {
		return otherwise
	}
	return t.Node.Text
}

// M is a part of a JSON Schema.
type M = map[string]any

// ScalarKind is a sort of scalar.
type ScalarKind struct {
	// Read fills in t, or says what is wrong and what to write instead.
	Read func(t *Text, s string) (message, hint string)
	// Schema is what JSON Schema can say of it.
	Schema M
	Null   bool // a key without a value is read too, as an empty text
}

// Kinds are what `is` tags name. An enumeration has its words in the tag itself.
type Kinds map[string]ScalarKind

// With returns the usual kinds and more, which win.
func With(more Kinds) Kinds {
	out := maps.Clone(usual)
	maps.Copy(out, more)
	return out
}

// Pattern is the schema of a text that matches p.
func Pattern(p string) M { return M{"type": "string", "pattern": p} }

// Either is the schema of what may be written as a number or as text.
func Either(p string) M { return M{"type": []string{"string", "number"}, "pattern": p} }

var word = regexp.MustCompile(`^[^\s"'{}\[\],$](?:[^\n"'{}\[\],$]*[^\s"'{}\[\],$])?$`)

// IsWord says whether s can be a name.
func IsWord(s string) bool { return word.MatchString(s) }

// usual are the kinds that files of every sort have.
var usual = Kinds{
	"": {Read: Anything, Schema: M{"type": []string{"string", "number", "boolean"}}},
	"word": {Read: func(_ *Text, s string) (string, string) {
		if !IsWord(s) {
			return fmt.Sprintf("%q is not a name", s), "write one without quotes, brackets, braces, commas and $"
		}
		return "", ""
	}, Schema: M{"type": []string{"string", "number"}}},
	"bool": {Read: func(t *Text, s string) (string, string) {
		switch s {
		case "true", "yes", "on":
			t.Bool = true
		case "false", "no", "off":
		default:
			return fmt.Sprintf("%q is neither true nor false", s), ""
		}
		return "", ""
	}, Schema: M{"enum": []any{true, false, "yes", "no", "on", "off"}}},
	"duration": {Read: ReadDuration, Schema: Either(`^(0|([0-9]+(ms|[smhdwy]))+)$`)},
	"seconds": {Read: func(t *Text, s string) (string, string) {
		if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && !math.IsInf(f, 0) {
			t.Number = f
			return "", ""
		}
		message, _ := ReadDuration(t, s)
		t.Number = t.Duration.Seconds()
		return message, "write seconds such as 0.5, or 500ms"
	}, Schema: M{"type": []string{"string", "number"}}},
	"size": {Read: func(t *Text, s string) (string, string) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			n, err = units.ParseStrictBytes(s)
		}
		if err != nil || n <= 0 {
			return fmt.Sprintf("%q is not a size", s), "write one such as 64KiB or 1MiB"
		}
		t.Int = n
		return "", ""
	}, Schema: Either(`^[0-9.]+ ?([KMGT]i?B|B)?$`)},
	"count":  Whole(1, 1_000_000, "write a number from 1 to 1000000"),
	"status": Whole(100, 599, "write a status such as 200"),
	"share": {Read: func(t *Text, s string) (string, string) {
		return ReadShare(t, s, "write one such as 50% or 0.5", 1)
	}, Schema: Either(`^[0-9.]+%?$`)},
	"url": {Read: func(_ *Text, s string) (string, string) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Sprintf("%q is not a web address", s), "write one such as https://shop.example/health"
		}
		return "", ""
	}, Schema: Pattern(`^https?://`)},
	"address": {Read: func(_ *Text, s string) (string, string) {
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return fmt.Sprintf("%q is not an address", s), "write host:port, such as mail.example:25"
		}
		return "", ""
	}, Schema: Pattern(`:[0-9a-z$]+$`)},
	"regexp": {Read: func(_ *Text, s string) (string, string) {
		if _, err := regexp.Compile(s); err != nil {
			return strings.TrimPrefix(err.Error(), "error parsing "), ""
		}
		return "", ""
	}, Schema: M{"type": "string"}},
}

// Anything takes every text.
func Anything(*Text, string) (string, string) { return "", "" }

// Whole is the kind of whole numbers from low to high, 0 excepted.
func Whole(low, high int64, hint string) ScalarKind {
	return ScalarKind{Read: func(t *Text, s string) (string, string) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < low || n > high || n == 0 {
			return fmt.Sprintf("%q is out of range", s), hint
		}
		t.Int = n
		return "", ""
	}, Schema: M{"type": []string{"integer", "string"}, "minimum": low, "maximum": high}}
}

// ReadDuration reads one such as 1m30s.
func ReadDuration(t *Text, s string) (message, hint string) {
	d, err := model.ParseDuration(s)
	if err != nil {
		hint := "write one such as 10s, 5m, 36h or 4w"
		if _, err := model.ParseDuration(strings.ToLower(s)); err == nil {
			hint = "units are small here: write " + strings.ToLower(s)
		} else if _, err := strconv.ParseFloat(s, 64); err == nil {
			hint = "a duration needs a unit: write " + s + "s or " + s + "m"
		}
		return fmt.Sprintf("%q is not a duration", s), hint
	}
	t.Duration = time.Duration(d)
	return "", ""
}

// ReadShare reads a number from 0 to most, with % or without.
func ReadShare(t *Text, s, hint string, most float64) (message, what string) {
	number, share := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if share {
		f /= 100
	}
	if err != nil || math.IsNaN(f) || f < 0 || f > most || math.IsInf(f, 0) {
		return fmt.Sprintf("%q is out of range", s), hint
	}
	t.Number, t.Bool = f, share
	return "", ""
}
