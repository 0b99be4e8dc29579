package cli

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/report"
)

// Who names a span does not command the terminal of who reads about it.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"GET /cart/{id} ümläut☃": "GET /cart/{id} ümläut☃",
		"\x1b[2Jx":               `\x1b[2Jx`,
		"a\nb\tc\r":              `a\nb\tc\r`,
		"\x9b31m\u009b\u202e":    `\x9b31m\u009b\u202e`,
		"bad\xff":                `bad\xff`,
		`"q" \`:                  `"q" \`,
	} {
		if got := report.Printable(in); got != want {
			t.Errorf("printable(%q) is %s, want %s", in, got, want)
		}
	}
	const evil = "\x1b]0;owned\a\x1b[2J"
	for name, write := range map[string]func(*strings.Builder) error{
		"table": func(b *strings.Builder) error {
			return (&report.Table{Header: []string{"service"}, Right: []bool{false}, Rows: [][]string{{evil}}}).Write(b)
		},
		"trace": func(b *strings.Builder) error {
			return report.Trace(&api.TraceResponse{Spans: []api.TraceSpan{{Parent: -1, Service: evil, Operation: evil}}}, report.TraceOptions{Zone: time.UTC, Width: 200}).Write(b, report.Text)
		},
		"breakdown": func(b *strings.Builder) error {
			return report.Breakdown(&api.BreakdownResponse{Skews: []api.Skew{{Service: evil, Peer: evil}}}, 1).Write(b, report.Text)
		},
		"import": func(b *strings.Builder) error {
			shares(b, "routes", []api.AccessLogShare{{Name: evil, Requests: 1}}, 1, 1)
			return nil
		},
	} {
		var b strings.Builder
		if err := write(&b); err != nil || !strings.Contains(b.String(), `\x1b]0;owned\a\x1b[2J`) || strings.ContainsAny(b.String(), "\x1b\a") {
			t.Errorf("%s: %q, %v", name, b.String(), err)
		}
	}
}
