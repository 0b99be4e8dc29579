package liveview

import (
	"fmt"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/report"
)

// MirrorSummary returns how a session went: what became of every copy, with sums that
// close, and the verdict if there is one.
func MirrorSummary(s api.MirrorState, took time.Duration, verdict *api.MirrorVerdictResponse) string {
	var b strings.Builder
	chosen := s.Requests - min(s.Requests, report.Sum(s.Skipped))
	things := "requests"
	if s.Mode == "tcp" {
		things = "connections"
	}
	fmt.Fprintf(&b, "\n%s %s in %s, %s of them chosen", figure.Thousands(s.Requests), things, report.Duration(took), figure.Thousands(chosen))
	if len(s.Skipped) > 0 {
		fmt.Fprintf(&b, " (not: %s)", report.Causes(s.Skipped))
	}
	if n := report.Sum(s.Failed); n > 0 {
		fmt.Fprintf(&b, "; %s without a whole answer of the primary (%s)", figure.Thousands(n), report.Causes(s.Failed))
	}
	b.WriteByte('\n')
	for _, x := range s.Shadows {
		a := account(x)
		fmt.Fprintf(&b, "%s\n", report.Printable(x.Name))
		report.SumLine(&b, "offered", a.Offered, []report.SumPart{{Name: "dropped", N: report.Sum(a.Dropped), Causes: a.Dropped}, {Name: "queued", N: a.Queued}, {Name: "mirrored", N: a.Mirrored}})
		report.SumLine(&b, "mirrored", a.Mirrored, []report.SumPart{{Name: "failed", N: report.Sum(a.Failed), Causes: a.Failed}, {Name: "waiting", N: a.Waiting}, {Name: "answered", N: a.Answered}})
		report.SumLine(&b, "answered", a.Answered, []report.SumPart{{Name: "unpaired", N: a.Unpaired}, {Name: "pairing", N: a.Pairing}, {Name: "paired", N: a.Paired}})
	}
	for _, n := range notes(Moment{At: time.Now(), State: s}) {
		b.WriteString("  " + report.Printable(n) + "\n")
	}
	if verdict == nil {
		return b.String()
	}
	for _, v := range verdict.Candidates {
		headline := v.Headline
		if len(verdict.Candidates) > 1 {
			headline = v.Candidate + ": " + headline
		}
		fmt.Fprintf(&b, "\n%s\n", report.Printable(headline))
		for _, m := range v.Measures {
			if m.Sentence != "" && m.Verdict != judge.TooLittle {
				fmt.Fprintf(&b, "  %s\n", report.Printable(m.Sentence))
			}
		}
		if v.Caveat != "" {
			fmt.Fprintf(&b, "  %s\n", report.Printable(v.Caveat))
		}
	}
	return b.String()
}
