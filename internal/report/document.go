// Package report writes the result of a run, a search, a session or a question, for
// people and for scripts. Each is built once as a Document, which writes it as text, as
// Markdown, as a page, as CSV or as JSON.
package report

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"

	"tailscope/internal/figure"
)

// Format is a format of documents.
type Format uint8

// The formats of documents. HTML is a page that needs nothing else.
const (
	Text Format = 1 << iota
	Markdown
	HTML
	CSV
	JSON
)

// FormatOf returns the format of a name such as md, default Text.
func FormatOf(name string) Format {
	switch name {
	case "md", "markdown":
		return Markdown
	case "html":
		return HTML
	case "csv":
		return CSV
	case "json":
		return JSON
	}
	return Text
}

// Document is a report or an answer: blocks in the order in which they are read. The
// same blocks are written in every format that people read, but for those within Only.
// The zero value is empty.
type Document struct {
	Name  string // of the page, in its head
	Made  string // when the page was made; empty to leave it out
	Wide  bool   // the page is printed across
	Data  any    // what JSON has
	sheet *Table // what CSV has

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
	alarmBlock // these are of pages alone
	figuresBlock
	chartBlock
	columnsBlock
	detailsBlock
)

type block struct {
	kind
	only    Format
	text    string
	lines   []string // of a picture; of a command, the command
	table   *Table
	figures []Figure
	chart   Chart
	begin   bool // of columns, or else their end
}

// Figure is a number that a page shows large, between its name and a note.
type Figure struct{ Name, Value, Beside string }

// Chart is a plot of a page. Its legend has names of lines, each with its class behind =.
type Chart struct {
	Name   string
	Legend []string
	Small  bool // several beside each other
	Plot   string
}

func (d *Document) add(b block) {
	b.only = d.only
	d.blocks = append(d.blocks, b)
}

// Only adds the blocks that write adds, in these formats alone.
func (d *Document) Only(formats Format, write func()) {
	before := d.only
	if before != 0 {
		formats &= before
	}
	if formats != 0 {
		d.only = formats
		write()
		d.only = before
	}
}

// Title names the document.
func (d *Document) Title(s string) { d.add(block{kind: titleBlock, text: s}) }

// Heading begins a part.
func (d *Document) Heading(s string) { d.add(block{kind: headingBlock, text: s}) }

// Line adds a line.
func (d *Document) Line(s string) { d.add(block{kind: lineBlock, text: s}) }

// Item adds an item of a list.
func (d *Document) Item(s string) { d.add(block{kind: itemBlock, text: s}) }

// Indented adds an item of a list that text has two spaces before.
func (d *Document) Indented(s string) { d.add(block{kind: indentedBlock, text: s}) }

// Gap separates the blocks before from those after.
func (d *Document) Gap() { d.add(block{kind: gapBlock}) }

// Paragraph separates lines that Markdown would join.
func (d *Document) Paragraph() { d.add(block{kind: paragraphBlock}) }

// Section begins another part.
func (d *Document) Section(name string) {
	d.Gap()
	d.Only(Text|Markdown, func() { d.Heading(name) })
	d.Only(HTML, func() { d.Heading(figure.Sentence(name)) })
}

// List adds a part with an item for each line, if there are any.
func (d *Document) List(name string, lines []string, item func(string)) {
	if len(lines) > 0 {
		d.Section(name)
		for _, line := range lines {
			item(line)
		}
	}
}

// Picture adds lines that are written as they are.
func (d *Document) Picture(lines []string) { d.add(block{kind: pictureBlock, lines: lines}) }

// Command adds a command to copy, after its description.
func (d *Document) Command(what, command string) {
	d.add(block{kind: commandBlock, text: what, lines: []string{command}})
}

// Table adds a table.
func (d *Document) Table(t *Table) { d.add(block{kind: tableBlock, table: t}) }

// Sheet sets the table of CSV, which has every figure in full.
func (d *Document) Sheet(header []string, rows [][]string) {
	d.sheet = &Table{Header: header, Rows: rows}
}

// Alarm adds a warning to a page.
func (d *Document) Alarm(text string, why ...string) {
	d.Only(HTML, func() { d.add(block{kind: alarmBlock, text: text, lines: why}) })
}

// Figures adds numbers that a page shows large.
func (d *Document) Figures(figures ...Figure) {
	d.Only(HTML, func() { d.add(block{kind: figuresBlock, figures: figures}) })
}

// Chart adds a plot of a page, unless it is empty.
func (d *Document) Chart(c Chart) {
	if c.Plot != "" {
		d.Only(HTML, func() { d.add(block{kind: chartBlock, chart: c}) })
	}
}

// Columns sets parts beside each other if a page is wide enough.
func (d *Document) Columns(write func()) {
	d.add(block{kind: columnsBlock, begin: true})
	write()
	d.add(block{kind: columnsBlock})
}

// Details adds a text to a page, folded at first.
func (d *Document) Details(name, text string) {
	d.Only(HTML, func() { d.add(block{kind: detailsBlock, text: name, lines: []string{text}}) })
}

// Write writes the document in one format.
func (d *Document) Write(to io.Writer, f Format) error {
	switch f {
	case JSON:
		return WriteJSON(to, d.Data)
	case CSV:
		return d.writeCSV(to)
	case HTML:
		return d.writePage(to)
	}
	w := &writer{w: to, markdown: f == Markdown}
	for i := range d.blocks {
		if b := &d.blocks[i]; b.only == 0 || b.only&f != 0 {
			w.block(b)
		}
	}
	return w.err
}

func (d *Document) writeCSV(to io.Writer) error {
	if d.sheet == nil {
		return errors.New("this has no rows to be written as CSV")
	}
	out := csv.NewWriter(to)
	if err := out.Write(d.sheet.Header); err != nil {
		return err
	}
	return out.WriteAll(d.sheet.Rows)
}

// WriteJSON writes v indented, with < and & as they are.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writer writes blocks as plain text or as Markdown.
type writer struct {
	w        io.Writer
	markdown bool
	err      error
}

func (w *writer) block(b *block) {
	switch b.kind {
	case titleBlock:
		if w.markdown {
			w.print("# ")
		}
		w.line(b.text)
	case headingBlock:
		if w.markdown {
			w.print("## " + Printable(markdownCell.Replace(b.text)) + "\n\n")
		} else {
			w.line(b.text)
		}
	case lineBlock:
		w.line(b.text)
	case itemBlock, indentedBlock:
		switch {
		case w.markdown:
			w.print("- ")
		case b.kind == indentedBlock:
			w.print("  ")
		}
		w.line(b.text)
	case gapBlock:
		w.print("\n")
	case paragraphBlock:
		if w.markdown {
			w.print("\n")
		}
	case pictureBlock:
		w.picture(b.lines)
	case commandBlock:
		if w.markdown {
			w.print(markdownCell.Replace(b.text) + ": " + markdownCode(b.lines[0]) + "\n")
		} else {
			w.line(b.text + ": " + b.lines[0])
		}
	case tableBlock:
		w.table(b.table)
	}
}

func (w *writer) print(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

// picture writes lines as they are.
func (w *writer) picture(lines []string) {
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
	if w.markdown {
		s = markdownCell.Replace(s)
	}
	w.print(Printable(s) + "\n")
}

func (w *writer) table(t *Table) {
	switch {
	case w.err != nil:
	case w.markdown:
		w.print(t.markdown())
	default:
		w.err = t.Write(w.w)
	}
}

// OneLine returns a document of one line.
func OneLine(data any, line string) *Document {
	d := &Document{Name: line, Data: data}
	d.Line(line)
	return d
}
