// Package strictyaml reads files that people write, and finds all their mistakes
// at once: what YAML says becomes a tree that knows where each part was written,
// the tree is decoded into structs whose tags name the keys and whose fields have
// the types that the program works with, and whatever does not fit is a problem with
// its line, its column and the nearest word that is known. A Leaf reads one text. The
// decoder remembers where each field was written, for what several fields together
// say wrong.
// The same structs make a JSON Schema for editors, so that neither can know a key
// that the other does not.
//
// There are no anchors, no tags and no second document: what a file says is what
// stands in it.
package strictyaml

// Node is a part of a file: what YAML says, without its notation. Copies keep the
// place that the part was written at.
type Node struct {
	Kind   Kind
	Text   string // of a scalar
	Quoted bool   // the scalar can be nothing but text
	Items  []*Node
	Fields []Field
	At     Place
	edits  []edit // how Text came to differ from what was written
}

// Kind is the sort of a Node.
type Kind uint8

// Sorts of nodes.
const (
	Null Kind = iota
	Scalar
	List
	Mapping
)

// Field is a key of a mapping with its value.
type Field struct {
	Key   string
	At    Place
	Value *Node
}

// Place is where something begins; lines and columns (characters) from 1. The
// zero Place is nowhere.
type Place struct {
	File         *Source
	Line, Column int
}

// Source is a file's text, for finding places within scalars.
type Source struct {
	Name  string
	lines []string
}

func (s *Source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// Get returns the value of a key of a mapping, nil if there is none.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// With sets a key of a mapping.
func (n *Node) With(f Field) {
	for i := range n.Fields {
		if n.Fields[i].Key == f.Key {
			n.Fields[i] = f
			return
		}
	}
	n.Fields = append(n.Fields, f)
}

// Without removes a key of a mapping. Copies of n that share its Fields keep it.
func (n *Node) Without(key string) {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			n.Fields = append(n.Fields[:i:i], n.Fields[i+1:]...)
			return
		}
	}
}

// Transform copies a tree and lets f change the copy's scalars, told by the keys
// that lead to each; * stands for an item of a list.
func (n *Node) Transform(path []string, f func(path []string, s *Node)) *Node {
	c := *n
	c.Fields = make([]Field, len(n.Fields))
	for i, fd := range n.Fields {
		c.Fields[i] = Field{fd.Key, fd.At, fd.Value.Transform(append(path[:len(path):len(path)], fd.Key), f)}
	}
	c.Items = make([]*Node, len(n.Items))
	for i, item := range n.Items {
		c.Items[i] = item.Transform(append(path[:len(path):len(path)], "*"), f)
	}
	if c.Kind == Scalar {
		f(path, &c)
	}
	return &c
}
