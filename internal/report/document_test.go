package report

import (
	"strings"
	"testing"
)

// One document says the same in every format, but for what is of one alone.
func TestDocumentInEveryFormat(t *testing.T) {
	d := &Document{Data: map[string]float64{"rate": 5.25}}
	d.Title("a_run")
	d.Line("kept <up> to 812/s")
	d.Alarm("late", "by 2s")
	d.Figures(Figure{"rate", "5/s", "of 6/s"})
	d.Chart(Chart{Name: "Over time", Legend: []string{"p99=p99", "hollow: left out"}, Plot: "<svg/>"})
	d.Chart(Chart{Name: "of nothing"})
	d.Section("Steps")
	table := Columns("phase", ">rate")
	table.Add("rise|fall", "5")
	d.Table(table)
	d.Indented("one")
	d.Item("two")
	d.Only(Markdown|HTML, func() { d.Picture([]string{"| o", "|o"}) })
	d.Sheet([]string{"phase", "rate_per_second"}, [][]string{{"rise|fall", "5.25"}})
	d.Command("again", "run --x '<a>'")
	for format, want := range map[Format]string{
		Text:     "a_run\nkept <up> to 812/s\n\nSteps\nphase      rate\nrise|fall     5\n  one\ntwo\nagain: run --x '<a>'\n",
		Markdown: "# a\\_run\nkept &lt;up> to 812/s\n\n## Steps\n\n| phase | rate |\n| --- | ---: |\n| rise\\|fall | 5 |\n- one\n- two\n\n```\n| o\n|o\n```\nagain: `run --x '<a>'`\n",
		HTML: "<header>\n<h1>a_run</h1>\n<p>kept &lt;up&gt; to 812/s</p>\n</header>\n<div class=\"warning\"><strong>late</strong><p>by 2s</p>\n</div>\n" +
			"<div class=\"figures\">\n<div class=\"figure\"><span>rate</span><b>5/s</b><span>of 6/s</span></div>\n</div>\n" +
			"<div class=\"two\">\n<section><h2>Over time</h2>\n<div class=\"legend\"><span><i style=\"border-color: var(--c-due)\"></i>p99</span><span>hollow: left out</span></div>\n<svg/></section>\n</div>\n" +
			"<section>\n<h2>Steps</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"right\">rate</th></tr></thead>\n" +
			"<tbody>\n<tr><td>rise|fall</td><td class=\"right\">5</td></tr>\n</tbody></table></div>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n<pre>| o\n|o\n</pre>\n</section>\n" +
			"<section>\n<h2>Again</h2>\n<pre>run --x &#39;&lt;a&gt;&#39;</pre>\n</section>\n",
		CSV:  "phase,rate_per_second\nrise|fall,5.25\n",
		JSON: "{\n  \"rate\": 5.25\n}\n",
	} {
		for range 2 { // writing changes nothing
			var b strings.Builder
			err := d.Write(&b, format)
			got := b.String()
			if _, body, ok := strings.Cut(got, "<main>\n"); ok {
				got, _, _ = strings.Cut(body, "<footer>")
			}
			if err != nil || got != want {
				t.Errorf("format %d: %v, got\n%q\nwant\n%q", format, err, got, want)
			}
		}
	}
}

// What is of some formats alone remains so within what is of others.
func TestOnlyWithinOnly(t *testing.T) {
	d := &Document{}
	d.Only(Text|HTML, func() {
		d.Only(Text|Markdown, func() { d.Line("of text") })
		d.Only(Markdown, func() { d.Line("of nothing") })
	})
	for format, want := range map[Format]string{Text: "of text\n", Markdown: ""} {
		var b strings.Builder
		if err := d.Write(&b, format); err != nil || b.String() != want {
			t.Errorf("format %d: %v, %q; want %q", format, err, b.String(), want)
		}
	}
	if err := d.Write(&strings.Builder{}, CSV); err == nil {
		t.Error("a document without rows is written as CSV")
	}
}
