package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Commands that stand in recorded results, and in what the page's tests show, are
// commands of today: they are shown to be copied.
func TestRecordedCommands(t *testing.T) {
	recorded := regexp.MustCompile("\"?command\"?: ([\"'`])(tailscope .*?[^\\\\])([\"'`]),")
	word := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	n := 0
	for _, pattern := range []string{"../report/testdata/*.json", "../report/reporttest/testdata/*.json", "../../ui/e2e/seed*.ts"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range recorded.FindAllStringSubmatch(string(content), -1) {
				n++
				words := word.FindAllString(strings.ReplaceAll(found[2], `\"`, `"`), -1)
				for i, w := range words {
					words[i] = strings.NewReplacer(`'`, "", `"`, "").Replace(w)
				}
				root := newRoot(streams{nil, io.Discard, io.Discard})
				cmd, rest, err := root.Find(words[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err != nil {
					t.Errorf("%s: %s: %v", name, found[2], err)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("%d commands are recorded: the test looks for the wrong text", n)
	}
}
