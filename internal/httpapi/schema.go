package httpapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/compare/changes"
	"tailscope/internal/judge"
)

const schemaPrefix = "#/components/schemas/"

// newSchemas returns the registry that describes the types of package api.
func newSchemas() huma.Registry {
	r := huma.NewMapRegistry(schemaPrefix, schemaName)
	r.RegisterTypeAlias(reflect.TypeFor[api.Float](), reflect.TypeFor[numberOrNull]())
	r.RegisterTypeAlias(reflect.TypeFor[api.Verdict](), reflect.TypeFor[verdict]())
	r.RegisterTypeAlias(reflect.TypeFor[api.Way](), reflect.TypeFor[way]())
	return r
}

// numberOrNull describes api.Float, of which what is not a number is null.
type numberOrNull float64

func (numberOrNull) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Format: "double", Nullable: true}
}

type verdict string

func (verdict) Schema(r huma.Registry) *huma.Schema {
	return words(r, "Verdict", judge.TooLittle, judge.NoEvidence, judge.WithinFloor, judge.Drifts, judge.Same, judge.WithinTolerance, judge.Faster, judge.Slower,
		judge.FewerErrors, judge.MoreErrors, judge.Lower, judge.Higher, judge.Regression, judge.Improvement, judge.Mixed, judge.Changed,
		compare.Different, changes.Mix)
}

type way string

func (way) Schema(r huma.Registry) *huma.Schema { return words(r, "Way", judge.Better, judge.Worse) }

// words describes a closed set of words under a name of its own.
func words[W ~string](r huma.Registry, name string, all ...W) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, w := range all {
		s.Enum = append(s.Enum, string(w))
	}
	r.Map()[name] = s
	return &huma.Schema{Ref: schemaPrefix + name}
}

const humaPrefix = "Huma"

// schemaName keeps huma's own types apart from ours of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if strings.HasSuffix(t.PkgPath(), "danielgtaylor/huma/v2") {
		name = humaPrefix + name
	}
	return name
}

// finishSchemas removes huma's own errors, which are never answered, and describes
// lists as what marshal makes of them: never null.
func finishSchemas(schemas map[string]*huma.Schema) {
	for name, s := range schemas {
		if strings.HasPrefix(name, humaPrefix) {
			delete(schemas, name)
			continue
		}
		for _, p := range s.Properties {
			describeLists(p)
		}
	}
}

func describeLists(s *huma.Schema) {
	if s.Items != nil {
		s.Nullable = false
		describeLists(s.Items)
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		describeLists(values)
	}
}
