package spec

import (
	"reflect"

	"tailscope/internal/strictyaml"
)

// Schema is a JSON Schema (draft 2020-12) of files of checks, for editors. What
// it cannot say, such as which names are defined, Read says.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[rawFile](), strictyaml.SchemaOptions{Title: "Tailscope checks", Leaves: leaves, Partial: inCheck})
}

// inCheck says whether a struct is part of a check, of which templates may have
// the rest.
func inCheck(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[rawCheck](), reflect.TypeFor[rawSource](), reflect.TypeFor[rawFlapping](), reflect.TypeFor[rawEach](), reflect.TypeFor[rawThreshold](),
		reflect.TypeFor[rawQuery](), reflect.TypeFor[rawHTTP](), reflect.TypeFor[TCP](), reflect.TypeFor[TLS](),
		reflect.TypeFor[rawCommand](), reflect.TypeFor[rawSQL](), reflect.TypeFor[rawAliases]():
		return true
	}
	return false
}

// ReadScalar reads an expression without its key.
func (s *rawSource) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "expression", n, &s.Expression)
	return true
}

// SchemaOf adds the expression.
func (s *rawSource) SchemaOf(_ *strictyaml.Schemas, ref m) m {
	return m{"anyOf": []any{m{"type": []string{"string", "number"}, "description": "An expression over history."}, ref}}
}

// ReadScalar reads off.
func (*rawFlapping) ReadScalar(d *strictyaml.Decoder, _ string, n *node) bool {
	if n.Text != "off" && n.Text != "false" {
		d.Problems.Add(n.At, "write off, or {high: 50%, low: 25%}", "flapping is %s", n.Text)
	}
	return true
}

// SchemaOf adds off.
func (f *rawFlapping) SchemaOf(_ *strictyaml.Schemas, ref m) m {
	return m{"anyOf": []any{m{"enum": []any{"off", false}}, ref}}
}

// ReadScalar refuses secrets that are written out.
func (*Secret) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Problems.Add(n.At, what+": {env: NAME} or "+what+": {file: PATH}", "%s is a secret and not written here", what)
	return false
}

// ReadNode reads a text, or where a secret is.
func (p *plainSecret) ReadNode(d *strictyaml.Decoder, what, is string, n *node) {
	p.node = n
	switch n.Kind {
	case strictyaml.Mapping:
		p.secret = &Secret{}
		d.Decode(what, n, p.secret)
	case strictyaml.Null:
		d.Read(what, is, &node{Kind: strictyaml.Scalar, At: n.At}, &p.text)
	default:
		d.Read(what, is, n, &p.text)
	}
}

// SchemaOf says so.
func (*plainSecret) SchemaOf(s *strictyaml.Schemas, _ m) m {
	return m{"oneOf": []any{m{"type": []string{"string", "number", "boolean"}}, s.Of(reflect.TypeFor[Secret](), "", false)}}
}
