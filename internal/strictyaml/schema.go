package strictyaml

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// SchemaOptions says what a schema is of.
type SchemaOptions struct {
	Title  string
	Leaves Leaves // nil: the usual
	// Else is what a text may be in place of what its leaf reads; nil: nothing.
	Else M
	Over bool // as of Decoder: keys may be without a value
	// Partial says of a struct that what must be there may be elsewhere; nil if
	// none is like that.
	Partial func(t reflect.Type) bool
}

// Schemer is a type whose schema is more than its keys. ref refers to the schema
// of its keys.
type Schemer interface {
	SchemaOf(s *Schemas, ref M) M
}

// Schema is a JSON Schema (draft 2020-12) of files that root, a struct, describes,
// for editors. What it cannot say, such as which names are defined, those who read
// the file say.
func Schema(root reflect.Type, o SchemaOptions) []byte {
	if o.Leaves == nil {
		o.Leaves = usualLeaves
	}
	s := &Schemas{SchemaOptions: o, defs: M{}}
	out := s.object(root, false)
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = o.Title
	out["$defs"] = s.defs
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		panic(err) // maps of plain values
	}
	return append(b, '\n')
}

// Schemas is a schema in the making.
type Schemas struct {
	SchemaOptions
	defs M
}

// Of describes a type; partial leaves out what must be there.
func (s *Schemas) Of(t reflect.Type, is string, partial bool) M {
	if l := leafOf(t, is, s.Leaves); l != nil {
		return s.leaf(l)
	}
	switch {
	case t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(nodeReader):
		return reflect.New(t).Interface().(Schemer).SchemaOf(s, nil)
	case t.Kind() == reflect.Pointer:
		return orNull(s.Of(t.Elem(), is, partial))
	case t.Kind() == reflect.Slice:
		items := s.Of(t.Elem(), is, partial)
		list := M{"type": "array", "items": items}
		if oneText(t.Elem(), is, s.Leaves) {
			return orNull(M{"anyOf": []any{list, items}})
		}
		return list
	case t.Kind() == reflect.Map:
		return orNull(M{"type": "object", "additionalProperties": s.Of(t.Elem(), is, partial)})
	}
	return s.structure(t, partial)
}

// leaf copies a leaf's schema.
func (s *Schemas) leaf(l Leaf) M {
	out := maps.Clone(l.Schema())
	if s.Else != nil && (out["pattern"] != nil || out["enum"] != nil || out["minimum"] != nil || out["anyOf"] != nil) {
		return M{"anyOf": []any{out, s.Else}}
	}
	return out
}

func orNull(of M) M { return M{"anyOf": []any{of, M{"type": "null"}}} }

// structure puts a struct's schema into $defs and refers to it.
func (s *Schemas) structure(t reflect.Type, partial bool) M {
	name := strings.ToLower(t.Name())
	if _, ok := s.defs[name]; !ok {
		s.defs[name] = nil // names itself below, should it ever
		s.defs[name] = s.object(t, partial || s.Partial != nil && s.Partial(t))
	}
	ref := M{"$ref": "#/$defs/" + name}
	if of, ok := reflect.New(t).Interface().(Schemer); ok {
		return of.SchemaOf(s, ref)
	}
	return ref
}

func (s *Schemas) object(t reflect.Type, partial bool) M {
	properties, required := M{}, []string{}
	for _, w := range KeysOf(t) {
		p := s.Of(w.Type, w.Is, partial)
		section := w.Type.Kind() == reflect.Struct && !reflect.PointerTo(w.Type).Implements(nodeReader) && leafOf(w.Type, w.Is, s.Leaves) == nil
		if k := w.Type.Kind(); section || s.Over && (k == reflect.Struct || k == reflect.Slice || k == reflect.String || k == reflect.Bool) {
			p = orNull(p)
		}
		p["description"] = w.About()
		properties[w.Key] = p
		if w.Need && !partial {
			required = append(required, w.Key)
		}
	}
	out := M{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
