package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// window is a stretch of time that is searched by itself, and its middle half, whose changes
// it decides. The middle halves of all windows of a scale adjoin, so that each moment is
// decided by one window, whatever range is asked for. Moments are Unix seconds.
type window struct {
	start, end int64 // what is searched
	from, to   int64 // what is decided, without to
	step       int64 // length of a slot
}

// scale is the length of slots, and that of the windows in which they are searched.
type scale struct{ step, window, longest int64 }

// scales are those of ranges up to longest. Longer ranges are one window, for a season of days
// is taken out of them.
var scales = []scale{
	{step: 10, window: 4 * 3600, longest: 6*3600 + 600},
	{step: 60, window: day, longest: 25 * 3600},
}

// late is how long after its end a window may be searched anew every time.
const late = 2 * time.Minute

// windowsOf returns the windows that hold a moment of a range, in order of time, of which no
// slot after the newest is complete; 0 if all are. One that decides none of these moments may
// still decide the start or the end of what came and went, and so what is said of the other.
func (s scale) windowsOf(start, end, newest int64) (out []window) {
	apart, before := s.window/2, s.window/4
	first, last := max(before, start-before), end+before
	if newest > 0 {
		last = min(last, newest)
	}
	for from := (first-before)/apart*apart + before; from < last; from += apart {
		out = append(out, window{start: from - before, end: from - before + s.window, from: from, to: from + apart, step: s.step})
	}
	return out
}

// share is the part of the rate of false discoveries of a day that a window has. It keeps
// what it decides, half of what it finds; a range that is one window has all of it.
func (w window) share() float64 {
	if w.start == w.from && w.end == w.to {
		return 1
	}
	return min(1, 2*float64(w.end-w.start)/day)
}

// decides reports whether a moment is in the middle of a window.
func (w window) decides(at float64) bool { return float64(w.from) <= at && at < float64(w.to) }

// windows returns the windows of the range of r, and the range as it is answered. Where
// nothing was measured in a good part of its beginning, the slots are those of what is left:
// six hours asked of a server that has run for one show that hour's changes.
func (r *Request) windows(ctx context.Context, st store.Store) ([]window, api.Range, error) {
	step, of, err := compare.Slots(compare.Request{Selection: r.Selection, Now: r.Now})
	if err != nil {
		return nil, api.Range{}, err
	}
	start, end := (of.Start.Unix()+step-1)/step*step, of.End.Unix()/step*step
	scaleOf := func() int {
		return slices.IndexFunc(scales, func(s scale) bool { return end-start <= s.longest })
	}
	if scaleOf() != 0 {
		sel := r.Selection
		sel.Start, sel.End = time.Unix(start, 0), time.Unix(end, 0)
		found, err := query.Requests(ctx, st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: step}, Measure: store.Moments})
		if err != nil && !errors.Is(err, store.ErrTooMany) {
			return nil, api.Range{}, err
		}
		if err == nil {
			if first := slices.Index(found.Occupied(), true); first >= 0 {
				if at := found.Start + int64(first)*found.Step; 4*(at-start) >= end-start {
					start = at
				}
			}
		}
	}
	i := scaleOf()
	if i < 0 || r.cuts { // what is compared ends where it did, whatever comes after it
		return []window{{start: start, end: end, from: start, to: end}}, api.Range{Start: start, End: end}, nil
	}
	end = of.End.Unix() / scales[i].step * scales[i].step
	newest := int64(0)
	if !r.Now.IsZero() {
		newest = r.Now.Add(-unfinished).Unix()
	}
	return scales[i].windowsOf(start, end, newest), api.Range{Start: start, End: end}, nil
}

// inWindow is what the search of a window found, of which nothing is put under another yet.
type inWindow struct {
	window
	changes        []api.Change
	parts          []compare.Part
	rare           []compare.Part // that have too few requests
	searched, left int            // series, and operations that were not searched
	inTurn         []string       // notes of environments that follow each other
}

// searchWindows finds the changes of requests in the range of r, each by the window that
// decides its moment; nothing is known of decisions here.
func (f *Finder) searchWindows(ctx context.Context, r *Request) (*api.ChangesResponse, error) {
	windows, of, err := r.windows(ctx, f.st)
	if err != nil {
		return nil, err
	}
	counts, err := f.counts(ctx, r, windows)
	if err != nil {
		return nil, err
	}
	out := &api.ChangesResponse{Range: of, Slot: windows[0].step, Changes: []api.Change{}, Events: []api.ChangeEvent{}, Notes: []string{}}
	all, missing, kept, err := f.searchAll(ctx, r, windows, counts)
	if err != nil {
		return nil, err
	}
	out.Kept = kept
	parts := map[compare.Part]bool{}
	var inTurn []string
	left, rare, often := 0, map[compare.Part]bool{}, map[compare.Part]bool{} // of any window
	for _, found := range all {
		out.Slot, out.Searched = max(out.Slot, found.step), max(out.Searched, found.searched)
		left = max(left, found.left)
		for _, p := range found.rare {
			rare[p] = true
		}
		for _, p := range found.parts {
			often[named(p)] = often[named(p)] || p.Effective >= fewest
			parts[named(p)] = true
		}
		for _, note := range found.inTurn {
			if !slices.Contains(inTurn, note) {
				inTurn = append(inTurn, note)
			}
		}
	}
	maps.DeleteFunc(rare, func(p compare.Part, _ bool) bool { return often[p] })
	out.Unsearched = stretchesOf(missing, of)
	if len(all) > 0 {
		out.Notes = notSearched(out.Searched, left, len(rare))
	}
	out.Notes = slices.Concat(out.Notes, unsearchedText(out.Unsearched), searchedUntil(out), inTurn)
	out.Changes = join(all)
	if r.cuts {
		out.Changes = slices.DeleteFunc(out.Changes, func(c api.Change) bool { return !isWithin(&c, of) })
		return out, nil
	}
	out.Start, out.End = windows[0].start, min(windows[len(windows)-1].end, of.End)
	if err := describeEvents(ctx, f.st, out, slices.Collect(maps.Keys(parts))); err != nil {
		return nil, err
	}
	out.Range = of
	keepWithin(out)
	return out, nil
}

// searchAll returns what is found in the windows, in order of time, and those for which there
// was no time. Those of which nothing is known are searched first, the newest before others. A
// question that has a deadline is answered before it with what is known by then, if anything: the
// next one finds that in the caches, and goes on. One for what is known is answered also if nothing is.
// kept reports whether something of it was found for an earlier question.
func (f *Finder) searchAll(ctx context.Context, r *Request, windows []window, counts []string) (all []*inWindow, missing []window, kept bool, err error) {
	searching := ctx
	known := make([]*inWindow, len(windows))
	if !r.cuts && !r.Now.IsZero() {
		for i, w := range windows {
			known[i] = f.known.Kept(keyOf(r.of(w)), r.Now)
		}
	}
	deadline, ok := ctx.Deadline()
	within := time.Until(deadline) * 4 / 5 // the rest is for the answer
	if r.Known && (!ok || within > knownWithin) {
		within, ok = knownWithin, true
	}
	if ok && !r.cuts && (r.Known || len(windows) > 1) {
		var stop context.CancelFunc
		searching, stop = context.WithTimeout(ctx, within)
		defer stop()
	}
	var over error
	found := make([]*inWindow, len(windows))
	search := func(i int) error {
		out, err := f.searchWindow(searching, r, windows[i], counts[i])
		switch {
		case err == nil:
			found[i] = out
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded): // of this question, or of the search itself
			over, found[i] = err, known[i]
			kept = kept || known[i] != nil
		default:
			return err
		}
		return nil
	}
	for _, again := range []bool{false, true} {
		for i := range slices.Backward(windows) {
			switch {
			case (known[i] != nil) != again:
			case again && r.Known:
				found[i], kept = known[i], true
			default:
				if err := search(i); err != nil {
					return nil, nil, false, err
				}
			}
		}
	}
	for i, of := range found {
		if of != nil {
			all = append(all, of)
		} else {
			missing = append(missing, windows[i])
		}
	}
	if len(all) == 0 && !r.Known {
		return nil, nil, false, over
	}
	return all, missing, kept, nil
}

// stretchesOf returns the stretches of a range that windows decide, those that adjoin as one.
func stretchesOf(windows []window, of api.Range) (out []api.Range) {
	for _, w := range windows {
		from, to := max(w.from, of.Start), min(w.to, of.End)
		if n := len(out); n > 0 && out[n-1].End == from {
			out[n-1].End = to
		} else if from < to {
			out = append(out, api.Range{Start: from, End: to})
		}
	}
	return out
}

// unsearchedText says which stretches are not searched yet.
func unsearchedText(stretches []api.Range) (out []string) {
	for _, s := range stretches {
		out = append(out, fmt.Sprintf("%s to %s UTC is not searched yet, for that took too long; ask again in a moment", time.Unix(s.Start, 0).UTC().Format(time.DateTime), clockOf(s.Start, s.End)))
	}
	return out
}

// counts returns for each window of the past how many requests each of its hours has, by which
// it is known whether what was found in it is true still. It is empty of windows that are not
// over, whose answers are fresh for a while only.
func (f *Finder) counts(ctx context.Context, r *Request, windows []window) ([]string, error) {
	out := make([]string, len(windows))
	const hour = 3600
	past := 0
	for past < len(windows) && !r.Now.IsZero() && windows[past].end+int64(late.Seconds()) <= r.Now.Unix() {
		past++
	}
	if past == 0 {
		return out, nil
	}
	sel := r.Selection
	sel.Start, sel.End = time.Unix(windows[0].start, 0), time.Unix(windows[past-1].end, 0)
	found, err := query.Requests(ctx, f.st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: hour}, Measure: store.Moments})
	if errors.Is(err, store.ErrTooMany) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for i, w := range windows[:past] {
		out[i] = "past"
		for k := range int((found.End - found.Start) / found.Step) {
			if at := found.Start + int64(k)*found.Step; at+found.Step <= w.start || at >= w.end {
				continue
			}
			n := uint64(0)
			for _, g := range found.Groups {
				n += g.Count(k)
			}
			out[i] += fmt.Sprintf(",%d", n)
		}
	}
	return out, nil
}

// searchWindow returns what is found in a window, shared with the cache of those like it.
func (f *Finder) searchWindow(ctx context.Context, r *Request, w window, counts string) (*inWindow, error) {
	r = r.of(w)
	search := func(ctx context.Context) (*inWindow, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ctx, done := store.Passing(ctx) // nothing that was read is kept
		defer done()
		return search(ctx, f.st, r, w)
	}
	cache, key := &f.open, keyOf(r)
	switch {
	case r.Now.IsZero():
		return search(ctx)
	case counts != "":
		cache = &f.past
	case w.to+fewestSlots*w.step <= r.Now.Add(-unfinished).Unix():
		cache = &f.settling
	}
	if found := cache.Kept(key+counts, r.Now); found != nil {
		return found, nil
	}
	if err := f.failed.Kept(key+counts, r.Now); err != nil {
		return nil, *err
	}
	return f.searches.find(ctx, key+counts, search, func(found *inWindow, err error, took time.Duration) {
		if err != nil { // who asks again and again has it searched a part of the time
			f.failed.Keep(key+counts, r.Now, took, &err)
			return
		}
		cache.Keep(key+counts, r.Now, took, found)
		f.known.Keep(key, r.Now, took, found)
	})
}

// of returns the question about a window.
func (r *Request) of(w window) *Request {
	out := *r
	out.Start, out.End = time.Unix(w.start, 0), time.Unix(w.end, 0)
	return &out
}

// join returns the changes of all windows, each from the window that decides its moment, by
// time. What came and went is of the window that decides its start or its end. Where two
// windows date one change on either side of what parts them, it is that of the first, and where
// each leaves it to the other, it is kept all the same.
func join(all []*inWindow) []api.Change {
	type of struct {
		change *api.Change
		in     int
	}
	var kept []of
	for _, pass := range []func(w *inWindow, c *api.Change) bool{
		func(w *inWindow, c *api.Change) bool {
			return isSpike(c) && (w.decides(float64(c.Time)) || w.decides(float64(c.Shape.End)))
		},
		func(w *inWindow, c *api.Change) bool { return w.decides(float64(c.Time)) },
		func(w *inWindow, c *api.Change) bool {
			wide := float64(w.step)
			return float64(c.Low)-wide < float64(w.to) && float64(w.from) <= float64(c.High)+wide
		},
	} {
		for i, w := range all {
			for j := range w.changes {
				c := &w.changes[j]
				same := func(x of) bool {
					return x.change == c || x.in != i && isSame(x.change, c, float64(max(w.step, all[x.in].step)))
				}
				if pass(w, c) && !slices.ContainsFunc(kept, same) {
					kept = append(kept, of{c, i})
				}
			}
		}
	}
	out := []api.Change{}
	for _, x := range kept {
		out = append(out, *x.change)
	}
	slices.SortFunc(out, inTime)
	return out
}

// inTime compares changes by time, then by what they are of.
func inTime(x, y api.Change) int {
	return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Service, y.Service), cmp.Compare(x.Environment, y.Environment), cmp.Compare(x.Operation, y.Operation))
}

// isSame reports whether two windows may mean one change: one that was kept and another.
func isSame(kept, c *api.Change, wide float64) bool {
	both := func(v string) bool { return slices.Contains(c.Found, v) }
	if subjectOf(kept) != subjectOf(c) || !slices.ContainsFunc(kept.Found, both) {
		return false
	}
	low, high := float64(c.Low)-wide, float64(c.High)+wide
	meets := func(from, to api.Float) bool { return low <= float64(to) && float64(from) <= high }
	switch {
	case meets(kept.Low, kept.High):
		return true
	case isSpike(kept) && isSpike(c):
		return c.Time < api.Float(kept.Shape.End) && kept.Time < api.Float(c.Shape.End)
	case isSpike(kept):
		return meets(api.Float(kept.Shape.End), api.Float(kept.Shape.End))
	case inManySteps(kept):
		return meets(kept.Low, api.Float(kept.Shape.End))
	}
	return false
}

// isSpike reports whether a change came and went.
func isSpike(c *api.Change) bool { return c.Shape != nil && c.Shape.Kind == judge.Spike }

// inManySteps reports whether a change came in steps, until the end of its shape.
func inManySteps(c *api.Change) bool {
	return c.Shape != nil && c.Shape.Kind == judge.Drift && !c.Kink
}

// isWithin reports whether a change, from its start to the end of what came and went, is in a
// range.
func isWithin(c *api.Change, of api.Range) bool {
	end := int64(c.Time)
	if isSpike(c) || inManySteps(c) {
		end = max(end, c.Shape.End)
	}
	return int64(c.Time) < of.End && end >= of.Start
}

// keepWithin leaves out changes and events outside of the range. An event with a change in the
// range is answered whole.
func keepWithin(out *api.ChangesResponse) {
	keep := map[string]bool{}
	for i := range out.Changes {
		if c := &out.Changes[i]; isWithin(c, out.Range) {
			keep[c.ID] = true
		}
	}
	out.Events = slices.DeleteFunc(out.Events, func(e api.ChangeEvent) bool {
		return !slices.ContainsFunc(e.Changes, func(id string) bool { return keep[id] })
	})
	for _, e := range out.Events {
		for _, id := range e.Changes {
			keep[id] = true
		}
	}
	out.Changes = slices.DeleteFunc(out.Changes, func(c api.Change) bool { return !keep[c.ID] && !keep[c.Under] })
}
