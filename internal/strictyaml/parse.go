package strictyaml

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth bounds nesting, for what recurs over nodes.
const maxDepth = 64

// Parse reads one file. The tree is nil if it is no YAML at all; problems go to
// p, and share is the hint for those who reach for anchors.
func Parse(name string, content []byte, p *Problems, share string) *Node {
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // as some editors write
	src := &Source{Name: name, lines: strings.Split(string(content), "\n")}
	top := Place{File: src, Line: 1, Column: 1}
	for i, line := range src.lines {
		if !utf8.ValidString(line) {
			before := strings.IndexRune(strings.ToValidUTF8(line, "\x00"), 0)
			p.Add(Place{File: src, Line: i + 1, Column: 1 + len([]rune(line[:before]))}, "save the file in UTF-8", "this is not UTF-8")
			return nil
		}
	}
	f, err := parser.ParseBytes(content, 0)
	if err != nil {
		at, message := top, strings.TrimSpace(err.Error())
		message, _, _ = strings.Cut(message, "\n")
		if rest, ok := strings.CutPrefix(message, "["); ok {
			if _, err := fmt.Sscanf(rest, "%d:%d]", &at.Line, &at.Column); err == nil {
				_, message, _ = strings.Cut(rest, "] ")
			}
		}
		hint := ""
		if strings.Contains(message, "\t") || strings.Contains(message, `'\t'`) {
			hint = "indent with spaces, not with tabs"
		} else if strings.Contains(src.line(at.Line), "{{") {
			hint = `write what holds {{name}} in quotes: "{{name}}"`
		}
		p.Add(at, hint, "%s", message)
		return nil
	}
	t := treeReader{p, src, share}
	var root *Node
	for i, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && root != nil {
			p.Add(t.place(doc.Body), "put it in a file of its own", "a second document")
			break
		}
		root = t.node(doc.Body, 0)
	}
	if root == nil {
		root = &Node{Kind: Null, At: top}
	}
	return root
}

type treeReader struct {
	problems *Problems
	src      *Source
	share    string
}

func (t treeReader) place(n ast.Node) Place {
	p := Place{File: t.src, Line: 1, Column: 1}
	if tok := n.GetToken(); tok != nil && tok.Position != nil {
		p.Line, p.Column = tok.Position.Line, tok.Position.Column
	}
	return p
}

func (t treeReader) node(n ast.Node, depth int) *Node {
	at := t.place(n)
	if depth > maxDepth {
		t.problems.Add(at, "", "nested too deeply")
		return &Node{At: at}
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
		out := &Node{Kind: List, At: at}
		for _, item := range n.Values {
			out.Items = append(out.Items, t.node(item, depth+1))
		}
		return out
	case *ast.StringNode:
		quoted := false
		if tok := n.GetToken(); tok != nil {
			quoted = tok.Type == token.SingleQuoteType || tok.Type == token.DoubleQuoteType
		}
		return &Node{Kind: Scalar, Text: n.Value, Quoted: quoted, At: at}
	case *ast.LiteralNode:
		return &Node{Kind: Scalar, Text: strings.TrimRight(n.Value.Value, "\n"), Quoted: true, At: at}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &Node{Kind: Scalar, Text: n.GetToken().Value, At: at}
	case *ast.NullNode, *ast.CommentGroupNode:
		return &Node{At: at}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		t.problems.Add(at, t.share, "anchors and aliases are not read here")
	case *ast.TagNode:
		t.problems.Add(at, "leave it out", "tags are not read here")
	default:
		t.problems.Add(at, "", "this is not read here")
	}
	return &Node{At: at}
}

func (t treeReader) mapping(at Place, values []*ast.MappingValueNode, depth int) *Node {
	out := &Node{Kind: Mapping, At: at}
	for _, v := range values {
		key, kat := "", t.place(v.Key)
		switch k := v.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = k.GetToken().Value
		case *ast.MergeKeyNode:
			t.problems.Add(kat, t.share, "merge keys are not read here")
			continue
		default:
			hint := "write a plain word"
			if strings.HasPrefix(strings.TrimSpace(cutRunes(t.src.line(kat.Line), kat.Column-2)), "{") {
				hint = `write what holds {{name}} in quotes: "{{name}}"`
			}
			t.problems.Add(kat, hint, "this is not a key")
			continue
		}
		if v.Value == nil {
			continue
		}
		out.Fields = append(out.Fields, Field{key, kat, t.node(v.Value, depth+1)})
	}
	return out
}

// cutRunes is s from its nth character on.
func cutRunes(s string, n int) string {
	r := []rune(s)
	return string(r[min(max(n, 0), len(r)):])
}
