// Package report writes what came of a run, a search, a session or a comparison, for
// people and for scripts: as text, as Markdown, as a page, as CSV and as JSON.
package report

import (
	"html/template"
	"io"
	"strings"
)

// Format is what a document is written as.
type Format uint8

// The formats of documents. HTML is the body of a page.
const (
	Text Format = 1 << iota
	Markdown
	HTML
)

// FormatOf returns the format of a name, such as md; Text if it is none.
func FormatOf(name string) Format {
	switch name {
	case "md", "markdown":
		return Markdown
	case "html":
		return HTML
	}
	return Text
}

// Document is a report: blocks in the order in which they are read. The zero value is
// empty. The same blocks are written in every format, but for those within Only.
type Document struct {
	blocks []block
	only   Format // of blocks to come; 0 is all
}

type kind uint8

const (
	titleBlock kind = iota
	headingBlock
	lineBlock
	itemBlock
	indentedBlock // an item that stands in from the margin of text
	gapBlock
	paragraphBlock
	pictureBlock
	commandBlock
	tableBlock
)

type block struct {
	kind
	only  Format
	text  string
	lines []string // of a picture; of a command, the command
	table *Table
}

func (d *Document) add(b block) {
	b.only = d.only
	d.blocks = append(d.blocks, b)
}

// Only adds what write adds in these formats alone.
func (d *Document) Only(formats Format, write func()) {
	before := d.only
	d.only = formats
	write()
	d.only = before
}

// Title names the document. A page has it in its head.
func (d *Document) Title(s string) {
	d.Only(Text|Markdown, func() { d.add(block{kind: titleBlock, text: s}) })
}

// Heading begins a part.
func (d *Document) Heading(s string) { d.add(block{kind: headingBlock, text: s}) }

// Line adds a line.
func (d *Document) Line(s string) { d.add(block{kind: lineBlock, text: s}) }

// Item adds an item of a list.
func (d *Document) Item(s string) { d.add(block{kind: itemBlock, text: s}) }

// Indented adds an item of a list that text has two spaces before.
func (d *Document) Indented(s string) { d.add(block{kind: indentedBlock, text: s}) }

// Gap parts what is before from what comes.
func (d *Document) Gap() { d.add(block{kind: gapBlock}) }

// Paragraph parts lines that Markdown would else run together.
func (d *Document) Paragraph() { d.add(block{kind: paragraphBlock}) }

// Section begins another part.
func (d *Document) Section(name string) {
	d.Gap()
	d.Heading(name)
}

// Picture adds lines that are written as they are.
func (d *Document) Picture(lines []string) { d.add(block{kind: pictureBlock, lines: lines}) }

// Command adds a command that is to be copied, behind what it is.
func (d *Document) Command(what, command string) {
	d.add(block{kind: commandBlock, text: what, lines: []string{command}})
}

// Table adds a table.
func (d *Document) Table(t *Table) { d.add(block{kind: tableBlock, table: t}) }

// Write writes the document in one format.
func (d *Document) Write(to io.Writer, f Format) error {
	w := &writer{w: to, markdown: f == Markdown, html: f == HTML}
	for i := range d.blocks {
		if b := &d.blocks[i]; b.only == 0 || b.only&f != 0 {
			w.block(b)
		}
	}
	w.list(false)
	return w.err
}

func (w *writer) block(b *block) {
	switch b.kind {
	case titleBlock:
		if w.markdown {
			w.print("# ")
		}
		w.line(b.text)
	case headingBlock:
		w.heading(b.text)
	case lineBlock:
		w.line(b.text)
	case itemBlock:
		w.item(b.text)
	case indentedBlock:
		if w.markdown || w.html {
			w.item(b.text)
		} else {
			w.item("  " + b.text)
		}
	case gapBlock:
		w.gap()
	case paragraphBlock:
		if w.markdown {
			w.gap()
		}
	case pictureBlock:
		w.picture(b.lines)
	case commandBlock:
		w.command(b.text, b.lines[0])
	case tableBlock:
		w.table(b.table)
	}
}

// writer writes blocks as plain text, as Markdown, or as the body of a page.
type writer struct {
	w        io.Writer
	markdown bool
	html     bool
	listing  bool // a list of the page is open
	err      error
}

// tag writes a text of the page in an element.
func (w *writer) tag(name, text string) {
	w.list(name == "li")
	w.print("<" + name + ">" + template.HTMLEscapeString(Printable(text)) + "</" + name + ">\n")
}

// list begins or ends a list of the page.
func (w *writer) list(on bool) {
	if on != w.listing {
		w.print(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[on])
	}
	w.listing = on
}

func (w *writer) print(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

func (w *writer) gap() {
	if w.html {
		w.list(false)
		return
	}
	w.print("\n")
}

// picture writes lines as they are.
func (w *writer) picture(lines []string) {
	if w.html {
		w.tag("pre", strings.Join(lines, "\n"))
		return
	}
	if w.markdown {
		w.print("\n```\n")
	}
	for _, s := range lines {
		w.print(s + "\n")
	}
	if w.markdown {
		w.print("```\n")
	}
}

func (w *writer) line(s string) {
	if w.html {
		w.tag("p", s)
		return
	}
	if w.markdown {
		s = markdownCell.Replace(s)
	}
	w.print(Printable(s) + "\n")
}

// command writes a command that is to be copied behind what it is.
func (w *writer) command(what, command string) {
	if w.markdown {
		w.print(markdownCell.Replace(what) + ": " + markdownCode(command) + "\n")
		return
	}
	w.line(what + ": " + command)
}

func (w *writer) heading(s string) {
	if w.html {
		w.tag("h2", s)
		return
	}
	if w.markdown {
		w.print("## " + Printable(markdownCell.Replace(s)) + "\n\n")
		return
	}
	w.line(s)
}

func (w *writer) item(s string) {
	if w.html {
		w.tag("li", s)
		return
	}
	if w.markdown {
		w.print("- ")
	}
	w.line(s)
}

func (w *writer) table(t *Table) {
	if w.err != nil {
		return
	}
	if w.html {
		w.list(false)
		w.err = benchTemplate.ExecuteTemplate(w.w, "table", asHTML(t))
		return
	}
	if !w.markdown {
		w.err = t.Write(w.w)
		return
	}
	w.print(markdownTable(t.Header, t.Right, t.Rows, func(_ int, c string) string { return Printable(markdownCell.Replace(c)) }))
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
