package config

import (
	"fmt"
	"strings"
)

// Markdown writes every setting as a table, for docs/configuration.md.
func Markdown() string {
	c := Default()
	var b strings.Builder
	b.WriteString("| key | flag | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, s := range Settings {
		def := s.Value(&c).String()
		if def != "" {
			def = "`" + strings.ReplaceAll(def, ",", ", ") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", s.Key, s.Flag(), def, s.Doc)
	}
	return b.String()
}
