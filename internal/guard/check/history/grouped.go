package history

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Checks that one definition applies to many series ask the same of each at the
// same moment. Reading a slot of one of them costs nearly as much as reading it
// of all, because what is settled is packed together: so selectors that differ in
// the values of labels only are a shape, and what one of them asks is read for
// all of a shape by one grouped question.

// shape holds what selectors of distributions have in common.
type shape struct {
	family string
	view   series.View
	by     []string          // the labels that must have one value
	others []*labels.Matcher // all other matchers

	mu        sync.Mutex
	selectors int // different ones so far
	// Grouped, too many series matched: each asks for itself until a while has
	// passed, or there are more selectors.
	alone     time.Time
	aloneUpTo int
}

const (
	shapeFrom   = 8  // selectors from which on a shape asks as one
	shapeSeries = 40 // series a selector at most, in the mean
	aloneFor    = 10 * time.Minute

	groupedBytes = 64 << 20 // of all answers kept
	mostShapes   = 20_000   // beyond it they are counted anew
	settledMs    = 120_000  // what ended earlier hardly changes
	freshFor     = 5 * time.Second
	staleFor     = 5 * time.Minute
)

// asked is a selector's place in its shape.
type asked struct {
	shape    *shape
	value    string            // of the labels of shape.by
	matchers []*labels.Matcher // the selector's own
	invalid  error
}

type rangeKey struct{ from, to, step int64 }

type answerKey struct {
	shape *shape
	one   *asked // nil: of the whole shape
	rangeKey
}

// answer keeps an answer of the store for a while.
type answer struct {
	key   answerKey
	until time.Time
	held  int64 // of answers.bytes

	once   sync.Once
	groups map[string][]store.MergedPoint
	bytes  int64
	err    error
}

// answers keeps shapes, and answers by use.
type answers struct {
	mu     sync.Mutex
	shapes map[string]*shape
	m      map[answerKey]*list.Element // of *answer
	lru    list.List
	bytes  int64
}

const sep = "\xff"

// noteSelector finds the shape of a selector, and counts it.
func (c *answers) noteSelector(family string, matchers []*labels.Matcher) *asked {
	a := &asked{matchers: matchers}
	names := make([]string, len(matchers))
	values := map[string]string{}
	for i, m := range matchers {
		names[i] = m.Name
		if _, twice := values[m.Name]; m.Type == labels.MatchEqual && m.Value != "" && !twice {
			values[m.Name] = m.Value
		}
	}
	view, ok := query.ViewOf(family, names...)
	if !ok {
		a.invalid = query.Invalid("expression", "tenant and instance are not kept together; name one of the two")
		return a
	}
	s := &shape{family: family, view: view}
	for n := range values {
		s.by = append(s.by, n)
	}
	slices.Sort(s.by)
	key := []string{family, strconv.Itoa(int(view))}
	for _, n := range s.by {
		key = append(key, n)
		a.value += values[n] + sep
	}
	for _, m := range matchers {
		if m.Type != labels.MatchEqual || values[m.Name] != m.Value || m.Value == "" {
			s.others = append(s.others, m)
			key = append(key, m.String())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shapes == nil {
		c.shapes, c.m = map[string]*shape{}, map[answerKey]*list.Element{}
	}
	name := strings.Join(key, sep)
	if old := c.shapes[name]; old != nil {
		s = old
	} else {
		if len(c.shapes) >= mostShapes {
			clear(c.shapes)
		}
		c.shapes[name] = s
	}
	s.mu.Lock()
	s.selectors++
	s.mu.Unlock()
	a.shape = s
	return a
}

// together reports whether one query answers all selectors of the shape now, and bounds
// its series.
func (s *shape) together(now time.Time) (most int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.selectors * shapeSeries, len(s.by) > 0 && s.selectors >= shapeFrom && (s.selectors > s.aloneUpTo || !now.Before(s.alone))
}

// loadMerged returns the distributions of slots that started in [from, to), ms, merged per
// step in seconds; a step of 0 merges all.
func (h *History) loadMerged(ctx context.Context, a *asked, from, to, step int64) ([]store.MergedPoint, error) {
	now := h.o.Now()
	key := answerKey{a.shape, a, rangeKey{from, to, step}}
	q := store.Query{Family: a.shape.family, View: a.shape.view, Matchers: a.matchers,
		Start: from / 1000, End: to / 1000, Step: step, Schema: hist.DefaultSchema}
	most, together := a.shape.together(now)
	if together {
		key.one = nil
		q.Matchers, q.By, q.MaxSeries = a.shape.others, a.shape.by, most
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if fresh := to > now.UnixMilli()-settledMs; fresh && !together {
		r := &answer{}
		r.read(ctx, h, q)
		return r.groups[""], r.err
	}
	r := h.answers.get(key, now, to)
	r.once.Do(func() {
		// Others wait for this: it does not end because one of them gives up.
		r.read(context.WithoutCancel(ctx), h, q)
		h.answers.store(r)
	})
	if together && errors.Is(r.err, store.ErrTooMany) {
		a.shape.mu.Lock()
		a.shape.alone, a.shape.aloneUpTo = now.Add(aloneFor), 2*a.shape.selectors
		a.shape.mu.Unlock()
		return h.loadMerged(ctx, a, from, to, step)
	}
	if r.err != nil {
		return nil, r.err
	}
	if together {
		return r.groups[a.value], ctx.Err()
	}
	return r.groups[""], ctx.Err()
}

func (r *answer) read(ctx context.Context, h *History, q store.Query) {
	res, err := h.o.Cache.Query(ctx, q)
	if r.err = err; err != nil {
		return
	}
	r.groups = make(map[string][]store.MergedPoint, len(res.Groups))
	r.bytes = 300
	for _, g := range res.Groups {
		if g.Kind != series.Distribution {
			continue
		}
		value := ""
		for _, n := range q.By {
			value += g.Labels.Get(n) + sep
		}
		r.groups[value] = g.Points
		r.bytes += int64(len(value)) + 100
		for _, p := range g.Points {
			if p.Hist != nil {
				r.bytes += 250 + 8*int64(cap(p.Hist.Positive.Counts)+cap(p.Hist.Negative.Counts))
			}
		}
	}
}

// get returns the answer that is kept, or a new one to be read.
func (c *answers) get(key answerKey, now time.Time, to int64) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[key]; e != nil {
		if r := e.Value.(*answer); now.Before(r.until) {
			c.lru.MoveToFront(e)
			return r
		}
		c.drop(e)
	}
	r := &answer{key: key, until: now.Add(staleFor)}
	if to > now.UnixMilli()-settledMs {
		r.until = now.Add(freshFor)
	}
	c.m[key] = c.lru.PushFront(r)
	return r
}

// store counts an answer that has been read; one that failed is not kept.
func (c *answers) store(r *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[r.key]
	if e == nil || e.Value != r {
		return // it has been replaced meanwhile
	}
	if r.err != nil {
		c.drop(e)
		return
	}
	r.held = r.bytes
	c.bytes += r.held
	for c.bytes > groupedBytes && c.lru.Len() > 1 {
		c.drop(c.lru.Back())
	}
}

func (c *answers) drop(e *list.Element) {
	r := e.Value.(*answer)
	delete(c.m, r.key)
	c.lru.Remove(e)
	c.bytes -= r.held
}
