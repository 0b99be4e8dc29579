package traces

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tailscope/internal/series"
)

// The examples of docs/breakdown.md are true.
func TestDocumentedExamples(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/breakdown.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(doc), "```trace\n")[1:]
	if len(examples) < 6 {
		t.Fatalf("%d examples", len(examples))
	}
	for i, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		spans, want, _ := strings.Cut(example, "----\n")
		s, _ := flushed(t, Options{}, spans)
		// The outermost request is the first line.
		op := strings.ReplaceAll(strings.Fields(spans)[5], "_", " ")
		of := func(family string) map[string]float64 {
			out := map[string]float64{}
			for line := range strings.Lines(counts(s, family, `operation="`+op+`", p`)) {
				f := strings.Fields(line)
				key := f[0] + " " + f[1] + " " + strings.Join(f[2:len(f)-1], "_")
				var n float64
				fmt.Sscan(f[len(f)-1], &n)
				out[key] = n
			}
			return out
		}
		self, critical, calls := of(series.BreakdownSelf), of(series.BreakdownCritical), of(series.BreakdownCalls)
		var got []string
		for part, n := range calls {
			got = append(got, fmt.Sprint(part, " ", self[part]/1000, " ", critical[part]/1000, " ", n))
		}
		a := Analyse(kept(t, spans))
		for _, k := range a.Skews {
			direction := "behind"
			if k.Ahead {
				direction = "ahead"
			}
			got = append(got, fmt.Sprint("skew ", k.Service, " ", k.Peer, " ", direction, " ", float64(k.Nanos)/1e6))
		}
		var lines []string
		for line := range strings.Lines(want) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { diffSet(t, strings.Join(got, "\n"), strings.Join(lines, "\n")) })
	}
}
