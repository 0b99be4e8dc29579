package strictyaml

import (
	"reflect"
	"strconv"
	"strings"
)

// Decoder fills structs from nodes.
type Decoder struct {
	Problems *Problems
	Kinds    Kinds
	// Partial leaves out complaints about what is missing, for parts that are
	// merged with others.
	Partial bool
	// Later says of a text that what stands in it will be replaced, so that it is
	// not read yet; nil if nothing will be.
	Later func(s string) bool
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

var (
	textType   = reflect.TypeFor[Text]()
	nodeReader = reflect.TypeFor[NodeReader]()
)

// Decode reads n into v, a pointer to a struct, and calls what it is `what`.
func (d *Decoder) Decode(what string, n *Node, v any) {
	d.structure(what, n, reflect.ValueOf(v).Elem())
}

func (d *Decoder) structure(what string, n *Node, v reflect.Value) {
	switch {
	case n.Kind == Null:
		n = &Node{Kind: Mapping, At: n.At}
	case n.Kind != Mapping:
		d.Problems.Add(n.At, "write key: value below it", "%s is not a mapping", what)
		v.FieldByName("Node").Set(reflect.ValueOf(&Node{Kind: Mapping, At: n.At}))
		return
	}
	words := WordsOf(v.Type())
	seen := map[string]bool{}
	for _, f := range n.Fields {
		i := indexOf(words, f.Key)
		if i < 0 {
			d.Problems.Add(f.At, Suggest(f.Key, Keys(words)), "unknown key %s in %s", f.Key, what)
			continue
		}
		if seen[f.Key] {
			d.Problems.Add(f.At, "", "%s is given twice", f.Key)
			continue
		}
		seen[f.Key] = true
		d.value(f.Key, words[i].Is, f.Value, v.Field(words[i].Index))
	}
	for _, w := range words {
		if w.Need && !d.Partial && !seen[w.Key] {
			d.Problems.Add(n.At, w.Doc, "%s needs %s", what, w.Key)
		}
	}
	v.FieldByName("Node").Set(reflect.ValueOf(n))
}

// value reads a node into a field, by the field's type.
func (d *Decoder) value(what, is string, n *Node, v reflect.Value) {
	switch t := v.Type(); {
	case t == textType:
		if n.Kind == Null && !d.Kinds[is].Null {
			return
		}
		*v.Addr().Interface().(*Text) = d.Text(what, is, n)
	case t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(nodeReader):
		v.Addr().Interface().(NodeReader).ReadNode(d, what, is, n)
	case n.Kind == Null:
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		if s, ok := p.Interface().(ScalarReader); ok && n.Kind == Scalar {
			if s.ReadScalar(d, what, n) {
				v.Set(p)
			}
			return
		}
		d.structure(what, n, p.Elem())
		if n.Kind == Mapping { // else nothing more is said of what is not there
			v.Set(p)
		}
	case t.Kind() == reflect.Slice:
		d.list(what, is, n, v)
	case t.Kind() == reflect.Map:
		d.mapping(what, is, n, v)
	default:
		if s, ok := v.Addr().Interface().(ScalarReader); ok && n.Kind == Scalar {
			s.ReadScalar(d, what, n)
			return
		}
		d.structure(what, n, v)
	}
}

// list reads a list, or one item without the brackets.
func (d *Decoder) list(what, is string, n *Node, v reflect.Value) {
	t, items := v.Type(), n.Items
	if n.Kind == Scalar {
		items = []*Node{n}
	} else if n.Kind != List {
		d.Problems.Add(n.At, "write a list", "%s is not a list", what)
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
		if out.MapIndex(reflect.ValueOf(f.Key)).IsValid() {
			d.Problems.Add(f.At, "", "%s is given twice", f.Key)
		}
		d.value(strings.TrimSuffix(what, "s")+" "+f.Key, is, f.Value, item)
		out.SetMapIndex(reflect.ValueOf(f.Key), item)
	}
	v.Set(out)
}

// Text reads a scalar by its kind.
func (d *Decoder) Text(what, is string, n *Node) Text {
	t := Text{Node: n}
	if n.Kind == List || n.Kind == Mapping {
		d.Problems.Add(n.At, "write one text", "%s is more than one text", what)
		return Text{}
	}
	if strings.Contains(is, "|") {
		words := strings.Split(is, "|")
		for _, w := range words {
			if n.Text == w {
				t.OK = true
				return t
			}
		}
		d.Problems.Add(n.At, Suggest(n.Text, words), "%s: %q is not known", what, n.Text)
		return t
	}
	k, ok := d.Kinds[is]
	if !ok {
		panic("no kind of scalar is called " + is)
	}
	if d.Later != nil && d.Later(n.Text) {
		return t
	}
	if message, hint := k.Read(&t, n.Text); message != "" {
		d.Problems.Add(n.At, hint, "%s: %s", what, message)
		return t
	}
	t.OK = true
	return t
}
