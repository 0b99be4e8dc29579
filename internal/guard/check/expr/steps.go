package expr

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/figure"
)

const (
	// maxShown bounds the values of a list that a step shows without leaving out the
	// middle.
	maxShown = 10
	// maxSteps and maxTexts, bytes, bound the steps of one evaluation.
	maxSteps = 500
	maxTexts = 256 << 10
)

// begin adds a step for n, whose value is not known yet, and returns its index: -1
// if there are too many.
func (e *evaluation) begin(n *node) int {
	e.depth++
	e.length += n.end - n.start
	if len(e.steps) == maxSteps || e.length > maxTexts {
		e.step = -1
		return -1
	}
	e.step = len(e.steps)
	e.steps = append(e.steps, Step{Text: e.program.source[n.start:n.end], Offset: n.start, Depth: e.depth - 1, Number: math.NaN()})
	return e.step
}

func (e *evaluation) end(i int, v value, err error) {
	if !e.trace {
		return
	}
	e.depth--
	if i < 0 {
		return
	}
	s := &e.steps[i]
	switch {
	case err != nil:
		s.Value = "not evaluated"
	case v.null != present:
		s.Value = "null" + s.Value
	default:
		s.Value, s.Number = formatNumber(v.v)+s.Value, v.v
	}
}

// inOrder sorts steps as written, the whole before its parts: parameters are
// evaluated before the lists that they follow.
func inOrder(steps []Step) []Step {
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Depth, b.Depth))
	})
	return steps
}

// found notes in the latest step how old the sample is.
func (e *evaluation) found(n *node, s *Sample) {
	switch {
	case e.step < 0:
	case s.Null:
		e.steps[e.step].Value = e.missing(n)
	default:
		e.steps[e.step].Value = e.age(s)
	}
}

// missing returns why n finds nothing if its family does not exist.
func (e *evaluation) missing(n *node) string {
	if kind, err := e.history.Kind(e.ctx, n.selector.Family); err == nil && kind == Missing {
		return ": there is nothing named " + n.selector.Family + " yet"
	}
	return ""
}

func (e *evaluation) age(s *Sample) string {
	if s.Time.IsZero() {
		return ""
	}
	return ", " + ago(e.at.Sub(s.Time))
}

func ago(d time.Duration) string {
	if d < time.Second && d > -time.Second {
		return "now"
	}
	return d.Round(time.Second).String() + " ago"
}

func (e *evaluation) beginList(n *node) int {
	if !e.trace {
		return 0
	}
	return e.begin(n)
}

func (e *evaluation) endList(i int, n *node, samples []Sample) {
	if !e.trace {
		return
	}
	e.depth--
	if i < 0 {
		return
	}
	s := &e.steps[i]
	s.Value = describe(samples)
	if s.Value == "null" {
		s.Value += e.missing(n)
	}
	if len(samples) != 1 || samples[0].Null || samples[0].Dist != nil {
		return
	}
	s.Number = samples[0].Value
	if !n.list() {
		s.Value = formatNumber(s.Number) + e.age(&samples[0])
	}
}

// describe returns a list as text: 3 values 4, null, 2.
func describe(samples []Sample) string {
	var numbers, dists int
	var observations uint64
	for i := range samples {
		switch {
		case samples[i].Null:
		case samples[i].Dist != nil:
			dists++
			observations += samples[i].Dist.Count
		default:
			numbers++
		}
	}
	switch {
	case dists == 1:
		return "distribution of " + figure.Thousands(observations)
	case dists > 1:
		return fmt.Sprintf("%d distributions of %s", dists, figure.Thousands(observations))
	case numbers == 0:
		return "null"
	}
	var b strings.Builder
	b.WriteString(figure.Counted(len(samples), "value") + " ")
	for i := range samples {
		if len(samples) > maxShown && i == maxShown-2 {
			b.WriteString("… ")
		}
		if len(samples) > maxShown && i >= maxShown-2 && i < len(samples)-1 {
			continue
		}
		if samples[i].Null {
			b.WriteString("null")
		} else {
			b.WriteString(formatNumber(samples[i].Value))
		}
		if i < len(samples)-1 {
			b.WriteString(", ")
		}
	}
	return b.String()
}

// formatNumber writes v for people: six digits, whole numbers whole.
func formatNumber(v float64) string {
	size := math.Abs(v)
	switch {
	case v == math.Trunc(v) && size < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 1e5 && size < 1e15:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
