package requests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/bench/load"
)

// Set is a compiled Spec, good for one run. Its Sources share the rows that were
// taken; a second run continues where the first ended, except with Spec.Random. Its
// Sources may be used at the same time, each by one goroutine.
type Set struct {
	base    *url.URL
	queries []string
	tenants []string
	checker *checker // nil if nothing is checked
	notes   []string

	seed  uint64
	now   func() time.Time
	http2 bool

	// Named queries.
	items   []*item
	order   dealt
	weights []float64 // cumulated, if each request is drawn at random; else nil

	// Requests that are known one by one: targets, a recording, a log.
	fixed    []load.Request
	loop     bool
	recorded bool
	period   time.Duration // from the beginning of one pass to that of the next
	think    think
	what     string // names them

	ranOut atomic.Pointer[string]
}

// item is a named query.
type item struct {
	name    string
	query   int
	tenant  int
	tenants []int32 // by row, if rows differ
	ready   *load.Request
	think   think

	json   string // the field that its body of JSON stands in; empty if it is none
	method string
	target template
	before []byte // fields of HTTP/1.1 that are always the same
	fields []field
	body   template
	table  *table // nil without data
	order  order
	once   bool
	seed   uint64
	taken  atomic.Uint64 // of Spec.Random: how many requests were drawn
}

type field struct {
	name  string
	value template
}

// Base returns the URL that requests go to: scheme, host and port.
func (s *Set) Base() *url.URL { return s.base }

// Queries returns the names that load.Request.Query is an index of.
func (s *Set) Queries() []string { return s.queries }

// Tenants returns the names that load.Request.Tenant is an index of: the heaviest,
// then _other if there are more.
func (s *Set) Tenants() []string { return s.tenants }

// Checks returns the names of the checks.
func (s *Set) Checks() []string {
	if s.checker == nil {
		return nil
	}
	return s.checker.names
}

// Recorded reports whether requests bring their own times (load.Options.Recorded).
func (s *Set) Recorded() bool { return s.recorded }

// Duration returns the time from the first recorded request to the last, once; 0 if
// they have no times.
func (s *Set) Duration() time.Duration {
	if !s.recorded {
		return 0
	}
	return s.fixed[len(s.fixed)-1].Due
}

// Endless reports whether the requests never run out.
func (s *Set) Endless() bool {
	if s.fixed != nil {
		return s.loop
	}
	return !slices.ContainsFunc(s.items, func(it *item) bool { return it.once })
}

// Checker returns the checks of answers, or nil if there are none.
func (s *Set) Checker() load.Checker {
	if s.checker == nil {
		return nil
	}
	return s.checker
}

// Accepts reports whether a status is not an error: the query's check allows it, or
// there is no such check and it is below 400.
func (s *Set) Accepts(query, status int) bool {
	if s.checker != nil {
		for i := range s.checker.queries[query] {
			if c := &s.checker.queries[query][i]; c.kind == onStatus {
				return c.wantsStatus(status)
			}
		}
	}
	return status < 400
}

// Enough returns an error if the data does not last for so many requests; it names
// what runs out and after how many.
func (s *Set) Enough(requests uint64) error {
	if s.fixed != nil {
		if n := uint64(len(s.fixed)); !s.loop && !s.recorded && requests > n {
			return fmt.Errorf("%s holds %d requests, and the plan asks for %d (hint: make the run shorter, the rate lower, or loop over them)", s.what, n, requests)
		}
		return nil
	}
	for i, it := range s.items {
		if !it.once {
			continue
		}
		n := requests
		if s.weights != nil {
			share := s.weights[i]
			if i > 0 {
				share -= s.weights[i-1]
			}
			n = uint64(math.Ceil(float64(requests) * share))
		} else {
			n = s.order.count(i, requests)
		}
		if rows := uint64(it.table.rows); n > rows {
			return fmt.Errorf("query %s, data: %s holds %d rows, and the plan asks for %d of them (hint: make the run shorter, the rate lower, add rows, or let them begin again at the end)", it.name, it.table.file, rows, n)
		}
	}
	return nil
}

// Lasts returns an error if requests with their own times do not last for so long.
func (s *Set) Lasts(d time.Duration) error {
	if !s.recorded || s.loop || d <= s.period+time.Second { // the next would come in a moment
		return nil
	}
	return fmt.Errorf("%s lasts %s, and %s are asked for (hint: make the run shorter, or let it begin again at its end)", s.what, s.Duration().Round(time.Millisecond), d)
}

// Notes describes, for people, what was left out of a recording or a log, and how
// often.
func (s *Set) Notes() []string { return s.notes }

// RanOut names the data that ended the run, or returns "".
func (s *Set) RanOut() string {
	if text := s.ranOut.Load(); text != nil {
		return *text
	}
	return ""
}

// Close frees what the set holds. Its Sources must not be used any more.
func (s *Set) Close() error {
	s.fixed, s.items = nil, nil
	return nil
}

// Source yields the requests of one loop of loops: every loops-th of the run,
// beginning with the loop-th.
func (s *Set) Source(loop, loops int) (load.Source, error) {
	if loop < 0 || loop >= loops {
		return nil, fmt.Errorf("loop %d of %d", loop, loops)
	}
	src := &source{set: s, k: uint64(loop), step: uint64(loops), chance: rand.NewPCG(0, 0)}
	src.fill.rng = rand.New(src.chance)
	src.fill.now = s.now
	return src, nil
}
