package cli

import (
	"html/template"
	"io"
	"strings"
)

// document writes the same lines and tables as plain text, as Markdown, or as the
// body of a page.
type document struct {
	w        io.Writer
	markdown bool
	html     bool
	listing  bool // a list of the page is open
	err      error
}

// tag writes a text of the page in an element.
func (d *document) tag(name, text string) {
	d.list(name == "li")
	d.print("<" + name + ">" + template.HTMLEscapeString(printable(text)) + "</" + name + ">\n")
}

// list begins or ends a list of the page.
func (d *document) list(on bool) {
	if on != d.listing {
		d.print(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[on])
	}
	d.listing = on
}

func (d *document) print(s string) {
	if d.err == nil {
		_, d.err = io.WriteString(d.w, s)
	}
}

func (d *document) gap() {
	if d.html {
		d.list(false)
		return
	}
	d.print("\n")
}

// paragraph parts lines that Markdown would else run together.
func (d *document) paragraph() {
	if d.markdown {
		d.gap()
	}
}

// picture writes lines as they are.
func (d *document) picture(lines []string) {
	if d.html {
		d.tag("pre", strings.Join(lines, "\n"))
		return
	}
	if d.markdown {
		d.print("\n```\n")
	}
	for _, s := range lines {
		d.print(s + "\n")
	}
	if d.markdown {
		d.print("```\n")
	}
}

func (d *document) line(s string) {
	if d.html {
		d.tag("p", s)
		return
	}
	if d.markdown {
		s = markdownCell.Replace(s)
	}
	d.print(printable(s) + "\n")
}

// command writes a command that is to be copied behind what it is.
func (d *document) command(what, command string) {
	if d.markdown {
		d.print(markdownCell.Replace(what) + ": " + markdownCode(command) + "\n")
		return
	}
	d.line(what + ": " + command)
}

func (d *document) heading(s string) {
	if d.html {
		d.tag("h2", s)
		return
	}
	if d.markdown {
		d.print("## " + printable(markdownCell.Replace(s)) + "\n\n")
		return
	}
	d.line(s)
}

func (d *document) item(s string) {
	if d.html {
		d.tag("li", s)
		return
	}
	if d.markdown {
		d.print("- ")
	}
	d.line(s)
}

func (d *document) table(t *table) {
	if d.err != nil {
		return
	}
	if d.html {
		d.list(false)
		d.err = benchTemplate.ExecuteTemplate(d.w, "table", asHTML(t))
		return
	}
	if !d.markdown {
		d.err = t.write(d.w)
		return
	}
	d.print(markdownTable(t.header, t.right, t.rows, func(_ int, c string) string { return printable(markdownCell.Replace(c)) }))
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
