package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tailscope/hist"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// pastAfter is how long after its end a column is past, in seconds: little comes later.
	pastAfter = 120
	// fewestPast is the least number of past columns that are worth keeping.
	fewestPast = 10
	// pastPiece is the number of columns that are read and kept together.
	pastPiece = 10
	// mostPast bounds the columns of all services that are kept of one question.
	mostPast = 30_000
	// pastSchema is that of kept columns, fine enough for the rows of a strip.
	pastSchema = 4
)

// serviceColumns are the requests of a service, column by column and together.
type serviceColumns struct {
	served    bool // they are spans of kind server or consumer
	all, good *hist.Histogram
	errors    uint64
	of        []column
}

// column holds what happened in one step; hist is nil where nothing did.
type column struct {
	count uint64
	p95   float64
	hist  *hist.Histogram
}

// PastCache keeps the columns of services that are past for a minute, and most of them for five, so
// that a page that is live reads the newest ones alone. The zero value is ready.
type PastCache struct {
	once     sync.Once
	kept     refresh.Cache[pastColumns]
	pieces   refresh.Cache[pastColumns] // of kept, those that later ones share
	measured refresh.Cache[pastCounts]
}

// init is for once.
func (c *PastCache) init() {
	c.kept.Size, c.kept.Fresh = 4, time.Minute
	c.pieces.Size, c.pieces.Fresh = 32, 5*time.Minute
	c.measured.Size, c.measured.Fresh = 4, time.Minute
}

// pastCounts are the requests of each service, of any kind, by columns.
type pastCounts struct {
	of    map[serviceIn]columns
	unfit bool // see pastColumns
}

// pastEnd is the end of the columns of [start, end) that are past. As start does, it moves with
// a live range, so that both are the same for a minute.
func pastEnd(start, end int64, now time.Time, step int64) int64 {
	step = max(step, minuteLong)
	return start + max(0, min(end, now.Unix())-pastAfter-start)/step*step
}

// counts returns how many requests the past columns of [from, to) have, and where they end; none
// where they are not kept.
func (c *PastCache) counts(m *Measured, from, to, step int64) (map[serviceIn]columns, int64, error) {
	if c == nil || m.now.IsZero() {
		return nil, from, nil
	}
	cut := pastEnd(from, to, m.now, step)
	if (cut-from)/step < fewestPast {
		return nil, from, nil
	}
	c.once.Do(c.init)
	past, err := c.measured.Get(m.ctx, fmt.Sprint(from, cut, step), m.now, func() (*pastCounts, error) {
		of, err := m.byService(from, cut, step, nil)
		out := &pastCounts{of: of}
		for _, x := range of {
			out.unfit = out.unfit || x.step > step
		}
		if int64(len(of))*((cut-from)/step) > mostPast {
			out.unfit = true
		}
		return out, err
	})
	if err != nil || past.unfit {
		return nil, from, err
	}
	return past.of, cut, nil
}

type pastColumns struct {
	of    map[serviceIn]*serviceColumns
	unfit bool // only longer slots are kept of them, or they are too many
}

// columns reads the columns of each service, and returns the question that was answered.
func (r *ServicesRequest) columns(ctx context.Context, st store.Store, q store.Query) (map[serviceIn]*serviceColumns, store.Query, error) {
	if r.Past != nil && !r.Now.IsZero() {
		found, answered, err := r.Past.columns(ctx, st, q, r)
		if found != nil || err != nil {
			return found, answered, err
		}
	}
	res, q, err := stepped(ctx, st, q, r.Start, r.End, r.Grid, 0)
	if err != nil {
		return nil, q, err
	}
	found, err := columnsByService(res.Groups, q)
	return found, q, err
}

// columns returns nil where no columns are worth keeping.
func (c *PastCache) columns(ctx context.Context, st store.Store, q store.Query, r *ServicesRequest) (map[serviceIn]*serviceColumns, store.Query, error) {
	step, err := r.choose(r.Start, r.End, 0)
	if err != nil {
		return nil, q, err
	}
	q.Step = step
	q.Start, q.End = align(r.Start, r.End, step)
	cut := pastEnd(q.Start, lastBase(r.End), r.Now, step)
	if (cut-q.Start)/step < fewestPast || r.Step == 0 && step < minuteLong && (q.End-q.Start)/minuteLong >= fewestSteps {
		return nil, q, nil
	}
	parts := []string{q.Family, strconv.FormatInt(step, 10)}
	for _, m := range q.Matchers {
		parts = append(parts, m.String())
	}
	slices.Sort(parts[2:])
	key := strings.Join(parts, "\x00")
	c.once.Do(c.init)
	past, err := c.kept.Get(ctx, fmt.Sprint(key, "\x00", q.Start, " ", cut), r.Now, func() (*pastColumns, error) {
		out, start := &pastColumns{of: map[serviceIn]*serviceColumns{}}, q.Start
		for from := start; from < cut; {
			q := q
			q.Start = from
			q.End = min(cut, from-from%(pastPiece*step)+pastPiece*step)
			read := func() (*pastColumns, error) { return readPast(ctx, st, q) }
			piece, err := (*pastColumns)(nil), error(nil)
			if q.End-from == pastPiece*step {
				piece, err = c.pieces.Get(ctx, fmt.Sprint(key, "\x00", from), r.Now, read)
			} else { // it is another one in a minute
				piece, err = read()
			}
			if err != nil || piece.unfit || int64(len(piece.of))*((cut-from)/step) > mostPast {
				return &pastColumns{unfit: true}, err
			}
			if err := out.append(piece, int((from-start)/step), int((q.End-from)/step)); err != nil {
				return nil, err
			}
			from = q.End
		}
		return out, nil
	})
	if err != nil || past.unfit {
		return nil, q, err
	}
	newest := q
	newest.Start = cut
	found := map[serviceIn]*serviceColumns{}
	if newest.End = min(q.End, lastBase(r.End)); newest.End > cut {
		res, err := st.Query(ctx, newest)
		if err != nil {
			return nil, q, err
		}
		newest.End = q.End
		if found, err = columnsByService(res.Groups, newest); err != nil {
			return nil, q, err
		}
	}
	n := int((q.End - q.Start) / step)
	for of, before := range past.of {
		if found[of], err = before.join(found[of], n); err != nil {
			return nil, q, err
		}
	}
	for of, s := range found {
		if len(s.of) < n {
			s.of = append(make([]column, n-len(s.of)), s.of...)
			found[of] = s
		}
	}
	return found, q, nil
}

// readPast reads columns that are past, in no more memory than they need.
func readPast(ctx context.Context, st store.Store, q store.Query) (*pastColumns, error) {
	res, err := st.Query(ctx, q)
	if err != nil || int64(res.Resolution) > q.Step {
		return &pastColumns{unfit: true}, err
	}
	of, err := columnsByService(res.Groups, q)
	for _, s := range of {
		for i := range s.of {
			if h := s.of[i].hist; h != nil && h.Schema > pastSchema && h.Schema != hist.Explicit {
				h.Reduce(pastSchema)
				s.of[i].hist = h.Clone()
			}
		}
	}
	return &pastColumns{of: of}, err
}

// append adds n columns behind those that there are, before of them.
func (p *pastColumns) append(piece *pastColumns, before, n int) error {
	for of, next := range piece.of {
		s := p.of[of]
		if s == nil {
			s = &serviceColumns{served: next.served, all: hist.New(hist.MaxSchema), good: hist.New(hist.MaxSchema), of: make([]column, before)}
		}
		var err error
		if p.of[of], err = s.join(next, before+n); err != nil {
			return err
		}
	}
	for of, s := range p.of {
		if len(s.of) < before+n {
			s.of = append(s.of, make([]column, n)...)
			p.of[of] = s
		}
	}
	return nil
}

// columnsByService puts the groups of an answer to q into columns. It uses their memory.
func columnsByService(groups []store.Group, q store.Query) (map[serviceIn]*serviceColumns, error) {
	out := map[serviceIn]*serviceColumns{}
	all, good := hist.New(hist.MaxSchema), hist.New(hist.MaxSchema) // of one service after the other
	for of, groups := range byService(groups) {
		s := &serviceColumns{served: slices.ContainsFunc(groups, isRequest), of: make([]column, int((q.End-q.Start)/q.Step))}
		all.Reset(hist.MaxSchema)
		good.Reset(hist.MaxSchema)
		for _, g := range onlyRequests(groups) {
			failed := g.Labels.Get(series.LabelStatus) == statusError
			for _, p := range g.Points {
				if p.Hist == nil || p.Hist.Count == 0 {
					continue
				}
				to := good
				if failed {
					s.errors += p.Hist.Count
					to = all
				}
				if err := to.Merge(p.Hist); err != nil {
					return nil, err
				}
				c := &s.of[(p.Start-q.Start)/q.Step]
				if c.count += p.Hist.Count; c.hist == nil {
					c.hist = p.Hist
				} else if err := c.hist.Merge(p.Hist); err != nil {
					return nil, err
				}
			}
		}
		if err := all.Merge(good); err != nil {
			return nil, err
		}
		s.all, s.good = all.Clone(), good.Clone()
		for i := range s.of {
			if c := &s.of[i]; c.hist != nil {
				c.p95 = c.hist.Quantile(0.95)
			}
		}
		out[of] = s
	}
	return out, nil
}

// join returns the columns of s, which stay as they are, and the newest ones behind them, n
// together. Where only one of the two has requests the spans of the other are none.
func (s *serviceColumns) join(newest *serviceColumns, n int) (*serviceColumns, error) {
	out := &serviceColumns{served: s.served, all: s.all.Clone(), good: s.good.Clone(), errors: s.errors, of: make([]column, n)}
	copy(out.of, s.of)
	switch {
	case newest == nil || s.served && !newest.served:
		return out, nil
	case newest.served && !s.served:
		out := *newest
		out.of = append(make([]column, n-len(newest.of)), newest.of...)
		return &out, nil
	}
	copy(out.of[n-len(newest.of):], newest.of)
	out.errors += newest.errors
	if err := out.all.Merge(newest.all); err != nil {
		return nil, err
	}
	return out, out.good.Merge(newest.good)
}

// last returns the end of the last column with requests, of columns from start on; 0 if none has any.
func (s *serviceColumns) last(start, step int64) int64 {
	for i := len(s.of) - 1; i >= 0; i-- {
		if s.of[i].count > 0 {
			return start + int64(i+1)*step
		}
	}
	return 0
}
