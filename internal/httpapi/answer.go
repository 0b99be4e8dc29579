package httpapi

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"sync"
)

// encoder is a response that writes itself faster than encoding/json does.
type encoder interface{ AppendJSON([]byte) []byte }

// answers holds the memory of answers that were written: a heatmap's megabytes would else be
// copied at each of the sizes that they grow through.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// mostKept bounds the memory that an answer leaves to the next.
const mostKept = 8 << 20

// marshal writes an answer. Lists and maps that are nil become [] and {}.
func marshal(w io.Writer, v any) error {
	if e, ok := v.(encoder); ok {
		b := answers.Get().(*[]byte)
		*b = append(e.AppendJSON((*b)[:0]), '\n')
		_, err := w.Write(*b)
		if cap(*b) <= mostKept {
			answers.Put(b)
		}
		return err
	}
	full, _ := fillNil(reflect.ValueOf(v))
	return json.NewEncoder(w).Encode(full.Interface())
}

// withoutNil returns v with empty lists and maps in place of those that are nil, for what an encoder
// leaves to encoding/json.
func withoutNil[T any](v *T) *T {
	full, _ := fillNil(reflect.ValueOf(v))
	return full.Interface().(*T)
}

// fillNil returns v with an empty list or map in place of each that is nil, and
// whether there was one. It leaves v as it is, which others may read, and copies
// what it changes.
func fillNil(v reflect.Value) (full reflect.Value, changed bool) {
	t := v.Type()
	if !mayLack(t) {
		return v, false
	}
	// change returns where the copy of v is written to.
	change := func() reflect.Value {
		if !changed {
			full, changed = reflect.New(t).Elem(), true
			full.Set(v)
		}
		return full
	}
	full = v
	switch t.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			break
		}
		if x, ok := fillNil(v.Elem()); ok {
			change().Set(reflect.New(t.Elem()))
			full.Elem().Set(x)
		}
	case reflect.Struct:
		for _, f := range fieldsThatMayLack(t) {
			if f.omitted && v.Field(f.index).IsZero() {
				continue
			}
			if x, ok := fillNil(v.Field(f.index)); ok {
				change().Field(f.index).Set(x)
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			return reflect.MakeSlice(t, 0, 0), true
		}
		if !mayLack(t.Elem()) {
			break
		}
		for i := range v.Len() {
			if x, ok := fillNil(v.Index(i)); ok {
				if !changed {
					change().Set(reflect.AppendSlice(reflect.MakeSlice(t, 0, v.Len()), v))
				}
				full.Index(i).Set(x)
			}
		}
	case reflect.Map:
		if v.IsNil() {
			return reflect.MakeMap(t), true
		}
		if !mayLack(t.Elem()) {
			break
		}
		for _, k := range v.MapKeys() {
			if x, ok := fillNil(v.MapIndex(k)); ok {
				if !changed {
					change().Set(reflect.MakeMapWithSize(t, v.Len()))
					for _, k := range v.MapKeys() {
						full.SetMapIndex(k, v.MapIndex(k))
					}
				}
				full.SetMapIndex(k, x)
			}
		}
	}
	return full, changed
}

// lackingField is a field of a struct that may hold a nil list or map; omitted says
// that JSON leaves it out if it is empty.
type lackingField struct {
	index   int
	omitted bool
}

// lacking holds what fieldsThatMayLack found, by type: a list has many of one.
var lacking sync.Map

func fieldsThatMayLack(t reflect.Type) []lackingField {
	if found, ok := lacking.Load(t); ok {
		return found.([]lackingField)
	}
	var found []lackingField
	for i := range t.NumField() {
		if f := t.Field(i); mayLack(f.Type) {
			found = append(found, lackingField{i, strings.HasSuffix(f.Tag.Get("json"), ",omitempty")})
		}
	}
	lacking.Store(t, found)
	return found
}

// mayLack reports whether a value of type t may hold a nil list or map.
func mayLack(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return true
	case reflect.Struct:
		return len(fieldsThatMayLack(t)) > 0
	}
	return false
}
