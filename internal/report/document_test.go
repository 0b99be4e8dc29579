package report

import (
	"strings"
	"testing"
)

// One document says the same in every format, but for what is of one alone.
func TestDocumentInEveryFormat(t *testing.T) {
	d := &Document{}
	d.Title("a_run")
	d.Line("kept <up> to 812/s")
	d.Section("Steps")
	table := &Table{}
	table.Column("phase", false)
	table.Column("rate", true)
	table.Rows = [][]string{{"rise|fall", "5"}}
	d.Table(table)
	d.Indented("one")
	d.Item("two")
	d.Only(Markdown|HTML, func() { d.Picture([]string{"| o"}) })
	d.Command("again", "run --x '<a>'")
	for format, want := range map[Format]string{
		Text:     "a_run\nkept <up> to 812/s\n\nSteps\nphase      rate\nrise|fall     5\n  one\ntwo\nagain: run --x '<a>'\n",
		Markdown: "# a\\_run\nkept &lt;up> to 812/s\n\n## Steps\n\n| phase | rate |\n| --- | ---: |\n| rise\\|fall | 5 |\n- one\n- two\n\n```\n| o\n```\nagain: `run --x '<a>'`\n",
		HTML: "<p>kept &lt;up&gt; to 812/s</p>\n<h2>Steps</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"right\">rate</th></tr></thead>\n" +
			"<tbody>\n<tr><td class=\"\">rise|fall</td><td class=\"right\">5</td></tr>\n</tbody></table></div><ul>\n<li>one</li>\n<li>two</li>\n</ul>\n<pre>| o</pre>\n<p>again: run --x &#39;&lt;a&gt;&#39;</p>\n",
	} {
		for range 2 { // writing changes nothing
			var b strings.Builder
			if err := d.Write(&b, format); err != nil || b.String() != want {
				t.Errorf("format %d: %v, got\n%q\nwant\n%q", format, err, b.String(), want)
			}
		}
	}
}
