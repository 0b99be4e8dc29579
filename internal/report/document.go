// Package report writes what came of a run, a search, a session or a comparison, for
// people and for scripts: as text, as Markdown, as a page, as CSV and as JSON.
package report

import (
	"html/template"
	"io"
	"strings"
)

// Document writes the same lines and tables as plain text, as Markdown, or as the
// body of a page.
type Document struct {
	W        io.Writer
	Markdown bool
	html     bool
	listing  bool // a list of the page is open
	Err      error
}

// tag writes a text of the page in an element.
func (d *Document) tag(name, text string) {
	d.list(name == "li")
	d.print("<" + name + ">" + template.HTMLEscapeString(Printable(text)) + "</" + name + ">\n")
}

// list begins or ends a list of the page.
func (d *Document) list(on bool) {
	if on != d.listing {
		d.print(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[on])
	}
	d.listing = on
}

func (d *Document) print(s string) {
	if d.Err == nil {
		_, d.Err = io.WriteString(d.W, s)
	}
}

func (d *Document) Gap() {
	if d.html {
		d.list(false)
		return
	}
	d.print("\n")
}

// paragraph parts lines that Markdown would else run together.
func (d *Document) paragraph() {
	if d.Markdown {
		d.Gap()
	}
}

// picture writes lines as they are.
func (d *Document) picture(lines []string) {
	if d.html {
		d.tag("pre", strings.Join(lines, "\n"))
		return
	}
	if d.Markdown {
		d.print("\n```\n")
	}
	for _, s := range lines {
		d.print(s + "\n")
	}
	if d.Markdown {
		d.print("```\n")
	}
}

func (d *Document) Line(s string) {
	if d.html {
		d.tag("p", s)
		return
	}
	if d.Markdown {
		s = markdownCell.Replace(s)
	}
	d.print(Printable(s) + "\n")
}

// command writes a command that is to be copied behind what it is.
func (d *Document) command(what, command string) {
	if d.Markdown {
		d.print(markdownCell.Replace(what) + ": " + markdownCode(command) + "\n")
		return
	}
	d.Line(what + ": " + command)
}

func (d *Document) heading(s string) {
	if d.html {
		d.tag("h2", s)
		return
	}
	if d.Markdown {
		d.print("## " + Printable(markdownCell.Replace(s)) + "\n\n")
		return
	}
	d.Line(s)
}

func (d *Document) Item(s string) {
	if d.html {
		d.tag("li", s)
		return
	}
	if d.Markdown {
		d.print("- ")
	}
	d.Line(s)
}

func (d *Document) Table(t *Table) {
	if d.Err != nil {
		return
	}
	if d.html {
		d.list(false)
		d.Err = benchTemplate.ExecuteTemplate(d.W, "table", asHTML(t))
		return
	}
	if !d.Markdown {
		d.Err = t.Write(d.W)
		return
	}
	d.print(markdownTable(t.Header, t.Right, t.Rows, func(_ int, c string) string { return Printable(markdownCell.Replace(c)) }))
}

// markdownTable writes each cell of a row, or of the header, which is row -1, as
// cell has it.
func markdownTable(header []string, right []bool, rows [][]string, cell func(row int, text string) string) string {
	var b strings.Builder
	line := func(row int, cells []string) {
		for _, c := range cells {
			b.WriteString("| " + cell(row, c) + " ")
		}
		b.WriteString("|\n")
	}
	line(-1, header)
	for _, r := range right {
		if r {
			b.WriteString("| ---: ")
		} else {
			b.WriteString("| --- ")
		}
	}
	b.WriteString("|\n")
	for i, r := range rows {
		line(i, r)
	}
	return b.String()
}
