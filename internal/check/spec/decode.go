package spec

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// decoder fills the structs of words.go from nodes.
type decoder struct {
	r *reader
	// partial leaves out complaints about what is missing: what a template, or a
	// check before its templates are merged in, lacks another will have.
	partial bool
	// placeholders leaves out complaints about texts that hold $label or $$MACRO$$
	// which have not been replaced yet.
	placeholders bool
}

var (
	textType   = reflect.TypeFor[text]()
	plainType  = reflect.TypeFor[plainSecret]()
	sourceType = reflect.TypeFor[rawSource]()
	flapType   = reflect.TypeFor[rawFlapping]()
)

// word is a field of a struct of words.go.
type wordField struct {
	key, is, doc string
	need         bool
	index        int
	typ          reflect.Type
}

// wordsRead keeps what wordsOf returned, for there are as many instances of a
// check as there are series.
var wordsRead sync.Map // of reflect.Type: []wordField

func wordsOf(t reflect.Type) []wordField {
	if known, ok := wordsRead.Load(t); ok {
		return known.([]wordField)
	}
	var out []wordField
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("key"); key != "" {
			out = append(out, wordField{key, f.Tag.Get("is"), f.Tag.Get("doc"), f.Tag.Get("need") != "", i, f.Type})
		}
	}
	wordsRead.Store(t, out)
	return out
}

// decode reads n into v, which is a struct, and calls what it is `what`.
func (d *decoder) decode(what string, n *node, v any) {
	d.structure(what, n, reflect.ValueOf(v).Elem())
}

func (d *decoder) structure(what string, n *node, v reflect.Value) {
	switch {
	case n.kind == null:
		n = &node{kind: mapping, at: n.at}
	case n.kind != mapping:
		d.r.problem(n.at, "write key: value below it", "%s is no mapping", what)
		v.FieldByName("Node").Set(reflect.ValueOf(&node{kind: mapping, at: n.at}))
		return
	}
	words := wordsOf(v.Type())
	seen := map[string]bool{}
	for _, f := range n.fields {
		i := indexOf(words, f.key)
		if i < 0 {
			hint := nearest(f.key, keysOf(words))
			d.r.problem(f.at, hint, "unknown key %s in %s", f.key, what)
			continue
		}
		if seen[f.key] {
			d.r.problem(f.at, "", "%s is given twice", f.key)
			continue
		}
		seen[f.key] = true
		d.value(f.key, words[i].is, f.value, v.Field(words[i].index))
	}
	for _, w := range words {
		if w.need && !d.partial && !seen[w.key] {
			d.r.problem(n.at, w.doc, "%s needs %s", what, w.key)
		}
	}
	v.FieldByName("Node").Set(reflect.ValueOf(n))
}

func indexOf(words []wordField, key string) int {
	for i, w := range words {
		if w.key == key {
			return i
		}
	}
	return -1
}

func keysOf(words []wordField) []string {
	var out []string
	for _, w := range words {
		out = append(out, w.key)
	}
	return out
}

// value reads a node into a field, by the field's type.
func (d *decoder) value(what, is string, n *node, v reflect.Value) {
	switch t := v.Type(); {
	case t == textType:
		if is != "hour" && n.kind == null {
			return
		}
		*v.Addr().Interface().(*text) = d.text(what, is, n)
	case t == plainType:
		p := v.Addr().Interface().(*plainSecret)
		if n.kind == mapping {
			p.secret = &rawSecret{}
			d.decode(what, n, p.secret)
			return
		}
		p.text = d.text(what, is, n)
	case n.kind == null:
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		switch {
		case t.Elem() == sourceType && n.kind == scalar:
			s := p.Interface().(*rawSource)
			s.Expression, s.Node = d.text(what, "expression", n), n
		case t.Elem() == flapType && n.kind == scalar:
			if n.text != "off" && n.text != "false" {
				d.r.problem(n.at, "write off, or {high: 50%, low: 25%}", "flapping is %s", n.text)
			}
			p.Interface().(*rawFlapping).Node = n
		case t.Elem() == reflect.TypeFor[rawSecret]() && n.kind == scalar:
			d.r.problem(n.at, what+": {env: NAME} or "+what+": {file: PATH}", "%s is a secret and not written here", what)
			return
		case n.kind != mapping:
			d.structure(what, n, p.Elem())
			return // nothing else is said of what is not there
		default:
			d.structure(what, n, p.Elem())
		}
		v.Set(p)
	case t.Kind() == reflect.Slice:
		items := n.items
		if n.kind == scalar {
			items = []*node{n}
		} else if n.kind != list {
			d.r.problem(n.at, "write a list", "%s is no list", what)
			return
		}
		out := reflect.MakeSlice(t, len(items), len(items))
		for i, item := range items {
			name := what
			if t.Elem() != textType {
				name = what + "[" + strconv.Itoa(i) + "]"
			}
			d.value(name, is, item, out.Index(i))
		}
		v.Set(out)
	case t.Kind() == reflect.Map:
		if n.kind != mapping {
			d.r.problem(n.at, "write name: value below it", "%s is no mapping", what)
			return
		}
		out := reflect.MakeMap(t)
		for _, f := range n.fields {
			item := reflect.New(t.Elem()).Elem()
			if out.MapIndex(reflect.ValueOf(f.key)).IsValid() {
				d.r.problem(f.at, "", "%s is given twice", f.key)
			}
			d.value(strings.TrimSuffix(what, "s")+" "+f.key, is, f.value, item)
			out.SetMapIndex(reflect.ValueOf(f.key), item)
		}
		v.Set(out)
	default:
		d.structure(what, n, v)
	}
}

// text reads a scalar by its kind.
func (d *decoder) text(what, is string, n *node) text {
	t := text{n: n}
	if n.kind == list || n.kind == mapping {
		d.r.problem(n.at, "write one text", "%s is more than one text", what)
		return text{}
	}
	if strings.Contains(is, "|") {
		words := strings.Split(is, "|")
		for _, w := range words {
			if n.text == w {
				t.ok = true
				return t
			}
		}
		d.r.problem(n.at, nearest(n.text, words), "%s: %q is not known", what, n.text)
		return t
	}
	k, ok := kinds[is]
	if !ok {
		panic("no kind of scalar is called " + is)
	}
	if d.placeholders && strings.Contains(n.text, "$") {
		return t
	}
	message, hint := k.read(&t, n.text)
	if message != "" {
		d.r.problem(n.at, hint, "%s: %s", what, message)
		return t
	}
	t.ok = true
	return t
}
