package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mistakes of a scenario are wrong use, each with its line, before anything is
// started or sent.
func TestScenarioCommands(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.yaml")
	const text = "scenario: s\ntarget: http://127.0.0.1:1\nvars: {rate: 10}\nqueries: [{name: home, request: GET /}]\nphases: [{rate: '{{rate}}', for: 1s}]\n"
	for _, tc := range []struct {
		more string
		args []string
		code int
		want string
	}{
		{"", []string{"bench", "validate", name}, exitOK, name + ": no mistakes: 1 phase of 1s, 1 query\n"},
		{"tagret: x\n", []string{"bench", "validate", name}, exitFailed, "tailscope: " + name + ":6:1: unknown key tagret in the scenario: did you mean target?\n"},
		{"tagret: x\n", []string{"bench", name}, exitUsage, "tailscope: " + name + ":6:1: unknown key tagret in the scenario: did you mean target?\n"},
		{"", []string{"bench", name, "--var", "rat=5"}, exitUsage, "tailscope: " + name + ": the scenario has no variable rat: did you mean rate?\n"},
		{"", []string{"bench", name, "--var", "rate"}, exitUsage, "hint: write it as --var name=value\n"},
		{"", []string{"bench", name, "--threshold", "p(99){hmoe} < 1s"}, exitUsage, "there is no query hmoe\nhint: did you mean home?\n"},
		{"", []string{"bench", name, "--rate", "5"}, exitUsage, "tailscope: --rate is said in the file of a scenario\n"},
		{"", []string{"bench", name}, exitFailed, "hint: start it, or let servers: do so\n"},
		{"", []string{"bench", "schema"}, exitOK, `"title": "Tailscope scenario"`},
	} {
		if err := os.WriteFile(name, []byte(text+tc.more), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code := Run(t.Context(), tc.args, strings.NewReader(""), &out, &out)
		if code != tc.code || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%v: code %d, want %d:\n%s", tc.args, code, tc.code, out.String())
		}
	}
}
