package search

import (
	"fmt"
	"math"
	"strings"

	"tailscope/internal/figure"
)

// estimate is the answer with its interval, as far as loads that were held enclose
// them. NaN stands for values beyond.
type estimate struct {
	value, low, high float64 // X
	// beyond is 1 if the value is above every load that was held, −1 if below, and 0
	// otherwise.
	beyond int
	// Whether an end of the interval is known: the upper, and the lower.
	above, below bool
	least, most  float64 // X, the least load that was held and the most
}

// estimate derives the answer from the posterior.
func (s *Search) estimate() estimate {
	tail := (1 - s.o.Level) / 2
	least, most := s.held(math.Inf(1))
	e := estimate{value: nan, least: s.x(least), most: s.x(most)}
	// at returns the X of a quantile, whole if X is, and on which side of all held
	// loads it lies.
	at := func(q float64) (x float64, side int) {
		x = s.round(s.past.quantile(q))
		switch v := s.load(x); {
		case v > most+1e-9:
			side = 1
		case v < least-1e-9:
			side = -1
		}
		return x, side
	}
	var side int
	if e.value, e.beyond = at(0.5); e.beyond != 0 {
		e.value = nan
	}
	if e.low, side = at(tail); side > 0 {
		e.low = e.most
	} else if e.below = side < 0; e.below {
		e.low = nan
	}
	if e.high, side = at(1 - tail); side < 0 {
		e.high = e.least
	} else if e.above = side > 0; e.above {
		e.high = nan
	}
	if s.o.Falling {
		e.low, e.high = e.high, e.low
	}
	return e
}

// held returns the least load that was held, and the most that is not beyond a limit.
func (s *Search) held(limit float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, w := range s.steps {
		v := s.load(w.step.X)
		if least = min(least, v); v <= limit+1e-9 {
			most = max(most, v)
		}
	}
	return least, max(least, most)
}

// sentence returns an estimate in words.
func (s *Search) sentence(e estimate) string {
	unit, level := s.o.Unit, 100*s.o.Level
	towards, less, more := "up to", "less than %s was", "more than %s was"
	if s.o.Falling {
		towards, less, more = "down to", "more than %s were", "fewer than %s were"
	}
	if e.beyond == 0 {
		return fmt.Sprintf("%s is kept %s %s (%.0f %% interval %s)", s.o.Objective, towards, Amount(e.value, unit), level, e.interval())
	}
	end, untried := e.most, more
	if e.beyond < 0 {
		end, untried = e.least, less
	}
	untried = fmt.Sprintf(untried, Number(end)) + " not held"
	bound, x := "at least", e.low
	if math.IsNaN(x) {
		bound, x = "no more than", e.high
	}
	if math.IsNaN(x) {
		return fmt.Sprintf("it is not certain whether %s is kept at %s, and %s", s.o.Objective, Amount(end, unit), untried)
	}
	tail := fmt.Sprintf("%s %s (%.0f %% interval); %s", bound, Amount(x, unit), level, untried)
	if s.o.Falling {
		return fmt.Sprintf("%s takes %s", s.o.Objective, tail)
	}
	return fmt.Sprintf("%s is kept up to %s", s.o.Objective, tail)
}

// interval writes both ends, or the one that is known.
func (e estimate) interval() string {
	switch low, high := math.IsNaN(e.low), math.IsNaN(e.high); {
	case low && high:
		return "wider than what was held, " + figure.Between(Number(min(e.least, e.most)), Number(max(e.least, e.most)), "")
	case low:
		return "no more than " + Number(e.high)
	case high:
		return "at least " + Number(e.low)
	}
	return figure.Between(Number(e.low), Number(e.high), "")
}

// wider names the bound of the search that cuts the interval off, or returns "".
func (s *Search) wider(e estimate) string {
	x, where := 0.0, "above"
	switch {
	case e.above && e.most == s.x(s.highest):
		if x = e.most; s.o.Falling {
			where = "below"
		}
	case e.below && e.least == s.x(s.lowest):
		if x = e.least; !s.o.Falling {
			where = "below"
		}
	default:
		return ""
	}
	return fmt.Sprintf("search %s %s as well; ", where, Amount(x, s.o.Unit))
}

// Number writes four figures, and no fraction of whole numbers.
func Number(x float64) string {
	if x >= 1000 || x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// Amount writes an X with its unit: 812 requests/s, 1 server, 2 copies.
func Amount(x float64, unit string) string { return Number(x) + " " + Unit(Number(x), unit) }

// Unit returns the unit for a number as it is written: singular for one.
func Unit(number, unit string) string {
	if number != "1" {
		return unit
	}
	if unit == "copies" {
		return "copy"
	}
	if unit == "servers" {
		return strings.TrimSuffix(unit, "s")
	}
	return unit
}
