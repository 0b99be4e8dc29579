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
			return writeJSON(io.out, r)
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
	fmt.Fprintf(w, "%s requests, %s each on average\n\n", figure.Thousands(r.Total), secondsUnit.value(r.Seconds/n)) //nolint:errcheck // the last write tells
	t := &table{}
	t.column("component", false)
	t.column("share of time", false)
	var qs []string
	for _, c := range r.Components {
		if len(c.Quantiles) > 0 {
			qs = sortedQuantiles(c.Quantiles)
			break
		}
	}
	for _, h := range []string{"", "per request", "critical"} {
		t.column(h, true)
	}
	for _, q := range qs {
		t.column(quantileName(q), true)
	}
	for _, c := range r.Components {
		if c.Seconds == 0 || math.IsNaN(float64(c.Seconds)) {
			continue
		}
		row := []string{c.Component, bar(c.Share, shareWidth), share(c.Share), secondsUnit.value(c.Seconds / n), share(c.CriticalShare)}
		for _, q := range qs {
			row = append(row, secondsUnit.value(quantileOf(c.Quantiles, q)))
		}
		t.rows = append(t.rows, row)
	}
	if err := t.write(w); err != nil {
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
	name := "longer than " + secondsUnit.value(b.Low)
	if !math.IsNaN(float64(b.High)) {
		name += ", up to " + secondsUnit.value(b.High)
	}
	if b.Above > 0 {
		name = "above " + quantileName(strconv.FormatFloat(float64(b.Above), 'f', -1, 64)) + ", " + name
	}
	fmt.Fprintf(w, "\n%s requests %s: %s each; the typical, up to %s: %s\n\n", //nolint:errcheck // the last write tells
		figure.Thousands(b.Requests), name, secondsUnit.value(b.Mean), secondsUnit.value(b.Typical.High), secondsUnit.value(b.Typical.Mean))
	t := &table{}
	t.column("component", false)
	t.column("of the slow", false)
	for _, h := range []string{"", "per request", "typical", "", "added"} {
		t.column(h, true)
	}
	for _, c := range b.Components {
		if c.Band.Seconds == 0 && c.Typical.Seconds == 0 {
			continue
		}
		t.rows = append(t.rows, []string{c.Component, bar(c.Band.Share, shareWidth), share(c.Band.Share), secondsUnit.value(c.Band.Seconds),
			share(c.Typical.Share), secondsUnit.value(c.Typical.Seconds), added(c.Band.Seconds - c.Typical.Seconds)})
	}
	return t.write(w)
}

// added is a difference of times, with its sign.
func added(f api.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v):
		return "-"
	case v < 0:
		return "−" + formatSeconds(-v)
	}
	return "+" + secondsUnit.value(f)
}

func partsTable(w io.Writer, r *api.BreakdownResponse, limit int) error {
	if len(r.Parts) == 0 {
		return nil
	}
	fmt.Fprintln(w) //nolint:errcheck // the last write tells
	t := &table{}
	for _, h := range []string{"service", "component", "operation", "share of time"} {
		t.column(h, false)
	}
	for _, h := range []string{"", "calls/request", "mean"} {
		t.column(h, true)
	}
	qs := sortedQuantiles(r.Parts[0].Quantiles)
	for _, q := range qs {
		t.column(quantileName(q), true)
	}
	band := slices.ContainsFunc(r.Parts, func(p api.BreakdownPart) bool { return p.Band != nil && p.Typical != nil })
	if band {
		t.column("slow", true)
		t.column("typical", true)
	}
	t.column("", false)
	for _, p := range r.Parts[:min(limit, len(r.Parts))] {
		row := []string{p.Service, p.Component, p.Operation, bar(p.Share, shareWidth), share(p.Share), digits(float64(p.PerRequest)), secondsUnit.value(p.Mean)}
		for _, q := range qs {
			row = append(row, secondsUnit.value(quantileOf(p.Quantiles, q)))
		}
		if band {
			slow, typical := "-", "-"
			if p.Band != nil {
				slow = secondsUnit.value(p.Band.Seconds)
			}
			if p.Typical != nil {
				typical = secondsUnit.value(p.Typical.Seconds)
			}
			row = append(row, slow, typical)
		}
		t.rows = append(t.rows, append(row, nPlusOne(p.NPlusOne)))
	}
	if err := t.write(w); err != nil {
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
				len(f.Instances), f.Service, f.Operation, i.Instance, share(i.Share), share(api.Float(1/float64(len(f.Instances))))))
		}
	}
	for _, s := range r.Skews {
		if s.Peer == "queue" { // the header of a proxy
			lines = append(lines, fmt.Sprintf("the clock of %s is %s that of the proxy before it by %s (median of %s requests, whose time in the queue is left out)",
				s.Service, clockWords[s.Direction], secondsUnit.value(s.Median), figure.Thousands(s.Calls)))
			continue
		}
		lines = append(lines, fmt.Sprintf("the clock of %s is %s that of %s by %s (median of %s calls, which were moved)",
			s.Service, clockWords[s.Direction], s.Peer, secondsUnit.value(s.Median), figure.Thousands(s.Calls)))
	}
	if r.Note != "" {
		lines = append(lines, r.Note)
	}
	for i, l := range lines {
		if l = printable(l); i == 0 {
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
		row := []string{c.Component, "", "", raw(c.Seconds), raw(c.Share), raw(c.CriticalShare), "", "", "", "", "", "", "", ""}
		if b, ok := band[c.Component]; ok {
			row[12], row[13] = raw(b.Band.Seconds), raw(b.Typical.Seconds)
		}
		rows = append(rows, row)
	}
	for _, p := range r.Parts {
		row := []string{p.Component, p.Service, p.Operation, raw(p.Seconds), raw(p.Share), raw(p.CriticalShare), whole(p.Calls), raw(p.PerRequest), whole(p.Requests),
			whole(p.Repeated), strconv.FormatBool(p.NPlusOne), raw(p.Mean), "", ""}
		if p.Band != nil {
			row[12] = raw(p.Band.Seconds)
		}
		if p.Typical != nil {
			row[13] = raw(p.Typical.Seconds)
		}
		rows = append(rows, row)
	}
	return writeCSV(w, header, rows)
}
