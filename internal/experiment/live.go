package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
	"tailscope/stat"
)

const (
	// liveSlot is that in which a mirror's measurements are kept. Package seconds has no
	// shorter ones of them: it keeps spans by service and operation, and not which server
	// answered, and it keeps them for minutes, where windows of one setting lie hours apart.
	liveSlot    = 10 * time.Second
	leastSlots  = 20 // of each setting, for an interval
	defaultLive = 30 * time.Minute
	// arrival is the time after a slot until all of it has arrived.
	arrival = 25 * time.Second
)

// Observer reads what a mirror session measured.
type Observer interface {
	// Session returns a session that runs or has ended.
	Session(ctx context.Context, id string) (*api.Session, error)
	// Leg returns the durations of one server's answers of a status, ok or error, in
	// [from, to) Unix seconds, in slots of 10 s.
	Leg(ctx context.Context, session, variant, status string, from, to int64) (*api.HeatmapResponse, error)
	// Ratios returns one server's durations by another's, request by request.
	Ratios(ctx context.Context, session, variant, against string, from, to int64) (*api.HeatmapResponse, error)
}

// Server observes through a server's API.
type Server struct{ Client *client.Client }

// Session implements Observer.
func (s Server) Session(ctx context.Context, id string) (*api.Session, error) {
	return s.Client.Session(ctx, id)
}

// Leg implements Observer. It leaves out requests of the primary that shadows were
// not meant to get; a session without any does not have the label.
func (s Server) Leg(ctx context.Context, session, variant, status string, from, to int64) (*api.HeatmapResponse, error) {
	of := "experiment=" + strconv.Quote(session) + ",variant=" + strconv.Quote(variant) + ",status=" + strconv.Quote(status)
	out, err := s.heatmap(ctx, "mirror_duration_seconds", "{"+of+`,mirrored=""}`, from, to)
	if err != nil && strings.Contains(err.Error(), `label "mirrored"`) {
		return s.heatmap(ctx, "mirror_duration_seconds", "{"+of+"}", from, to)
	}
	return out, err
}

// Ratios implements Observer.
func (s Server) Ratios(ctx context.Context, session, variant, against string, from, to int64) (*api.HeatmapResponse, error) {
	return s.heatmap(ctx, "mirror_ratio", "{experiment="+strconv.Quote(session)+",variant="+strconv.Quote(variant)+",against="+strconv.Quote(against)+"}", from, to)
}

func (s Server) heatmap(ctx context.Context, family, match string, from, to int64) (*api.HeatmapResponse, error) {
	const finest = 2000 // rows
	return s.Client.Heatmap(ctx, api.HeatmapRequest{
		Selection: api.Selection{Family: family, Match: match, Start: api.Time(strconv.FormatInt(from, 10)), End: api.Time(strconv.FormatInt(to, 10))},
		Grid:      api.Grid{Step: 10 * time.Second}, Rows: finest,
	})
}

// checkLive checks the session before anything is applied.
func (r *runner) checkLive(ctx context.Context) error {
	l := r.x.Live
	if r.o.Live == nil {
		return errors.New("live traffic is measured through a server")
	}
	s, err := r.o.Live.Session(ctx, l.Session)
	switch {
	case err != nil:
		return fmt.Errorf("mirror session %s: %w", l.Session, err)
	case s.Mirror == nil:
		return fmt.Errorf("%s is not a mirror session but %s", l.Session, s.Kind)
	case s.State != "running":
		return fmt.Errorf("mirror session %s is %s", l.Session, s.State)
	}
	var names []string
	for _, t := range s.Mirror.Shadows {
		names = append(names, t.Name)
		if t.Name == l.Candidate {
			r.primary = s.Mirror.Primary.Name
			r.mu.Lock()
			r.result.Service = s.Service
			for i := range r.result.Settings {
				r.result.Settings[i].Session = l.Session
			}
			r.mu.Unlock()
			return nil
		}
	}
	return fmt.Errorf("the session has no candidate %s; it has %s", l.Candidate, figure.Listed(names))
}

// production names what settings are compared with beside the control.
const production = "live production"

// live judges a live design. For each setting, slot by slot, the candidate's
// distribution is compared with the primary's of the same requests, so that load
// which comes and goes cancels (stat, paired). Two settings were measured one after
// the other: their ratios to the primary are independent estimates, whose difference
// on the log scale is the effect (Difference).
func (r *runner) live(ctx context.Context) error {
	t, x := &r.result, r.x
	windows := map[string][][2]int64{}
	var order []string // in which settings were measured first
	from, to := int64(math.MaxInt64), int64(0)
	for _, run := range t.Rounds {
		if !run.Valid {
			continue
		}
		width := int64(liveSlot / time.Second)
		a := (int64(math.Ceil(float64(run.Start))) + width - 1) / width * width
		b := int64(run.End) / width * width
		if windows[run.Setting] == nil {
			order = append(order, run.Setting)
		}
		windows[run.Setting] = append(windows[run.Setting], [2]int64{a, b})
		from, to = min(from, a), max(to, b)
	}
	if len(order) == 0 {
		return nil
	}
	if wait := time.Unix(to, 0).Add(arrival).Sub(r.o.Now()); wait > 0 {
		if err := r.o.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	var legs liveLegs
	for i, variant := range []string{r.primary, x.Live.Candidate} {
		var err error
		if legs.ok[i], err = r.o.Live.Leg(ctx, x.Live.Session, variant, "ok", from, to); err != nil {
			return fmt.Errorf("what %s took: %w", variant, err)
		}
		if legs.failed[i], err = r.o.Live.Leg(ctx, x.Live.Session, variant, "error", from, to); err != nil {
			return fmt.Errorf("errors of %s: %w", variant, err)
		}
	}
	var err error
	if legs.ratio, err = r.o.Live.Ratios(ctx, x.Live.Session, x.Live.Candidate, r.primary, from, to); err != nil {
		return fmt.Errorf("how often %s was faster: %w", x.Live.Candidate, err)
	}
	rows, err := liveRows(x, legs, windows, order)
	if err != nil {
		return err
	}
	in := x.input(nil)
	in.Slots = true
	rounds.Conclude(in, rows)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Rows = t.Rows[:0:0]
	var all []*rounds.Row
	for i := range rows {
		t.Rows = append(t.Rows, rowOf(&rows[i]))
		if rows[i].Contrast.Against == x.Settings[0].Name {
			all = append(all, &rows[i])
		}
	}
	if len(all) > 0 {
		verdict, lead := rounds.Together(all)
		t.Verdict, t.Headline = verdict, figure.Sentence(lead.Sentence())
	}
	t.Warnings = warnings(t, x)
	return nil
}

// liveQuantiles are judged in a live design.
var liveQuantiles = []struct {
	name string
	p    float64
}{{"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}

// liveLegs holds the measurements of a session: of the primary, of the candidate, and
// the ratios of single requests.
type liveLegs struct {
	ok, failed [2]*api.HeatmapResponse
	ratio      *api.HeatmapResponse
}

// liveChange is the difference of candidate and primary in one measure while a
// setting held.
type liveChange struct {
	name string
	stat.Change
}

// changes compares the candidate with the primary in some windows; it returns none if
// either was not measured then. Durations exclude errors, as in the session's own
// verdict: a server that fails fast is not faster.
func (l *liveLegs) changes(windows [][2]int64, level float64) ([]liveChange, error) {
	at := slotsOf(windows)
	var sides [3]*stat.Series
	for i, leg := range []*api.HeatmapResponse{l.ok[0], l.ok[1], l.ratio} {
		var err error
		if sides[i], err = inSlots(leg, at); err != nil || sides[i] == nil {
			return nil, err
		}
	}
	o := stat.Options{Level: level, Paired: true}
	var out []liveChange
	for _, q := range liveQuantiles {
		c, err := stat.Quantile(stat.Side{sides[0]}, stat.Side{sides[1]}, q.p, nil, o)
		if err != nil {
			return nil, err
		}
		out = append(out, liveChange{q.name, c})
	}
	mean, err := stat.Mean(stat.Side{sides[0]}, stat.Side{sides[1]}, nil, o)
	if err != nil {
		return nil, err
	}
	typical, err := stat.QuantilesAgainst(1, stat.Side{sides[2]}, []float64{0.5}, nil, stat.Options{Level: level})
	if err != nil {
		return nil, err
	}
	errs, err := stat.Shares([]stat.Tally{l.errors(0, at)}, []stat.Tally{l.errors(1, at)}, nil, stat.Difference, o)
	if err != nil {
		return nil, err
	}
	return append(out, liveChange{"mean", mean}, liveChange{judge.Ratio, typical[0]}, liveChange{"errors", errs}), nil
}

// errors returns the errors of one server and all its requests, slot by slot.
func (l *liveLegs) errors(server int, at map[int64]int) stat.Tally {
	out := stat.Tally{Num: make([]float64, len(at)), Den: make([]float64, len(at))}
	for _, leg := range []*api.HeatmapResponse{l.ok[server], l.failed[server]} {
		for _, c := range leg.Columns {
			t, ok := at[c.Start]
			if !ok {
				continue
			}
			for _, n := range c.Counts {
				out.Den[t] += float64(n)
				if leg == l.failed[server] {
					out.Num[t] += float64(n)
				}
			}
		}
	}
	return out
}

// liveRows compares each setting with the control, with the setting measured before
// it, and with live production.
func liveRows(x *Experiment, legs liveLegs, windows map[string][][2]int64, order []string) ([]rounds.Row, error) {
	level := x.Level
	if level == 0 {
		level = 0.95
	}
	of := map[string][]liveChange{}
	for name, w := range windows {
		var err error
		if of[name], err = legs.changes(w, level); err != nil {
			return nil, err
		}
	}
	var rows []rounds.Row
	row := func(setting, against string) {
		r := rounds.Row{Contrast: rounds.Contrast{Setting: setting, Against: against, Simple: true}, Rounds: len(windows[setting])}
		b, a := of[setting], of[against]
		if b == nil || against != production && a == nil {
			return
		}
		r.Requests = uint64(b[0].CountB)
		if against != production {
			r.Requests += uint64(a[0].CountB)
		}
		for i, c := range b {
			if x.Measures != nil && !slices.Contains(x.Measures, c.name) && c.name != x.Rounds.Measure {
				continue
			}
			m := rounds.Measure{Name: c.name, Control: c.A, Variant: c.B, Estimate: estimateOf(&c.Change)}
			short := c.Short
			if against != production {
				m.Control = a[i].B
				short = cmp.Or(short, a[i].Short)
				if c.Log {
					m.Estimate = rounds.Difference(estimateOf(&a[i].Change), m.Estimate, level)
				} else {
					m.Estimate = rounds.DifferenceOfShares(estimateOf(&a[i].Change), m.Estimate, level)
				}
			}
			m.Effect, m.Low, m.High = m.Estimate.Effect, m.Estimate.Low, m.Estimate.High
			if c.Log {
				m.Effect, m.Low, m.High = math.Exp(m.Effect), math.Exp(m.Low), math.Exp(m.High)
			}
			if short == "" && (math.IsNaN(m.Low+m.High) || math.IsInf(m.Estimate.SE, 0) || c.Log && math.IsNaN(m.Estimate.SE)) {
				short = "no interval can be made"
			}
			if short != "" {
				m.Short, m.Verdict = short, judge.TooLittle
				m.Low, m.High, m.Estimate.P = math.NaN(), math.NaN(), math.NaN()
			}
			r.Measures = append(r.Measures, m)
		}
		rows = append(rows, r)
	}
	control := x.Settings[0].Name
	for _, s := range x.Settings[1:] {
		row(s.Name, control)
	}
	for i, name := range order[1:] {
		if before := order[i]; before != control && name != control { // else it is there, one way or the other
			row(name, before)
		}
	}
	for _, s := range x.Settings {
		row(s.Name, production)
	}
	return rows, nil
}

func estimateOf(c *stat.Change) rounds.Estimate {
	return rounds.Estimate{Effect: c.Effect, Low: c.CI.Low, High: c.CI.High, SE: c.SE, DF: c.DF, P: c.P, N: min(c.SlotsA, c.SlotsB)}
}

// slotsOf numbers the slots of some windows, in order of time.
func slotsOf(windows [][2]int64) map[int64]int {
	at := map[int64]int{}
	for _, w := range windows {
		for t := w[0]; t < w[1]; t += int64(liveSlot / time.Second) {
			if _, ok := at[t]; !ok {
				at[t] = len(at)
			}
		}
	}
	return at
}

// inSlots returns a leg in those slots, or nil if it has nothing in any of them.
func inSlots(leg *api.HeatmapResponse, at map[int64]int) (*stat.Series, error) {
	edges := make([]float64, len(leg.Bounds))
	for j, b := range leg.Bounds {
		edges[j] = float64(b)
	}
	counts, sums := make([][]float64, len(at)), make([]float64, len(at))
	for t := range counts {
		counts[t] = make([]float64, max(0, len(edges)-1))
	}
	found := false
	for _, c := range leg.Columns {
		t, ok := at[c.Start]
		if !ok {
			continue
		}
		found = true
		sums[t] = float64(c.Sum)
		for k, row := range c.Rows {
			counts[t][row] += float64(c.Counts[k])
		}
	}
	if !found {
		return nil, nil
	}
	return stat.NewSeriesOfCounts(edges, counts, sums)
}
