package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

// registerRequests takes the flags of questions about requests, which have no
// family and no kind.
func (q *question) registerRequests(cmd *cobra.Command, since string) {
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerNames(fs, "only this service")
	fs.StringVar(&q.match, "match", "", "further PromQL matchers, such as '{status=\"error\"}'")
	q.registerRange(fs, since)
	q.registerFormat(fs)
}

// requests is the selection that the flags say.
func (q *question) requests() (client.Selection, error) {
	start, end, err := q.timeRange()
	if err != nil {
		return client.Selection{}, err
	}
	match := ""
	if ms := q.matchers(); len(ms) > 0 {
		match = matchText(ms)
	}
	return client.Selection{Match: match, Start: start, End: end}, nil
}

// nothing says that a range is empty.
func (q *question) nothing(what string) error {
	return withHint(errors.New(what), "tailscope query services --since %s shows what there is; a wider --since may help", q.since)
}

func newQueryBreakdown(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles, low, high string
	var above float64
	var limit int
	cmd := &cobra.Command{
		Use:   "breakdown",
		Short: "where the time of a service's requests goes, and that of the slowest",
		Example: `  tailscope query breakdown --service shop --since 6h
  tailscope query breakdown --service shop --operation 'GET /cart/{id}' --above 0.99
  tailscope query breakdown --service shop --low 200ms --high 1s`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().Float64Var(&above, "above", 0, "look at the requests above this `quantile`; 0.95 unless given")
	cmd.Flags().StringVar(&low, "low", "", "look at the requests that took longer than this `time` instead")
	cmd.Flags().StringVar(&high, "high", "", "and no longer than this `time`")
	cmd.Flags().IntVar(&limit, "limit", 25, "how many parts to show")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if q.service == "" && q.match == "" {
			return usage{withHint(errors.New("a breakdown is of one service's requests"), "name it with --service; tailscope query services lists them")}
		}
		sel, err := q.requests()
		if err != nil {
			return err
		}
		ask := client.BreakdownQuery{Selection: sel, Quantiles: splitList(quantiles), Above: above, Limit: max(limit, 1)}
		if ask.Low, err = optionalSeconds("--low", low); err != nil {
			return err
		}
		if ask.High, err = optionalSeconds("--high", high); err != nil {
			return err
		}
		r, err := q.client().Breakdown(ctx, ask)
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return report.WriteJSON(io.out, r)
		}
		if r.Total == 0 {
			return q.nothing(cmp.Or(r.Note, "no request was taken apart in that range"))
		}
		if q.format == "csv" {
			return breakdownCSV(io.out, r)
		}
		return breakdownTable(io.out, r, limit)
	})
	return cmd
}

func optionalSeconds(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := parseSeconds(text)
	if err != nil {
		return 0, usage{fmt.Errorf("%s %w", flag, err)}
	}
	return v, nil
}

func breakdownTable(w io.Writer, r *api.BreakdownResponse, limit int) error {
	n := api.Float(r.Total)
	fmt.Fprintf(w, "%s requests, %s each on average\n\n", figure.Thousands(r.Total), report.SecondsUnit.Value(r.Seconds/n)) //nolint:errcheck // the last write tells
	t := &report.Table{}
	t.Column("component", false)
	t.Column("share of time", false)
	var qs []string
	for _, c := range r.Components {
		if len(c.Quantiles) > 0 {
			qs = report.SortedQuantiles(c.Quantiles)
			break
		}
	}
	for _, h := range []string{"", "per request", "critical"} {
		t.Column(h, true)
	}
	for _, q := range qs {
		t.Column(report.QuantileName(q), true)
	}
	for _, c := range r.Components {
		if c.Seconds == 0 || math.IsNaN(float64(c.Seconds)) {
			continue
		}
		row := []string{c.Component, report.Bar(c.Share, report.ShareWidth), report.Share(c.Share), report.SecondsUnit.Value(c.Seconds / n), report.Share(c.CriticalShare)}
		for _, q := range qs {
			row = append(row, report.SecondsUnit.Value(quantileOf(c.Quantiles, q)))
		}
		t.Rows = append(t.Rows, row)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if err := bandTable(w, r); err != nil {
		return err
	}
	if err := partsTable(w, r, limit); err != nil {
		return err
	}
	return breakdownNotes(w, r)
}

// quantileOf is NaN where there is none.
func quantileOf(m map[string]api.Float, q string) api.Float {
	if v, ok := m[q]; ok {
		return v
	}
	return api.Float(math.NaN())
}

// bandTable lays the slow requests beside the typical ones.
func bandTable(w io.Writer, r *api.BreakdownResponse) error {
	b := r.Band
	if b == nil || b.Requests == 0 {
		return nil
	}
	name := "longer than " + report.SecondsUnit.Value(b.Low)
	if !math.IsNaN(float64(b.High)) {
		name += ", up to " + report.SecondsUnit.Value(b.High)
	}
	if b.Above > 0 {
		name = "above " + report.QuantileName(strconv.FormatFloat(float64(b.Above), 'f', -1, 64)) + ", " + name
	}
	fmt.Fprintf(w, "\n%s requests %s: %s each; the typical, up to %s: %s\n\n", //nolint:errcheck // the last write tells
		figure.Thousands(b.Requests), name, report.SecondsUnit.Value(b.Mean), report.SecondsUnit.Value(b.Typical.High), report.SecondsUnit.Value(b.Typical.Mean))
	t := &report.Table{}
	t.Column("component", false)
	t.Column("of the slow", false)
	for _, h := range []string{"", "per request", "typical", "", "added"} {
		t.Column(h, true)
	}
	for _, c := range b.Components {
		if c.Band.Seconds == 0 && c.Typical.Seconds == 0 {
			continue
		}
		t.Rows = append(t.Rows, []string{c.Component, report.Bar(c.Band.Share, report.ShareWidth), report.Share(c.Band.Share), report.SecondsUnit.Value(c.Band.Seconds),
			report.Share(c.Typical.Share), report.SecondsUnit.Value(c.Typical.Seconds), added(c.Band.Seconds - c.Typical.Seconds)})
	}
	return t.Write(w)
}

// added is a difference of times, with its sign.
func added(f api.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v):
		return "-"
	case v < 0:
		return "−" + report.Seconds(-v)
	}
	return "+" + report.SecondsUnit.Value(f)
}

func partsTable(w io.Writer, r *api.BreakdownResponse, limit int) error {
	if len(r.Parts) == 0 {
		return nil
	}
	fmt.Fprintln(w) //nolint:errcheck // the last write tells
	t := &report.Table{}
	for _, h := range []string{"service", "component", "operation", "share of time"} {
		t.Column(h, false)
	}
	for _, h := range []string{"", "calls/request", "mean"} {
		t.Column(h, true)
	}
	qs := report.SortedQuantiles(r.Parts[0].Quantiles)
	for _, q := range qs {
		t.Column(report.QuantileName(q), true)
	}
	band := slices.ContainsFunc(r.Parts, func(p api.BreakdownPart) bool { return p.Band != nil && p.Typical != nil })
	if band {
		t.Column("slow", true)
		t.Column("typical", true)
	}
	t.Column("", false)
	for _, p := range r.Parts[:min(limit, len(r.Parts))] {
		row := []string{p.Service, p.Component, p.Operation, report.Bar(p.Share, report.ShareWidth), report.Share(p.Share), report.Digits(float64(p.PerRequest)), report.SecondsUnit.Value(p.Mean)}
		for _, q := range qs {
			row = append(row, report.SecondsUnit.Value(quantileOf(p.Quantiles, q)))
		}
		if band {
			slow, typical := "-", "-"
			if p.Band != nil {
				slow = report.SecondsUnit.Value(p.Band.Seconds)
			}
			if p.Typical != nil {
				typical = report.SecondsUnit.Value(p.Typical.Seconds)
			}
			row = append(row, slow, typical)
		}
		t.Rows = append(t.Rows, append(row, nPlusOne(p.NPlusOne)))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if more := len(r.Parts) - limit; more > 0 {
		fmt.Fprintf(w, "and %d more: --limit %d shows them\n", more, len(r.Parts)) //nolint:errcheck // the last write tells
	}
	return nil
}

func nPlusOne(yes bool) string {
	if yes {
		return "N+1"
	}
	return ""
}

var clockWords = map[string]string{"ahead": "ahead of", "behind": "behind"}

func breakdownNotes(w io.Writer, r *api.BreakdownResponse) error {
	var lines []string
	for _, f := range r.FanOuts {
		if len(f.Instances) > 0 {
			i := f.Instances[0]
			lines = append(lines, fmt.Sprintf("of %d instances that %s %s called at once, %s was the last to end in %s (even: %s)",
				len(f.Instances), f.Service, f.Operation, i.Instance, report.Share(i.Share), report.Share(api.Float(1/float64(len(f.Instances))))))
		}
	}
	for _, s := range r.Skews {
		if s.Peer == "queue" { // the header of a proxy
			lines = append(lines, fmt.Sprintf("the clock of %s is %s that of the proxy before it by %s (median of %s requests, whose time in the queue is left out)",
				s.Service, clockWords[s.Direction], report.SecondsUnit.Value(s.Median), figure.Thousands(s.Calls)))
			continue
		}
		lines = append(lines, fmt.Sprintf("the clock of %s is %s that of %s by %s (median of %s calls, which were moved)",
			s.Service, clockWords[s.Direction], s.Peer, report.SecondsUnit.Value(s.Median), figure.Thousands(s.Calls)))
	}
	if r.Note != "" {
		lines = append(lines, r.Note)
	}
	for i, l := range lines {
		if l = report.Printable(l); i == 0 {
			l = "\n" + l
		}
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}

// breakdownCSV has a row for each component, without an operation, and one for
// each part.
func breakdownCSV(w io.Writer, r *api.BreakdownResponse) error {
	header := []string{"component", "service", "operation", "seconds", "share_ratio", "critical_ratio", "calls", "calls_per_request", "requests",
		"requests_of_ten_calls", "n_plus_one", "mean_seconds", "band_seconds_per_request", "typical_seconds_per_request"}
	var rows [][]string
	band := map[string]api.BandComponent{}
	if r.Band != nil {
		for _, c := range r.Band.Components {
			band[c.Component] = c
		}
	}
	whole := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, c := range r.Components {
		row := []string{c.Component, "", "", report.Raw(c.Seconds), report.Raw(c.Share), report.Raw(c.CriticalShare), "", "", "", "", "", "", "", ""}
		if b, ok := band[c.Component]; ok {
			row[12], row[13] = report.Raw(b.Band.Seconds), report.Raw(b.Typical.Seconds)
		}
		rows = append(rows, row)
	}
	for _, p := range r.Parts {
		row := []string{p.Component, p.Service, p.Operation, report.Raw(p.Seconds), report.Raw(p.Share), report.Raw(p.CriticalShare), whole(p.Calls), report.Raw(p.PerRequest), whole(p.Requests),
			whole(p.Repeated), strconv.FormatBool(p.NPlusOne), report.Raw(p.Mean), "", ""}
		if p.Band != nil {
			row[12] = report.Raw(p.Band.Seconds)
		}
		if p.Typical != nil {
			row[13] = report.Raw(p.Typical.Seconds)
		}
		rows = append(rows, row)
	}
	return report.WriteCSV(w, header, rows)
}
