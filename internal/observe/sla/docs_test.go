package sla

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// TestDocs keeps the examples of docs/sla.md what the program answers.
func TestDocs(t *testing.T) {
	const path = "../../../docs/sla.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for mark, block := range map[string]string{"<!-- example: ": scoresExample(t), "<!-- overlays: ": overlaysExample(t)} {
		head, rest, ok := strings.Cut(want, mark)
		about, rest, ok2 := strings.Cut(rest, "-->\n")
		_, tail, ok3 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("docs/sla.md has lost its mark %q", mark)
		}
		want = head + mark + about + "-->\n" + block + "<!-- end -->" + tail
	}
	if string(text) == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("docs/sla.md does not say what is so; UPDATE=1 go test -run TestDocs ./internal/observe/sla rewrites it:\n%s", want)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func scoresExample(t *testing.T) string {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z")
	for seconds, n := range map[float64]int{0.2: 700, 1: 200, 3: 60} {
		put(w, end.Unix()-1000, n, seconds)
	}
	put(w, end.Unix()-1000, 40, 0.001, series.LabelStatus, "error")
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	sel := query.Selection{Start: end.Add(-time.Hour), End: end, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, checkout)}}
	var b strings.Builder
	b.WriteString("| T | Apdex | low | high | satisfied | tolerating | frustrated |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, target := range []float64{0.5, 0.25, 0.2005, 0.1} {
		r, err := Apdex(t.Context(), st, NewTargets(st), ApdexRequest{Selection: sel, T: target})
		if err != nil {
			t.Fatal(err)
		}
		a := r.Rows[0]
		fmt.Fprintf(&b, "| %g s | %.3f | %.3f | %.3f | %.0f | %.0f | %.0f |\n", target, a.Apdex, a.Low, a.High, a.Satisfied, a.Tolerating, a.Frustrated)
	}
	b.WriteString("\n| objective | good | at least | at most | met |\n| --- | --- | --- | --- | --- |\n")
	for _, o := range []struct{ share, under float64 }{{0.9, 1.5}, {0.9, 0.5}, {0.8, 0.997}} {
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 1, Objective: o.share, Under: o.under}, 0)
		r := out.Rows[0]
		percent := func(f api.Float) string { return fmt.Sprintf("%.1f %%", 100*float64(f)) }
		fmt.Fprintf(&b, "| %g %% under %g s | %s | %s | %s | %s |\n", 100*o.share, o.under, percent(r.Good), percent(r.GoodLow), percent(r.GoodHigh), r.Met)
	}
	return b.String()
}

func overlaysExample(t *testing.T) string {
	loc := zone(t, "Europe/Berlin")
	var b strings.Builder
	b.WriteString("| shown, Europe/Berlin | `day` | `week` | `like` |\n| --- | --- | --- | --- |\n")
	for _, s := range []string{"2026-11-16T09:00:00+01:00", "2026-11-22T09:00:00+01:00", "2026-03-30T02:30:00+02:00", "2026-10-26T02:30:00+01:00"} {
		shown := at(t, s).In(loc)
		const layout = "Mon 2 Jan 15:04 MST"
		fmt.Fprintf(&b, "| %s ", shown.Format(layout))
		for _, name := range []string{query.OverlayDay, query.OverlayWeek, query.OverlayLike} {
			under := "nothing"
			if v, ok := (query.Overlay{Name: name, Zone: loc}).Of(shown.Unix()); ok {
				under = time.Unix(v, 0).In(loc).Format(layout)
			}
			fmt.Fprintf(&b, "| %s ", under)
		}
		b.WriteString("|\n")
	}
	return b.String()
}
