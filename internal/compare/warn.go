package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

const (
	// calls an operation has more than before, and total time it has not, before
	// it looks as though only what is measured had changed.
	callsJumped, timeStayed = 1.5, 1.1
)

func (c *comparison) warning(code, format string, args ...any) {
	c.out.Warnings = append(c.out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// warn says what speaks against taking the figures at their word.
func (c *comparison) warn(ctx context.Context, whole, s *strata) error {
	if moved, chance := shift(c.fineA, c.fineB); mixed(moved, chance) || c.explained() {
		c.warning("mix", "%s of the %ss are of other %s than on side A%s: go by the like-for-like figures", figure.Percent(moved), c.what(), c.strataName(), c.mover())
	}
	switch {
	case c.kind == ofObservations && len(c.by) == 0:
	case s.mix == nil && len(c.a.strata) > 0 && len(c.b.strata) > 0:
		c.warning("coverage", "nothing can be compared like for like: none of the %s has %.0f %ss on both sides", c.strataName(), c.least(), c.what())
	case s.mix != nil && s.covered < 0.95:
		c.warning("coverage", "%s that both sides have are only %s of the %ss of one of them: the like-for-like figures are of those%s", c.strataName(), figure.Percent(s.covered), c.what(), c.cameAndWent(s.gone))
	}
	if c.kind == ofObservations {
		c.warnSeries()
		return c.warnTime(ctx)
	}
	c.warnGaps()
	if err := c.warnErrors(whole); err != nil {
		return err
	}
	if c.Label == "" {
		if err := c.warnRates(whole); err != nil {
			return err
		}
	}
	return c.warnTime(ctx)
}

// warnNumbers does so of numbers.
func (c *comparison) warnNumbers(ctx context.Context) error {
	c.warnSeries()
	if err := c.warnLoad(ctx); err != nil {
		return err
	}
	return c.warnTime(ctx)
}

// warnTime says what else differs between two times.
func (c *comparison) warnTime(ctx context.Context) error {
	switch {
	case c.Label != "":
		return nil
	case c.Seconds != nil:
		return c.warnMarks(ctx)
	}
	if c.several() {
		c.warnWindows()
	} else if err := c.warnSeason(); err != nil {
		return err
	}
	return c.warnMarks(ctx)
}

// loadMoved is how much more or less a service answers before it is said of
// what it consumes.
const loadMoved = 0.1

// warnLoad says when a counter rose or fell beside the requests of its service.
func (c *comparison) warnLoad(ctx context.Context) error {
	services := slices.ContainsFunc(c.Matchers, func(m *labels.Matcher) bool {
		return m.Name == series.LabelService && m.Type == labels.MatchEqual && m.Value != ""
	})
	if c.Per != "" || c.number != series.Counter || !services || c.Label != "" {
		return nil
	}
	var rate [2]float64
	for i, side := range []*side{c.a, c.b} {
		long := 0.0
		for _, w := range side.where().ranges(side.step) {
			sel := c.within(w)
			sel.Family = series.SpanDuration
			sel.Matchers = slices.DeleteFunc(slices.Clone(sel.Matchers), func(m *labels.Matcher) bool { return m.Name != series.LabelService })
			found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Whole: true, Measure: store.Moments})
			if err != nil {
				return err
			}
			for _, g := range found.Groups {
				rate[i] += float64(g.Count(0))
			}
			long += float64(w.end - w.start)
		}
		rate[i] /= long
	}
	if rate[0] > 0 && rate[1] > 0 && math.Abs(math.Log(rate[1]/rate[0])) > math.Log1p(loadMoved) {
		more, word := rate[1]/rate[0]-1, "more"
		if more < 0 {
			more, word = -more, "fewer"
		}
		c.warning("load", "the service answered %s %s requests a second on side B: compare what each request takes, per=request (--set per=request)", figure.Percent(more), word)
	}
	return nil
}

// cameAndWent names a few of what only one side has, or has in another share.
func (c *comparison) cameAndWent(gone []operation) string {
	const few = 3
	var words []string
	for _, name := range gone[:min(few, len(gone))] {
		na, nb := c.fineA.effective(name), c.fineB.effective(name)
		rose, did := nb*c.fineA.effective() > na*c.fineB.effective(), "fell"
		switch apart := lopsided(c.fineA, c.fineB, na, nb); {
		case apart && rose:
			did = "came"
		case apart:
			did = "went"
		case rose:
			did = "grew"
		}
		title := judge.Where(orNone(name.operation), name.environment, "")
		switch {
		case name.tenant != "":
			title += " for " + name.tenant
		case name.cohort != "":
			title += " of " + name.cohort + " tenants"
		}
		words = append(words, title+" "+did)
	}
	if more := len(gone) - few; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	if len(words) == 0 {
		return ""
	}
	return "; " + strings.Join(words, ", ")
}

func (c *comparison) warnErrors(s *strata) error {
	x, err := stat.Shares(s.errorsA, s.errorsB, nil, stat.Difference, c.opts)
	if err != nil {
		return err
	}
	if v := x.Verdict(0); v == stat.Less || v == stat.More {
		c.warning("errors", "the error ratio went from %s to %s, and durations are of good and failed requests together: compare those of one status alone", figure.Percent(x.A), figure.Percent(x.B))
	}
	return nil
}

// warnRates looks for saturation, and for what only looks like a change.
func (c *comparison) warnRates(s *strata) error {
	rate, err := stat.Ratios(s.ratesA, s.ratesB, nil, stat.LogRatio, c.opts)
	if err != nil {
		return err
	}
	slower := slices.ContainsFunc(c.out.Measures, func(m api.CompareMeasure) bool { return m.Verdict == judge.Slower && float64(m.Adjusted) <= discovery })
	if v := rate.Verdict(0); v == stat.Less && slower {
		ratio, _ := rate.Ratio()
		c.warning("saturation", "requests take longer while %s fewer are answered: something may be saturated", figure.Percent(1-ratio))
	} else if ratio, _ := rate.Ratio(); v == stat.Less || v == stat.More {
		c.warnRequests(ratio)
	}
	var suspects []string
	for i, name := range s.single {
		calls, err := stat.Ratios(rates(c.a, s.errorsA[i:i+1]), rates(c.b, s.errorsB[i:i+1]), nil, stat.LogRatio, c.opts)
		if err != nil {
			return err
		}
		mean, err := stat.Mean(s.a[i:i+1], s.b[i:i+1], nil, c.opts)
		if err != nil {
			return err
		}
		if calls.Short != "" || mean.Short != "" {
			continue
		}
		more, ci := calls.Ratio()
		time, _ := mean.Ratio()
		if ci.Low > callsJumped && math.Abs(math.Log(more*time)) < math.Log(timeStayed) {
			suspects = append(suspects, name.title())
		}
	}
	if len(suspects) > 0 {
		c.warning("instrumentation", "%s: many more calls, but no more time in all: what is measured may have changed, not how long it takes", strings.Join(suspects, ", "))
	}
	return nil
}

// warnRequests says how many more or fewer requests a second side B has, where the verdict
// does not.
func (c *comparison) warnRequests(ratio float64) {
	said := slices.ContainsFunc(c.out.Measures, func(m api.CompareMeasure) bool { return m.Name == judge.Rate && c.found(&m) })
	switch {
	case said || math.Abs(math.Log(ratio)) <= math.Log1p(loadMoved):
	case ratio < 1:
		c.warning("load", "there are %s fewer requests a second on side B", figure.Percent(1-ratio))
	default:
		c.warning("load", "there are %s more requests a second on side B", figure.Percent(ratio-1))
	}
}

// warnSeason says when hours of the day, or another kind of day, may be what
// differs, and how to compare without them.
func (c *comparison) warnSeason() error {
	free := func(t int64) bool {
		d := time.Unix(t, 0).In(c.Zone).Weekday()
		return d == time.Saturday || d == time.Sunday
	}
	if busy := slices.DeleteFunc(slices.Clone(c.a.busy), func(b bool) bool { return !b }); len(busy) < len(c.a.days) {
		c.warning("days", "only %d of the %d earlier days have %ss", len(busy), len(c.a.days), c.what())
	}
	if c.paired {
		if c.days() == 1 && free(c.a.start) != free(c.b.start) {
			c.warning("season", "one side is of a working day, the other is not: compare with days that are alike, %s", c.earlier(LikeWorkday))
		}
		return nil
	}
	if !c.mayBeSeason() {
		return nil
	}
	usual, err := c.usual()
	switch {
	case err != nil:
		return err
	case usual.what != "":
		c.warning("season", "the same hours of an earlier day differ as well (%s): compare with the same hours of earlier days, %s", usual.what, c.earlier(LikeWorkday))
	case !usual.known && c.hoursApart() >= apartUnknown:
		c.warning("season", "the sides are of hours far apart, and there is no earlier day to see a daily season by: once there is, compare with the same hours of earlier days, %s", c.earlier(LikeWorkday))
	}
	return nil
}

// apartUnknown is from how many seconds between the sides on a season is feared of
// which nothing is known.
const apartUnknown = 3 * 3600

// mayBeSeason reports whether the sides are of other hours of the day, so that an earlier day says
// whether these differ by themselves.
func (c *comparison) mayBeSeason() bool {
	const near = 1800
	return c.Label == "" && c.Seconds == nil && !c.several() && !c.paired && c.hoursApart() >= near
}

// hoursApart returns how far apart the hours of the day are at which the sides begin, in
// seconds.
func (c *comparison) hoursApart() int64 {
	const day = 86400
	apart := (((c.b.start - c.a.start) % day) + day) % day
	return min(apart, day-apart)
}

// oneHour reports whether the sides are of hours so near that a daily season hardly is what
// differs.
func (c *comparison) oneHour() bool { return c.paired || c.several() || c.hoursApart() < apartUnknown }

// usualDay is what the same hours of an earlier day differ by, empty if by nothing; known says
// that there is a day with enough data.
type usualDay struct {
	what  string
	known bool
}

// usualDifference compares the same hours of an earlier day: the last that is like
// side B's, else the same day of the week before, else the day before.
func (c *comparison) usualDifference(ctx context.Context) (out usualDay, err error) {
	r := c.Request
	r.Mark, r.Label, r.Days, r.Like, r.Include, r.Live = "", "", 1, LikeWorkday, nil, false
	r.brief, r.Level, r.Matchers = true, 0.99, c.given
	if c.kind != ofNumbers {
		r.Measures = []string{"p50", "p95"}
	}
	a, b := c.a.window(), c.b.window()
	days, err := (&comparison{Request: r}).earlierDays(b)
	if err != nil {
		return out, nil // a side is longer than a day
	}
	for _, n := range append(days, 7, 1) {
		r.A, r.B, r.Days, r.Like = c.earlierWindow(a, n), c.earlierWindow(b, n), 0, ""
		found, err := Compare(ctx, c.st, r)
		switch {
		case err != nil && ctx.Err() == nil: // no series then, too many, or damaged: only a warning is lost
			continue
		case err != nil:
			return out, err
		case found.Verdict == judge.TooLittle:
			continue
		}
		if judge.Moved(found.Verdict) || found.Verdict == judge.Drifts {
			out.what = figure.Sentence(found.Sentence)
		}
		out.known = true
		return out, nil
	}
	return out, nil
}

// window returns the range of a side.
func (s *side) window() Window { return Window{time.Unix(s.start, 0), time.Unix(s.end, 0)} }

// days is how many days side A is of.
func (c *comparison) days() int { return max(1, len(c.a.days)) }

// earlier asks for a comparison of B with earlier days: parameters, and flags.
func (c *comparison) earlier(like string) string {
	at := func(t int64) string { return time.Unix(t, 0).UTC().Format(time.RFC3339) }
	tz, flag := "", ""
	if name := c.Zone.String(); c.Zone != time.UTC {
		tz, flag = "&tz="+name, " --set tz="+name
	}
	return fmt.Sprintf("b=%s/%s&days=%d&like=%s%s (--b %[1]s..%[2]s --days %[3]d --set like=%[4]s%[6]s)", at(c.b.start), at(c.b.end), DefaultDays, like, tz, flag)
}

// warnMarks names what else happened.
func (c *comparison) warnMarks(ctx context.Context) error {
	start, end := min(c.out.A.Start, c.out.B.Start), max(c.out.A.End, c.out.B.End)
	marks, err := store.Marks(ctx, c.st, time.Unix(start, 0), time.Unix(end, 0))
	if err != nil {
		return err
	}
	services := map[string]bool{}
	for _, s := range []*side{c.a, c.b} {
		for name := range s.strata {
			services[name.service] = true
		}
	}
	var names []string
	for _, m := range marks {
		at := m.Time.Unix()
		if m.ID != c.Mark && (c.a.holds(at) || c.b.holds(at)) && (m.Service == "" || services[m.Service]) {
			names = append(names, quote(m.Name)+" at "+clock(at)+" UTC")
		}
	}
	if len(names) > 0 {
		c.warning("marks", "within the sides lies also %s", strings.Join(names, ", "))
	}
	return nil
}
