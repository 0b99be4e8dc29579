package config

import (
	"fmt"
	"strings"
)

// Markdown returns a table of every setting of the server, for docs/configuration.md.
// MirrorMarkdown returns that of the mirror.
func Markdown() string {
	c := Default()
	var b strings.Builder
	b.WriteString("| key | flag | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, s := range Settings[:serverSettings()] {
		flag := ""
		if s.HasFlag() {
			flag = "`--" + s.Flag() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, flag, s.markdownDefault(&c), s.Doc)
	}
	return b.String()
}

func (s Setting) markdownDefault(c *Config) string {
	def := s.Value(c).String()
	if def == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(def, ",", ", ") + "`"
}
