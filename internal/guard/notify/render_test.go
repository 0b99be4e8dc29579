package notify

import (
	"strings"
	"testing"
	"text/template"

	"tailscope/internal/guard/check/event"
)

// What is rendered is what text/template writes, and what it refuses is refused. Only methods
// that nobody needs are not there.
func TestRenderAgreesWithTextTemplate(t *testing.T) {
	e := someEvent("i", 3, event.Opened, event.OK, event.Critical, t0)
	e.Text, e.Comment, e.Labels = `say "hi" & <go>`, "", map[string]string{"team": "blue", "service": "shop", "odd name": "x"}
	e.Opened = t0.Add(-90_000_000_000)
	data := newTemplateData(&e)
	for _, text := range []string{
		"", "plain", defaultSubject, defaultBody,
		"{{.Kind}} {{.Seq}} {{.To}}", "{{ .Text | printf \"%q\" }}", "{{printf \"%s=%d\" .Kind .Seq}}", "{{print .Seq .Kind 1 2 \"x\"}}", "{{println .Kind}}",
		"{{.Labels.team}}", "{{.Labels.nope}}|", "{{index .Labels \"odd name\"}}", "{{index .Text 0}}", "{{len .Labels}} {{len .Text}}", "{{.Labels}}",
		"{{if .Comment}}a{{else if .Text}}b{{else}}c{{end}}", "{{if not .Comment}}none{{end}}", "{{with .Comment}}x{{.}}{{else}}nobody{{end}}", "{{with .Text}}x{{.}}{{$.Kind}}{{end}}",
		"{{with .Comment}}1{{else with .Text}}2{{.}}{{end}}",
		"{{range $k, $v := .Labels}}{{$k}}={{$v}};{{end}}", "{{range .Labels}}[{{.}}]{{else}}none{{end}}", "{{range $v := .Labels}}{{$v}}{{end}}",
		"{{range $k, $v := .Labels}}{{if eq $k \"service\"}}{{continue}}{{end}}{{$k}}{{break}}{{end}}",
		"{{$x := .Seq}}{{$x}}{{$x = 5}}{{$x}}{{if true}}{{$x := 7}}{{$x}}{{end}}{{$x}}",
		"{{.Time.Format \"2006-01-02 15:04\"}}", "{{.Time}}", "{{.Time.Unix}} {{.Time.Weekday}} {{.Time.Month}} {{printf \"%d\" .Time.Month}}", "{{.Time.Sub .Opened}}", "{{(.Time.Sub .Opened).Seconds}}", "{{.Opened.Before .Time}}",
		"{{.Time.Format}}", "{{.Time.Format 1}}", "{{.Time.Unix 1}}",
		"{{eq .To \"CRITICAL\" \"WARNING\"}} {{eq .Seq 3}} {{ne .Kind \"opened\"}} {{lt .Seq 4}} {{le 3 .Seq}} {{gt \"b\" \"a\"}} {{ge 1.5 2.5}}", "{{eq .Time .Opened}}", "{{eq .Seq \"3\"}}", "{{lt .Seq 1.5}}", "{{eq .Labels .Labels}}", "{{lt true false}}",
		"{{and .Text .Comment}}|{{or .Comment .Kind}}|{{and 1 0 .Nope}}|{{or 0 \"\" 3}}", "{{not 0}} {{not \"x\"}}",
		"{{html .Text}} {{js .Text}} {{urlquery .Text}} {{json .Text}} {{upper .Kind}} {{lower .To}} {{json .Labels}} {{.Text | html | printf \"%s!\"}}",
		"{{slice .Kind 1 3}} {{slice .Kind 2}} {{slice .Kind}}", "{{slice .Kind 9}}", "{{slice .Kind 3 1}}",
		"{{define \"one\"}}<{{.}}>{{end}}{{template \"one\" .Kind}}{{template \"one\"}}", "{{block \"two\" .Labels}}{{.team}}{{end}}", "{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}", "{{template \"nope\"}}",
		"{{- /* said */ -}} a {{- 1 -}} b", "{{1}} {{1.5}} {{0x10}} {{'a'}} {{true}} {{\"s\"}} {{1e3}}", "{{(printf \"%d\" .Seq)}}", "{{.}}x",
		"{{.Nope}}", "{{.Kind.Nope}}", "{{.Labels.team.x}}", "{{.Kind 1}}", "{{1 2}}", "{{.Seq | .Kind}}", "{{upper .Seq}}", "{{upper}}", "{{printf 1}}", "{{range .Kind}}{{end}}", "{{index .Labels 1}}", "{{index .Kind 99}}", "{{len 3}}", "{{nil}}", "{{call .Kind}}", "{{$x := 1}}{{$x 2}}",
	} {
		p, err := template.New("t").Funcs(templateFuncs).Option("missingkey=zero").Parse(text)
		if err != nil {
			t.Logf("%s cannot be parsed: %v", text, err)
			continue
		}
		var want, got strings.Builder
		wrong := p.Execute(&want, data)
		err = render(&got, p, data)
		if (err != nil) != (wrong != nil) || err == nil && got.String() != want.String() {
			t.Errorf("%s\nis rendered as %q, %v\ntext/template: %q, %v", text, got.String(), err, want.String(), wrong)
		}
	}
}
