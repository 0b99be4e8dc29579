package cli

import (
	"fmt"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// tooLittle is the verdict of what there is too little data for.
const tooLittle = "too little data"

// mirrorSummary is how a session went: what became of every copy, with sums that
// close, and the verdict if there is one.
func mirrorSummary(s api.MirrorState, took time.Duration, verdict *api.MirrorVerdictResponse) string {
	var b strings.Builder
	chosen := s.Requests - min(s.Requests, sum(s.Skipped))
	things := "requests"
	if s.Mode == "tcp" {
		things = "connections"
	}
	fmt.Fprintf(&b, "\n%s %s in %s, %s of them chosen", figure.Thousands(s.Requests), things, duration(took), figure.Thousands(chosen))
	if len(s.Skipped) > 0 {
		fmt.Fprintf(&b, " (not: %s)", causes(s.Skipped))
	}
	if n := sum(s.Failed); n > 0 {
		fmt.Fprintf(&b, "; %s without a whole answer of the primary (%s)", figure.Thousands(n), causes(s.Failed))
	}
	b.WriteByte('\n')
	for _, x := range s.Shadows {
		a := account(x)
		fmt.Fprintf(&b, "%s\n", printable(x.Name))
		sumLine(&b, "offered", a.Offered, []part{{"dropped", sum(a.Dropped), a.Dropped}, {"queued", a.Queued, nil}, {"mirrored", a.Mirrored, nil}})
		sumLine(&b, "mirrored", a.Mirrored, []part{{"failed", sum(a.Failed), a.Failed}, {"waiting", a.Waiting, nil}, {"answered", a.Answered, nil}})
		sumLine(&b, "answered", a.Answered, []part{{"unpaired", a.Unpaired, nil}, {"pairing", a.Pairing, nil}, {"paired", a.Paired, nil}})
	}
	for _, n := range notes(moment{at: time.Now(), state: s}) {
		b.WriteString("  " + printable(n) + "\n")
	}
	if verdict == nil {
		return b.String()
	}
	for _, v := range verdict.Candidates {
		headline := v.Headline
		if len(verdict.Candidates) > 1 {
			headline = v.Candidate + ": " + headline
		}
		fmt.Fprintf(&b, "\n%s\n", printable(headline))
		for _, m := range v.Measures {
			if m.Sentence != "" && m.Verdict != tooLittle {
				fmt.Fprintf(&b, "  %s\n", printable(m.Sentence))
			}
		}
		if v.Caveat != "" {
			fmt.Fprintf(&b, "  %s\n", printable(v.Caveat))
		}
	}
	return b.String()
}

// part is a part of a sum, with its own parts by cause.
type part struct {
	name   string
	n      uint64
	causes map[string]uint64
}

// sumLine writes a sum; what is under way stands there only while there is any.
func sumLine(b *strings.Builder, name string, total uint64, parts []part) {
	var out []string
	var all uint64
	for _, p := range parts {
		all += p.n
		if p.n == 0 && p.causes == nil && (p.name == "queued" || p.name == "waiting" || p.name == "pairing") {
			continue
		}
		text := p.name + " " + figure.Thousands(p.n)
		if why := causes(p.causes); why != "" {
			text += " (" + why + ")"
		}
		out = append(out, text)
	}
	fmt.Fprintf(b, "  %-8s %s = %s\n", name, figure.Thousands(total), strings.Join(out, " + "))
	if all != total {
		fmt.Fprintf(b, "  the sum does not close: the parts are %s\n", figure.Thousands(all))
	}
}
