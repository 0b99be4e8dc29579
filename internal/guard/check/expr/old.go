package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/figure"
)

// Bischeck's notation: host-service-item[-10M], where a dash within a name is
// written \-, and ols("host", "service", "item", "AVG", "D", 10, 14).

// oldName is the length of host-service-item at the beginning of s if a bracket
// follows, else 0. Services and items may hold spaces and slashes; more or fewer
// than three parts are found too, and refused by oldSelector.
func oldName(s string) int {
	const longest = 512 // bounds what each operand of a long source costs
	dashes := 0
	for i := 0; i < min(len(s), longest); i++ {
		c := s[i]
		switch {
		case letter(c) && c != ':' || digit(c) || c == '.' || c == '@':
		case c == '\\' && i+1 < len(s) && s[i+1] == '-':
			i++
		case c == '-' && i > 0 && s[i-1] != ' ':
			dashes++
		case (c == ' ' || c == '/') && dashes > 0 && i > 0:
			if s[i-1] == '-' {
				return 0
			}
		case c == '[' && dashes > 0 && s[i-1] != '-' && s[i-1] != ' ':
			return i
		default:
			return 0
		}
	}
	return 0
}

// oldLength returns the length of a host-service-item at the start of rest. What begins with a number or
// a variable is a subtraction unless the old notation was asked for; anything else
// could not be one.
func (p *parser) oldLength(rest string) int {
	n := oldName(rest)
	if n == 0 || p.options.Old {
		return n
	}
	parts := oldParts(rest[:n])
	if len(parts) < 3 || numberLength(parts[0]) == len(parts[0]) || slices.Contains(p.options.Variables, parts[0]) {
		return 0
	}
	return n
}

// oldParts cuts at dashes that are not quoted, and takes quotes away.
func oldParts(s string) []string {
	const quoted = "\x00"
	parts := strings.Split(strings.ReplaceAll(s, `\-`, quoted), "-")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], quoted, "-")
	}
	return parts
}

func oldMatchers(host, service, item string) []*labels.Matcher {
	return []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "host", host),
		labels.MustNewMatcher(labels.MatchEqual, "service", service),
		labels.MustNewMatcher(labels.MatchEqual, "item", item),
	}
}

func (p *parser) oldSelector() (*node, error) {
	t := p.token
	parts := oldParts(t.text)
	if len(parts) != 3 {
		return nil, p.fail(t.start, fmt.Sprintf("%s has %s, host-service-item has 3", t.text, figure.Counted(len(parts), "part")),
			`write \- for a dash within a name, and spaces around a minus`)
	}
	if err := p.advance(false); err != nil {
		return nil, err
	}
	p.isOld = true
	return p.parseBrackets(&Selector{Offset: t.start, Family: ValueFamily, Matchers: oldMatchers(parts[0], parts[1], parts[2])})
}

// oldTrend is Bischeck's ols and olss: the least-squares line through the means,
// or extremes, of whole hours, days or weeks.
type oldTrend struct {
	names  [3]string
	method string // AVG, MAX, MIN
	unit   byte   // H, D, W
	ahead  int    // units; of ols
	over   string // as written
	look   *node  // the samples it is computed from
	slope  bool
}

// oldTrend reads ols(host, service, item, method, unit, ahead, over) and olss,
// which lacks ahead. It reports whether n is one of them.
func (p *parser) oldTrend(n *node) (bool, error) {
	lower := strings.ToLower(n.name)
	if lower != "ols" && lower != "olss" || len(n.args) != 7 && len(n.args) != 6 {
		return false, nil
	}
	t := &oldTrend{slope: lower == "olss"}
	usage := `write ols("host", "service", "item", "AVG", "D", 10, 14), or ols(x[-14D:-0D], "10D")`
	words := make([]string, len(n.args))
	for i, a := range n.args {
		switch {
		case a.op == opText:
			words[i] = strings.TrimSpace(a.text)
		case a.op == opNumber && i >= 5:
			words[i] = strconv.FormatFloat(a.number, 'f', -1, 64)
		default:
			return true, p.fail(a.start, "this is not a string", usage)
		}
	}
	if t.slope != (len(words) == 6) {
		return true, p.fail(n.start, fmt.Sprintf("%s has %d arguments", n.name, len(words)), usage)
	}
	copy(t.names[:], words)
	t.method, t.over = strings.ToUpper(words[3]), words[len(words)-1]
	if t.method != "AVG" && t.method != "MAX" && t.method != "MIN" {
		return true, p.fail(n.args[3].start, fmt.Sprintf("%q is none of AVG, MAX, MIN", words[3]), usage)
	}
	unit := strings.ToUpper(words[4])
	if unit != "H" && unit != "D" && unit != "W" {
		return true, p.fail(n.args[4].start, fmt.Sprintf("%q is none of H, D, W", words[4]), usage)
	}
	t.unit = unit[0]
	if !t.slope {
		ahead, err := strconv.Atoi(words[5])
		if err != nil || ahead < 1 || ahead > 10_000 {
			return true, p.fail(n.args[5].start, fmt.Sprintf("%q is not how many %s ahead", words[5], unit), usage)
		}
		t.ahead = ahead
	}
	s := &Selector{Text: p.src[n.start:n.end], Offset: n.start, Family: ValueFamily,
		Matchers: oldMatchers(t.names[0], t.names[1], t.names[2]), By: ByTimeRange, Older: END}
	if !strings.EqualFold(t.over, "END") {
		// The documentation has a number of units here, the program a time: 14, -14D.
		over := strings.TrimPrefix(t.over, "-")
		if digits(over) == len(over) {
			over += unit
		}
		d, problem := duration(over)
		if problem != "" || d == 0 {
			return true, p.fail(n.args[len(words)-1].start, fmt.Sprintf("%q is not how much of the past", t.over), "write 14, -14D or END")
		}
		s.Older = d
	}
	t.look = &node{op: opSelect, start: n.start, end: n.end, selector: s}
	p.selectors = append(p.selectors, s)
	n.old, p.isOld = t, true
	return true, nil
}

func (t *oldTrend) print(b *strings.Builder) {
	words := []string{t.names[0], t.names[1], t.names[2], t.method, string(t.unit)}
	if !t.slope {
		words = append(words, strconv.Itoa(t.ahead))
	}
	for i, w := range append(words, t.over) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(w))
	}
}

// oldTrend computes it. Units are counted from the midnight, of hours the full
// hour, at or before the oldest sample, in the zone of the moment; what is asked
// ahead is counted from the unit of the moment.
func (e *evaluation) oldTrend(n *node) (value, error) {
	t := n.old
	mark := len(e.samples)
	defer func() { e.samples = e.samples[:mark] }()
	points, missing, err := e.lookUpPoints(n, t.look)
	if err != nil || len(points) == 0 || missing && e.nulls == Strict {
		return value{null: null}, err
	}
	oldest := points[len(points)-1].Time.In(e.at.Location())
	start := time.Date(oldest.Year(), oldest.Month(), oldest.Day(), 0, 0, 0, 0, oldest.Location())
	if t.unit == 'H' {
		start = oldest.Truncate(time.Hour)
	}
	each := units[t.unit]
	// Points of one unit are neighbours: fold them in place, with the unit's
	// number as the time.
	var folded []Sample
	for i := 0; i < len(points); {
		unit := points[i].Time.Sub(start) / each
		mark := len(e.values)
		for ; i < len(points) && points[i].Time.Sub(start)/each == unit; i++ {
			e.values = append(e.values, points[i].Value)
		}
		v := e.values[mark:]
		s := Sample{Time: e.at.Add(unit * time.Second)}
		switch t.method {
		case "MAX":
			s.Value = listMax(e, v, 0)
		case "MIN":
			s.Value = listMin(e, v, 0)
		default:
			s.Value = mean(v)
		}
		e.values = e.values[:mark]
		folded = append(folded, s)
	}
	height, slope := line(folded, e.at)
	if t.slope {
		return finite(slope), nil
	}
	now := e.at.Sub(start) / each
	return finite(height + slope*float64(int(now)+t.ahead)), nil
}
