// Package legs judges a mirror session: what its candidates do beside the control,
// or beside the primary where there is no control, outside the noise floor that
// control against primary makes. It reads what the session measured from the store,
// slot by slot, and sets the legs of one slot against each other.
package legs

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/stat"
)

// Request says what is judged of a session, and when.
type Request struct {
	Start, End int64    // Unix seconds, half open
	Measures   []string // all if empty
	Allow      string   // changes that are allowed, as Gates reads them
	Limit      int      // operations, and tenants
}

// caveat is what a primary is not as a reference.
const caveat = "there is no control: the primary answers the clients, gets every request and not only the chosen ones, and is asked a moment before the copies; a part of any difference may be of that"

// judgement is a verdict being made.
type judgement struct {
	x        *api.Session
	m        *api.MirrorState
	primary  string
	control  string // empty without one
	measures []measure
	limit    int
	o        stat.Options
	d        *data
}

// Judge makes the verdict of a session.
func Judge(ctx context.Context, st store.Store, x *api.Session, q Request) (*api.MirrorVerdictResponse, error) {
	j := &judgement{x: x, m: x.Mirror, primary: x.Mirror.Primary.Name, limit: q.Limit, o: stat.Options{Level: level}}
	if err := CheckMeasures(q.Measures); err != nil {
		return nil, err
	}
	gates, err := Gates(q.Allow)
	if err != nil {
		return nil, err
	}
	j.measures = asked(q.Measures, gates)
	if i := slices.IndexFunc(j.m.Shadows, func(t api.MirrorTarget) bool { return t.Role == "control" }); i >= 0 {
		j.control = j.m.Shadows[i].Name
	}
	g := gridOf(q.Start, max(q.End, q.Start))
	if j.d, err = read(ctx, st, question{service: x.Service, id: x.ID, control: j.control, primary: j.primary, first: j.wants(ofFirstBytes), bytes: j.wants(ofBytes)}, g); err != nil {
		return nil, err
	}
	if x.State == api.Running {
		j.o.Live = liveIn(j.d.step)
	}
	out := &api.MirrorVerdictResponse{
		Range: api.Range{Start: j.d.start, End: j.d.end()}, ID: x.ID, Slot: j.d.step, Level: level, Live: j.o.Live != nil, Allow: q.Allow,
		Candidates: []api.MirrorVerdict{}, Warnings: []api.CompareWarning{},
	}
	if l := j.d.duration[legKey{variant: cmp.Or(j.control, j.primary)}]; l != nil {
		for _, n := range l.all {
			if n > 0 {
				out.Slots++
			}
		}
	}
	for i := range j.m.Shadows {
		if j.m.Shadows[i].Role == "candidate" {
			v, err := j.candidate(j.m.Shadows[i].Name)
			if err != nil {
				return nil, err
			}
			if doubts := j.doubts(v.Candidate); v.Verdict != judge.TooLittle && len(doubts) > 0 {
				v.Headline += "; mind that " + strings.Join(doubts, ", ")
			}
			if v.Verdict == judge.TooLittle && out.Slots < fewestSlots {
				v.Headline = fmt.Sprintf("Too little data: requests in %d of the %d slots of %d s that are needed", out.Slots, fewestSlots, out.Slot)
			}
			out.Candidates = append(out.Candidates, *v)
		}
	}
	j.warn(out)
	return out, nil
}

func (j *judgement) wants(k kind) bool {
	return slices.ContainsFunc(j.measures, func(m measure) bool { return m.kind == k })
}

// liveIn are intervals that hold at every look, in slots of so many seconds.
func liveIn(step int64) *stat.Live {
	return &stat.Live{Slots: max(fewestSlots, int(liveSeconds/step))}
}

// candidate judges one candidate.
func (j *judgement) candidate(name string) (*api.MirrorVerdict, error) {
	against := cmp.Or(j.control, j.primary)
	v := &api.MirrorVerdict{Candidate: name, Against: against, Measures: []api.MirrorMeasure{}, Operations: []api.MirrorRow{}, Tenants: []api.MirrorRow{}}
	if j.control == "" {
		v.Caveat = caveat
	}
	pairs := legKey{name, against}
	if l := j.d.ratio[pairs]; l != nil {
		v.Requests = l.good
	}
	whole := figures{j.d.duration, j.d.first, j.d.bytes, j.d.ratio}
	var all []judged
	for _, m := range j.measures {
		f, err := m.judge(whole, name, against, j.control, j.primary, true, j.o)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	adjust([][]judged{all}, ofAll)
	for i := range all {
		m := all[i].api("", against)
		if m.Name == judge.Ratio {
			var err error
			if m.Points, err = j.points(j.d.ratio[pairs]); err != nil {
				return nil, err
			}
		}
		v.Measures = append(v.Measures, m)
	}
	var err error
	if v.Operations, v.OperationsJudged, err = j.rows(j.d.operations, name, against, j.o); err != nil {
		return nil, err
	}
	o := j.o
	if o.Live != nil {
		o.Live = liveIn(j.d.tenantStep)
	}
	if v.Tenants, v.TenantsJudged, err = j.rows(j.d.tenants, name, against, o); err != nil {
		return nil, err
	}
	conclude(v, len(j.measures) == len(measures) && len(j.d.operations) <= MostRows && len(j.d.tenants) < MostRows)
	v.Operations, v.Tenants = v.Operations[:min(j.limit, len(v.Operations))], v.Tenants[:min(j.limit, len(v.Tenants))]
	return v, nil
}

// points of the distribution of ratios; nil if there are none.
func (j *judgement) points(l *leg) ([]api.MirrorPoint, error) {
	if l == nil || l.good == 0 {
		return nil, nil
	}
	s, err := l.series()
	if err != nil {
		return nil, err
	}
	at := []float64{0.1, 0.5, 0.9, 0.99}
	found, err := stat.QuantilesAgainst(1, stat.Side{s}, at, nil, j.o)
	if err != nil {
		return nil, err
	}
	var out []api.MirrorPoint
	for i, c := range found {
		p := api.MirrorPoint{Quantile: api.Float(at[i]), Ratio: api.Float(c.B)}
		_, low, high := scaled(&c)
		p.Low, p.High = api.Float(low), api.Float(high)
		out = append(out, p)
	}
	return out, nil
}

// adjust adjusts the probabilities of a family of figures.
func adjust(rows [][]judged, families float64) {
	var all []*judged
	for _, row := range rows {
		for i := range row {
			all = append(all, &row[i])
		}
	}
	judge.Adjust(all, func(f *judged) float64 { return f.p }, func(f *judged, p float64) { f.adjusted = min(1, families*p) })
}

// rows judges operations or tenants, those with the most pairs, and puts those
// first that are surest to differ. What was looked at is adjusted for; only so
// many as are asked for have a noise floor unless they needed it.
func (j *judgement) rows(of map[string]*rowData, candidate, against string, o stat.Options) ([]api.MirrorRow, int, error) {
	names := make([]string, 0, len(of))
	pairs := func(name string) uint64 {
		if l := of[name].ratio[legKey{candidate, against}]; l != nil {
			return l.good
		}
		return 0
	}
	for name := range of {
		if of[name].duration[legKey{variant: candidate}] != nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(pairs(y), pairs(x)), cmp.Compare(x, y)) })
	names = names[:min(len(names), MostRows)]
	if len(names) < 2 { // it is everything
		return []api.MirrorRow{}, 0, nil
	}
	found := make([][]judged, len(names))
	var e errgroup.Group
	e.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		e.Go(func() (err error) {
			found[i], err = j.row(of[name], candidate, against, o)
			return err
		})
	}
	if err := e.Wait(); err != nil {
		return nil, 0, err
	}
	adjust(found, ofRows)
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	order = judge.Ranked(order, func(i *int) judge.Rank {
		r, row := judge.Rank{P: 2}, found[*i]
		for i := range row {
			if row[i].claimed() {
				m := row[i].api("", against)
				_, certain := margins(&m)
				r.Changed, r.Size = true, max(r.Size, certain)
			}
			if a := row[i].adjusted; !math.IsNaN(a) {
				r.P = min(r.P, a)
			}
		}
		return r
	})
	out := []api.MirrorRow{}
	for n, i := range order {
		row := api.MirrorRow{Name: names[i], Requests: pairs(names[i]), Measures: []api.MirrorMeasure{}}
		if n < j.limit && j.control != "" {
			if err := j.floors(of[names[i]], found[i], o); err != nil {
				return nil, 0, err
			}
		}
		for k := range found[i] {
			row.Measures = append(row.Measures, found[i][k].api(names[i], against))
		}
		row.Verdict = direction(row.Measures)
		if lead := leadOf(row.Measures, row.Verdict); lead != nil {
			row.Lead = lead.Name
		}
		out = append(out, row)
	}
	return out, len(names), nil
}

func (j *judgement) row(r *rowData, candidate, against string, o stat.Options) ([]judged, error) {
	f := figures{duration: r.duration, ratio: r.ratio}
	var out []judged
	for _, m := range j.measures {
		if m.row {
			x, err := m.judge(f, candidate, against, j.control, j.primary, false, o)
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	}
	return out, nil
}

// floors fills in the noise floors that were of no account.
func (j *judgement) floors(r *rowData, row []judged, o stat.Options) error {
	f := figures{duration: r.duration, ratio: r.ratio}
	for i := range row {
		if row[i].floor == nil {
			if err := row[i].findFloor(f, j.control, j.primary, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// main are the measures of which nothing may be open for all to be the same.
var main = []string{judge.Ratio, "p50", "p95", "p99", judge.ErrorShare}

// direction is the verdict of several measures. Something is the same only if no main
// measure is open, or has too little data; errors too few to be judged are too few to
// differ by much.
func direction(ms []api.MirrorMeasure) judge.Verdict {
	var sum judge.Sum
	same := slices.ContainsFunc(ms, func(m api.MirrorMeasure) bool { return m.Verdict == judge.Same || m.Verdict == judge.WithinTolerance })
	for _, m := range ms {
		switch of := slices.Contains(main, m.Name); {
		case m.Verdict == judge.NoEvidence && !of && same:
		case m.Verdict == judge.TooLittle && of && m.Name != judge.ErrorShare && same:
			sum.Add(judge.NoEvidence, "")
		case m.Name == judge.Bytes && judge.Moved(m.Verdict): // neither good nor bad
			if !same {
				sum.Add(judge.NoEvidence, "")
			}
		default:
			sum.Add(m.Verdict, "")
		}
	}
	return sum.Word()
}

// leadOf is the measure that says most of a verdict, nil if there is none.
func leadOf(ms []api.MirrorMeasure, verdict judge.Verdict) *api.MirrorMeasure {
	return judge.Lead(ms, judge.Reading, func(m *api.MirrorMeasure) string {
		if m.Verdict != verdict && !(verdict == judge.Mixed && (m.Verdict == judge.Slower || m.Verdict == judge.MoreErrors)) { // of a mixed one, what got worse
			return ""
		}
		return m.Name
	}, func(m *api.MirrorMeasure) (float64, float64) {
		if !judge.Moved(m.Verdict) {
			return 0, 0
		}
		return margins(m)
	})
}

// conclude says what was found of a candidate. If a few operations differ it is
// they that are named, with what is said of the rest if all of it was looked at.
func conclude(v *api.MirrorVerdict, allLookedAt bool) {
	v.Verdict = direction(v.Measures)
	lead := leadOf(v.Measures, v.Verdict)
	if lead == nil && v.Verdict == judge.NoEvidence { // some are the same, of others there is too little
		if lead = leadOf(v.Measures, judge.Same); lead == nil {
			lead = leadOf(v.Measures, judge.WithinTolerance)
		}
	}
	if lead != nil {
		v.Headline = figure.Sentence(lead.Sentence)
	}
	overall := claimedOf(v.Measures)
	operations, inOperations := claimedRows(v.Operations)
	tenants, inTenants := claimedRows(v.Tenants)
	all := slices.Concat(overall, inOperations, inTenants)
	if len(all) == 0 {
		return
	}
	if found := direction(all); found != judge.NoEvidence { // larger answers are neither good nor bad
		v.Verdict = found
	}
	// Rows are in the order of what differs most.
	rows, n, what := v.Operations, operations, "operation"
	if operations == 0 {
		rows, n, what = v.Tenants, tenants, "tenant"
	}
	together := ""
	if lead != nil && judge.Moved(lead.Verdict) {
		together = lead.Sentence
	}
	if n == 0 || together != "" && (what == "tenant" || 3*n > v.OperationsJudged) {
		return // it is everything that differs
	}
	m := leadOf(rows[0].Measures, rows[0].Verdict)
	if m == nil {
		return
	}
	v.Headline = figure.Sentence(m.Sentence) + more(n-1, what)
	switch {
	case together != "":
		v.Headline += "; of everything together " + together
	case len(overall) == 0 && (what == "tenant" || tenants == 0) && allLookedAt:
		v.Headline += theRest(v)
	}
}

// theRest says what there is of measures that are not claimed.
func theRest(v *api.MirrorVerdict) string {
	which, found := "everything else", "no evidence of change"
	for _, rows := range [][]api.MirrorRow{{{Measures: v.Measures}}, v.Operations, v.Tenants} {
		for _, row := range rows {
			for _, m := range row.Measures {
				switch m.Verdict {
				case judge.TooLittle:
					which = "everything else that there is enough data of"
				case judge.WithinFloor:
					found = "nothing outside the noise floor"
				}
			}
		}
	}
	return ", " + which + ": " + found
}

// claimedOf are the measures that are claimed.
func claimedOf(ms []api.MirrorMeasure) (out []api.MirrorMeasure) {
	for i := range ms {
		if judge.Moved(ms[i].Verdict) {
			out = append(out, ms[i])
		}
	}
	return out
}

// claimedRows is how many rows differ, and by what.
func claimedRows(rows []api.MirrorRow) (n int, all []api.MirrorMeasure) {
	for i := range rows {
		if of := claimedOf(rows[i].Measures); len(of) > 0 {
			n, all = n+1, append(all, of...)
		}
	}
	return n, all
}

// more says how many others differ too.
func more(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 more " + what + " differs"
	}
	return fmt.Sprintf(", and %d more %ss differ", n, what)
}
