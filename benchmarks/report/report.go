// Package report keeps what a benchmark measured, with the spread of its
// repetitions and the target beside it, and writes it as Markdown for people
// and JSON for programs.
package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Figure is one measured quantity.
type Figure struct {
	What   string    `json:"what"`
	Who    string    `json:"who"`  // tailscope, or the peer
	Unit   string    `json:"unit"` // of Values and Target
	Values []float64 `json:"values"`
	Target float64   `json:"target,omitempty"` // what is to be reached or less; 0 if there is none
	Note   string    `json:"note,omitempty"`
}

// Median returns the middle value; with an even number, the mean of the middle two.
func (f *Figure) Median() float64 {
	v := slices.Sorted(slices.Values(f.Values))
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Section is a table of figures that were measured in one run.
type Section struct {
	Title   string     `json:"title"`
	Text    string     `json:"text"`            // what was done
	Table   [][]string `json:"table,omitempty"` // what came of it, in words; the first row is its head
	Figures []*Figure  `json:"figures"`
}

// Report is one run.
type Report struct {
	Title    string     `json:"title"`
	Date     time.Time  `json:"date"`
	Revision string     `json:"revision"`
	Machine  Machine    `json:"machine"`
	Sections []*Section `json:"sections"`
}

// New begins a report.
func New(title string, now time.Time) *Report {
	return &Report{Title: title, Date: now.UTC().Truncate(time.Second), Revision: revision(), Machine: describe()}
}

// Section begins a table.
func (r *Report) Section(title, text string) *Section {
	s := &Section{Title: title, Text: text}
	r.Sections = append(r.Sections, s)
	return s
}

// Add notes one value of a figure, which is begun if it is new.
func (s *Section) Add(what, who, unit string, target, value float64) *Figure {
	for _, f := range s.Figures {
		if f.What == what && f.Who == who && f.Unit == unit {
			f.Values = append(f.Values, value)
			return f
		}
	}
	f := &Figure{What: what, Who: who, Unit: unit, Target: target, Values: []float64{value}}
	s.Figures = append(s.Figures, f)
	return f
}

// Median returns the median of the first figure with a name, or 0 if there is none.
func (s *Section) Median(what, who string) float64 {
	for _, f := range s.Figures {
		if f.What == what && f.Who == who {
			return f.Median()
		}
	}
	return 0
}

// Markdown returns the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s, revision %s.\n%s\n\n", r.Title, r.Date.Format("2006-01-02 15:04 MST"), r.Revision, r.Machine)
	b.WriteString("Each figure is the median of its repetitions, with the least and the greatest.\n")
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Title, s.Text)
		for i, row := range s.Table {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
			}
		}
		if len(s.Table) > 0 && len(s.Figures) > 0 {
			b.WriteString("\n")
		} else if len(s.Table) > 0 {
			continue
		}
		b.WriteString("| what | who | median | least – greatest | unit | to reach | |\n| --- | --- | ---: | ---: | --- | ---: | --- |\n")
		for _, f := range s.Figures {
			target, met := "", ""
			if f.Target > 0 {
				target, met = number(f.Target), "met"
				if f.Median() > f.Target {
					met = fmt.Sprintf("**missed**, %.2f times", f.Median()/f.Target)
				}
			}
			spread := ""
			if len(f.Values) > 1 {
				spread = number(slices.Min(f.Values)) + " – " + number(slices.Max(f.Values))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.What, f.Who, number(f.Median()), spread, f.Unit, target, met)
		}
		for _, f := range s.Figures {
			if f.Note != "" {
				fmt.Fprintf(&b, "\n%s, %s: %s\n", f.What, f.Who, f.Note)
			}
		}
	}
	return b.String()
}

// number prints three significant digits, or all before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Write leaves name.md and name.json in dir, dated.
func (r *Report) Write(dir, name string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	base := filepath.Join(dir, r.Date.Format("2006-01-02")+"-"+name)
	j, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(base+".json", append(j, '\n'), 0o644); err != nil {
		return "", err
	}
	return base + ".md", os.WriteFile(base+".md", []byte(r.Markdown()), 0o644)
}
