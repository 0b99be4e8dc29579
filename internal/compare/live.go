package compare

import (
	"slices"
	"time"

	"tailscope/internal/query"
	"tailscope/stat"
)

// checkMore checks what is asked for beside the measures.
func (r *Request) checkMore() error {
	known := []string{IncludeCurve, IncludeHeat, IncludeCohorts}
	for _, name := range r.Include {
		if !slices.Contains(known, name) {
			return query.Invalid("include", "there is no %s to include; %s", quote(name), query.Suggest(name, known))
		}
	}
	if r.Width == 0 {
		r.Width = defaultWidth
	}
	if r.Width < 0 || r.Width > mostWidth {
		return query.Invalid("width", "width %d is not between 1 and %d", r.Width, mostWidth)
	}
	if r.Rows == 0 {
		r.Rows = defaultRows
	}
	if r.Rows < 2 || r.Rows > mostRows {
		return query.Invalid("rows", "rows %d is not between 2 and %d", r.Rows, mostRows)
	}
	return nil
}

// more fills in what is asked for beside the measures.
func (c *comparison) more(whole, s *strata) error {
	if err := c.distribution(whole, s); err != nil {
		return err
	}
	if slices.Contains(c.Include, IncludeCurve) {
		if err := c.curve(whole, s); err != nil {
			return err
		}
	}
	if slices.Contains(c.Include, IncludeHeat) {
		return c.heat()
	}
	return nil
}

// live makes intervals that hold at every look. They are tightest once side B
// is as long as was planned, which is known before there are any data: the
// window of a mark, or what was asked for a moment or for slots of a second, else an hour.
// It is said in seconds, for slots get longer with a comparison that runs for long.
func (c *comparison) live() *stat.Live {
	if !c.Live {
		return nil
	}
	if c.Share > 0 {
		return &stat.Live{Share: c.Share}
	}
	planned := c.Length
	if planned == 0 || c.mark == nil && c.Moment.IsZero() && c.Seconds == nil {
		planned = defaultLength
	}
	l := &stat.Live{Slots: max(1, int(planned/time.Second/time.Duration(c.step)))}
	if !c.paired && c.a.end < c.b.end { // A is complete, B follows it
		l.Fixed = c.a.slots()
	}
	return l
}
