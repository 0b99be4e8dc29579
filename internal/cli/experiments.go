package cli

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
)

const experimentID = "the id of an experiment, as tailscope experiment list shows it"

func newExperimentsDo(io streams, verb, short string, do func(context.Context, *client.Client, string) error) *cobra.Command {
	q := newQuestion(io, "table")
	cmd := &cobra.Command{Use: verb + " ID", Short: short, Args: exactArgs(1, experimentID)}
	q.serverFlag.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := do(cmd.Context(), q.client(), args[0]); err != nil {
			return q.failed(err)
		}
		return nil
	}
	return cmd
}

func newExperimentsList(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var ask client.ExperimentsQuery
	cmd := &cobra.Command{Use: "list", Short: "the experiments of all time or a range, those that run first, then the latest", Args: exactArgs(0, "")}
	q.serverFlag.register(cmd.Flags())
	q.registerRange(cmd.Flags(), "") // of all time unless it is said
	q.registerFormat(cmd.Flags())
	cmd.Flags().StringVar(&ask.State, "state", "", "only those that are running, ended or lost")
	cmd.Flags().StringVar(&ask.Kind, "kind", "", "only those of this `kind`: mirror, bench, experiment, capacity or simulation")
	cmd.Flags().StringVar(&ask.Search, "search", "", "only those with these `words` in their name, hypothesis, variable, settings, service or headline")
	cmd.RunE = q.run(func(ctx context.Context) error {
		ask.Start, ask.End = q.start, q.end
		if cmd.Flags().Changed("since") {
			var err error
			if ask.Start, ask.End, err = q.timeRange(); err != nil {
				return err
			}
		}
		r, err := q.client().Experiments(ctx, ask)
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return writeJSON(io.out, r)
		}
		t, header := &table{}, []string{"started", "took", "state", "kind", "name", "service", "requests", "found", "id"}
		for _, h := range header {
			t.column(h, h == "requests" || h == "took")
		}
		var plainRows [][]string
		for i := range r.Experiments {
			x := &r.Experiments[i]
			took := float64(x.Updated - x.Start)
			requests, said := requestsOf(x)
			if !math.IsNaN(float64(x.End)) {
				took = float64(x.End - x.Start)
			}
			plainRows = append(plainRows, []string{rawTime(x.Start), raw(api.Float(math.Round(took*1e3) / 1e3)), x.State, x.Kind, x.Name, x.Service, strconv.FormatUint(requests, 10), x.Headline, x.ID})
			t.rows = append(t.rows, []string{clockIn(x.Start, q.now().Location()), duration(time.Duration(took * float64(time.Second))), x.State, x.Kind, cut(x.Name, widestName), x.Service, said, intervals.ReplaceAllString(x.Headline, ""), x.ID})
		}
		if q.format == "csv" {
			return writeCSV(io.out, header, plainRows)
		}
		return t.write(io.out)
	})
	return cmd
}

// widestName is how many characters of a name a table has room for.
const widestName = 48

// requestsOf says how many requests an experiment is of; of one of settings,
// rounds, which is said in words.
func requestsOf(x *api.Experiment) (n uint64, said string) {
	switch {
	case x.Mirror != nil:
		n = x.Mirror.Requests
	case x.Bench != nil:
		n = x.Bench.Account.Sent
	case x.Trial != nil:
		return uint64(max(x.Trial.Stopping.Done, 0)), plural(x.Trial.Stopping.Done, "round")
	case x.Simulation != nil:
		return uint64(len(x.Simulation.Layouts)), plural(len(x.Simulation.Layouts), "layout")
	}
	return n, figure.Thousands(n)
}

// intervals are left out where lines are short; what stands behind one (another
// candidate, what is to be minded) is not.
var intervals = regexp.MustCompile(` \(\d[\d.]* % interval[^)]*\)`)

func clockIn(t api.Float, zone *time.Location) string {
	return time.UnixMilli(int64(t * 1e3)).In(zone).Format("2006-01-02 15:04:05")
}

func newExperimentsShow(io streams) *cobra.Command {
	q := newQuestion(io, "text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "one experiment: what was tried, and what came of it",
		Args:  exactArgs(1, experimentID),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	var id string
	show := q.run(func(ctx context.Context) error {
		x, err := q.client().Experiment(ctx, id)
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return writeJSON(io.out, x)
		}
		d := &document{w: io.out, markdown: q.format == "markdown"}
		if x.Kind != "mirror" {
			return writeTried(d, x, q.now().Location())
		}
		experimentText(d, x, q.now().Location())
		if v, err := q.client().ExperimentVerdict(ctx, client.ExperimentVerdictQuery{ID: id}); err == nil {
			brief(v)
			d.gap()
			verdictText(d, v)
		} else {
			d.gap()
			d.line("no verdict: " + q.failed(err).Error())
		}
		return d.err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id = args[0]
		return show(cmd, args)
	}
	return cmd
}

// brief leaves out what a first look can do without, but nothing that the headline
// may be about. It is asked for all the
// same: a verdict of fewer measures is another one than everybody else sees.
func brief(v *api.MirrorVerdictResponse) {
	const rows = 5
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.Measures = slices.DeleteFunc(c.Measures, func(m api.MirrorMeasure) bool {
			plain := slices.Contains([]string{"within the noise floor", "same", "no evidence", tooLittle}, m.Verdict)
			return plain && !slices.Contains([]string{"ratio", "p50", "p95", "p99", "errors"}, m.Name)
		})
		c.Operations, c.Tenants = c.Operations[:min(rows, len(c.Operations))], c.Tenants[:min(rows, len(c.Tenants))]
	}
}

// experimentText writes what an experiment is, and its account.
func experimentText(d *document, x *api.Experiment, zone *time.Location) {
	d.heading(x.Name)
	when := x.State + " since " + clockIn(x.Start, zone)
	if !math.IsNaN(float64(x.End)) {
		when = fmt.Sprintf("%s, from %s to %s", x.State, clockIn(x.Start, zone), clockIn(x.End, zone))
	}
	d.item(fmt.Sprintf("%s of %s, id %s: %s", x.Kind, x.Service, x.ID, when))
	m := x.Mirror
	if m == nil {
		return
	}
	skipped := ""
	if n := sum(m.Skipped); n > 0 {
		skipped = fmt.Sprintf(", of which %s were not chosen (%s)", figure.Thousands(n), causes(m.Skipped))
	}
	d.item(fmt.Sprintf("%s requests at %s%s", figure.Thousands(m.Requests), m.Listen, skipped))
	if n := sum(m.Failed); n > 0 {
		d.item(fmt.Sprintf("%s got no whole answer from the primary (%s)", figure.Thousands(n), causes(m.Failed)))
	}
	d.gap()
	t := &table{}
	for i, h := range []string{"server", "role", "in use", "offered", "queued", "dropped", "waiting", "failed", "unpaired", "paired", "why"} {
		t.column(h, i > 1 && i < 10)
	}
	targets := append([]api.MirrorTarget{m.Primary}, m.Shadows...)
	for i := range targets {
		s := &targets[i]
		row := []string{s.Name, s.Role, fmt.Sprintf("%d of %d", s.Using, len(s.Servers))}
		if a := s.Account; a == nil {
			row = append(row, "", "", "", "", "", "", "", "")
		} else {
			var why []string
			for _, of := range []map[string]uint64{a.Dropped, a.Failed} {
				if sum(of) > 0 {
					why = append(why, causes(of))
				}
			}
			row = append(row, figure.Thousands(a.Offered), figure.Thousands(a.Queued), figure.Thousands(sum(a.Dropped)), figure.Thousands(a.Waiting+a.Pairing), figure.Thousands(sum(a.Failed)), figure.Thousands(a.Unpaired), figure.Thousands(a.Paired), strings.Join(why, ", "))
		}
		t.rows = append(t.rows, row)
	}
	d.table(t)
}

// verdictText writes what came of each candidate.
func verdictText(d *document, v *api.MirrorVerdictResponse) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if i > 0 {
			d.gap()
		}
		d.heading(c.Candidate + ": " + c.Headline)
		d.line("Verdict: " + c.Verdict)
		d.gap()
		intervals := trimPercent(v.Level)
		if v.Live {
			intervals += " that hold at every look"
		}
		d.item(fmt.Sprintf("%s requests answered by both %s and %s, in %d slots of %s; intervals of %s", figure.Thousands(c.Requests), c.Candidate, c.Against, v.Slots, formatSeconds(float64(v.Slot)), intervals))
		if c.Caveat != "" {
			d.item(c.Caveat)
		}
		d.gap()
		d.table(measuresTable(c))
		for _, list := range []struct {
			name   string
			rows   []api.MirrorRow
			judged int
		}{{"operation", c.Operations, c.OperationsJudged}, {"tenant", c.Tenants, c.TenantsJudged}} {
			if len(list.rows) > 0 {
				d.gap()
				d.table(rowsTable(list.name, list.rows))
				if more := list.judged - len(list.rows); more > 0 {
					d.paragraph()
					d.line("and " + plural(more, "more "+list.name))
				}
			}
		}
	}
	if len(v.Warnings) > 0 {
		d.gap()
	}
	for _, w := range v.Warnings {
		d.item("warning: " + w.Text)
	}
}

func measuresTable(c *api.MirrorVerdict) *table {
	t := &table{}
	t.column("", false)
	for _, h := range []string{c.Against, c.Candidate, "change", "interval", "noise floor"} {
		t.column(h, true)
	}
	t.column("verdict", false)
	for i := range c.Measures {
		m := &c.Measures[i]
		t.rows = append(t.rows, []string{strings.ReplaceAll(m.Name, "_", " "), mirrorValue(m, m.Reference), mirrorValue(m, m.Candidate), mirrorEffect(m, m.Effect), mirrorInterval(m), noiseFloor(m), m.Verdict})
	}
	return t
}

func rowsTable(name string, rows []api.MirrorRow) *table {
	t := &table{}
	t.column(name, false)
	t.column("pairs", true)
	for _, m := range rows[0].Measures {
		t.column(strings.ReplaceAll(m.Name, "_", " "), true)
		t.column("interval", true)
	}
	t.column("verdict", false)
	for _, r := range rows {
		row := []string{r.Name, figure.Thousands(r.Requests)}
		for i := range r.Measures {
			row = append(row, mirrorEffect(&r.Measures[i], r.Measures[i].Effect), mirrorInterval(&r.Measures[i]))
		}
		verdict := r.Verdict
		if r.Lead != "" && verdict != "no evidence" && verdict != "same" && verdict != "too little data" {
			verdict += " by " + strings.ReplaceAll(r.Lead, "_", " ")
		}
		t.rows = append(t.rows, append(row, verdict))
	}
	return t
}

func mirrorValue(m *api.MirrorMeasure, v api.Float) string {
	switch m.Name {
	case "errors":
		return percent(v)
	case "ratio":
		return ratio(v)
	case "bytes":
		return bytesUnit.value(v)
	}
	return secondsUnit.value(v)
}

func mirrorEffect(m *api.MirrorMeasure, f api.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case m.Name == "errors":
		return signed(100*v, 2) + "pt"
	}
	return change(f)
}

func mirrorInterval(m *api.MirrorMeasure) string {
	low, high := mirrorEffect(m, m.Low), mirrorEffect(m, m.High)
	if low == "-" && high == "-" {
		return "-"
	}
	return strings.ReplaceAll(low, "-", "?") + " … " + strings.ReplaceAll(high, "-", "?")
}

func noiseFloor(m *api.MirrorMeasure) string {
	v := float64(m.Noise)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case m.Name == "errors":
		return "±" + strings.TrimLeft(signed(100*v, 2), "+±") + "pt"
	}
	return "±" + percent(m.Noise)
}
