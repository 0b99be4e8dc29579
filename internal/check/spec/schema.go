package spec

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is a JSON Schema (draft 2020-12) of files of checks, for editors. What
// it cannot say, such as which names are defined, Read says.
func Schema() []byte {
	s := schemas{defs: m{}}
	root := s.of(reflect.TypeFor[rawFile](), "", false)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Tailscope checks"
	root["$defs"] = s.defs
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of plain values
	}
	return append(b, '\n')
}

type schemas struct{ defs m }

// of describes a type; partial leaves out what must be there, for templates may
// have it.
func (s schemas) of(t reflect.Type, is string, partial bool) m {
	switch {
	case t == textType:
		if words := strings.Split(is, "|"); len(words) > 1 {
			return m{"enum": words}
		}
		out := m{}
		for k, v := range kinds[is].schema {
			out[k] = v
		}
		return out
	case t == plainType:
		return m{"oneOf": []any{m{"type": []string{"string", "number", "boolean"}}, s.of(reflect.TypeFor[rawSecret](), "", false)}}
	case t.Kind() == reflect.Pointer:
		return orNull(s.of(t.Elem(), is, partial))
	case t.Kind() == reflect.Slice:
		items := s.of(t.Elem(), is, partial)
		list := m{"type": "array", "items": items}
		if t.Elem() == textType {
			return orNull(m{"anyOf": []any{list, items}})
		}
		return list
	case t.Kind() == reflect.Map:
		return orNull(m{"type": "object", "additionalProperties": s.of(t.Elem(), is, partial)})
	}
	return s.structure(t, partial)
}

func orNull(of m) m { return m{"anyOf": []any{of, m{"type": "null"}}} }

// structure puts a struct's schema into $defs and refers to it.
func (s schemas) structure(t reflect.Type, partial bool) m {
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "raw"))
	if inCheck(t) {
		partial = true
	}
	if _, ok := s.defs[name]; !ok && name != "file" {
		s.defs[name] = nil // names itself below, should it ever
		s.defs[name] = s.object(t, partial)
	}
	if name == "file" {
		return s.object(t, partial)
	}
	ref := m{"$ref": "#/$defs/" + name}
	switch t {
	case sourceType:
		return m{"anyOf": []any{m{"type": []string{"string", "number"}, "description": "An expression over history."}, ref}}
	case flapType:
		return m{"anyOf": []any{m{"enum": []any{"off", false}}, ref}}
	}
	return ref
}

// inCheck says whether a struct is part of a check, of which templates may have
// the rest.
func inCheck(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[rawCheck](), sourceType, flapType, reflect.TypeFor[rawEach](), reflect.TypeFor[rawThreshold](),
		reflect.TypeFor[rawQuery](), reflect.TypeFor[rawHTTP](), reflect.TypeFor[rawTCP](), reflect.TypeFor[rawTLS](),
		reflect.TypeFor[rawCommand](), reflect.TypeFor[rawSQL](), reflect.TypeFor[rawAliases]():
		return true
	}
	return false
}

func (s schemas) object(t reflect.Type, partial bool) m {
	properties, required := m{}, []string{}
	for _, w := range wordsOf(t) {
		p := s.of(w.typ, w.is, partial)
		p["description"] = w.doc
		properties[w.key] = p
		if w.need && !partial {
			required = append(required, w.key)
		}
	}
	out := m{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
