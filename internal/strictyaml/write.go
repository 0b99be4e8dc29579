package strictyaml

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Write writes v, a pointer to a struct, as a file that is read as the same. Items of
// lists have only the keys that differ from nothing.
func Write(v any, leaves Leaves) string {
	w := writer{leaves: leaves}
	w.structure(reflect.ValueOf(v).Elem(), "", "", false)
	return w.String()
}

type writer struct {
	strings.Builder
	leaves Leaves
}

// structure writes keys, the first of them after first.
func (w *writer) structure(v reflect.Value, first, indent string, short bool) {
	for _, k := range KeysOf(v.Type()) {
		f := v.FieldByIndex(k.Index)
		if short && f.IsZero() {
			continue
		}
		switch {
		case leafOf(k.Type, k.Is, w.leaves) != nil:
			text := Format(f.Addr().Interface(), k.Is, w.leaves)
			if k.Type.Kind() == reflect.String {
				text = Quote(text)
			}
			fmt.Fprintf(w, "%s%s: %s\n", first, k.Key, text)
		case k.Type.Kind() == reflect.Slice && k.Type.Elem().Kind() == reflect.Struct:
			if f.Len() == 0 {
				continue
			}
			fmt.Fprintf(w, "%s%s:\n", first, k.Key)
			for i := range f.Len() {
				w.structure(f.Index(i), indent+"  - ", indent+"    ", true)
			}
		case k.Type.Kind() == reflect.Slice:
			items := make([]string, f.Len())
			for i := range items {
				items[i] = quoteItem(fmt.Sprint(f.Index(i).Interface()))
			}
			fmt.Fprintf(w, "%s%s: [%s]\n", first, k.Key, strings.Join(items, ", "))
		default:
			fmt.Fprintf(w, "%s%s:\n", first, k.Key)
			w.structure(f, indent+"  ", indent+"  ", short)
		}
		first = indent
	}
}

var (
	plain     = regexp.MustCompile(`^[A-Za-z0-9_/.](?:[A-Za-z0-9_/.:+%=-]*[A-Za-z0-9_/])?$`)
	plainItem = regexp.MustCompile(`^[A-Za-z0-9_/.][A-Za-z0-9_/.=-]*$`)
)

// Quote writes a text as a value: in quotes if it needs them.
func Quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

func quoteItem(s string) string {
	if plainItem.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
