package report

import (
	"regexp"
	"strings"
)

// markdownCell escapes text for Markdown.
var markdownCell markdownText

type markdownText struct{}

var (
	markdownMarks = strings.NewReplacer("|", `\|`, "\n", " ", "*", `\*`, "_", `\_`)
	// markdownTag matches the beginning of a tag of HTML, an address or an entity. A < before
	// a space or a digit begins nothing, and stays as it is.
	markdownTag = regexp.MustCompile(`<([A-Za-z/!?])`)
)

// Replace returns s with the characters escaped that Markdown would interpret.
func (markdownText) Replace(s string) string {
	return markdownTag.ReplaceAllString(markdownMarks.Replace(s), "&lt;$1")
}

// markdownCode returns a code span with s as it is, to be copied.
func markdownCode(s string) string {
	marks := "`"
	for strings.Contains(s, marks) {
		marks += "`"
	}
	s = Printable(s)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return marks + s + marks
}

// markdown returns the table in Markdown.
func (t *Table) markdown() string {
	var b strings.Builder
	line := func(cells []string, mark string) {
		for _, c := range cells {
			if c = Printable(markdownCell.Replace(c)); c != "" {
				c = mark + c + mark
			}
			b.WriteString("| " + c + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Header, "")
	for _, r := range t.Right {
		if r {
			b.WriteString("| ---: ")
		} else {
			b.WriteString("| --- ")
		}
	}
	b.WriteString("|\n")
	for i, r := range t.Rows {
		if t.Total && i == len(t.Rows)-1 {
			line(r, "**")
		} else {
			line(r, "")
		}
	}
	return b.String()
}
