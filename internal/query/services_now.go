package query

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// What a minute of a service is compared with, and from when on it differs.
const (
	minuteLong = int64(series.Minute)
	// fewestMinutes is the least number of comparable minutes.
	fewestMinutes = 10
	// aroundClock is how far, in seconds, comparable minutes of earlier days lie from the
	// same time of day.
	aroundClock = 15 * 60
	// usualHours is how long before now minutes are comparable, in seconds. The last
	// third is left out: what has just changed is not usual yet.
	usualHours = 3 * 3600

	// widest is the number of deviations that a band reaches to either side. The deviation
	// follows from the median one, which a few bad minutes do not move.
	widest      = 3.0
	ofMedian    = 1.4826 // a normal variable's deviation over its median absolute one
	tailMinutes = 0.05   // the share of minutes that may lie beyond either end of a band

	// From here on a difference matters, however well it is known.
	leastOfDuration = 0.10
	leastOfRate     = 0.25
	leastOfErrors   = 0.001
	leastOfApdex    = 0.05

	// fewestSampled is the least number of requests that a minute of sampled ones measures:
	// of fewer, what one minute has says little of what it had.
	fewestSampled = 20

	// fewestErrors is the least number of failed requests that differ from none, fewestSlow of
	// those that take longer than a quantile usually is.
	fewestErrors = 3
	fewestSlow   = 3
	// poorApdex is what the Apdex specification calls unacceptable.
	poorApdex = 0.5

	// An episode, which an incident or an outage covers, has at least so many minutes that
	// lie apart from the others. What has more episodes than so is usual.
	fewestOfEpisode = 5
	mostEpisodes    = 2

	// From here on a minute lies apart from the others.
	apartOfDuration = 0.5
	apartOfRate     = 0.5
	apartOfErrors   = 0.01
	apartOfApdex    = 0.1
)

// usualDays are how many days before now minutes are comparable, the earliest first.
var usualDays = [...]int64{7, 1}

// nowQuantiles are those of the last minute.
var nowQuantiles = []Quantile{{"0.5", 0.5}, {"0.99", 0.99}}

// latestMinute bounds how long ago, in seconds, the last whole minute ended.
const latestMinute = 300

// The figures of a minute that are compared, as api.Service.Outside has them.
const (
	figureRate, figureErrors, figureP50, figureP99, figureApdex = "rate", "errors", "p50", "p99", "apdex"
)

// UsualCache keeps what is usual for the minutes asked about last. The zero value is ready.
type UsualCache struct {
	once    sync.Once
	kept    refresh.Cache[usualOfAll]
	minutes minuteCache
}

// usualOfAll holds the usual minutes of each service, before one minute.
type usualOfAll struct {
	of   map[serviceIn]*usual
	last map[serviceIn]int64 // end of the last minute with requests in the hours before
}

// usual is what minutes of a service are like.
type usual struct {
	bands  api.ServiceUsual
	weight float64 // how many requests one that was measured stands for
	each   float64 // how many requests a minute measured, by the median
	// hours are those before now whose minutes are comparable, in Unix seconds; empty if
	// they are not known.
	hours api.Range
}

// thin reports whether minutes were sampled so thinly that others are rather to be compared
// with.
func (u *usual) thin() bool { return u.weight > 1 && u.each < fewestSampled }

// get returns what is usual of services before the minute at.
func (c *UsualCache) get(ctx context.Context, st store.Store, q store.Query, at int64, r *ServicesRequest, services map[serviceIn]*serviceColumns) (*usualOfAll, error) {
	set := map[string]float64{} // each T that somebody set
	for of := range services {
		if t, ok := r.target(of.name); ok {
			set[of.name] = t
		}
	}
	if c == nil || r.Now.IsZero() {
		return readUsual(q, at, services, func(_ string, qs []store.Query, from, to int64) (map[serviceIn][]minute, error) {
			return readMinutes(ctx, st, qs, from, to, set)
		})
	}
	parts := []string{q.Family}
	for _, m := range q.Matchers {
		parts = append(parts, m.String())
	}
	for name, t := range set {
		parts = append(parts, fmt.Sprint(name, "\x01", t))
	}
	slices.Sort(parts[1:])
	key := strings.Join(parts, "\x00")
	c.once.Do(func() { c.kept.Size, c.kept.Fresh = 16, 2*time.Minute }) // a minute is asked about for a minute
	return c.kept.Get(ctx, fmt.Sprint(key, "\x00", at), r.Now, func() (*usualOfAll, error) {
		return readUsual(q, at, services, func(name string, qs []store.Query, from, to int64) (map[serviceIn][]minute, error) {
			for _, q := range qs {
				name += fmt.Sprint("\x00", q.Measure, q.Matchers)
			}
			return c.minutes.read(key+"\x00"+name, from, to, r.Now.Unix(), func(from, to int64) (map[serviceIn][]minute, error) {
				return readMinutes(ctx, st, qs, from, to, set)
			})
		})
	})
}

// nowOfServices adds to an answer what its last whole minute was like, what is usual, and
// how the two compare. q is the question that was answered.
func nowOfServices(ctx context.Context, st store.Store, q store.Query, r ServicesRequest, out *api.ServicesResponse, found map[serviceIn]*serviceColumns) error {
	first, last := int64(math.MaxInt64), int64(0)
	ends := make([]int64, len(out.Services))
	for i, s := range out.Services {
		ends[i] = lastBase(r.End)
		if !r.Now.IsZero() {
			// What comes late is read late, as its rate would dip.
			ends[i] = min(ends[i], series.Base.Slot(max(WholeUntil(r.Now, r.Newest, s.Name), r.Now.Unix()-latestMinute)))
		}
		first, last = min(first, ends[i]), max(last, ends[i])
	}
	if last <= r.Start.Unix() {
		return nil
	}
	q.Start, q.End, q.Step = first-minuteLong, last, int64(series.Base)
	res, err := st.Query(ctx, q)
	if err != nil {
		return err
	}
	if res.Resolution > series.Base {
		last = series.Minute.Slot(last)
		for i := range ends {
			ends[i] = last
		}
		q.Start, q.End, q.Step = last-minuteLong, last, minuteLong
		if res, err = st.Query(ctx, q); err != nil || res.Resolution > series.Minute {
			return err
		}
	}
	recent := byService(res.Groups)
	all, err := r.Usual.get(ctx, st, q, series.Minute.Slot(last-minuteLong), &r, found)
	if err != nil {
		return err
	}
	h, good := hist.New(hist.MaxSchema), hist.New(hist.MaxSchema) // of one service after the other
	for i := range out.Services {
		s := &out.Services[i]
		of := serviceIn{s.Name, s.Environment}
		errors, err := mergeRequests(h, good, recent[of], ends[i]-minuteLong, ends[i])
		if err != nil {
			return err
		}
		t, set := r.target(s.Name)
		s.Now = serviceNow(ends[i], h, errors)
		s.Now.Apdex = api.Float(ScoreApdex(good, errors, t).Score)
		if h.Count == 0 {
			s.Now.Last = lastRequest(found[of].last(out.Start, out.Step), all.last[of], s.Now.Start)
		}
		u := all.of[of]
		if u != nil {
			s.Usual = &u.bands
		}
		if len(res.Groups) == 0 { // nothing is measured
			continue
		}
		if u != nil {
			u.judge(s, h)
		}
		if set {
			judgeApdex(s, h.Effective())
		}
	}
	return r.Whom.name(ctx, st, q, &r, out, all)
}

// serviceNow describes the minute that ends at end.
func serviceNow(end int64, h *hist.Histogram, errors uint64) *api.ServiceNow {
	return &api.ServiceNow{
		Range: api.Range{Start: end - minuteLong, End: end}, Requests: h.Count, Rate: api.Float(float64(h.Count) / float64(minuteLong)),
		Errors: errors, ErrorRate: api.Float(float64(errors) / float64(h.Count)), Quantiles: quantiles(h, nowQuantiles),
	}
}

// lastRequest returns the end of the last slot with requests, before until: that of a column,
// or of the last minute with any, 0 if it is not known.
func lastRequest(column, minute, until int64) int64 {
	if column = min(column, until); minute > 0 && minute < column {
		return minute
	}
	return column
}

// mergeRequests sets all and good to the requests of a service from start to end, and to those of
// them that did not fail. It uses the memory of groups.
func mergeRequests(all, good *hist.Histogram, groups []store.Group, start, end int64) (errors uint64, err error) {
	all.Reset(hist.MaxSchema)
	good.Reset(hist.MaxSchema)
	for _, g := range onlyRequests(groups) {
		failed := g.Labels.Get(series.LabelStatus) == statusError
		for _, p := range g.Points {
			if p.Hist == nil || p.Start < start || p.Start >= end {
				continue
			}
			to := good
			if failed {
				errors += p.Hist.Count
				to = all
			}
			if err := to.Merge(p.Hist); err != nil {
				return 0, err
			}
		}
	}
	return errors, all.Merge(good)
}

// readUsual reads what is usual of services before the minute at: the same minutes of
// earlier days, else the hours before. read returns the minutes of a stretch, by its name and
// as readMinutes does.
func readUsual(q store.Query, at int64, services map[serviceIn]*serviceColumns, read func(name string, qs []store.Query, from, to int64) (map[serviceIn][]minute, error)) (*usualOfAll, error) {
	qs := onlyOfRequests(q, services)
	days := map[serviceIn][]minute{}
	for _, d := range usualDays {
		from := at - d*86400 - aroundClock
		found, err := read(fmt.Sprint(d, " days"), qs, from, from+2*aroundClock+minuteLong)
		if err != nil {
			return nil, err
		}
		for of, ms := range found {
			days[of] = append(days[of], ms...)
		}
	}
	known := true
	for of := range services {
		u, err := usualOf("days", days[of])
		if err != nil {
			return nil, err
		}
		known = known && u != nil && !u.thin() && u.toldDurations()
	}
	if known { // of the hours before only the rate is asked
		for i := range qs {
			qs[i].Measure = store.Moments
		}
	}
	hours, err := read("hours", qs, at-usualHours, at+minuteLong)
	if err != nil {
		return nil, err
	}
	out := &usualOfAll{of: map[serviceIn]*usual{}, last: map[serviceIn]int64{}}
	for of, ms := range hours {
		for _, m := range ms {
			if m.count > 0 {
				out.last[of] = m.start + minuteLong
			}
		}
	}
	for _, all := range []map[serviceIn][]minute{days, hours} {
		for of := range all {
			if out.of[of] != nil {
				continue
			}
			if u, err := usualBefore(days[of], settled(hours[of], at)); err != nil {
				return nil, err
			} else if u != nil {
				out.of[of] = u
			}
		}
	}
	return out, nil
}

// usualBefore returns what is usual by the minutes of earlier days, else by those of the hours
// before; nil if both are too few.
func usualBefore(days, hours []minute) (*usual, error) {
	u, err := usualOf("days", days)
	if err != nil {
		return nil, err
	}
	h, err := usualOf("hours", hours)
	if h == nil || err != nil {
		return u, err
	}
	h.hours = api.Range{Start: hours[0].start, End: hours[len(hours)-1].start + minuteLong}
	if u == nil || u.thin() && !h.thin() {
		return h, nil
	}
	// A weekend is not a working day: its rate is odd only if it is unlike the hours before, too.
	u.bands.Rate.Low, u.bands.Rate.High = min(u.bands.Rate.Low, h.bands.Rate.Low), max(u.bands.Rate.High, h.bands.Rate.High)
	u.hours = h.hours
	if !u.toldDurations() { // the hours have more requests
		err = u.durations(slices.Concat(days, hours))
	}
	return u, err
}

// settled returns the minutes from the first with requests on, without the last third of
// the time before at.
func settled(ms []minute, at int64) []minute {
	first := slices.IndexFunc(ms, func(m minute) bool { return m.count > 0 })
	if first < 0 {
		return nil
	}
	until := at - (at-ms[first].start)/3
	return slices.DeleteFunc(slices.Clone(ms[first:]), func(m minute) bool { return m.start+minuteLong > until })
}

// onlyOfRequests returns questions that read no more than the requests of services: of
// those that serve requests these alone, and all spans of the others.
func onlyOfRequests(q store.Query, services map[serviceIn]*serviceColumns) []store.Query {
	var others []string
	for of, columns := range services {
		if !columns.served {
			others = append(others, regexp.QuoteMeta(of.name))
		}
	}
	with := func(name, pattern string) store.Query {
		q := q
		q.Matchers = append(slices.Clone(q.Matchers), labels.MustNewMatcher(labels.MatchRegexp, name, pattern))
		return q
	}
	out := []store.Query{with(series.LabelKind, "server|consumer")}
	if len(others) > 0 {
		out = append(out, with(series.LabelService, strings.Join(others, "|")))
	}
	return out
}

// usualOf returns the bands of minutes, nil if they are too few or none has requests.
func usualOf(of string, ms []minute) (*usual, error) {
	busy := slices.DeleteFunc(slices.Clone(ms), func(m minute) bool { return m.count == 0 })
	if len(ms) < fewestMinutes || len(busy) == 0 {
		return nil, nil
	}
	requests, squares, counts := 0.0, 0.0, make([]float64, len(busy))
	for i, m := range busy {
		requests, squares, counts[i] = requests+m.count, squares+m.squares, m.count
	}
	u := &usual{weight: max(1, squares/requests), bands: api.ServiceUsual{Of: of, Minutes: len(ms)}}
	u.each = quantileOf(counts, 0.5) / u.weight
	noise := func(rate float64) float64 {
		return widest * math.Sqrt(rate*float64(minuteLong)/u.weight) * u.weight / float64(minuteLong)
	}
	rates := usualValues(ms, func(m *minute) float64 { return m.count / float64(minuteLong) }, true, func(v float64) float64 { return max(apartOfRate*v, noise(v)) })
	u.bands.Rate = band(rates, func(v float64) float64 { return max(leastOfRate*v, noise(v)) })
	u.bands.Rate.Low = max(0, u.bands.Rate.Low)

	if err := u.durations(busy); err != nil {
		return nil, err
	}

	errors := usualValues(busy, func(m *minute) float64 { return m.errors / m.count }, false, func(float64) float64 { return max(apartOfErrors, fewestErrors/u.each) })
	u.bands.Errors = band(errors, func(float64) float64 { return leastOfErrors })
	if len(errors) >= fewestMinutes {
		// Where a minute seldom has errors, what one may have follows from all of them but
		// for the worst.
		worst := quantileOf(errors, 1-tailMinutes)
		failed, of := 0.0, 0.0
		for _, m := range busy {
			if m.errors/m.count <= worst {
				failed, of = failed+m.errors, of+m.count
			}
		}
		_, share := wilson(failed/of, of/u.weight)
		deviation := math.Sqrt(share * (1 - share) / u.each)
		u.bands.Errors.High = min(1, max(u.bands.Errors.High, api.Float(share+widest*deviation)))
		u.bands.Errors.Low = max(0, u.bands.Errors.Low)
	}

	lost := usualValues(busy, func(m *minute) float64 { return 1 - m.apdex }, false, func(float64) float64 { return apartOfApdex })
	if b := band(lost, func(float64) float64 { return leastOfApdex }); len(lost) >= fewestMinutes {
		u.bands.Apdex = &api.UsualBand{Middle: 1 - b.Middle, Low: max(0, 1-b.High), High: min(1, 1-b.Low)}
	}
	return u, nil
}

// durations sets the bands of quantiles by minutes.
func (u *usual) durations(ms []minute) (err error) {
	if u.bands.P50, err = usualDuration(ms, nowQuantiles[0].Q, 0, func(m *minute) float64 { return m.p50 }); err != nil {
		return err
	}
	reach := math.Log(float64(u.bands.P50.High / u.bands.P50.Middle))
	u.bands.P99, err = usualDuration(ms, nowQuantiles[1].Q, reach, func(m *minute) float64 { return m.p99 })
	return err
}

// toldDurations reports whether the bands of quantiles are known.
func (u *usual) toldDurations() bool {
	return !math.IsNaN(float64(u.bands.P50.High)) && !math.IsNaN(float64(u.bands.P99.High))
}

// holds reports whether so many independent requests hold a quantile: whether the interval of
// its share leaves one of them beyond its upper end. A p99 takes 300 requests, a p50 6.
func holds(q, alone float64) bool {
	_, high := wilson(q, alone)
	return alone*(1-high) >= 1
}

// usualDuration returns the band of a quantile of minutes, of each of which of returns it. A
// minute that does not hold it is merged with those that follow until they do: the p99 of
// three requests is the slowest of them, and a minute of many seems slow beside it. Where this
// leaves too few for a band, it is the interval of the quantile of all of them, and NaN if
// they do not hold it. As merging hides how far one minute lies from the next, such a band
// reaches at least so far, as a logarithm.
func usualDuration(ms []minute, q, reach float64, of func(*minute) float64) (api.UsualBand, error) {
	log := func(m *minute) float64 { return math.Log(max(of(m), shortest)) }
	usual := usualMinutes(ms, log, false, func(float64) float64 { return math.Log1p(apartOfDuration) })
	var logs []float64 // of stretches
	least := math.Log1p(leastOfDuration)
	stretch := hist.New(hist.MaxSchema)
	for _, m := range usual {
		if holds(q, m.alone()) {
			logs = append(logs, log(m))
			continue
		}
		least = max(least, reach)
		if err := stretch.MergeEncoded(m.packed); err != nil {
			return api.UsualBand{}, err
		}
		if holds(q, stretch.Effective()) {
			logs = append(logs, math.Log(max(stretch.Quantile(q), shortest)))
			stretch.Reset(hist.MaxSchema)
		}
	}
	few := len(logs) < fewestMinutes
	b := band(logs, func(float64) float64 { return least })
	if few {
		var alone []float64 // of minutes whose requests are not kept
		all := hist.New(hist.MaxSchema)
		for _, m := range usual {
			if m.packed == nil {
				alone = append(alone, log(m))
			} else if err := all.MergeEncoded(m.packed); err != nil {
				return api.UsualBand{}, err
			}
		}
		if n := all.Effective(); holds(q, n) {
			at := func(q float64) float64 { return math.Log(max(all.Quantile(q), shortest)) }
			low, high := wilson(q, n)
			middle := at(q)
			alone = append(alone, at(low), at(high), middle-least, middle+least)
			b = api.UsualBand{Middle: api.Float(middle), Low: api.Float(slices.Min(alone)), High: api.Float(slices.Max(alone))}
		}
	}
	return api.UsualBand{Middle: api.Float(math.Exp(float64(b.Middle))), Low: api.Float(math.Exp(float64(b.Low))), High: api.Float(math.Exp(float64(b.High)))}, nil
}

// usualValues returns a figure of those of the minutes that usualMinutes returns.
func usualValues(ms []minute, figure func(*minute) float64, below bool, apart func(middle float64) float64) []float64 {
	usual := usualMinutes(ms, figure, below, apart)
	out := make([]float64, len(usual))
	for i, m := range usual {
		out[i] = figure(m)
	}
	return out
}

// usualMinutes returns the minutes, which are in order of time, of which a figure is known, but
// for episodes: stretches in which it lies above the others, or below them if that counts
// too. What an incident or an outage covers is not usual, also while a server is so young
// that it is much of what is known. apart returns how far from the middle a minute lies
// apart, at least: as far as from one minute to the next it seldom goes.
func usualMinutes(ms []minute, figure func(*minute) float64, below bool, apart func(middle float64) float64) []*minute {
	known, values := make([]*minute, 0, len(ms)), make([]float64, 0, len(ms))
	for i := range ms {
		if v := figure(&ms[i]); !math.IsNaN(v) {
			known, values = append(known, &ms[i]), append(values, v)
		}
	}
	if len(values) <= fewestMinutes {
		return known
	}
	middle := quantileOf(slices.Clone(values), 0.5)
	steps := make([]float64, len(values)-1)
	for i := range steps {
		steps[i] = math.Abs(values[i+1] - values[i])
	}
	reach := max(widest*ofMedian/math.Sqrt2*quantileOf(steps, 0.5), apart(middle))
	var episodes [][2]int
	first, last, found := 0, 0, 0
	end := func() {
		if found >= fewestOfEpisode {
			episodes = append(episodes, [2]int{first, last})
		}
		found = 0
	}
	for i, v := range values {
		if v <= middle+reach && (v >= middle-reach || !below) {
			continue
		}
		if found > 0 && known[i].start-known[last].start > 2*minuteLong {
			end()
		}
		if found == 0 {
			first = i
		}
		last, found = i, found+1
	}
	end()
	if len(episodes) > mostEpisodes {
		return known
	}
	if len(episodes) == 0 {
		return known
	}
	out, from := make([]*minute, 0, len(known)), 0
	for _, e := range episodes {
		out, from = append(out, known[from:e[0]]...), e[1]+1
	}
	if out = append(out, known[from:]...); len(out) < fewestMinutes {
		return known
	}
	return out
}

// shortest stands for durations of 0, which have no logarithm.
const shortest = 1e-9

// band returns a band that holds nearly all values, and the middle with at least so much to
// either side of it. It is NaN of too few. It sorts values.
func band(values []float64, least func(middle float64) float64) api.UsualBand {
	if len(values) < fewestMinutes {
		nan := api.Float(math.NaN())
		return api.UsualBand{Middle: nan, Low: nan, High: nan}
	}
	middle := quantileOf(values, 0.5)
	from := make([]float64, len(values))
	for i, v := range values {
		from[i] = math.Abs(v - middle)
	}
	low, high := quantileOf(values, tailMinutes), quantileOf(values, 1-tailMinutes)
	reach := max(widest*ofMedian*quantileOf(from, 0.5), least(middle))
	return api.UsualBand{Middle: api.Float(middle), Low: api.Float(min(low, middle-reach)), High: api.Float(max(high, middle+reach))}
}

// quantileOf sorts values, of which there is one at least, and returns their q-quantile.
func quantileOf(values []float64, q float64) float64 {
	slices.Sort(values)
	at := q * float64(len(values)-1)
	i := int(at)
	if i+1 == len(values) {
		return values[i]
	}
	return values[i] + (at-float64(i))*(values[i+1]-values[i])
}

// Judge gives a service a state for a reason; a worse one that it has stays.
func Judge(s *api.Service, state api.ServiceState, why string) {
	if s.State != api.Worse {
		s.State = state
	}
	if s.Why != "" {
		s.Why += "; "
	}
	s.Why += why
}

// judgeFigure says that a figure lies outside.
func judgeFigure(s *api.Service, name string, state api.ServiceState, why string) {
	if s.Outside == nil {
		s.Outside = map[string]api.ServiceState{}
	}
	s.Outside[name] = state
	Judge(s, state, name+" "+why)
}

// judge says which figures of s.Now, whose requests are h, lie outside of what is usual: those
// whose whole 95 % interval does, by three requests at least.
func (u *usual) judge(s *api.Service, h *hist.Histogram) {
	s.State = api.Well
	outside := func(name string, state api.ServiceState, value func(api.Float) string, now string, b api.UsualBand) {
		judgeFigure(s, name, state, now+", usually "+betweenValues(value(b.Low), value(b.High)))
	}
	alone := h.Effective()
	if low, _ := wilson(float64(s.Now.ErrorRate), alone); h.Count > 0 && float64(s.Now.ErrorRate)*alone >= fewestErrors && low > float64(u.bands.Errors.High) {
		percent := func(v api.Float) string { return figure.Percent(float64(v)) }
		outside(figureErrors, api.Worse, percent, percent(s.Now.ErrorRate), u.bands.Errors)
	}
	seconds := func(v api.Float) string { return figure.Value(float64(v), "seconds") }
	for _, f := range []struct {
		name string
		q    Quantile
		b    api.UsualBand
	}{{figureP99, nowQuantiles[1], u.bands.P99}, {figureP50, nowQuantiles[0], u.bands.P50}} {
		low, _ := wilson(f.q.Q, alone)
		least := h.Quantile(low)
		if !(least > float64(f.b.High)) || alone*above(h, float64(f.b.High)) < fewestSlow {
			continue
		}
		now := seconds(s.Now.Quantiles[f.q.Key])
		if alone*(1-f.q.Q) < 1 { // no request beyond it: only its interval is known
			now = "at least " + seconds(api.Float(least))
		}
		outside(f.name, api.Worse, seconds, now, f.b)
	}
	if low, high := u.rateOf(h); low > float64(u.bands.Rate.High) || high < float64(u.bands.Rate.Low) {
		rate := func(v api.Float) string { return figure.Value(float64(v), "") + "/s" }
		outside(figureRate, api.Odd, rate, rate(s.Now.Rate), u.bands.Rate)
	}
}

// judgeApdex says whether the Apdex of s.Now, of as many requests as alone, lies below what is
// usual, or is poor, by a T that somebody set. No score of so many requests has a wider
// interval than that of a share.
func judgeApdex(s *api.Service, alone float64) {
	_, high := wilson(float64(s.Now.Apdex), alone)
	now := fmt.Sprintf("%.2f by T %s", s.Now.Apdex, figure.Value(float64(s.ApdexT), "seconds"))
	switch {
	case alone < fewestErrors:
	case s.Usual != nil && s.Usual.Apdex != nil && high < float64(s.Usual.Apdex.Low):
		judgeFigure(s, figureApdex, api.Worse, fmt.Sprintf("%s, usually %.2f … %.2f", now, s.Usual.Apdex.Low, s.Usual.Apdex.High))
	case high < poorApdex:
		judgeFigure(s, figureApdex, api.Worse, now+", which is poor")
	}
}

// rateOf returns the interval of the rate of a minute's requests: the score interval of a
// Poisson count, of as many independent requests as say as much.
func (u *usual) rateOf(h *hist.Histogram) (low, high float64) {
	const c = 1.959
	weight := u.weight
	if h.Count > 0 {
		weight = max(1, h.SquaredWeights()/float64(h.Count))
	}
	n := float64(h.Count) / weight
	mid, half := n+c*c/2, c*math.Sqrt(n+c*c/4)
	return (mid - half) * weight / float64(minuteLong), (mid + half) * weight / float64(minuteLong)
}

// betweenValues names a unit that both ends have once.
func betweenValues(low, high string) string {
	unit := func(s string) string { return strings.TrimLeft(s, "0123456789.,e+-") }
	if u := unit(low); u == unit(high) {
		low = strings.TrimSuffix(low, u)
	}
	return figure.Between(low, high, "")
}
