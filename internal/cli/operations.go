package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

func matchText(ms []string) string { return "{" + strings.Join(ms, ",") + "}" }

func newQueryOperations(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles, component, kind, sort, search string
	var limit int
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "the operations that take the time: routes, queries, calls",
		Example: `  tailscope query operations --service shop --sort p99
  tailscope query operations --component db --since 6h`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().StringVar(&component, "component", "", "only these `components`: app, db, cache, external, messaging")
	cmd.Flags().StringVar(&kind, "kind", "", "only these `kinds` of spans: server, client, producer, consumer, internal")
	cmd.Flags().StringVar(&sort, "sort", "", "`by` total (default), calls, errors, mean, name or a quantile (p99); a leading minus turns it round")
	cmd.Flags().StringVar(&search, "search", "", "part of an operation's `name`")
	cmd.Flags().IntVar(&limit, "limit", 25, "how many operations")
	cmd.RunE = q.run(func(ctx context.Context) error {
		sel, err := q.requests()
		if err != nil {
			return err
		}
		r, err := q.client().Operations(ctx, client.OperationsQuery{Selection: sel, Quantiles: splitList(quantiles),
			Sort: sort, Search: search, Components: splitList(component), Kinds: splitList(kind), Limit: limit})
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return report.WriteJSON(io.out, r)
		}
		if len(r.Rows) == 0 && q.format == "table" {
			return q.nothing("no operation matches in that range")
		}
		if q.format == "csv" {
			return operationsCSV(io.out, r)
		}
		return operationsTable(io.out, r)
	})
	return cmd
}

func operationsTable(w io.Writer, r *api.OperationsResponse) error {
	t := &report.Table{}
	for _, h := range []string{"service", "component", "operation", "share of time"} {
		t.Column(h, false)
	}
	for _, h := range []string{"", "calls", "rate", "errors", "mean"} {
		t.Column(h, true)
	}
	qs := report.SortedQuantiles(r.Rows[0].Quantiles)
	for _, q := range qs {
		t.Column(report.QuantileName(q), true)
	}
	t.Column("", false)
	for _, o := range r.Rows {
		row := []string{o.Service, o.Component, o.Operation, report.Bar(o.Share, report.ShareWidth), report.Share(o.Share), figure.Thousands(o.Calls), report.PerTime(o.Rate), report.Percent(o.ErrorRate), report.SecondsUnit.Value(o.Mean)}
		for _, q := range qs {
			row = append(row, report.SecondsUnit.Value(quantileOf(o.Quantiles, q)))
		}
		t.Rows = append(t.Rows, append(row, nPlusOne(o.NPlusOne)))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	var verbs []string
	for _, v := range r.Verbs {
		if !math.IsNaN(float64(v.Share)) {
			verbs = append(verbs, fmt.Sprintf("%s %s", v.Verb, report.Share(v.Share)))
		}
	}
	if len(verbs) > 0 {
		if _, err := fmt.Fprintf(w, "\ndatabase time: %s\n", strings.Join(verbs, ", ")); err != nil {
			return err
		}
	}
	if more := r.Total - len(r.Rows); more > 0 {
		_, err := fmt.Fprintf(w, "and %d more: --limit %d shows them\n", more, r.Total)
		return err
	}
	return nil
}

func operationsCSV(w io.Writer, r *api.OperationsResponse) error {
	header := []string{"service", "component", "operation", "kind", "verb", "seconds", "share_ratio", "calls", "rate_per_second", "errors", "error_ratio", "mean_seconds"}
	var qs []string
	if len(r.Rows) > 0 {
		qs = report.SortedQuantiles(r.Rows[0].Quantiles)
	}
	for _, q := range qs {
		header = append(header, report.QuantileName(q)+"_seconds")
	}
	header = append(header, "n_plus_one")
	var rows [][]string
	for _, o := range r.Rows {
		row := []string{o.Service, o.Component, o.Operation, o.Kind, o.Verb, report.Raw(o.Seconds), report.Raw(o.Share), strconv.FormatUint(o.Calls, 10), report.Raw(o.Rate),
			strconv.FormatUint(o.Errors, 10), report.Raw(o.ErrorRate), report.Raw(o.Mean)}
		for _, q := range qs {
			row = append(row, report.Raw(quantileOf(o.Quantiles, q)))
		}
		rows = append(rows, append(row, strconv.FormatBool(o.NPlusOne)))
	}
	return report.WriteCSV(w, header, rows)
}
