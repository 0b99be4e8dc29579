// Package changepoints measures how well change points are found where people
// or a simulation say where they are.
//
// Two kinds of series: public ones of numbers, labelled by several people (the
// Turing Change Point Dataset, which is not part of this repository: each of
// its series has terms of its own), and simulated ones of distributions as
// Tailscope stores them, whose truth is known. The same series are given to
// Apache Otava and to ruptures' PELT, by their own code.
package changepoints

import (
	"slices"
)

// Margin is the number of slots by which a moment may be off.
const Margin = 5

// Score rates the moments found against those labelled.
type Score struct{ Precision, Recall, F1, Covering float64 }

// Agree scores moments found in a series of n slots against those of several
// people, as van den Burg & Williams (2020), arXiv 2003.06222, do: slot 0 is a
// change to everybody; a moment found is right if any person has one within
// the margin, and recall is the mean over persons. Covering is the mean overlap
// of each person's segments with the best of those found, by length.
func Agree(labels [][]int, found []int, n int) Score {
	x := withStart(found)
	var s Score
	var all []int
	for _, l := range labels {
		t := withStart(l)
		all = append(all, t...)
		s.Recall += float64(matched(t, x)) / float64(len(t)) / float64(len(labels))
		s.Covering += covering(t, x, n) / float64(len(labels))
	}
	slices.Sort(all)
	s.Precision = float64(matched(slices.Compact(all), x)) / float64(len(x))
	if s.Precision+s.Recall > 0 {
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	return s
}

func withStart(at []int) []int {
	out := append([]int{0}, at...)
	slices.Sort(out)
	return slices.Compact(out)
}

// matched counts the labels with a moment found within the margin, each moment
// used once. Both ascend, and the first label takes the first moment it can,
// which leaves the most to those that follow.
func matched(labels, found []int) int {
	n, i := 0, 0
	for _, l := range labels {
		for i < len(found) && found[i] < l-Margin {
			i++
		}
		if i < len(found) && found[i] <= l+Margin {
			n++
			i++
		}
	}
	return n
}

func covering(labels, found []int, n int) float64 {
	sum := 0.0
	for i, from := range labels {
		to := end(labels, i, n)
		best := 0.0
		for j, a := range found {
			b := end(found, j, n)
			if both := min(to, b) - max(from, a); both > 0 {
				best = max(best, float64(both)/float64(max(to, b)-min(from, a)))
			}
		}
		sum += float64(to-from) * best
	}
	return sum / float64(n)
}

func end(starts []int, i, n int) int {
	if i+1 < len(starts) {
		return starts[i+1]
	}
	return n
}

// Counts add up over series whose truth is known; slot 0 does not count as a change.
type Counts struct{ Right, Found, True int }

// Add counts a series.
func (c *Counts) Add(truth, found []int) {
	found = slices.Clone(found)
	slices.Sort(found)
	c.Right += matched(truth, found)
	c.Found += len(found)
	c.True += len(truth)
}

// Score returns that of all series together; shares of nothing are 0.
func (c Counts) Score() Score {
	var s Score
	if c.Found > 0 {
		s.Precision = float64(c.Right) / float64(c.Found)
	}
	if c.True > 0 {
		s.Recall = float64(c.Right) / float64(c.True)
	}
	if c.Right > 0 {
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	return s
}

// Merge makes one of moments within the margin of the first of them, as those
// of several metrics.
func Merge(found []int) []int {
	found = slices.Clone(found)
	slices.Sort(found)
	var out []int
	for _, at := range found {
		if len(out) == 0 || at > out[len(out)-1]+Margin {
			out = append(out, at)
		}
	}
	return out
}
