// Package compare judges a change: two sides of a selection in, a verdict on
// every measure out.
//
// A side is a sequence of slots with a distribution per operation. The sides are
// two windows, the same hours of earlier days, what lies before and after a
// mark, or two values of a label. Package stat judges them on slots, never on
// requests; what is left here is to choose the slots, to hold operations in the
// same shares on both sides, and to say what was found. Of a metric its series
// stand where the operations of requests do; a counter and a gauge are a ratio
// of two sums instead of a distribution.
package compare

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// Window is a range of time, half open.
type Window struct{ Start, End time.Time }

// Request asks for a comparison. The sides are given by A and B, by Mark, or by
// Label and its two values over [Start, End).
type Request struct {
	query.Selection
	A, B Window
	// WindowsA and WindowsB, if not empty, are several windows that make a side in its
	// place, such as five nights: what differs among them is then the noise.
	WindowsA, WindowsB []Window
	// WantedA and WantedB count the windows of a side that repeats; default 0, for windows
	// that are given one by one.
	WantedA, WantedB int
	// Mark is the id of a mark. A and B, if not zero, are then its sides, which may end
	// nearer than Length.
	Mark string
	// Together are the marks that are judged as one with Mark, in order of time: a provisional
	// side A ends at the first of them, and side B begins after the last. Empty: Mark alone.
	Together       []*store.Mark
	Label          string
	ValueA, ValueB string
	// Moment, if not zero, is what lies between sides A and B, as a mark does: what comes
	// and goes at it belongs to neither side.
	Moment time.Time
	// Chosen, if not nil, says how the end of side B was chosen.
	Chosen *Chosen
	// CohortOf, if not nil, names the cohort of a tenant, in place of its share of
	// requests; who is of none is small.
	CohortOf func(tenant string) (cohort string, ok bool)
	// Settle is cut out after a mark; a slot if negative. Length is how long a
	// side of a mark is, an hour if 0.
	Settle, Length time.Duration
	Now            time.Time // slots that have only just ended then are not read; the zero time: all are
	// Seconds, if not nil, is read in place of the store, in slots of Step seconds (1 if
	// 0): requests of one service, A and B being given. Tenants are not told apart. Slots of
	// Read are as long as Step at least.
	Seconds *seconds.Ring
	Step    int64
	// Newest, if not nil, judges a Live comparison provisionally while side B does not hold
	// 20 slots of ten seconds.
	Newest *seconds.Ring
	// Days, if above 0, makes side A of the same hours of that many earlier days
	// that are Like those of B: A is then left out. 0 with a Like is DefaultDays.
	Days int
	// Like says which days: LikeDay, LikeWeekday (if empty) or LikeWorkday.
	Like string
	// Zone is whose clocks say what the same time of another day is; UTC if nil.
	Zone *time.Location
	// Per is query.PerRequest, or empty: the increase of a counter, or the sum of
	// a distribution, is then judged for each request of the service.
	Per string

	Level  float64 // confidence; 0 is 0.95
	Within float64 // margin of sameness, a relative change; 0 is 0.05
	// Gates are the changes that are allowed, by measure; without one of its own a measure
	// is judged by Within. Nil are those of Mark.
	Gates judge.Gates
	// Live asks for intervals that hold at every look, not only at the last.
	Live bool
	// Share is the part of the error that this look at a Live comparison has, one of a few
	// at times that were fixed before; 0: there may be a look at any time.
	Share float64
	// Include names what is answered beside the measures: IncludeCurve, IncludeHeat,
	// IncludeCohorts.
	Include     []string
	Width, Rows int // the most columns of a side of the heat, and its rows; 0 is 240, and 120
	// Measures to judge; all if empty.
	Measures []string
	// OfRows are those of Measures that operations and tenants are judged by; default p50,
	// p95, p99 and errors.
	OfRows []string
	Limit  int // rows of each list; 0 is 20
	// RowsApart leaves the rows of lists as they changed among themselves, for a caller that
	// judges them: they need not agree with the verdict, and light tenants are not judged.
	RowsApart bool
	// Target is what satisfies a user, in seconds; query.DefaultApdexT if nil. It
	// is called by several goroutines at once.
	Target func(service, operation string) float64

	brief bool // answers measures and verdict only
}

// Chosen says that a side ends at one of so many moments, where a search found a change: there
// it is likelier to show the verdicts of Of by chance, as few errors just before they begin, and
// a better Apdex.
type Chosen struct {
	Of    []judge.Verdict
	Among int
}

// adjust allows for the choice of the end in what a measure shows.
func (c *Chosen) adjust(m *api.CompareMeasure) {
	if c != nil && (slices.Contains(c.Of, m.Verdict) || m.Name == judge.Apdex && m.Change == judge.Better) {
		m.Adjusted = min(1, m.Adjusted*api.Float(c.Among))
	}
}

// Days that are like another one.
const (
	LikeDay     = "day"     // the days before
	LikeWeekday = "weekday" // the same day of the weeks before: Mondays before a Monday
	// LikeWorkday is the working days before, Monday to Friday; of a Saturday or
	// Sunday the same day of the weeks before.
	LikeWorkday = "workday"
)

// DefaultDays is how many earlier days make side A unless said otherwise.
const DefaultDays = 4

// DefaultLevel is the confidence of intervals.
const DefaultLevel = 0.95

// DefaultWithin is the relative change within which figures are the same.
const DefaultWithin = 0.05

const (
	defaultLimit  = 20
	maxLimit      = 500
	defaultLength = time.Hour
	// discovery is the false discovery rate of lists and of the verdict of all.
	discovery = 0.05
)

func (r *Request) check() error {
	if r.Level == 0 {
		r.Level = DefaultLevel
	}
	if !(r.Level >= 0.5 && r.Level < 1) {
		return query.Invalid("level", "a confidence of %g is not between 0.5 and 1; write one such as 0.95", r.Level)
	}
	if r.Within == 0 {
		r.Within = DefaultWithin
	}
	if !(r.Within > 0 && r.Within <= 1) {
		return query.Invalid("within", "a margin of %g is not between 0 and 1; write one such as 0.05", r.Within)
	}
	if r.Limit == 0 {
		r.Limit = defaultLimit
	}
	if r.Limit < 0 || r.Limit > maxLimit {
		return query.Invalid("limit", "limit %d is not between 1 and %d", r.Limit, maxLimit)
	}
	if r.Family == "" {
		r.Family = series.SpanDuration
	}
	if r.Target == nil {
		r.Target = func(string, string) float64 { return query.DefaultApdexT }
	}
	if err := r.checkDays(); err != nil {
		return err
	}
	if err := r.checkWindows(); err != nil {
		return err
	}
	if err := r.checkMore(); err != nil {
		return err
	}
	if err := CheckGates(r.Gates); err != nil {
		return err
	}
	return checkMeasures("measures", r.Measures)
}

// CheckGates refuses gates of measures that there are not.
func CheckGates(gates judge.Gates) error { return checkMeasures("allow", gates.Measures()) }

// comparison is a comparison being made.
type comparison struct {
	Request
	given  []*labels.Matcher // of the request, before requests were chosen among spans
	st     store.Store
	kind   kind
	step   int64 // seconds of a slot
	paired bool
	mark   *store.Mark
	of     string // what is compared, in words
	a, b   *side  // an operation each
	// environments names services whose environments are strata of their own.
	environments map[string]bool
	followed     map[string][]string // see Stretches.Followed
	// fineA and fineB are strata of operation and cohort, for figures like for
	// like; a and b themselves where tenants cannot be told apart.
	fineA, fineB *side
	each         eachTenant                // nil if tenants are not told apart
	tenantCounts [2]map[string]hist.Moment // requests of tenants on either side; nil if not told apart
	lightRows    []api.CompareRow          // tenants judged together; at most one row
	tenantTotals [2]uint64                 // requests of all, also of tenants that are not asked for
	tenantFailed [2]map[string]uint64      // those of them that failed
	// Of a family that is not of spans: how often it is exported, in seconds, what
	// its points are, the labels that tell strata apart, and the series of either side.
	interval int64
	number   series.Kind
	by       []string
	nobodys  bool // there are series, and none has the label service
	seen     [2]map[string]bool
	unit     string // seconds, bytes or empty
	opts     stat.Options
	out      *api.CompareResponse
	lasting  string      // the sentence of what lasts
	whole    *strata     // all requests, raw; nil of numbers
	shapes   []api.Shape // spikes
	hints    []api.Shape // see spike
	before   *api.Shape  // a spike of side A that is left out
	left     []span      // what belongs to neither side
	usual    func() (usualDay, error)
}

// Compare judges what differs between the two sides. Its sentence begins with a small letter:
// figure.Sentence makes a headline of it.
func Compare(ctx context.Context, st store.Store, r Request) (*api.CompareResponse, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	c := &comparison{Request: r, given: r.Matchers, st: st}
	if out, err := c.provisional(ctx); out != nil || err != nil {
		return out, err
	}
	if err := c.compare(ctx); err != nil {
		return nil, err
	}
	return c.out, nil
}

// compare makes the answer.
func (c *comparison) compare(ctx context.Context) error {
	r := &c.Request
	if err := c.settleFamily(ctx); err != nil {
		return err
	}
	if err := c.checkAsked(); err != nil {
		return err
	}
	read := c.sides
	if r.Seconds != nil {
		read = c.bySeconds
	}
	if err := read(ctx); err != nil {
		return err
	}
	if r.Seconds == nil {
		if err := c.findGaps(ctx); err != nil {
			return err
		}
	}
	if err := c.findShapes(ctx); err != nil {
		return err
	}
	c.opts = stat.Options{Level: r.Level, Paired: c.paired, Live: c.live(), Blocks: c.blocks(), Apart: int((c.b.start - c.a.start) / c.step)}
	c.out = &api.CompareResponse{
		Family: r.Family, Unit: c.unit, Per: r.Per, Of: c.of, A: c.a.api(), B: c.b.api(), Label: r.Label, Paired: c.paired, Slot: c.step,
		Level: api.Float(r.Level), Within: api.Float(r.Within), Live: r.Live, StrataBy: []string{},
		Operations: []api.CompareRow{}, Tenants: []api.CompareRow{}, Warnings: []api.CompareWarning{}, Shapes: []api.Shape{},
	}
	if c.mark != nil {
		m := c.mark.API()
		c.out.Mark = &m
	}
	sides := c.compareDistributions
	if c.kind == ofNumbers {
		sides = c.compareNumbers
	}
	if err := sides(ctx); err != nil {
		return err
	}
	if r.Seconds != nil {
		c.onlyGross()
	}
	c.conclude()
	c.reconcile()
	c.nameShapes()
	if r.Seconds != nil {
		c.concludeSeconds()
	}
	c.cutLists()
	return nil
}

// compareDistributions judges requests, or what else is a distribution.
func (c *comparison) compareDistributions(ctx context.Context) error {
	c.fineA, c.fineB = c.a, c.b
	if c.kind == ofSpans && c.Seconds == nil {
		if err := c.cohorts(ctx); err != nil {
			return err
		}
	}
	whole, err := c.strata(c.a, c.b)
	if err != nil {
		return err
	}
	if c.kind == ofObservations && len(c.by) == 0 {
		whole.mix, whole.apart = nil, false // one kind of thing: nothing to hold in the same shares
	}
	c.whole = whole
	strata := whole
	if c.fineA != c.a {
		if strata, err = c.strata(c.fineA, c.fineB); err != nil {
			return err
		}
		// Of values that tenants hardly share operations alone can be compared.
		if c.atOneTime() && strata.rests < leastCovered && whole.rests >= leastCovered {
			c.fineA, c.fineB, strata = c.a, c.b, whole
		}
	}
	c.out.Covered, c.out.Strata, c.out.StrataBy = api.Float(strata.covered), strata.compared, c.strataLabels()
	if err := c.judge(whole, strata); err != nil {
		return err
	}
	if c.brief {
		return nil
	}
	c.usual = sync.OnceValues(func() (usualDay, error) { return c.usualDifference(ctx) })
	// Each has a part of the answer. What reads is one after the other: the budget of a question
	// is given out in the same order each time, and so the same is answered.
	var work errgroup.Group
	work.Go(func() error {
		err := c.tenants(ctx)
		if err == nil && c.mayBeSeason() {
			_, err = c.usual()
		}
		return err
	})
	work.Go(func() error { return c.more(whole, strata) })
	work.Go(func() error { return c.operations(whole) })
	work.Go(c.cohortRows)
	if err := work.Wait(); err != nil {
		return err
	}
	return c.warn(ctx, whole, strata)
}

// compareNumbers judges counters, gauges, and what falls to each request.
func (c *comparison) compareNumbers(ctx context.Context) error {
	c.out.Covered = api.Float(math.NaN())
	c.usual = func() (usualDay, error) { return c.usualDifference(ctx) }
	whole, each, names := c.numbers()
	if err := c.judge(whole, whole); err != nil {
		return err
	}
	if c.brief {
		return nil
	}
	if c.Per != "" { // the samples say nothing
		for i, t := range []stat.Tally{whole.valuesA[0], whole.valuesB[0]} {
			side := []*api.CompareSide{&c.out.A, &c.out.B}[i]
			rate := float64(side.Rate) / float64(side.Requests)
			side.Requests = uint64(sum(t.Den))
			side.Rate = api.Float(rate * float64(side.Requests))
		}
	}
	if err := c.labelRows(each, names); err != nil {
		return err
	}
	return c.warnNumbers(ctx)
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// cutLists keeps as many rows as were asked for; the verdict is of all.
func (c *comparison) cutLists() {
	c.out.Operations = c.out.Operations[:min(len(c.out.Operations), c.Limit)]
	c.out.Tenants = c.out.Tenants[:min(len(c.out.Tenants), c.Limit)]
}
