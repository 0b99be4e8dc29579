package strictyaml

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Decoder fills structs from nodes, and remembers where each field was written.
type Decoder struct {
	Problems *Problems
	Leaves   Leaves // nil: the usual
	// Partial leaves out complaints about what is missing, for parts that are
	// merged with others.
	Partial bool
	// Later says of a text that what stands in it will be replaced, so that it is
	// not read yet; nil if nothing will be.
	Later func(s string) bool
	// Over keeps what a struct holds where the file says nothing, in place of
	// defaults. A key without a value then empties what it names.
	Over bool

	top     string          // what Decode calls the whole
	written map[any]written // by pointer to the field
}

// written is where a field was written.
type written struct {
	node  *Node
	right bool // it was read
}

// Node returns what the field at a pointer, or a struct, was read from; nil if it was
// not given.
func (d *Decoder) Node(field any) *Node { return d.written[field].node }

// Given reports whether the file has the field at a pointer, even as an empty text.
func (d *Decoder) Given(field any) bool { return d.written[field].node != nil }

// OK reports whether the field at a pointer was given, and right.
func (d *Decoder) OK(field any) bool { return d.written[field].right }

// S returns the text that the field at a pointer was written as.
func (d *Decoder) S(field any) string {
	if n := d.Node(field); n != nil {
		return n.Text
	}
	return ""
}

// Count returns how many of the fields were given.
func (d *Decoder) Count(fields ...any) (n int) {
	for _, f := range fields {
		if d.Given(f) {
			n++
		}
	}
	return n
}

// Wrong notes a mistake at the field at a pointer.
func (d *Decoder) Wrong(field any, hint, format string, args ...any) {
	at := Place{}
	if n := d.Node(field); n != nil {
		at = n.At
	}
	d.Problems.Add(at, hint, format, args...)
}

func (d *Decoder) note(v reflect.Value, n *Node, right bool) {
	if d.written == nil {
		d.written = map[any]written{}
	}
	d.written[v.Addr().Interface()] = written{n, right}
}

// NodeReader is a type that reads its part of a file itself.
type NodeReader interface {
	ReadNode(d *Decoder, what, is string, n *Node)
}

// ScalarReader is a struct that may be written as one scalar too. It returns
// false if it is not there then, which it has said why.
type ScalarReader interface {
	ReadScalar(d *Decoder, what string, n *Node) bool
}

// NullReader is a Leaf that reads a key without a value too, as an empty text.
type NullReader interface {
	Leaf
	ReadsNull()
}

var (
	scalarReader = reflect.TypeFor[ScalarReader]()
	nodeReader   = reflect.TypeFor[NodeReader]()
)

// Decode reads n into v, a pointer to a struct, and calls what it is `what`.
func (d *Decoder) Decode(what string, n *Node, v any) {
	d.fill(reflect.ValueOf(v).Elem())
	d.top = what
	d.structure(what, n, reflect.ValueOf(v).Elem())
}

// Read reads n into v, a pointer to a leaf or to what has several, as a field tagged
// is would be read.
func (d *Decoder) Read(what, is string, n *Node, v any) {
	d.value(what, is, n, reflect.ValueOf(v).Elem())
}

// Fill sets the fields of v, a pointer to a struct, to their defaults.
func Fill(v any, leaves Leaves) {
	(&Decoder{Leaves: leaves}).fill(reflect.ValueOf(v).Elem())
}

func (d *Decoder) leaf(t reflect.Type, is string) Leaf {
	if d.Leaves == nil {
		d.Leaves = usualLeaves
	}
	return leafOf(t, is, d.Leaves)
}

// fill sets the defaults of a struct, and of those within it.
func (d *Decoder) fill(v reflect.Value) {
	if v.Kind() != reflect.Struct || d.Over {
		return
	}
	for _, w := range KeysOf(v.Type()) {
		f := v.FieldByIndex(w.Index)
		switch {
		case w.Default == "":
			if f.Kind() == reflect.Struct && d.leaf(w.Type, w.Is) == nil {
				d.fill(f)
			}
		case f.Kind() == reflect.Slice && listLeaf(w.Type, w.Is, d.Leaves) != nil:
			if err := read(listLeaf(w.Type, w.Is, d.Leaves), w.Default, f); err != nil {
				panic("default of " + w.Key + ": " + err.Error())
			}
		case f.Kind() == reflect.Slice:
			for text := range strings.SplitSeq(w.Default, ",") {
				item := reflect.New(w.Type.Elem()).Elem()
				d.usual(item, w, strings.TrimSpace(text))
				f.Set(reflect.Append(f, item))
			}
		default:
			d.usual(f, w, w.Default)
		}
	}
}

func (d *Decoder) usual(v reflect.Value, w Key, text string) {
	if err := read(d.leaf(v.Type(), w.Is), text, v); err != nil {
		panic("default of " + w.Key + ": " + err.Error())
	}
}

func (d *Decoder) structure(what string, n *Node, v reflect.Value) {
	switch {
	case n.Kind == Null:
		n = &Node{Kind: Mapping, At: n.At}
	case n.Kind != Mapping:
		d.Problems.Add(n.At, "write key: value below it", "%s is not a mapping", what)
		d.note(v, &Node{Kind: Mapping, At: n.At}, false)
		return
	}
	known := KeysOf(v.Type())
	seen := map[string]bool{}
	for _, f := range n.Fields {
		i := indexOf(known, f.Key)
		if i < 0 {
			if d.Over && what != d.top {
				keys := Names(known)
				for i := range keys {
					keys[i] = what + "." + keys[i]
				}
				d.Problems.Add(f.At, Suggest(what+"."+f.Key, keys), "unknown key %s", what+"."+f.Key)
				continue
			}
			d.Problems.Add(f.At, suggestKey(f.Key, known), "unknown key %s in %s", f.Key, what)
			continue
		}
		if seen[f.Key] {
			d.Problems.Add(f.At, "", "%s is given twice", f.Key)
			continue
		}
		seen[f.Key] = true
		name := f.Key
		if d.Over && what != d.top { // a section's keys are known by their whole name
			name = what + "." + name
		}
		d.value(name, known[i].Is, f.Value, v.FieldByIndex(known[i].Index))
	}
	for _, w := range known {
		if w.Need && !d.Partial && !seen[w.Key] {
			d.Problems.Add(n.At, w.Doc, "%s needs %s", what, w.Key)
		}
	}
	d.note(v, n, true)
}

// suggestKey names the key that looks most like the one written, or that which a
// section has, if it is a section's.
func suggestKey(key string, known []Key) string {
	keys := Names(known)
	if _, ok := Nearest(key, keys); !ok {
		for _, w := range known {
			if w.Type.Kind() == reflect.Struct && indexOf(KeysOf(w.Type), key) >= 0 {
				return "did you mean " + w.Key + "." + key + "?"
			}
		}
	}
	return Suggest(key, keys)
}

// value reads a node into a field, by the field's type.
func (d *Decoder) value(what, is string, n *Node, v reflect.Value) {
	t := v.Type()
	if t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(nodeReader) {
		v.Addr().Interface().(NodeReader).ReadNode(d, what, is, n)
		if n.Kind != Null {
			d.note(v, n, true)
		}
		return
	}
	if l := d.leaf(t, is); l != nil {
		if _, none := l.(NullReader); n.Kind != Null || none {
			d.text(what, l, n, v)
		} else if d.Over {
			d.empty(what, l, n, v)
		}
		return
	}
	if n.Kind == Null {
		if d.Over && t.Kind() == reflect.Slice {
			v.SetZero()
		}
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		d.fill(p.Elem())
		if s, ok := p.Interface().(ScalarReader); ok && n.Kind == Scalar {
			if s.ReadScalar(d, what, n) {
				v.Set(p)
				d.note(v, n, true)
				d.note(p.Elem(), n, true)
			}
			return
		}
		if d.leaf(t.Elem(), is) != nil {
			d.value(what, is, n, p.Elem())
			v.Set(p)
			d.note(v, n, d.OK(p.Interface()))
			return
		}
		d.structure(what, n, p.Elem())
		if n.Kind == Mapping { // else nothing more is said of what is not there
			v.Set(p)
			d.note(v, n, true)
		}
	case reflect.Slice:
		if l := listLeaf(t, is, d.Leaves); l != nil && n.Kind == Scalar {
			d.text(what, l, n, v)
			return
		}
		d.list(what, is, n, v)
	case reflect.Map:
		d.mapping(what, is, n, v)
	default:
		if s, ok := v.Addr().Interface().(ScalarReader); ok && n.Kind == Scalar {
			if s.ReadScalar(d, what, n) {
				d.note(v, n, true)
			}
			return
		}
		d.structure(what, n, v)
	}
}

// text reads a scalar by its leaf.
func (d *Decoder) text(what string, l Leaf, n *Node, v reflect.Value) {
	if n.Kind == List || n.Kind == Mapping {
		d.Problems.Add(n.At, "write one text", "%s is more than one text", what)
		return
	}
	var err error
	later := d.Later != nil && d.Later(n.Text)
	if !later {
		err = read(l, n.Text, v)
	}
	d.note(v, n, err == nil && !later)
	if (later || err != nil) && v.Kind() == reflect.String {
		v.SetString(n.Text)
	}
	if err == nil {
		return
	}
	m, ok := err.(*Mistake)
	if !ok {
		m = &Mistake{Message: err.Error()}
	}
	at := n.At
	if m.Offset > 0 {
		at = n.Within(m.Offset - 1)
	}
	d.Problems.Add(at, m.Hint, "%s: %s", what, m.Message)
}

// empty empties a text, a list or an answer of yes or no; of others it says that they
// have no value.
func (d *Decoder) empty(what string, l Leaf, n *Node, v reflect.Value) {
	if v.Kind() == reflect.String || v.Kind() == reflect.Bool {
		v.SetZero()
		return
	}
	d.text(what, l, &Node{Kind: Scalar, At: n.At}, v)
}

// list reads a list, or one item without the brackets.
func (d *Decoder) list(what, is string, n *Node, v reflect.Value) {
	t, items := v.Type(), n.Items
	if n.Kind == Scalar && oneText(t.Elem(), is, d.Leaves) {
		items = []*Node{n}
	} else if n.Kind != List {
		d.Problems.Add(n.At, "write a list", "%s is not a list", what)
		return
	}
	if l := d.leaf(t.Elem(), is); l != nil {
		if _, none := l.(NullReader); !none {
			items = slices.DeleteFunc(slices.Clone(items), func(n *Node) bool { return n.Kind == Null })
		}
	}
	if len(items) == 0 {
		v.SetZero()
		d.note(v, n, true)
		return
	}
	out := reflect.MakeSlice(t, len(items), len(items))
	for i, item := range items {
		name := what
		if d.leaf(t.Elem(), is) == nil {
			name = what + "[" + strconv.Itoa(i) + "]"
		}
		d.fill(out.Index(i))
		d.value(name, is, item, out.Index(i))
	}
	v.Set(out)
	d.note(v, n, true)
}

// oneText reports whether an item may be written as one text.
func oneText(t reflect.Type, is string, leaves Leaves) bool {
	p := reflect.PointerTo(t)
	return leafOf(t, is, leaves) != nil || p.Implements(nodeReader) || p.Implements(scalarReader)
}

func (d *Decoder) mapping(what, is string, n *Node, v reflect.Value) {
	t := v.Type()
	if n.Kind != Mapping {
		d.Problems.Add(n.At, "write name: value below it", "%s is not a mapping", what)
		return
	}
	out := reflect.MakeMap(t)
	for _, f := range n.Fields {
		item := reflect.New(t.Elem()).Elem()
		d.fill(item)
		if out.MapIndex(reflect.ValueOf(f.Key)).IsValid() {
			d.Problems.Add(f.At, "", "%s is given twice", f.Key)
		}
		d.value(strings.TrimSuffix(what, "s")+" "+f.Key, is, f.Value, item)
		out.SetMapIndex(reflect.ValueOf(f.Key), item)
	}
	v.Set(out)
	d.note(v, n, true)
}
