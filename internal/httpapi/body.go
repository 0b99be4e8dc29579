package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/internal/query"
)

// describeBody documents the JSON object, a T, that an operation takes raw and
// reads by itself.
func describeBody[T any](a huma.API, op *huma.Operation, name string) {
	b := op.RequestBody
	b.Required = false // an empty body is told what to write, by us
	b.Content["application/json"].Schema = a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, name)
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}

// decodeStrict reads one JSON object, and says which field of it is wrong.
func decodeStrict(raw []byte, to any, what, example string) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrong):
			return query.Invalid(wrong.Field, "%s is a %s; %s", wrong.Field, wrong.Value, example)
		case strings.HasPrefix(err.Error(), "json: unknown field "):
			name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
			return query.Invalid(name, "a %s has no %q; %s", what, name, query.Suggest(name, fieldsOf(to)))
		}
		return query.Invalid("body", "the body is not JSON (%v); %s", err, example)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return query.Invalid("body", "the body goes on after the %s; send one JSON object", what)
	}
	return nil
}

// fieldsOf are the names that a struct's fields have in JSON.
func fieldsOf(to any) []string {
	var names []string
	t := reflect.TypeOf(to).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
