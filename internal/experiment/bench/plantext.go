package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParsePhases reads rates as people write them:
//
//	200             200 requests a second, also 200/s; 12000/m and 90/h count by the minute and hour
//	200..800        a ramp from 200 to 800
//	200,400,800     steps, one after another
//	200 for 1m, 200..800 for 30s, 800
//
// d is the duration of all phases together, or 0 if it is not known. Steps without a
// duration share equally the rest of d; the last one gets the nanoseconds that do not
// divide. name is the name of every phase; several get their rates appended.
func ParsePhases(name, text string, d time.Duration) ([]Phase, error) {
	if d < 0 {
		return nil, fmt.Errorf("duration %s: must not be negative", d)
	}
	var phases []Phase
	var open []int // that do not say for how long
	left := d
	items := strings.Split(text, ",")
	for i, item := range items {
		rates, length, said := strings.Cut(strings.TrimSpace(item), " for ")
		ph, err := parseRates(strings.TrimSpace(rates))
		if err != nil {
			return nil, fmt.Errorf("rate %q: %w", strings.TrimSpace(text), err)
		}
		if said {
			if ph.For, err = time.ParseDuration(strings.TrimSpace(length)); err != nil || ph.For <= 0 {
				return nil, fmt.Errorf("rate %q: %q is not a duration (hint: write it as 30s, 5m or 1h30m)", strings.TrimSpace(text), strings.TrimSpace(length))
			}
			left -= ph.For
		} else {
			open = append(open, i)
		}
		switch rates = strings.TrimSpace(rates); {
		case len(items) == 1:
			ph.Name = name
		case name == "":
			ph.Name = rates
		default:
			ph.Name = name + " " + rates
		}
		phases = append(phases, ph)
	}
	if err := share(phases, open, d, left); err != nil {
		return nil, fmt.Errorf("rate %q: %w", strings.TrimSpace(text), err)
	}
	return distinct(phases), nil
}

// share divides the rest of d among the phases without a duration.
func share(phases []Phase, open []int, d, left time.Duration) error {
	switch n := time.Duration(len(open)); {
	case n == 0 && d > 0 && left != 0:
		return fmt.Errorf("its steps take %s, and the whole %s (hint: leave one of the two out)", d-left, d)
	case n == 0:
	case d == 0 && (n > 1 || open[0] < len(phases)-1 || phases[open[0]].From != phases[open[0]].To):
		return fmt.Errorf("nothing says how long it takes (hint: say for how long, such as %s for 30s)", rateText(phases[open[0]]))
	case d == 0: // without an end
	case left < n:
		return fmt.Errorf("nothing of %s is left for %s (hint: make the whole longer)", d, rateText(phases[open[0]]))
	default:
		for i, at := range open {
			phases[at].For = left / n
			if i == len(open)-1 {
				phases[at].For = left - (n-1)*(left/n)
			}
		}
	}
	return nil
}

// distinct numbers phases that have the same name.
func distinct(phases []Phase) []Phase {
	seen := map[string]int{}
	for i := range phases {
		seen[phases[i].Name]++
		if n := seen[phases[i].Name]; n > 1 {
			phases[i].Name += " (" + strconv.Itoa(n) + ")"
		}
	}
	return phases
}

func parseRates(text string) (Phase, error) {
	from, to, ramp := strings.Cut(text, "..")
	if !ramp {
		to = from
	}
	var ph Phase
	var err error
	// 200..800/s: the unit stands once.
	if _, unit, ok := strings.Cut(to, "/"); ok && ramp && !strings.Contains(from, "/") {
		from += "/" + unit
	}
	if ph.From, err = parseRate(from); err == nil {
		ph.To, err = parseRate(to)
	}
	return ph, err
}

func parseRate(text string) (float64, error) {
	number, unit, said := strings.Cut(text, "/")
	number, unit = strings.TrimSpace(number), strings.TrimSpace(unit)
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if !said {
		per = 1
	}
	if per == 0 {
		return 0, fmt.Errorf("unit /%s is not known (hint: /s, /m or /h, or none for requests a second)", unit)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number of requests a second (hint: write 200, 200..800 for a ramp, or 200,400,800 for steps)", number)
	}
	if v /= per; v < 0 || v > MaxRate {
		return 0, fmt.Errorf("%s is not from 0 to %.0f requests a second", text, float64(MaxRate))
	}
	return v, nil
}

func rateText(ph Phase) string {
	text := strconv.FormatFloat(ph.From, 'g', -1, 64)
	if ph.To != ph.From {
		text += ".." + strconv.FormatFloat(ph.To, 'g', -1, 64)
	}
	return text
}

// String returns the phase in the syntax of ParsePhases.
func (p Phase) String() string {
	if p.For == 0 {
		return rateText(p)
	}
	return rateText(p) + " for " + p.For.String()
}
