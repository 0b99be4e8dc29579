package changes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// fewest requests, or as many as say as much, for which a part is searched.
const fewest = 200

// fewestSlots with requests that a side of a comparison needs.
const fewestSlots = 20

// fewestAfter is the least distance of a change from the end of a range, in slots.
const fewestAfter = 10

// besideMix is the level of what is said to differ where the mix explains a change: the
// search then says nothing for it, and operations are as many more chances to err.
const besideMix = 0.01

// measures that stretches are compared by.
var (
	ofDurations = []string{"p50", "p95", "p99"}
	measures    = append(slices.Clip(ofDurations), judge.ErrorShare)
)

// candidate is a change of a part.
type candidate struct {
	part  compare.Part
	title string // names the requests, or the metric
	inner *inner // the part of its requests that changed; nil of the requests themselves
	point point
	tally *stat.Tally // see searched
	// before and after are the stretches that are compared.
	before, after compare.Stretch
	// ofFew are errors that takeFew took, and besideFew is of a part from which it took any.
	ofFew, besideFew bool
}

// measures are those by which the stretches are compared: errors of few tenants have a change of
// their own.
func (c *candidate) measures() []string {
	switch {
	case c.ofFew:
		return []string{judge.ErrorShare}
	case c.besideFew && !slices.Contains(c.point.of, Errors):
		return ofDurations
	}
	return measures
}

// search finds the changes of a window.
func search(ctx context.Context, st store.Store, r *Request, w window) (*inWindow, error) {
	s, err := compare.Read(ctx, st, compare.Request{Selection: r.Selection, Now: r.Now, Step: w.step, Measures: measures, Limit: r.Operations, CohortOf: r.CohortOf})
	if err != nil {
		return nil, err
	}
	out := &inWindow{window: w, parts: s.Parts()}
	out.step = s.Step()
	parts := out.choose(s, r)
	for _, service := range slices.Sorted(maps.Keys(s.Followed())) {
		out.inTurn = append(out.inTurn, inTurnText(service, s.Followed()[service]))
	}
	spikes, err := takeExcursions(ctx, st, s, r, parts)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	quiet := map[compare.Part]searched{} // durations that are searched
	shorter, err := takeSpikes(ctx, s, wholes(s, parts), func(p compare.Part, of *stat.Series) error {
		durations, slots := of.WithoutEmpty()
		found, err := searchDurations(s, p, durations, slots, discovery)
		mu.Lock()
		defer mu.Unlock()
		quiet[p] = found
		return err
	})
	if err != nil {
		return nil, err
	}
	spikes = append(spikes, shorter...)
	var inside []inner
	if !r.cuts {
		if inside, err = innerParts(ctx, st, s, parts, r); err != nil {
			return nil, err
		}
	}
	out.searched = len(parts) + len(inside)
	var few func(candidate) ([]string, error)
	if !r.cuts {
		few = func(c candidate) ([]string, error) { return fewErrors(ctx, st, s, r, c) }
	}
	found, err := candidates(ctx, s, parts, inside, quiet, ofOperations(r), among*w.share(), few)
	if err != nil {
		return nil, err
	}
	if found, err = withoutMix(ctx, st, s, found); err != nil {
		return nil, err
	}
	hidden, err := takeSpikes(ctx, s, betweenSteps(found), nil)
	if err != nil {
		return nil, err
	}
	spikes = append(spikes, hidden...)
	changes := make([]api.Change, len(found))
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range found {
		work.Go(func() error {
			if err := working.Err(); err != nil {
				return err
			}
			change, err := describe(working, s, c, r.Newest)
			if err == nil {
				changes[i] = *change
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	changes, found = withoutWander(changes, found)
	judged := func(c candidate) (*api.Change, error) { return describe(ctx, s, c, r.Newest) }
	if !r.cuts { // a side must begin behind the last step
		few := func(c *api.Change) ([]string, error) {
			if c.Part != nil {
				return nil, nil
			}
			found, err := compareWho(ctx, st, s, r, c)
			if err != nil || found == nil {
				return nil, err
			}
			return fewTenants(found, c.Found), nil
		}
		if changes, found, err = inSteps(changes, found, out.step, judged, few); err != nil {
			return nil, err
		}
	}
	if changes, err = withoutReturns(changes, found, out.step, judged); err != nil {
		return nil, err
	}
	out.changes = append(changes, spikes...)
	slices.SortFunc(out.changes, inTime)
	if r.cuts {
		return out, nil
	}
	out.changes = asOne(out.changes)
	if err := out.nameWho(ctx, st, s, r); err != nil {
		return nil, err
	}
	return out, nil
}

// nameWho names who moved in the changes that the window decides. Which of them lead is known
// of all windows together only, so that it keeps nothing of what is put under another.
func (w *inWindow) nameWho(ctx context.Context, st store.Store, s *compare.Stretches, r *Request) error {
	all := &api.ChangesResponse{Range: api.Range{Start: s.Start(0), End: s.Start(s.Slots())}, Slot: w.step, Changes: slices.Clone(w.changes)}
	if err := describeEvents(ctx, st, all, w.parts); err != nil {
		return err
	}
	var at []int
	var own []api.Change
	for i := range all.Changes {
		if c := &all.Changes[i]; w.decides(float64(c.Time)) {
			at, own = append(at, i), append(own, *c)
		}
	}
	if err := nameWho(ctx, st, s, r, own); err != nil {
		return err
	}
	for i, c := range own {
		x := &w.changes[at[i]]
		x.Who, x.Headline, x.Sentence = c.Who, c.Headline, c.Sentence
	}
	return nil
}

// withoutWander leaves out changes of a rate alone that are too small beside the stretches they
// are between, though they were not at the moment.
func withoutWander(changes []api.Change, of []candidate) (kept []api.Change, its []candidate) {
	for i, c := range changes {
		j := slices.IndexFunc(c.Measures, func(m api.CompareMeasure) bool { return m.Name == judge.Rate })
		if slices.Equal(c.Found, []string{Rate}) && j >= 0 && math.Abs(math.Log(float64(c.Measures[j].Raw.Effect))) < leastLoad {
			continue
		}
		kept, its = append(kept, c), append(its, of[i])
	}
	return kept, its
}

// asOne makes one change of those of one subject that began at one moment, as where a rate
// fell and p95 with it, or a step came with a spike: what people decide is kept by the id.
func asOne(changes []api.Change) []api.Change {
	out := []api.Change{}
	for _, c := range changes {
		i := slices.IndexFunc(out, func(x api.Change) bool { return x.ID == c.ID })
		if i < 0 {
			out = append(out, c)
			continue
		}
		x := &out[i]
		if len(x.Measures) == 0 && len(c.Measures) > 0 { // what lasts leads
			*x, c = c, *x
		}
		for _, of := range c.Found {
			if !slices.Contains(x.Found, of) {
				x.Found = append(slices.Clip(x.Found), of)
			}
		}
		if said := c.Headline; !strings.Contains(x.Sentence, said) {
			headline := x.Headline
			x.Headline = headline + "; " + said
			if slices.Equal(c.Found, []string{Rate}) {
				c.Rate = said
			}
			x.Rate = cmp.Or(x.Rate, c.Rate)
			x.Sentence = strings.Replace(x.Sentence, headline, x.Headline, 1)
		}
		if c.Verdict == judge.Regression {
			x.Verdict = c.Verdict
		}
	}
	return out
}

// inTurnText says that a service's environments are searched as one.
func inTurnText(service string, environments []string) string {
	names := slices.Clone(environments)
	for i := range names {
		names[i] = cmp.Or(names[i], "none")
	}
	return fmt.Sprintf("the environments of %s follow each other (%s) and are searched as one", service, strings.Join(names, ", "))
}

// searchedUntil says up to when changes can be found where slots are long.
func searchedUntil(out *api.ChangesResponse) []string {
	const short = 60 // seconds: the newest ten minutes are no surprise
	if out.Slot <= short {
		return nil
	}
	newest := time.Unix(out.End-fewestAfter*out.Slot, 0).UTC().Format("2006-01-02 15:04 MST")
	return []string{fmt.Sprintf("nothing newer than %s can be found in slots of %s; ask for a shorter range", newest, judge.Span(out.Slot))}
}

// ofOperations says that the question is about some of a service's operations.
func ofOperations(r *Request) bool {
	return slices.ContainsFunc(r.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelOperation })
}

// choose returns the parts to search, and notes the others: no service as a whole where the
// question is about some of its operations.
func (w *inWindow) choose(s *compare.Stretches, r *Request) (parts []compare.Part) {
	some := ofOperations(r)
	searched := 0
	for _, p := range s.Parts() {
		switch {
		case p.Own && p.Operation == "" || !p.Own && some:
			continue // the service as a whole is not what was asked for, or stands for it
		case p.Effective < fewest:
			w.rare = append(w.rare, named(p))
			continue
		case p.Own && searched == r.Operations:
			w.left++
			continue
		case p.Own:
			searched++
		}
		parts = append(parts, p)
	}
	return parts
}

// notSearched says what was not searched, of so many series that were.
func notSearched(searched, left, rare int) []string {
	out := []string{}
	if searched == 0 && rare == 0 {
		out = append(out, "nothing that matches was measured in this range; take a filter off, or ask for another range")
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%d operations with fewer requests were not searched; ask for more with operations, or for one by match", left))
	}
	if rare > 0 {
		out = append(out, fmt.Sprintf("%d services or operations have fewer than %d requests, too few to search", rare, fewest))
	}
	return out
}

// thingsOf are what is searched of a part. The rate is that of what was asked for as a
// whole: operations that come more and less often than before are the mix of a service.
func thingsOf(p compare.Part, some bool) []string {
	if p.Own && !some {
		return []string{Durations, Errors}
	}
	return []string{Durations, Errors, Rate}
}

// candidates are the change points of all parts whose probability, adjusted for
// all that was searched, is small enough. Those of a part follow each other, in order of time,
// and then those of its errors that takeFew takes by few, if that is not nil. Quiet has the
// durations that were searched before.
func candidates(ctx context.Context, s *compare.Stretches, parts []compare.Part, inside []inner, quiet map[compare.Part]searched, some bool, level float64, few func(candidate) ([]string, error)) ([]candidate, error) {
	var all []searched
	for _, p := range parts {
		for _, of := range thingsOf(p, some) {
			all = append(all, searched{part: p, of: of})
		}
	}
	for i := range inside {
		for _, of := range []string{Calls, Time} {
			all = append(all, searched{part: inside[i].part, inner: &inside[i], of: of})
		}
	}
	points := func(i int, alpha float64) (searched, error) {
		if of := &all[i]; of.inner != nil {
			return searchInner(s, of.inner, of.of, alpha)
		}
		return searchPart(s, all[i].part, all[i].of, alpha)
	}
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		work.Go(func() (err error) {
			if err := working.Err(); err != nil {
				return err
			}
			if found, known := quiet[all[i].part]; known && all[i].of == Durations && all[i].inner == nil {
				all[i] = found
				return nil
			}
			all[i], err = points(i, discovery)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	if err := keepDiscoveries(all, level, points); err != nil {
		return nil, err
	}
	var taken map[compare.Part][]candidate
	if few != nil {
		var err error
		if taken, err = takeFew(all, s.Step(), few); err != nil {
			return nil, err
		}
	}
	var out []candidate
	for _, of := range together(all) {
		var ofFew []candidate
		if of.inner == nil {
			ofFew = taken[named(of.part)]
		}
		for _, c := range slices.Concat(stretched(of), ofFew) {
			c.title, c.besideFew = s.Subject(c.part), len(ofFew) > 0
			c.apartFrom(ofFew)
			out = append(out, c)
		}
	}
	return out, nil
}

// keepDiscoveries adjusts the probabilities of all points for how much was searched, with
// that without a point, and drops those above the false discovery rate, level. What was searched
// counts once, however many points it has: the two ends of a spike are as clear as each other.
// Where points that follow each other are dropped, it has what is clear enough searched again:
// two steps of one rise may each be less clear than the rise.
func keepDiscoveries(all []searched, level float64, points func(i int, alpha float64) (searched, error)) error {
	p := make([]float64, len(all))
	for i, of := range all {
		p[i] = 1
		for _, x := range of.points {
			p[i] = min(p[i], x.p)
		}
	}
	times := stat.AmongFamilies(p, level)
	for i := range all {
		kept, err := keepClear(all[i].points, level/times, func() (searched, error) { return points(i, level/times) })
		if err != nil {
			return err
		}
		for j := range kept {
			kept[j].p *= times
		}
		all[i].points = kept
	}
	return nil
}

// keepClear drops the points with a probability above alpha, and puts in place of two or more of
// them that follow each other what is found among them again.
func keepClear(points []point, alpha float64, again func() (searched, error)) (kept []point, err error) {
	var found *searched
	for from := 0; from < len(points); {
		to := from
		for to < len(points) && points[to].p > alpha {
			to++
		}
		if to-from > 1 && found == nil {
			one, err := again()
			if err != nil {
				return nil, err
			}
			found = &one
		}
		if to-from > 1 {
			for _, x := range found.points {
				if points[from].low <= x.at && x.at <= points[to-1].high && x.p <= alpha {
					kept = append(kept, x)
				}
			}
		}
		for from = to; from < len(points) && points[from].p <= alpha; from++ {
			kept = append(kept, points[from])
		}
	}
	return kept, nil
}

// stretched gives each change of a part the stretches before and after it, up
// to the next ones. Slots in which the moment may lie belong to neither, if
// there are enough without them.
func stretched(of searched) []candidate {
	enough := func(from, to int) bool { // slots with requests
		a, _ := slices.BinarySearch(of.slots, from)
		b, _ := slices.BinarySearch(of.slots, to)
		return b-a >= fewestSlots
	}
	out := make([]candidate, len(of.points))
	for j, x := range of.points {
		// What was not there yet is not part of a stretch.
		from, to := of.slots[0], max(of.end, of.slots[len(of.slots)-1]+1)
		if j > 0 {
			from = of.points[j-1].at
		}
		if j+1 < len(of.points) {
			to = of.points[j+1].at
		}
		c := candidate{part: of.part, inner: of.inner, tally: of.tally, point: x, before: compare.Stretch{From: from, To: x.at}, after: compare.Stretch{From: x.at, To: to}}
		if enough(from, x.low) {
			c.before.To = x.low
		}
		if enough(x.high, to) {
			c.after.From = x.high
		}
		out[j] = c
	}
	return out
}

// newChange returns a change of which nothing is judged yet.
func newChange(s *compare.Stretches, c candidate) *api.Change {
	at := s.Start(c.point.at)
	out := &api.Change{
		Time: api.Float(at), Low: api.Float(s.Start(c.point.low)), High: api.Float(s.Start(c.point.high)),
		Service: c.part.Service, Environment: c.part.Environment, Operation: c.part.Operation, P: api.Float(c.point.p),
		Before: api.Range{Start: s.Start(c.before.From), End: s.Start(c.before.To)},
		After:  api.Range{Start: s.Start(c.after.From), End: s.Start(c.after.To)},
		Found:  c.point.of, Kink: c.point.kink, OfFew: c.ofFew,
	}
	if c.inner != nil {
		name := c.inner.name()
		out.Part = &name
	}
	out.ID = idOf(subjectOf(out), at)
	return out
}
