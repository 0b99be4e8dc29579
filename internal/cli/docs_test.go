package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

var documented = regexp.MustCompile("(?m)(?:^|[`$ /])tailscope ((?:serve|demo|query|compare|changes|apdex|report|mark|mirror|experiment|session|bench|capacity|simulate|check|import|cluster|doctor|backup|restore|version)\\b[^`\n]*)")

// afterCommand begins what a shell does not hand to the program.
var afterCommand = regexp.MustCompile(` [#>] ?`)

// Every command line that the documents and the help show is one the program understands:
// the command exists and takes these flags and arguments.
func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range append(files, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	for cmd := range commands(newRoot(streams{nil, io.Discard, io.Discard})) {
		texts[cmd.CommandPath()+" --help"] = cmd.Example
	}
	seen := 0
	for name, text := range texts {
		for _, m := range documented.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			line := strings.TrimSpace(afterCommand.Split(m[1], 2)[0])
			seen++
			if err := understood(splitShell(line)); err != nil {
				t.Errorf("%s: tailscope %s: %v", name, line, err)
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d command lines found: the test looks in the wrong place", seen)
	}
}

// understood returns an error if there is no such command, or not with these arguments.
func understood(args []string) error {
	cmd, rest, err := newRoot(streams{nil, io.Discard, io.Discard}).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.Runnable() && cmd.Args != nil && len(rest) > 0 { // a command that is only named has none
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	return err
}

// commands returns a command and those below it.
func commands(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, below := range cmd.Commands() {
			commands(below)(yield)
		}
	}
}

// Help fits its width, and one flag names a server.
func TestHelp(t *testing.T) {
	former := regexp.MustCompile(`--(to|from) (url|address)`)
	for cmd := range commands(newRoot(streams{nil, io.Discard, io.Discard})) {
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s --help: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
			if former.MatchString(line) {
				t.Errorf("%s --help: a server is named by --server, not as in: %s", cmd.CommandPath(), line)
			}
		}
	}
}

// Usage is as cobra's template prints it.
func TestUsageAsCobras(t *testing.T) {
	ours, cobras := newRoot(streams{nil, io.Discard, io.Discard}), newRoot(streams{nil, io.Discard, io.Discard})
	cobras.SetUsageFunc(nil)
	cobras.SetUsageTemplate(strings.ReplaceAll(cobras.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
	theirs := slices.Collect(commands(cobras))
	for i, cmd := range slices.Collect(commands(ours)) {
		if got, want := cmd.UsageString(), theirs[i].UsageString(); got != want {
			t.Errorf("%s: usage is\n%s\nwant\n%s", cmd.CommandPath(), got, want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	for _, arg := range []string{"--version", "-v", "version"} {
		var out, errs strings.Builder
		if code := Run(context.Background(), []string{arg}, nil, &out, &errs); code != exitOK || out.String() != "tailscope "+Version()+"\n" || errs.Len() > 0 {
			t.Errorf("tailscope %s: exit code %d, %q, %q", arg, code, out.String(), errs.String())
		}
	}
}

// Flags that named a server before --server still do.
func TestFormerServerFlags(t *testing.T) {
	for line, flag := range map[string]string{
		"bench http://a/ --to http://s":                         "server",
		"bench http://a/ --set to=http://s":                     "server",
		"capacity http://a/ --to http://s":                      "server",
		"capacity mirror --to http://s":                         "server",
		"capacity mirror --from http://s":                       "from",
		"mirror --to http://s":                                  "server",
		"experiment run x.yaml --to http://s":                   "server",
		"experiment again x --to http://s":                      "server",
		"check run x --to http://s":                             "server",
		"simulate x.yaml --from http://s":                       "server",
		"simulate x.yaml --to http://s":                         "to",
		"simulate x.yaml --server http://wrong --from http://s": "server",
	} {
		args := splitShell(line)
		cmd, rest, err := newRoot(streams{nil, io.Discard, io.Discard}).Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := cmd.Flags().Lookup(flag).Value.String(); got != "http://s" {
			t.Errorf("%s: --%s is %q", line, flag, got)
		}
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
