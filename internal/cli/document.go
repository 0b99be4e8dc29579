package cli

import "io"

// document writes the same lines and tables as plain text or as Markdown.
type document struct {
	w        io.Writer
	markdown bool
	err      error
}

func (d *document) print(s string) {
	if d.err == nil {
		_, d.err = io.WriteString(d.w, s)
	}
}

func (d *document) gap() { d.print("\n") }

// paragraph parts lines that Markdown would else run together.
func (d *document) paragraph() {
	if d.markdown {
		d.gap()
	}
}

// picture writes lines as they are.
func (d *document) picture(lines []string) {
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
	if d.markdown {
		s = markdownCell.Replace(s)
	}
	d.print(printable(s) + "\n")
}

func (d *document) heading(s string) {
	if d.markdown {
		d.print("## " + printable(markdownCell.Replace(s)) + "\n\n")
		return
	}
	d.line(s)
}

func (d *document) item(s string) {
	if d.markdown {
		d.print("- ")
	}
	d.line(s)
}

func (d *document) table(t *table) {
	if d.err != nil {
		return
	}
	if !d.markdown {
		d.err = t.write(d.w)
		return
	}
	row := func(cells []string) {
		for _, c := range cells {
			d.print("| " + printable(markdownCell.Replace(c)) + " ")
		}
		d.print("|\n")
	}
	row(t.header)
	for _, right := range t.right {
		if right {
			d.print("| ---: ")
		} else {
			d.print("| --- ")
		}
	}
	d.print("|\n")
	for _, r := range t.rows {
		row(r)
	}
}
