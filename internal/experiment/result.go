package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
)

// mostTenants bounds the rows of tenants.
const mostTenants = 20

// cellsOf returns the figures of a run, by query and by tenant. It adds those of
// queries to figures.
func cellsOf(out *session.Outcome, figures map[string]map[string]api.Float) map[rounds.Key]rounds.Cell {
	b := out.Result
	elapsed := float64(b.End - b.Start)
	cells := map[rounds.Key]rounds.Cell{}
	add := func(k rounds.Key, h *hist.Histogram, sent, failed uint64) {
		cells[k] = rounds.Cell{Values: rounds.Figures(h, sent, failed, elapsed), Requests: sent, Errors: failed}
	}
	byQuery, byTenant := map[string]*hist.Histogram{}, map[string]*hist.Histogram{}
	merge := func(into map[string]*hist.Histogram, name string, h *hist.Histogram) {
		if into[name] == nil {
			into[name] = hist.New(hist.DefaultSchema)
		}
		into[name].Merge(h)
	}
	for i := range out.Series {
		s := &out.Series[i]
		merge(byQuery, s.Query, s.Latency)
		if s.Tenant != "" {
			merge(byTenant, s.Tenant, s.Latency)
		}
	}
	add(rounds.Key{}, out.Latency, b.Account.Sent, b.Account.Errors)
	if b.Rate > 0 {
		cells[rounds.Key{}].Values["rate"] = float64(b.Rate)
	}
	for name, v := range resources(b.Resources) {
		cells[rounds.Key{}].Values[name] = v
	}
	if v := float64(b.Generator.CPUPerRequest); v > 0 {
		cells[rounds.Key{}].Values["generator_cpu_per_request"] = v
	}
	if len(b.Queries) > 1 {
		for _, q := range b.Queries {
			if h := byQuery[q.Name]; h != nil {
				add(rounds.Key{Query: q.Name}, h, q.Sent, q.Errors)
			}
		}
	}
	tenants := slices.Clone(b.Tenants)
	slices.SortFunc(tenants, func(a, b api.BenchQuery) int { return cmp.Compare(b.Sent, a.Sent) })
	for _, t := range tenants[:min(len(tenants), mostTenants)] {
		if h := byTenant[t.Name]; h != nil {
			add(rounds.Key{Tenant: t.Name}, h, t.Sent, t.Errors)
		}
	}
	for k, c := range cells {
		if k.Tenant != "" {
			continue
		}
		figures[k.Query] = map[string]api.Float{}
		for m, v := range c.Values {
			figures[k.Query][m] = api.Float(v)
		}
	}
	return cells
}

// resources returns figures of the processes under test: those that add up per
// request, for all together and, if there are several, for each; else the mean of
// each.
func resources(of []api.BenchResource) map[string]float64 {
	out, count := map[string]float64{}, map[string]int{}
	for _, r := range of {
		count[r.Name]++
	}
	for _, r := range of {
		name, v := r.Name, float64(r.Mean)
		if per := float64(r.PerRequest); !math.IsNaN(per) {
			v = per
			if name = r.Name + "_per_request"; strings.HasPrefix(r.Name, "cpu") {
				name = "cpu_per_request"
			}
		}
		if math.IsNaN(v) {
			continue
		}
		out[name] += v
		if count[r.Name] > 1 {
			out[name+"_of_"+r.Process] = v
		}
	}
	return out
}

// judged writes the verdict on the rounds into a result.
func judged(t *api.Experiment, x *Experiment, in rounds.Input) {
	rows := rounds.Rows(in)
	t.Rows = make([]api.ExperimentRow, 0, len(rows))
	for i := range rows {
		t.Rows = append(t.Rows, rowOf(&rows[i]))
	}
	t.Curves = []api.ExperimentCurve{}
	if len(x.Settings) > 2 {
		for _, c := range rounds.Curves(in, x.places()) {
			t.Curves = append(t.Curves, curveOf(&c, x.names()))
		}
	}
	t.Verdict, t.Headline = headline(x, rows, t.Curves)
	t.Warnings = warnings(t, x)
	if why := unread(x, rows); why != "" {
		t.Warnings = append(t.Warnings, api.CompareWarning{Code: "measure", Text: fmt.Sprintf("%s is what rows and curves are read by, but %s; others are read instead", judge.Title(x.Rounds.Measure, rounds.Key{}.Of()), why)})
	}
}

func rowOf(r *rounds.Row) api.ExperimentRow {
	out := api.ExperimentRow{Setting: r.Contrast.Setting, Against: r.Contrast.Against, Effect: r.Contrast.Effect, Query: r.Key.Query, Tenant: r.Key.Tenant, Rounds: r.Rounds, Requests: r.Requests, Verdict: r.Verdict, Lead: r.Lead, Measures: []api.ExperimentMeasure{}}
	for i := range r.Measures {
		m := &r.Measures[i]
		out.Measures = append(out.Measures, api.ExperimentMeasure{
			Name: m.Name, Control: api.Float(m.Control), Variant: api.Float(m.Variant), Effect: api.Float(m.Effect), Low: api.Float(m.Low), High: api.Float(m.High),
			P: api.Float(m.Estimate.P), Adjusted: api.Float(m.Adjusted), Verdict: m.Verdict, Sentence: m.Sentence, Needs: m.Needs,
		})
	}
	return out
}

func curveOf(c *rounds.Curve, names []string) api.ExperimentCurve {
	out := api.ExperimentCurve{Query: c.Key.Query, Measure: c.Measure, Lower: c.Lower, Best: names[c.Best], XLow: api.Float(c.XLow), XHigh: api.Float(c.XHigh), Sentence: c.Sentence}
	for _, p := range c.Points {
		out.Points = append(out.Points, api.ExperimentCurvePoint{Setting: names[p.Setting], X: api.Float(p.X), Value: api.Float(p.Value), Low: api.Float(p.Low), High: api.Float(p.High), BestIn: api.Float(p.BestIn)})
	}
	for _, s := range c.Candidates {
		out.Candidates = append(out.Candidates, names[s])
	}
	return out
}

// headline returns the verdict of everything together, and a sentence.
func headline(x *Experiment, rows []rounds.Row, curves []api.ExperimentCurve) (verdict judge.Verdict, sentence string) {
	var all []*rounds.Row
	for i := range rows {
		if r := &rows[i]; r.Key == (rounds.Key{}) && (x.Design != Factorial || r.Contrast.Effect == "main") {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return judge.TooLittle, "Nothing was measured"
	}
	verdict, lead := rounds.Together(all)
	if c := CurveOf(curves, "", x.Rounds.Measure); c != nil && x.Design != Factorial {
		return verdict, figure.Sentence(c.Sentence)
	}
	return verdict, figure.Sentence(lead.Sentence())
}

// CurveOf returns the first curve to show of a query: that of the deciding measure
// or, if it needs more requests, of the next most informative one; nil if there is
// none.
func CurveOf(curves []api.ExperimentCurve, query, decides string) *api.ExperimentCurve {
	for _, name := range rounds.Reading(decides) {
		for i := range curves {
			if c := &curves[i]; c.Query == query && c.Measure == name {
				return c
			}
		}
	}
	return nil
}

// unread says why the measure that should decide does not, or returns "".
func unread(x *Experiment, rows []rounds.Row) string {
	for i := range rows {
		r := &rows[i]
		if r.Key != (rounds.Key{}) || r.Rounds < rounds.Fewest {
			continue
		}
		switch m := r.Of(x.Rounds.Measure); {
		case m == nil && rounds.Needs(x.Rounds.Measure) > 0:
			return rounds.TooFew(x.Rounds.Measure)
		case m == nil:
			return "no run has it"
		case m.Short != "":
			return m.Short
		}
	}
	return ""
}

// warnings returns what a reader has to mind.
func warnings(t *api.Experiment, x *Experiment) []api.CompareWarning {
	out := []api.CompareWarning{}
	add := func(code, format string, args ...any) {
		out = append(out, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	invalid, cold, times := 0, 0, map[string]int{}
	for _, r := range t.Rounds {
		if !r.Valid {
			invalid++
			times[r.Setting]++
		}
		if r.WarmUp != nil && !r.WarmUp.Steady {
			cold++
		}
	}
	if invalid > 0 {
		add("invalid", "%d of %d runs do not count; each was measured once more", invalid, len(t.Rounds))
	}
	for _, s := range x.names() {
		if times[s] > 0 && 2*times[s] == invalid && invalid >= 4 || times[s] >= 3 {
			add("bias", "%d runs of %s do not count: what is left of it may be its better part", times[s], s)
		}
	}
	if cold > 0 {
		add("warm_up", "%d of %d runs began before latency was steady", cold, len(t.Rounds))
	}
	if x.scenario != nil {
		if text := x.scenario.LimitsText(); text != "" && x.scenario.Lenient() {
			add("limits", "runs count in which the generator was %s: what it adds itself is in the figures, of all settings alike at best", text)
		}
		if x.outside() {
			add("files", "the scenario lies outside the directory of the experiment and is not kept: the log book cannot run it again by itself")
		}
	}
	if strings.HasSuffix(t.Environment.Commit, "+") {
		add("commit", "the working directory had changes that are in no commit")
	}
	return out
}

func joined(why []string) string {
	if len(why) == 0 {
		return "the generator did not keep its schedule"
	}
	return strings.Join(why, "; ")
}

// mostFile and mostFiles bound the files that are kept with an experiment.
const (
	mostFile  = 128 << 10
	mostFiles = 512 << 10
)

var words = regexp.MustCompile(`[^\s"'\[\]{},;=()<>|&:]+`)

// outside reports whether the scenario lies outside the experiment's directory.
func (x *Experiment) outside() bool {
	_, ok := x.local(x.Scenario)
	return !ok
}

// local returns the name of a path relative to the experiment's directory, if it lies
// below it.
func (x *Experiment) local(path string) (name string, ok bool) {
	name, err := filepath.Rel(x.Dir, path)
	return name, err == nil && filepath.IsLocal(name)
}

// files returns the texts of the files below the experiment's directory that its
// file, its scenario or a script of theirs names, by relative name; a file that is
// too large is kept by its hash. With them the experiment can be run again.
func (x *Experiment) files() map[string]string {
	out, total := map[string]string{}, 0
	var texts []string
	read := func(text string) { texts = append(texts, text) }
	read(x.Text)
	if x.Scenario != "" {
		read(x.scenarioText)
	}
	dirs := []string{x.Dir}
	if x.Scenario != "" {
		if d := filepath.Dir(x.Scenario); d != x.Dir {
			dirs = append(dirs, d)
		}
	}
	for len(texts) > 0 {
		text := texts[0]
		texts = texts[1:]
		for _, w := range slices.Compact(slices.Sorted(slices.Values(words.FindAllString(text, -1)))) {
			if !strings.ContainsAny(w, "./") {
				continue // a word of the file, though a file may be called so too
			}
			if strings.HasPrefix(w, "$") { // $here/Cluster.java, in a script
				_, w, _ = strings.Cut(w, "/")
			}
			for _, dir := range dirs {
				path := within(dir, w)
				name, ok := x.local(path)
				if _, known := out[name]; known || !ok || name == filepath.Base(x.File) {
					continue
				}
				info, err := os.Stat(path)
				if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<30 {
					continue
				}
				content, err := os.ReadFile(path)
				if err != nil {
					continue
				}
				if len(content) > mostFile || total+len(content) > mostFiles {
					out[name] = tooLarge + digest(content)
					continue
				}
				total += len(content)
				out[name] = string(content)
				if bytes.HasPrefix(content, []byte("#!")) {
					read(out[name])
				}
			}
		}
	}
	return out
}

// tooLarge begins the text of a file that is kept by its hash alone.
const tooLarge = "too large to be kept; sha256 "

// Describe returns what an experiment will do, in a few lines.
func (x *Experiment) Describe() []string {
	out := []string{fmt.Sprintf("%s: %s, %s against the control %s", x.Name, x.Design, x.Variable, x.Settings[0].Name)}
	out = append(out, "settings: "+strings.Join(x.names(), ", "))
	r := x.Rounds
	switch r.Rule {
	case "precision":
		out = append(out, fmt.Sprintf("rounds: %d, then as many as make %s known to ±%g %%, at most %d", r.AtLeast, r.Measure, 100*r.Precision, r.AtMost))
	case "decided":
		out = append(out, fmt.Sprintf("rounds: %d to %d, until %s is decided of every setting", r.AtLeast, r.AtMost, r.Measure))
	default:
		out = append(out, fmt.Sprintf("rounds: %d", r.AtMost))
	}
	if x.Live != nil {
		return append(out, fmt.Sprintf("load: live traffic through mirror session %s, %s of each setting in a round", x.Live.Session, x.Live.For))
	}
	each := x.scenario.Plan.Duration()
	if each <= 0 {
		each = x.scenario.Duration
	}
	if each > 0 {
		each += x.Settle
		whole := func(rounds int) string { return (each * time.Duration(len(x.Settings)*rounds)).String() }
		all := whole(r.AtLeast)
		if r.AtMost > r.AtLeast {
			all += " to " + whole(r.AtMost)
		}
		out = append(out, fmt.Sprintf("load: %s to %s of each setting in a round, warm-up and commands besides: %s in all", each, x.scenario.Target, all))
	}
	return out
}
