package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/figure"
)

func write(t interface{ Fatal(...any) }, table *Table) []string {
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// No line of any table is longer than a terminal is wide, and every figure stands in it whole.
func TestTablesFit(t *testing.T) {
	name := rapid.SampledFrom([]string{"shop", "GET /cart/{id}", "SELECT orders", strings.Repeat("a-name-without-end-", 12), ""})
	sentence := rapid.SampledFrom([]string{"", "P99 of GET /search is 38 % faster (95 % interval 33 … 42 %), and everything else is as it was before, " + strings.Repeat("really ", 20)})
	rapid.Check(t, func(rt *rapid.T) {
		columns, rows := rapid.IntRange(1, 24).Draw(rt, "columns"), rapid.IntRange(0, 4).Draw(rt, "rows")
		table := Columns("operation")
		kinds := []string{"name"}
		for i := range columns {
			kind := rapid.SampledFrom([]string{"name", "figure", "figure", "figure", "interval", "sentence"}).Draw(rt, "kind")
			kinds = append(kinds, kind)
			table.Column(fmt.Sprint(kind, " ", i), kind == "figure")
		}
		var figures []string
		for range rows {
			var row []string
			for _, kind := range kinds {
				cell := name.Draw(rt, "name")
				switch kind {
				case "figure":
					cell = fmt.Sprint(rapid.IntRange(0, 1e9).Draw(rt, "figure"), "ms")
				case "interval":
					cell = fmt.Sprintf("−%d.0 %% … −%d.0 %%", rapid.IntRange(0, 99).Draw(rt, "low"), rapid.IntRange(0, 99).Draw(rt, "high"))
				case "sentence":
					cell = sentence.Draw(rt, "sentence")
				}
				if kind == "figure" || kind == "interval" {
					figures = append(figures, cell)
				}
				row = append(row, cell)
			}
			table.Add(row...)
		}
		lines := write(rt, table)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > tableWidth {
				rt.Fatalf("a line of %d characters:\n%s", n, strings.Join(lines, "\n"))
			}
		}
		for _, f := range figures {
			if !strings.Contains(strings.Join(lines, "\n"), f) {
				rt.Fatalf("%s is not whole in\n%s", f, strings.Join(lines, "\n"))
			}
		}
	})
}

func TestTable(t *testing.T) {
	table := Columns("operation", ">p99", "found", "id")
	table.Add("GET /cart/{id}", "12ms", "p99 of GET /search is 38 % faster than the control (95 % interval 33 … 42 %), everything else: no evidence of a change", "5f1c0de5f1c0de11")
	table.Add("GET /"+strings.Repeat("warehouse/", 5), "9ms", "", "5f1c0de5f1c0de12")
	want := `operation                                         p99  found                                            id
GET /cart/{id}                                   12ms  p99 of GET /search is 38 % faster than the       5f1c0de5f1c0de11
                                                       control (95 % interval 33 … 42 %), everything
                                                       else: no evidence of a change
GET /warehouse/warehouse/warehouse/warehouse/w…   9ms                                                   5f1c0de5f1c0de12`
	if got := strings.Join(write(t, table), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	wide := Columns("week")
	row := []string{"2026-W13"}
	for i := range 20 {
		wide.Column(fmt.Sprint("figure ", i), true)
		row = append(row, fmt.Sprint(1000*i))
	}
	wide.Add(row...)
	if got := write(t, wide); len(got) < 5 || got[2] != "" || !strings.HasPrefix(got[3], "week  ") || !strings.HasPrefix(got[4], "2026-W13  ") {
		t.Errorf("figures that do not fit stand below, beside the first column again; got\n%s", strings.Join(got, "\n"))
	}
}

// What was not measured is a dash in every unit.
func TestUnknownFigures(t *testing.T) {
	nan := math.NaN()
	for what, got := range map[string]string{"seconds": figure.Seconds(nan), "per cent": Percent(api.Float(nan))} {
		if got != "-" {
			t.Errorf("unknown %s are %q", what, got)
		}
	}
}
