package spec

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tailscope/internal/strictyaml"
	"tailscope/internal/strictyaml/schematest"
)

func TestSchemaTakesExamples(t *testing.T) {
	s := schematest.Compile(t, Schema())
	files, err := filepath.Glob("../../../../docs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, f := range append(files, "../../../demo/checks.yaml") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(schematest.Document(t, text)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if _, problems := Read([]string{f}, Options{}); len(problems) > 0 {
			t.Error(told(problems))
		}
	}
}

// What docs/checks.md shows is taken too, part by part.
func TestSchemaTakesWhatIsDocumented(t *testing.T) {
	s := schematest.Compile(t, Schema())
	text, err := os.ReadFile("../../../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```yaml\n")[1:]
	if len(parts) < 4 {
		t.Errorf("only %d blocks of YAML were found", len(parts))
	}
	for _, part := range parts {
		block, _, _ := strings.Cut(part, "```")
		if err := s.Validate(schematest.Document(t, []byte(block))); err != nil {
			t.Errorf("%v\n%s", err, block)
		}
	}
}

// Every key of a check is in the reference.
func TestCheckKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reference, ok := strings.Cut(string(text), "## Reference")
	for _, typ := range []reflect.Type{reflect.TypeFor[file](), reflect.TypeFor[Check](), reflect.TypeFor[Each](), reflect.TypeFor[Threshold](), reflect.TypeFor[window]()} {
		for _, w := range strictyaml.KeysOf(typ) {
			if !ok || !strings.Contains(reference, "`"+w.Key+"`") {
				t.Errorf("%s of %s is not in the reference", w.Key, typ)
			}
		}
	}
}

// What the schema refuses, Read refuses too, and the other way round where a
// schema can know.
func TestSchemaRefuses(t *testing.T) {
	s := schematest.Compile(t, Schema())
	for _, text := range []string{
		"cheks: {}",
		"checks: {a: {evry: 10s, value: 1}}",
		"checks: {a: {every: 10x, value: 1}}",
		"checks: {a: {every: 10s, value: 1, null: maybe}}",
		"checks: {a: {every: 10s, value: {http: {adress: x}}}}",
		"checks: {a: {every: 10s, value: 1, threshold: {must: below, of: 1, warning: 1}}}",
		"receivers: {m: {email: {from: a@b, to: a@b}}}",
		"receivers: {m: {nsca: {address: 'a:1', password: plain}}}",
		"receivers: {m: {nsca: {address: 'a:1', password: {env: A}, encryption: aes192}}}",
		"profiles: {p: {days: [{weekdays: [monday], none: true}]}}",
		"maintenance: [{start: '2026-01-01', end: '2026-01-02'}]",
	} {
		if err := s.Validate(schematest.Document(t, []byte(text))); err == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, problems := read(t, text); len(problems) == 0 {
			t.Errorf("Read takes %s", text)
		}
	}
}

// Every key has a description, and a kind that is known.
func TestWordsAreDescribed(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[file](), reflect.TypeFor[Check](), reflect.TypeFor[Calendar](), reflect.TypeFor[Profile](), reflect.TypeFor[Receiver](), reflect.TypeFor[Secret]()} {
		for _, wrong := range strictyaml.Undescribed(of, leaves) {
			t.Error(wrong)
		}
	}
}
