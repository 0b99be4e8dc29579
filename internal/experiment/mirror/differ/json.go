package differ

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/experiment/mirror/redact"
)

const (
	// maxPath bounds the depth of a place's name; deeper values count there.
	maxPath = 24
	// maxName bounds a field's name in a place.
	maxName = 64
)

// walk goes through two JSON values side by side.
type walk struct {
	p     *parts
	r     *result
	d     *Differ
	place []byte
	path  []string // names, and [] of elements
}

func (w *walk) compare(a, b any) {
	if len(w.r.places) == maxFound {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			w.objects(a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			w.arrays(a, b)
			return
		}
	case json.Number:
		if b, ok := b.(json.Number); ok {
			if !equalNumbers(string(a), string(b)) {
				w.note("", a, b)
			}
			return
		}
	case string:
		if b, ok := b.(string); ok {
			if a != b {
				w.note("", a, b)
			}
			return
		}
	case bool:
		if b, ok := b.(bool); ok {
			if a != b {
				w.note("", a, b)
			}
			return
		}
	case nil:
		if b == nil {
			return
		}
	}
	w.note(" type", a, b)
}

func (w *walk) objects(a, b map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		leave := w.enter(name)
		if other, ok := b[name]; ok {
			w.compare(a[name], other)
		} else {
			w.note(" missing", a[name], absent{})
		}
		leave()
	}
	if len(b) <= len(a) && len(w.r.places) == maxFound {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			leave := w.enter(name)
			w.note(" extra", absent{}, b[name])
			leave()
		}
	}
}

// arrays compares elements by their index.
func (w *walk) arrays(a, b []any) {
	if len(a) != len(b) {
		w.note("[] length", json.Number(strconv.Itoa(len(a))), json.Number(strconv.Itoa(len(b))))
	}
	leave := w.enter("[]")
	for i := range min(len(a), len(b)) {
		w.compare(a[i], b[i])
	}
	leave()
}

// enter goes down to a field, or to the elements.
func (w *walk) enter(name string) (leave func()) {
	size := len(w.place)
	switch {
	case len(w.path) >= maxPath:
	case name == "[]":
		w.place = append(w.place, name...)
	default:
		w.place = append(w.place, w.d.name(name)...)
	}
	w.path = append(w.path, name)
	return func() {
		w.place, w.path = w.place[:size], w.path[:len(w.path)-1]
	}
}

// absent stands for a field that is missing.
type absent struct{}

func (w *walk) note(what string, a, b any) {
	place := strings.TrimSuffix(string(w.place), " ") + what
	if w.r.seen[place] {
		return
	}
	path := slices.Clone(w.path)
	show := func(v any) func(*redact.Redactor) string {
		return func(r *redact.Redactor) string {
			switch v := v.(type) {
			case absent:
				return ""
			case string:
				return strconv.Quote(r.Value(path, v))
			case json.Number:
				return r.Value(path, v.String())
			}
			text, err := json.Marshal(v)
			if err != nil {
				return ""
			}
			return string(r.JSONAt(path, text))
		}
	}
	w.p.found(w.r, place, show(a), show(b))
}

// equalNumbers reports whether two numbers are equal in value: 1, 1.0 and 1e0 are.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	// Integers that a float64 cannot distinguish are compared by digits.
	if errA != nil || errB != nil || x != y || (x >= 1<<53 || x <= -1<<53) {
		return false
	}
	return true
}

// name returns a field's name in a place. Names that look like identifiers are
// folded, so that not every user has places of their own.
func (d *Differ) name(name string) string {
	if short, ok := d.table.names[name]; ok {
		return short
	}
	short := d.makeName(name)
	if len(d.table.names) < 4096 && len(name) <= 256 {
		d.table.names[name] = short
	}
	return short
}

func (d *Differ) makeName(name string) string {
	if identifier(name) {
		return "{}"
	}
	shown := clip(d.o.Redactor.Text(name), maxName)
	for i, c := range shown {
		if c != '_' && c != '-' && c != '$' && c != '@' && (c < '0' || c > '9' || i == 0) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80 {
			return "." + strconv.Quote(shown)
		}
	}
	if shown == "" {
		return `.""`
	}
	return "." + shown
}

// identifier reports whether a name is a number, or at least 16 hexadecimal digits or
// hyphens.
func identifier(name string) bool {
	digits, hex := 0, 0
	for i := range len(name) {
		switch c := name[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' || c == '-':
			hex++
		default:
			return false
		}
	}
	return digits > 0 && (hex == 0 || digits+hex >= 16)
}
