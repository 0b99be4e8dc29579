package spec

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// node is a part of a file: what YAML says, without its notation. Merging
// templates copies nodes; each keeps the place it was written at.
type node struct {
	kind   nodeKind
	text   string // of a scalar
	quoted bool   // the scalar can be nothing but text
	items  []*node
	fields []field
	at     place
	edits  []edit // how text came to differ from what was written
}

type nodeKind uint8

const (
	null nodeKind = iota
	scalar
	list
	mapping
)

type field struct {
	key   string
	at    place
	value *node
}

// place is where something begins; lines and columns (characters) from 1.
type place struct {
	file         *source
	line, column int
}

// source is a file's text, for finding places within scalars.
type source struct {
	name  string
	lines []string
}

// maxDepth bounds nesting, for what recurs over nodes.
const maxDepth = 64

// get returns the value of a key of a mapping, nil if there is none.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

func (n *node) with(f field) {
	for i := range n.fields {
		if n.fields[i].key == f.key {
			n.fields[i] = f
			return
		}
	}
	n.fields = append(n.fields, f)
}

func (n *node) without(key string) {
	for i := range n.fields {
		if n.fields[i].key == key {
			n.fields = append(n.fields[:i:i], n.fields[i+1:]...)
			return
		}
	}
}

// parseTree reads one file. The tree is nil if it is no YAML at all.
func (r *reader) parseTree(name string, content []byte) *node {
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // as some editors write
	src := &source{name: name, lines: strings.Split(string(content), "\n")}
	top := place{file: src, line: 1, column: 1}
	for i, line := range src.lines {
		if !utf8.ValidString(line) {
			before := strings.IndexRune(strings.ToValidUTF8(line, "\x00"), 0)
			r.problem(place{file: src, line: i + 1, column: 1 + len([]rune(line[:before]))}, "save the file in UTF-8", "this is not UTF-8")
			return nil
		}
	}
	f, err := parser.ParseBytes(content, 0)
	if err != nil {
		at, message := top, strings.TrimSpace(err.Error())
		message, _, _ = strings.Cut(message, "\n")
		if rest, ok := strings.CutPrefix(message, "["); ok {
			if _, err := fmt.Sscanf(rest, "%d:%d]", &at.line, &at.column); err == nil {
				_, message, _ = strings.Cut(rest, "] ")
			}
		}
		hint := ""
		if strings.Contains(message, "\t") || strings.Contains(message, `'\t'`) {
			hint = "indent with spaces, not with tabs"
		}
		r.problem(at, hint, "%s", message)
		return nil
	}
	t := treeReader{r, src}
	var root *node
	for i, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && root != nil {
			r.problem(t.place(doc.Body), "put it in a file of its own", "a second document")
			break
		}
		root = t.node(doc.Body, 0)
	}
	if root == nil {
		root = &node{kind: null, at: top}
	}
	return root
}

type treeReader struct {
	r   *reader
	src *source
}

func (t treeReader) place(n ast.Node) place {
	p := place{file: t.src, line: 1, column: 1}
	if tok := n.GetToken(); tok != nil && tok.Position != nil {
		p.line, p.column = tok.Position.Line, tok.Position.Column
	}
	return p
}

func (t treeReader) node(n ast.Node, depth int) *node {
	at := t.place(n)
	if depth > maxDepth {
		t.r.problem(at, "", "nested too deeply")
		return &node{at: at}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			at = t.place(n.Values[0].Key)
		}
		return t.mapping(at, n.Values, depth)
	case *ast.MappingValueNode:
		return t.mapping(t.place(n.Key), []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out := &node{kind: list, at: at}
		for _, item := range n.Values {
			out.items = append(out.items, t.node(item, depth+1))
		}
		return out
	case *ast.StringNode:
		text, quoted := n.Value, false
		if line := t.src.line(at.line); line != "" {
			c := at.column - 1
			quoted = c >= 0 && c < len([]rune(line)) && strings.ContainsRune(`"'`, []rune(line)[c])
		}
		return &node{kind: scalar, text: text, quoted: quoted, at: at}
	case *ast.LiteralNode:
		return &node{kind: scalar, text: strings.TrimRight(n.Value.Value, "\n"), quoted: true, at: at}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: scalar, text: n.GetToken().Value, at: at}
	case *ast.NullNode, *ast.CommentGroupNode:
		return &node{at: at}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		t.r.problem(at, "what several checks share goes into a template", "anchors and aliases are not read here")
	case *ast.TagNode:
		t.r.problem(at, "leave it out", "tags are not read here")
	default:
		t.r.problem(at, "", "this is not read here")
	}
	return &node{at: at}
}

func (t treeReader) mapping(at place, values []*ast.MappingValueNode, depth int) *node {
	out := &node{kind: mapping, at: at}
	for _, v := range values {
		key, kat := "", t.place(v.Key)
		switch k := v.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = k.GetToken().Value
		case *ast.MergeKeyNode:
			t.r.problem(kat, "what several checks share goes into a template", "merge keys are not read here")
			continue
		default:
			t.r.problem(kat, "write a plain word", "this is no key")
			continue
		}
		if v.Value == nil {
			continue
		}
		out.fields = append(out.fields, field{key, kat, t.node(v.Value, depth+1)})
	}
	return out
}

func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// within is the place of a byte of a scalar's text, as it was written.
func (n *node) within(offset int) place {
	for i := len(n.edits) - 1; i >= 0; i-- {
		offset = n.edits[i].back(offset)
	}
	p := n.at
	line := []rune(p.file.line(p.line))
	start := p.column - 1
	if start < 0 || start >= len(line) {
		return p
	}
	switch line[start] {
	case '|', '>':
		return n.withinBlock(offset)
	case '"', '\'':
		p.column++
		double := line[start] == '"'
		for i := start + 1; i < len(line) && offset > 0; {
			size := 1
			switch {
			case double && line[i] == '\\' && i+1 < len(line):
				switch line[i+1] {
				case 'x':
					size = 4
				case 'u':
					size = 6
				case 'U':
					size = 10
				default:
					size = 2
				}
				offset--
			case !double && line[i] == '\'':
				size = 2
				offset--
			default:
				offset -= len(string(line[i]))
			}
			i += size
			p.column += size
		}
	default:
		for i := start; i < len(line) && offset > 0; i++ {
			offset -= len(string(line[i]))
			p.column++
		}
	}
	p.column = min(p.column, len(line)+1)
	return p
}

// withinBlock counts lines and the indent of | and >.
func (n *node) withinBlock(offset int) place {
	p := n.at
	indent := -1
	for l := p.line + 1; l <= len(p.file.lines); l++ {
		text := p.file.line(l)
		if trimmed := strings.TrimLeft(text, " "); indent < 0 && trimmed != "" {
			indent = len(text) - len(trimmed)
		}
		if indent < 0 || len(text) < indent {
			offset -= min(offset, 1)
			continue
		}
		if body := text[indent:]; offset <= len(body) {
			return place{p.file, l, indent + 1 + len([]rune(body[:offset]))}
		} else {
			offset -= len(body) + 1
		}
	}
	return p
}

// edit is a replacement in a scalar: length bytes at offset became size bytes.
type edit struct{ offset, length, size int }

// back maps an offset after the edit to the one before it.
func (e edit) back(offset int) int {
	switch {
	case offset < e.offset:
		return offset
	case offset < e.offset+e.size:
		return e.offset
	}
	return offset - e.size + e.length
}

// replace puts with in place of length bytes at offset.
func (n *node) replace(offset, length int, with string) {
	n.text = n.text[:offset] + with + n.text[offset+length:]
	n.edits = append(n.edits[:len(n.edits):len(n.edits)], edit{offset, length, len(with)})
}
