package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

func newQueryTenants(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles string
	var wanted client.TenantsQuery
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "who sends the traffic and how each fares, by cohort and tenant",
		Example: `  tailscope query tenants --service shop --sort 0.99
  tailscope query tenants --service shop --not-rare --slow 500ms --sort slow`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	fs.StringVar(&wanted.Sort, "sort", "", "requests, errors, mean, slow, cohort, size, name or a quantile; a leading minus turns it round")
	fs.StringVar(&wanted.Search, "search", "", "part of a tenant's `name`")
	fs.StringVar(&wanted.Cohort, "cohort", "", "only tenants of this `cohort`: very-large, large, medium or small")
	fs.BoolVar(&wanted.NotRare, "not-rare", false, "only tenants for whom slow requests are not rare")
	fs.StringVar(&wanted.Slow, "slow", "", "from what `duration` a request is slow; 1s unless given")
	fs.StringVar(&wanted.Rare, "rare", "", "up to what `share` slow requests are rare, such as 0.5%; 1% unless given")
	fs.IntVar(&wanted.Limit, "limit", 25, "how many tenants")
	cmd.RunE = q.run(func(ctx context.Context) error {
		r, err := ask(q, func(sel client.Selection) (*api.TenantsResponse, error) {
			wanted.Selection, wanted.Quantiles = sel, splitList(quantiles)
			return q.client().Tenants(ctx, wanted)
		}, func(r *api.TenantsResponse) bool { return len(r.Cohorts) == 0 })
		if err != nil {
			return err
		}
		switch q.format {
		case "json":
			return report.WriteJSON(io.out, r)
		case "csv":
			return tenantsCSV(io, r)
		}
		return tenantsTable(io, r, report.UnitOf(orSpans(q.family)))
	})
	return cmd
}

// tenantsTable prints the cohorts, then the tenants.
func tenantsTable(io streams, r *api.TenantsResponse, u report.Unit) error {
	qs := report.SortedQuantiles(r.Everyone.Quantiles)
	slow := "beyond " + u.Value(r.Slow)
	head := func(first string, more ...string) *report.Table {
		t := &report.Table{}
		t.Column(first, false)
		for _, h := range more {
			t.Column(h, true)
		}
		for _, name := range qs {
			t.Column(report.QuantileName(name), true)
		}
		for i := range r.Bands {
			t.Column("≤ "+u.Value(r.Bands[i]), true)
		}
		t.Column(slow, true)
		return t
	}
	t := head("cohort", "tenants", "requests", "share", "errors", "mean")
	t.Column("not rare", true)
	for _, c := range append(r.Cohorts, r.Everyone) {
		row := []string{c.Name, strconv.Itoa(c.Tenants), figure.Thousands(c.Requests), report.Percent(c.Share), figure.Thousands(c.Errors), u.Value(c.Mean)}
		for _, name := range qs {
			row = append(row, u.Value(c.Quantiles[name]))
		}
		t.Rows = append(t.Rows, append(append(row, upTo(c.InBands)...), report.Percent(c.SlowShare), strconv.Itoa(c.NotRare)))
	}
	if err := t.Write(io.out); err != nil {
		return err
	}
	if len(r.Tenants) == 0 {
		_, err := fmt.Fprintln(io.out, "\nno tenant is like that")
		return err
	}
	if _, err := fmt.Fprintln(io.out); err != nil {
		return err
	}
	t = head("tenant", "cohort", "requests", "share", "errors", "mean")
	t.Column("95 % interval", true)
	for _, x := range r.Tenants {
		row := []string{report.OrNone(x.Name), x.Cohort, figure.Thousands(x.Requests), report.Percent(x.Share), figure.Thousands(x.Errors), u.Value(x.Mean)}
		for _, name := range qs {
			row = append(row, u.Value(x.Quantiles[name]))
		}
		interval := "too few"
		if !math.IsNaN(float64(x.SlowLow)) {
			interval = report.Percent(x.SlowLow) + "–" + report.Percent(x.SlowHigh)
		}
		if x.NotRare {
			interval = "not rare: " + interval
		}
		t.Rows = append(t.Rows, append(append(row, upTo(x.InBands)...), report.Percent(x.SlowShare), interval))
	}
	if err := t.Write(io.out); err != nil {
		return err
	}
	if more := r.Total - len(r.Tenants); more > 0 {
		_, err := fmt.Fprintf(io.out, "and %d more: --limit %d shows them\n", more, r.Total)
		return err
	}
	return nil
}

// upTo are the shares of requests up to each end of a band.
func upTo(bands []api.Float) []string {
	var out []string
	sum := api.Float(0)
	for i := range max(0, len(bands)-1) {
		sum += bands[i]
		out = append(out, report.Percent(sum))
	}
	return out
}

func tenantsCSV(io streams, r *api.TenantsResponse) error {
	qs := report.SortedQuantiles(r.Everyone.Quantiles)
	header := append([]string{"tenant", "requests", "share", "errors", "mean"}, qs...)
	header = append(header, "cohort", "instant", "flow", "patience", "losing", "lost", "slow", "slow_low", "slow_high", "not_rare")
	var rows [][]string
	for _, x := range r.Tenants {
		row := []string{x.Name, strconv.FormatUint(x.Requests, 10), report.Raw(x.Share), strconv.FormatUint(x.Errors, 10), report.Raw(x.Mean)}
		for _, name := range qs {
			row = append(row, report.Raw(x.Quantiles[name]))
		}
		row = append(row, x.Cohort)
		for _, v := range x.InBands {
			row = append(row, report.Raw(v))
		}
		rows = append(rows, append(row, report.Raw(x.SlowShare), report.Raw(x.SlowLow), report.Raw(x.SlowHigh), strconv.FormatBool(x.NotRare)))
	}
	return report.WriteCSV(io.out, header, rows)
}
