package strictyaml

import (
	"reflect"
	"strings"
	"sync"
)

// Key is a key of a struct. Tags: `key` is its name, `is` names the leaf that reads
// its text, lists its values with | between them, or says from..to of a whole number,
// `default` is the text that holds if the key is not given, `doc` is what editors
// show, `need` says that it must be there.
type Key struct {
	Key, Is, Doc string
	Default      string
	Need         bool
	Index        []int // of the field, as reflect.Value.FieldByIndex takes it
	Type         reflect.Type
	Tag          reflect.StructTag
}

// About returns the key's description and its default.
func (w *Key) About() string {
	if w.Default == "" {
		return w.Doc
	}
	return strings.TrimSuffix(w.Doc, ".") + "; default " + w.Default + "."
}

// keysRead keeps what KeysOf returned, for some structs are read very often.
var keysRead sync.Map // of reflect.Type: []Key

// KeysOf returns the keys of a struct, in its order; not to be changed. The keys of
// an embedded struct without a key of its own are among them, so that what a file
// has beside the program's struct can stand around it.
func KeysOf(t reflect.Type) []Key {
	if known, ok := keysRead.Load(t); ok {
		return known.([]Key)
	}
	var out []Key
	for i := range t.NumField() {
		f := t.Field(i)
		switch key := f.Tag.Get("key"); {
		case key != "":
			out = append(out, Key{key, f.Tag.Get("is"), f.Tag.Get("doc"), f.Tag.Get("default"), f.Tag.Get("need") != "", []int{i}, f.Type, f.Tag})
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			for _, w := range KeysOf(f.Type) {
				w.Index = append([]int{i}, w.Index...)
				out = append(out, w)
			}
		}
	}
	keysRead.Store(t, out)
	return out
}

// Names returns the names of keys.
func Names(known []Key) []string {
	var out []string
	for _, w := range known {
		out = append(out, w.Key)
	}
	return out
}

func indexOf(known []Key, key string) int {
	for i, w := range known {
		if w.Key == key {
			return i
		}
	}
	return -1
}

// Undescribed walks a struct and all below it and says which keys have no
// description, or a default that is not read, for tests. It panics at a key that no
// leaf reads.
func Undescribed(root reflect.Type, leaves Leaves) []string {
	var wrong []string
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type, is, written string)
	walk = func(t reflect.Type, is, written string) {
		l := leafOf(t, is, leaves)
		if k := t.Kind(); l == nil && (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) {
			walk(t.Elem(), is, written)
			return
		}
		if l != nil {
			if written != "" && l.ReadText(written) != nil {
				wrong = append(wrong, "the default "+written+" is not "+is)
			}
			return
		}
		if reflect.PointerTo(t).Implements(nodeReader) || seen[t] {
			return
		}
		seen[t] = true
		known := KeysOf(t)
		if len(known) == 0 {
			wrong = append(wrong, t.String()+" has no keys")
		}
		for _, w := range known {
			if w.Doc == "" || w.Key != strings.ToLower(w.Key) {
				wrong = append(wrong, t.String()+" does not describe "+w.Key)
			}
			walk(w.Type, w.Is, w.Default)
		}
	}
	walk(root, "", "")
	return wrong
}
