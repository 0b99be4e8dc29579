package notify

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"tailscope/internal/guard/check/event"
)

// Every method that a template of text/template can call on what an event holds is in
// the table, and so is what these methods return.
func TestMethodsAreAll(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		if seen[typ] || typ.Implements(reflect.TypeFor[error]()) {
			return
		}
		seen[typ] = true
		if typ.Kind() == reflect.Struct && typ.PkgPath() != "time" {
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
		callable := map[string]bool{}
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			if n := m.Type.NumOut(); n == 1 || n == 2 && m.Type.Out(1) == reflect.TypeFor[error]() {
				callable[m.Name] = true
				visit(m.Type.Out(0))
				if got := methods[typ][m.Name]; !got.IsValid() || got.Type() != m.Type {
					t.Errorf("%s.%s is not in methods", typ, m.Name)
				}
			}
		}
		for name := range methods[typ] {
			if !callable[name] {
				t.Errorf("methods has %s.%s, which templates cannot call", typ, name)
			}
		}
	}
	visit(reflect.TypeFor[templateData]())
	if len(seen) < 8 {
		t.Errorf("saw %d types: the walk is wrong", len(seen))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[templateData]()) {
		if isMethod(f.Name) {
			t.Errorf("field %s has the name of a method", f.Name)
		}
	}
}

// Templates print what they do with text/template, or are refused as there.
func TestTemplatesAsInTextTemplate(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	e := &event.Event{
		Incident: "i1", Kind: event.Opened, Host: "h", Service: "s", Seq: 3, Time: time.Date(2026, 3, 4, 5, 6, 7, 8e6, zone),
		Opened: time.Date(2026, 3, 4, 5, 6, 0, 0, zone), Since: time.Date(2026, 3, 3, 23, 0, 0, 0, zone), Value: 1.5, Unit: "s", To: event.Critical,
		Text: "slow", User: "ada", Comment: "c", Link: "http://x/", Labels: map[string]string{"team": "search", "Format": "wide", "Day": "d"},
	}
	templates := []string{
		defaultSubject, defaultBody,
		`{{.Time.Format "15:04"}} {{.Time.UTC.Format "15:04"}} {{.Since.Local.IsZero}} {{$.Time.Year}}`,
		`{{(.Time.Sub .Opened).Seconds}} {{(.Time.Sub .Opened).Round 5000000000}} {{.Time.Sub .Opened}} {{.Time.Sub .Since | printf "%v"}}`,
		`{{.Time.Month}} {{.Time.Month.String}} {{printf "%d" .Time.Month}} {{.Time.Weekday.String}} {{.Time.Location.String}} {{.Time.Location}}`,
		`{{.Time.In .Since.Location}} {{.Time.AddDate 0 0 1}} {{.Time.Add 1e9}} {{.Time.Add -60000000000}} {{.Time.Truncate 3600000000000}}`,
		`{{with .Time}}{{.Format "2006"}} {{.Unix}} {{.}}{{else}}never{{end}}{{with $t := .Opened}}{{$t.Format "2006"}}{{$t.UTC.Hour}}{{end}}`,
		`{{$t := .Time}}{{if $t.After .Since}}after{{else if .Time.IsZero}}zero{{end}}{{range $k, $v := .Labels}}{{$k}}={{$v}} {{$.Time.Unix}} {{end}}`,
		`{{define "at"}}{{.Time.Format "15:04"}} {{.Labels.team}}{{end}}{{template "at" .}}{{define "day"}}{{.Day}}{{end}}{{template "day" .Time}}{{template "day" .Time.UTC}}`,
		`{{.Labels.Format}} {{.Labels.Day}} {{.Labels.Hour}}|{{with .Labels}}{{.Day}}{{.UTC}}{{end}} {{.Labels.team}} {{.Labels.none}}`,
		`{{"15:04" | .Time.Format}} {{.Time.Format "15" | upper | printf "%s!"}} {{json .Time}} {{json (.Time.UTC)}} {{(.Time.UTC | json)}} {{.Time.UTC | json | upper}}`,
		`{{and (.Time.After .Since) .Time.Unix}} {{or .Time.IsZero "no"}} {{not .Time.IsZero}} {{eq .Time.Year 2026}} {{lt .Time.Hour .Since.Hour}} {{len .Time.String}}`,
		`{{printf "%s %d" (.Time.UTC.Format "2006") .Since.Minute}} {{(.Time.UTC.Add 1000000000).Format "05"}} {{((.Time)).Second}} {{.Time.MarshalJSON}} {{.Time.MarshalText | printf "%s"}}`,
		`{{block "b" .Since}}{{.Format "Jan 2"}}{{end}}{{range .Labels}}{{break}}{{end}} {{.Time.Compare .Since}} {{.Time.Equal .Time}} {{- /* a comment */ -}}`,
		`{{(.Time.Sub .Since).Truncate 60000000000}} {{(.Time.Sub .Since).Minutes | printf "%.0f min"}} {{((.Time.Sub .Since).Abs).Hours}} {{.Time.Local.Location}}`,
	}
	refused := []string{
		`{{.Time.Zone}}`, `{{.Time.Clock}}`, `{{.Time.Date}}`, `{{.Time.Nope}}`, `{{.Nope}}`, `{{.Format "x"}}`, `{{.Text.Format "x"}}`, `{{.Labels.Format "x"}}`,
		`{{.Time.Format}}`, `{{.Time.Format 3}}`, `{{.Time.Format "a" "b"}}`, `{{.Time.Sub}}`, `{{.Time.Sub 3}}`, `{{.Time.In nil}}`, `{{method "Unix" .Time}}`,
		`{{.Time.Add "1s"}}`, `{{.Time.Add 1.5}}`, `{{.Time.UTC.Nope}}`, `{{.Time.UTC.Year.Nope}}`, `{{(.Time.UTC) "x"}}`, `{{.Seq.String}}`, `{{$t := .Seq}}{{$t.Unix}}`,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[templateData]()) {
		templates = append(templates, "{{."+f.Name+"}} {{json ."+f.Name+"}}", "{{with ."+f.Name+"}}{{.}}{{end}}")
	}
	for typ, byName := range methods {
		for name, f := range byName {
			if f.Type().NumIn() == 1 {
				of := map[reflect.Type]string{reflect.TypeFor[time.Time](): ".Time", reflect.TypeFor[time.Duration](): "(.Time.Sub .Since)", reflect.TypeFor[time.Month](): ".Time.Month",
					reflect.TypeFor[time.Weekday](): ".Time.Weekday", reflect.TypeFor[*time.Location](): ".Time.Location"}[typ]
				templates = append(templates, "{{"+of+"."+name+"}}", "{{$v := "+of+"}}{{$v."+name+"}} {{with "+of+"}}{{."+name+" | print}}{{end}}")
			}
		}
	}
	for i, text := range append(templates, refused...) {
		want, wantErr := "", error(nil)
		std, err := template.New("x").Funcs(template.FuncMap(templateFuncs)).Option("missingkey=zero").Parse(text)
		if wantErr = err; err == nil {
			var b strings.Builder
			wantErr = std.Execute(&b, newTemplateData(e))
			want = b.String()
		}
		if (wantErr != nil) != (i >= len(templates)) {
			t.Errorf("text/template: %s: %q (%v)", text, want, wantErr)
		}
		got, gotErr := "", error(nil)
		ours, err := parseTemplate("x", text)
		if gotErr = err; err == nil {
			got, gotErr = execute(ours, e)
		}
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && got != want {
			t.Errorf("%s\nprints %q (%v)\nwant   %q (%v)", text, got, gotErr, want, wantErr)
		}
	}
}

// The fields and functions that docs/checks.md promises are there.
func TestTemplateFieldsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "what `template` makes of ")
	text, functions, _ := strings.Cut(text, "with the functions ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.([A-Z][A-Za-z]+)`).FindAllStringSubmatch(text, -1) {
		documented[m[1]] = true
		if _, err := parseTemplate("x", "{{."+m[1]+"}}"); err != nil {
			t.Error(err)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[templateData]()) {
		if !documented[f.Name] {
			t.Errorf("docs/checks.md does not name .%s", f.Name)
		}
	}
	functions, _, _ = strings.Cut(functions, ".")
	for name := range templateFuncs {
		if !strings.Contains(functions, "`"+name+"`") {
			t.Errorf("docs/checks.md does not name the function %s", name)
		}
	}
}
