package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"
)

// pageStyle is the style of pages, in light, in dark and on paper.
//
//go:embed page.css
var pageStyle string

// page writes blocks as a page. The blocks under a heading are a section.
type page struct {
	b       strings.Builder
	open    string // the element that blocks are in: header, section, or empty
	listing bool   // a list is open
	charts  string // the class of charts that stand beside each other
}

func (d *Document) writePage(to io.Writer) error {
	p := &page{}
	p.b.WriteString(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>` + escaped(d.Name) + "</title>\n<style>\n" + pageStyle)
	if d.Wide {
		p.b.WriteString("main { max-width: 98rem; }\nth, td { padding-right: .4rem; font-size: 12.5px; }\n@media print { @page { size: A4 landscape; } }\n")
	}
	p.b.WriteString("</style>\n</head>\n<body>\n<main>\n")
	for i := range d.blocks {
		if b := &d.blocks[i]; b.only == 0 || b.only&HTML != 0 {
			p.block(b)
		}
	}
	p.enter("")
	made := "made by tailscope"
	if d.Made != "" {
		made = "made " + d.Made + " by tailscope"
	}
	p.element("footer", made)
	p.b.WriteString("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(to, p.b.String())
	return err
}

func escaped(s string) string { return html.EscapeString(Printable(s)) }

func (p *page) element(name, text string) {
	fmt.Fprintf(&p.b, "<%s>%s</%s>\n", name, escaped(text), name)
}

// enter closes the open element, and opens another if one is named.
func (p *page) enter(name string) {
	p.list(false)
	p.beside("")
	if p.open != "" {
		p.b.WriteString("</" + p.open + ">\n")
	}
	if p.open = name; name != "" {
		p.b.WriteString("<" + name + ">\n")
	}
}

// within opens a section if none is open.
func (p *page) within() {
	if p.beside(""); p.open != "section" {
		p.enter("section")
	}
}

// list begins or ends a list.
func (p *page) list(on bool) {
	if on != p.listing {
		p.b.WriteString(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[on])
	}
	p.listing = on
}

// beside ends charts that stand beside each other, and begins others, if a class is
// named.
func (p *page) beside(class string) {
	if class == p.charts {
		return
	}
	if p.charts != "" {
		p.b.WriteString("</div>\n")
	}
	if p.charts = class; class != "" {
		p.b.WriteString(`<div class="` + class + "\">\n")
	}
}

func (p *page) block(b *block) {
	switch b.kind {
	case titleBlock:
		p.enter("header")
		p.element("h1", b.text)
	case headingBlock:
		p.enter("section")
		p.element("h2", b.text)
	case lineBlock:
		if p.open != "header" {
			p.within()
		}
		p.list(false)
		p.element("p", b.text)
	case itemBlock, indentedBlock:
		p.within()
		p.list(true)
		p.element("li", b.text)
	case gapBlock:
		p.list(false)
	case pictureBlock:
		p.within()
		p.list(false)
		p.b.WriteString("<pre>")
		for _, line := range b.lines {
			p.b.WriteString(escaped(line) + "\n")
		}
		p.b.WriteString("</pre>\n")
	case commandBlock:
		p.enter("section")
		p.element("h2", strings.ToUpper(b.text[:1])+b.text[1:])
		p.element("pre", b.lines[0])
	case tableBlock:
		p.within()
		p.list(false)
		p.table(b.table)
	case alarmBlock:
		p.enter("")
		p.b.WriteString(`<div class="warning"><strong>` + escaped(b.text) + "</strong>")
		for _, why := range b.lines {
			p.element("p", why)
		}
		p.b.WriteString("</div>\n")
	case figuresBlock:
		p.enter("")
		p.b.WriteString("<div class=\"figures\">\n")
		for _, f := range b.figures {
			fmt.Fprintf(&p.b, "<div class=\"figure\"><span>%s</span><b>%s</b><span>%s</span></div>\n", escaped(f.Name), escaped(f.Value), escaped(f.Beside))
		}
		p.b.WriteString("</div>\n")
	case chartBlock:
		p.chart(&b.chart)
	case columnsBlock:
		p.enter("")
		if b.begin {
			p.b.WriteString("<div class=\"two\">\n")
		} else {
			p.b.WriteString("</div>\n")
		}
	case detailsBlock:
		p.within()
		p.list(false)
		fmt.Fprintf(&p.b, "<details><summary>%s</summary><pre>%s</pre></details>\n", escaped(b.text), html.EscapeString(b.lines[0]))
	}
}

func (p *page) chart(c *Chart) {
	if c.Small {
		if p.open != "section" {
			p.within()
		}
		p.list(false)
		p.beside("steps")
		p.b.WriteString("<div><h3>" + escaped(c.Name) + "</h3>" + c.Plot + "</div>\n")
		return
	}
	if p.open != "" {
		p.enter("")
	}
	p.beside("two")
	p.b.WriteString("<section><h2>" + escaped(c.Name) + "</h2>\n" + legend(c.Legend) + c.Plot + "</section>\n")
}

// keys maps classes of lines to their colors. Dots have a filled key.
var keys = map[string]string{
	"due": "due", "p99": "due", "late": "late", "p50": "good", "sent": "sent", "bad": "bad", "max": "max",
	"dot": "soft", "dot good": "good", "dot worse": "bad",
}

// legend writes the names of lines, each with its class behind =. A name without a class
// is text.
func legend(items []string) string {
	if len(items) == 0 {
		return ""
	}
	out := `<div class="legend">`
	for _, item := range items {
		name, class, _ := strings.Cut(item, "=")
		key := ""
		switch color := "var(--c-" + keys[class] + ")"; {
		case class == "":
		case strings.HasPrefix(class, "dot"):
			key = `<i class="key" style="background: ` + strings.Replace(color, "c-soft", "soft", 1) + `"></i>`
		case class == "sent":
			key = `<i style="border-color: ` + color + `; border-top-style: dashed"></i>`
		default:
			key = `<i style="border-color: ` + color + `"></i>`
		}
		out += "<span>" + key + escaped(name) + "</span>"
	}
	return out + "</div>\n"
}

// cellClasses maps words of tables that say whether an objective was kept to classes.
var cellClasses = map[string]string{"met": "good", "MISSED": "missed", "MISSED, ended the run": "missed", "no": "missed", "saturated": "missed"}

func (p *page) table(t *Table) {
	cell := func(tag, text string, classes ...string) {
		class := ""
		if list := strings.TrimSpace(strings.Join(classes, " ")); list != "" {
			class = ` class="` + list + `"`
		}
		fmt.Fprintf(&p.b, "<%s%s>%s</%s>", tag, class, escaped(text), strings.Fields(tag)[0])
	}
	right := func(i int) string {
		if t.Right[i] {
			return "right"
		}
		return ""
	}
	p.b.WriteString("<div class=\"wide\"><table>\n<thead><tr>")
	for i, h := range t.Header {
		cell(`th scope="col"`, h, right(i))
		if t.Shares != nil && i == t.Behind {
			cell(`th scope="col"`, "shares")
		}
	}
	p.b.WriteString("</tr></thead>\n<tbody>\n")
	for k, row := range t.Rows {
		class := ""
		switch {
		case t.Total && k == len(t.Rows)-1:
			class = ` class="all"`
		case t.Faint[k]:
			class = ` class="thin"`
		}
		p.b.WriteString("<tr" + class + ">")
		for i, c := range row {
			cell("td", c, right(i), cellClasses[c])
			if t.Shares != nil && i == t.Behind {
				p.b.WriteString("<td>" + sharesBar(t.Shares[k]) + "</td>")
			}
		}
		p.b.WriteString("</tr>\n")
	}
	p.b.WriteString("</tbody></table></div>\n")
}

// sharesBar draws the shares of satisfied, tolerating and frustrated requests.
func sharesBar(shares [3]float64) string {
	names := [3]string{"satisfied", "tolerating", "frustrated"}
	label, parts := "", ""
	for i, s := range shares {
		label += fmt.Sprintf(", %.1f %% %s", 100*s, names[i])
		parts += fmt.Sprintf(`<span class="%s" style="width: %.2f%%"></span>`, names[i], 100*s)
	}
	return `<div class="bar" role="img" aria-label="` + label[2:] + `">` + parts + "</div>"
}
