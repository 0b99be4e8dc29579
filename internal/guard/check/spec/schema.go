package spec

import (
	"reflect"

	"tailscope/internal/strictyaml"
)

// Schema is a JSON Schema (draft 2020-12) of files of checks, for editors. What
// it cannot say, such as which names are defined, Read says.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[file](), strictyaml.SchemaOptions{Title: "Tailscope checks", Leaves: leaves, Partial: inParts})
}

// inParts reports whether a definition may lack what templates have.
func inParts(t reflect.Type) bool { return t == reflect.TypeFor[Check]() }

// ReadScalar reads an expression without its key.
func (s *Source) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "", n, &s.Expr)
	return true
}

// SchemaOf adds the expression.
func (s *Source) SchemaOf(_ *strictyaml.Schemas, ref m) m {
	return m{"anyOf": []any{m{"type": []string{"string", "number"}, "description": "An expression over history."}, ref}}
}

// ReadScalar refuses secrets that are written out.
func (*Secret) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Problems.Add(n.At, what+": {env: NAME} or "+what+": {file: PATH}", "%s is a secret and not written here", what)
	return false
}

// ReadNode reads a text, or where a secret is.
func (t *Text) ReadNode(d *strictyaml.Decoder, what, is string, n *node) {
	switch n.Kind {
	case strictyaml.Mapping:
		t.Secret = &Secret{}
		d.Decode(what, n, t.Secret)
	case strictyaml.Null:
		d.Read(what, is, &node{Kind: strictyaml.Scalar, At: n.At}, &t.Plain)
	default:
		d.Read(what, is, n, &t.Plain)
	}
}

// SchemaOf describes both.
func (*Text) SchemaOf(s *strictyaml.Schemas, _ m) m {
	return m{"oneOf": []any{m{"type": []string{"string", "number", "boolean"}}, s.Of(reflect.TypeFor[Secret](), "", false)}}
}
