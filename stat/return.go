package stat

import "math"

const (
	// returnAlpha is the probability that what stays is taken for over.
	returnAlpha = 0.001
	// fewestReturned is the least number of slots after which a share is back. Of its rise
	// at most leftAtOnce is then left, and surely less than halfLeft.
	fewestReturned, halfLeft = 3, 0.5
	// dispersedOver is the number of slots of the longer stretches by which their dispersion
	// is measured: neighbours move together.
	dispersedOver = 6
)

// FindReturn returns the slot of since from which on a share that rose is again as in usual,
// ok if there is one: Num of a tally counts the observations of interest, and Den all. Usual
// are slots before it rose, since those after that up to the newest.
//
// Since is cut in two where that is likeliest: before the cut it has a share of its own, behind it the
// usual one, as in a sequential test between two known shares (Page 1954). The gain of the
// logarithm of the likelihood over one share for all is divided by the dispersion of slots before the cut,
// and has to allow for every cut. What is left behind the cut must be close to the usual.
func FindReturn(usual, since Tally) (from int, ok bool, err error) {
	for _, t := range []Tally{usual, since} {
		if len(t.Num) != len(t.Den) {
			return 0, false, invalidf("a tally has %d and %d slots", len(t.Num), len(t.Den))
		}
	}
	u, s := newSums(usual), newSums(since)
	n := len(since.Num)
	if u.den[len(usual.Den)] == 0 || n <= fewestReturned {
		return 0, false, nil
	}
	likelihood := func(num, den, p float64) float64 { return num*math.Log(p) + (den-num)*math.Log(1-p) }
	// A share of none or of all has half of an observation more of either.
	shareOf := func(num, den float64) float64 { return (num + 0.5) / (den + 1) }
	p := shareOf(u.num[len(usual.Num)], u.den[len(usual.Den)])
	num, den := s.num[n], s.den[n]
	one := likelihood(num, den, shareOf(num, den))
	most := math.Inf(-1)
	for t := 1; t+fewestReturned <= n; t++ {
		if s.occupied[n]-s.occupied[t] < fewestReturned {
			break
		}
		gain := likelihood(s.num[t], s.den[t], shareOf(s.num[t], s.den[t])) + likelihood(num-s.num[t], den-s.den[t], p) - one
		if gain > most {
			most, from = gain, t
		}
	}
	rose := shareOf(s.num[from], s.den[from])
	if from == 0 || rose <= p {
		return 0, false, nil
	}
	dispersion := s.dispersion(from)
	if most/dispersion < math.Log(float64(n)/returnAlpha) {
		return 0, false, nil
	}
	left := (num - s.num[from]) / (den - s.den[from])
	_, high := wilson(left, (den-s.den[from])/dispersion, 1.96)
	return from, left-p <= leftAtOnce*(rose-p) && high-p <= halfLeft*(rose-p), nil
}

// dispersion returns how many times the variance of slots [0, to) about their share is that
// of independent observations, at least 1: that of single slots, or of stretches of several.
func (s *sums) dispersion(to int) float64 {
	p := s.num[to] / s.den[to]
	if !(p > 0 && p < 1) {
		return 1
	}
	most := 1.0
	for _, length := range []int{1, dispersedOver} {
		squares, n := 0.0, 0.0
		for i := 0; i+length <= to; i += length {
			if den := s.den[i+length] - s.den[i]; den > 0 {
				squares += sq(s.num[i+length]-s.num[i]-den*p) / (den * p * (1 - p))
				n++
			}
		}
		if n > 1 {
			most = max(most, squares/(n-1))
		}
	}
	return most
}
