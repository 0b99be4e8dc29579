package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var documented = regexp.MustCompile("(?m)(?:^|[`$ /])tailscope ((?:serve|demo|query|compare|changes|apdex|report|mark|mirror|experiment|session|bench|capacity|simulate|check|import|doctor|backup|restore|version)\\b[^`\n]*)")

// Every command line that the documents show is one the program understands:
// the command exists and takes these flags and arguments.
func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range append(files, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documented.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			line := strings.TrimSpace(strings.Split(m[1], " #")[0])
			args := splitShell(line)
			seen++
			root := newRoot(streams{nil, &bytes.Buffer{}, &bytes.Buffer{}})
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd.Runnable() && cmd.Args != nil && len(rest) > 0 { // a command that is only named has none
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: tailscope %s: %v", filepath.Base(file), line, err)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d command lines found: the test looks in the wrong place", seen)
	}
}

// splitShell splits at spaces outside of quotes.
func splitShell(s string) []string {
	var args []string
	var word strings.Builder
	quote := rune(0)
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			if word.Len() > 0 {
				args = append(args, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 {
		args = append(args, word.String())
	}
	return args
}
