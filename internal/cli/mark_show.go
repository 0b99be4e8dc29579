package cli

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

// verdictOf is a verdict in two cells of a table: the word, and what was found.
func verdictOf(v *api.MarkVerdict) (word, found string) {
	switch {
	case v == nil:
		return "", ""
	case v.Verdict == "":
		return v.State, ""
	case v.State == "early":
		return string(v.Verdict) + ", so far", v.Sentence
	}
	return string(v.Verdict), v.Sentence
}

var interval = regexp.MustCompile(` \(\d[\d.]* % interval`)

// withoutInterval is a sentence up to its first interval: a line of a table is short.
func withoutInterval(sentence string) string {
	if at := interval.FindStringIndex(sentence); at != nil {
		return sentence[:at[0]]
	}
	return sentence
}

func newMarkShow(io streams) *cobra.Command {
	q := newQuestion(io, "text", "json")
	cmd := &cobra.Command{
		Use: "show ID", Short: "a mark, and what was found at it",
		Long: `Show prints a mark and its verdict: every mark is compared with what lay before
it without being asked, some four minutes after it and again until an hour has
passed. To compare a mark in other ways, write tailscope compare --mark ID.`,
		Args: exactArgs(1, "the id of a mark, as tailscope mark list shows it"),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	id := ""
	show := q.run(func(ctx context.Context) error {
		m, err := q.client().Mark(ctx, id)
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return report.WriteJSON(io.out, m)
		}
		_, err = fmt.Fprint(io.out, markText(m, q.now().Location()))
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id = args[0]
		return show(cmd, args)
	}
	return cmd
}

// markText is a mark as it is read: what it is, then the word, then the reasons.
func markText(m *api.Mark, zone *time.Location) string {
	var b strings.Builder
	clock := func(t api.Float) string { return time.UnixMilli(int64(t * 1e3)).In(zone).Format("2006-01-02 15:04:05") }
	of := m.Service
	if of == "" {
		of = "every service"
	}
	fmt.Fprintf(&b, "%s, %s, %s\n", m.Name, of, clock(m.Time))
	for _, x := range []string{m.Revision, m.User, m.Description, m.Link} {
		if x != "" {
			fmt.Fprintf(&b, "%s\n", x)
		}
	}
	v := m.Verdict
	if v == nil {
		return b.String()
	}
	word, _ := verdictOf(v)
	fmt.Fprintf(&b, "\n%s\n%s\n", word, v.Sentence)
	if !math.IsNaN(float64(v.Next)) {
		again := "judged again"
		if math.IsNaN(float64(v.Judged)) {
			again = "judged"
		}
		fmt.Fprintf(&b, "%s at %s\n", again, clock(v.Next))
	}
	for _, s := range v.Services {
		fmt.Fprintf(&b, "\n%s: %s\n  %s–%s against %s–%s\n", s.Service, s.Verdict,
			clock(api.Float(s.Before.Start)), clock(api.Float(s.Before.End)), clock(api.Float(s.After.Start)), clock(api.Float(s.After.End)))
		for _, x := range s.Measures {
			fmt.Fprintf(&b, "  %s\n", x.Sentence)
		}
		for _, row := range s.Operations {
			for _, x := range row.Measures {
				if x.Change != "" {
					fmt.Fprintf(&b, "  %s\n", x.Sentence)
				}
			}
		}
		for _, w := range s.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", w.Text)
		}
	}
	return b.String()
}
