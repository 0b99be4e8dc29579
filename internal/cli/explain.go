package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

func newQueryExplain(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var from, to, low, high, only string
	var alone bool
	var limit int
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "what a rectangle of the heatmap has more often than the rest: labels and pairs of them",
		Long: `Explain takes a rectangle of the heatmap, a stretch of time and a band of
values, and lists the labels, and pairs of labels, that are over-represented in
it against all other requests of the range, the most telling first.`,
		Example: `  tailscope query explain --service shop --low 500ms
  tailscope query explain --service shop --since 6h --from now-2h --to now-90m --low 0.2 --high 2`,
		Args: exactArgs(0, ""),
	}
	fs := cmd.Flags()
	q.register(fs)
	fs.StringVar(&from, "from", "", "where the rectangle begins; where the range does unless given")
	fs.StringVar(&to, "to", "", "where the rectangle ends; where the range does unless given")
	fs.StringVar(&low, "low", "", "`value` above which it lies, such as 200ms or 0.2")
	fs.StringVar(&high, "high", "", "`value` up to which it reaches")
	fs.StringVar(&only, "labels", "", "look at these `labels` only, such as tenant,operation")
	fs.BoolVar(&alone, "alone", false, "leave pairs of labels out")
	fs.IntVar(&limit, "limit", 20, "how many labels and pairs to list")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if from == "" && to == "" && low == "" && high == "" {
			return usage{withHint(errors.New("a rectangle is not the whole range"), "write --low 200ms for the slow ones, or --from and --to")}
		}
		question := client.ExplainQuery{From: from, To: to, Labels: splitList(only), Alone: alone, Limit: limit}
		var err error
		if question.Low, err = explainBound("low", low); err != nil {
			return err
		}
		if question.High, err = explainBound("high", high); err != nil {
			return err
		}
		r, err := ask(q, func(sel client.Selection) (*api.ExplainResponse, error) {
			question.Selection = sel
			return q.client().Explain(ctx, question)
		}, func(r *api.ExplainResponse) bool { return r.Inside+r.Outside == 0 })
		if err != nil {
			return err
		}
		switch q.format {
		case "json":
			return report.WriteJSON(io.out, r)
		case "csv":
			return explainCSV(io, r)
		}
		return explainTable(io, r, q.now().Location())
	})
	return cmd
}

// explainBound reads a value as people write it; empty is none.
func explainBound(flag, s string) (*float64, error) {
	if s == "" {
		return nil, nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return &v, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, usage{fmt.Errorf("--%s %q: write a value such as 200ms or 0.2", flag, s)}
	}
	v := d.Seconds()
	return &v, nil
}

// explainTitle names labels: operation GET /search with tenant acme.
func explainTitle(l api.Labels) string {
	var parts []string
	for _, name := range labelNames(l) {
		if l[name] == "" {
			parts = append(parts, "no "+name)
		} else {
			parts = append(parts, name+" "+l[name])
		}
	}
	return strings.Join(parts, " with ")
}

func explainTable(io streams, r *api.ExplainResponse, zone *time.Location) error {
	u := report.UnitOf(r.Family)
	low, high := float64(r.Low), float64(r.High)
	band := "of any value"
	switch none := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }; {
	case !none(low) && !none(high):
		band = u.Value(r.Low) + " to " + u.Value(r.High)
	case !none(low):
		band = "above " + u.Value(r.Low)
	case !none(high):
		band = "up to " + u.Value(r.High)
	}
	when := func(t int64) string { return time.Unix(t, 0).In(zone).Format("2006-01-02 15:04:05") }
	fmt.Fprintf(io.out, "%s inside, %s outside: %s to %s, %s\n", figure.Thousands(r.Inside), figure.Thousands(r.Outside), when(r.From), when(r.To), band)
	switch {
	case len(r.Items) == 0 && r.LabelsTried > 0:
		fmt.Fprintln(io.out, "nothing is over-represented: the rectangle looks like the rest")
	case len(r.Items) == 0 && len(r.Notes) == 0:
		fmt.Fprintln(io.out, "there is nothing to tell apart: every label has one value")
	case len(r.Items) > 0:
		t := &report.Table{}
		t.Column("more inside than outside", false)
		for _, h := range []string{"inside", "outside", "difference", "times"} {
			t.Column(h, true)
		}
		t.Column("", false)
		for _, i := range r.Items {
			through := ""
			for name := range i.Through {
				if _, own := i.Labels[name]; !own {
					through = "only with " + explainTitle(api.Labels{name: i.Through[name]})
				}
			}
			lift := "-"
			if v := float64(i.Lift); !math.IsNaN(v) {
				lift = "×" + report.Digits(v)
			}
			difference := fmt.Sprintf("+%s points (%s–%s)", figure.Points(float64(i.Effect)), figure.Points(float64(i.EffLow)), figure.Points(float64(i.EffHigh)))
			t.Rows = append(t.Rows, []string{explainTitle(i.Labels), report.Percent(i.InsideShare), report.Percent(i.OutsideShare), difference, lift, through})
		}
		fmt.Fprintln(io.out)
		if err := t.Write(io.out); err != nil {
			return err
		}
	}
	for i, n := range r.Notes {
		if i == 0 {
			fmt.Fprintln(io.out)
		}
		if _, err := fmt.Fprintln(io.out, "note:", report.Printable(n)); err != nil {
			return err
		}
	}
	return nil
}

func explainCSV(io streams, r *api.ExplainResponse) error {
	header := []string{"labels", "inside", "outside", "inside_share", "outside_share", "effect", "effect_low", "effect_high", "lift", "adjusted_p", "through"}
	rows := make([][]string, 0, len(r.Items))
	for _, i := range r.Items {
		through := ""
		if len(i.Through) > 0 {
			through = explainTitle(i.Through)
		}
		rows = append(rows, []string{explainTitle(i.Labels), strconv.FormatUint(i.Inside, 10), strconv.FormatUint(i.Outside, 10),
			report.Raw(i.InsideShare), report.Raw(i.OutsideShare), report.Raw(i.Effect), report.Raw(i.EffLow), report.Raw(i.EffHigh), report.Raw(i.Lift), report.Raw(i.Adjusted), through})
	}
	return report.WriteCSV(io.out, header, rows)
}
