package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of what brackets may ask for.
const (
	// MaxSamples bounds the samples that one evaluation looks up and that one answer of
	// a History holds.
	MaxSamples = 500_000
	maxIndex   = MaxSamples - 1
	maxDays    = 1000
	maxAgo     = 36525 * 24 * time.Hour // a hundred years
)

// END stands for everything that there is, in To and Older.
const END = -1

var units = map[byte]time.Duration{'S': time.Second, 'M': time.Minute, 'H': time.Hour,
	'D': 24 * time.Hour, 'W': 7 * 24 * time.Hour}

// list reports whether s may select several samples.
func (s *Selector) list() bool {
	return s.By != ByTime && (s.By != ByIndex || len(s.Indexes) > 1)
}

// bracket reads what stands between [ and ] into s. offset is that of text.
type bracket struct {
	src    string
	offset int
	text   string
	s      *Selector
}

// point is one end of a range: an index, a time ago, or END.
type point struct {
	offset int
	text   string
	end    bool
	timed  bool
	index  int
	ago    time.Duration
}

func (b *bracket) parse() error {
	if strings.TrimSpace(b.text) == "" {
		return b.fail(0, "the brackets are empty", "write [0] for the newest, [0:9] for the ten newest, [-30M] for half an hour ago")
	}
	head, around, paired := strings.Cut(b.text, ",")
	if n, every, ok, err := b.sameTime(head); err != nil {
		return err
	} else if ok {
		b.s.By, b.s.N, b.s.Every = BySameTime, n, every
		if paired {
			return b.around(len(head)+1, around)
		}
		return nil
	}
	if from, to, ok := strings.Cut(b.text, ":"); ok {
		return b.span(from, to)
	}
	return b.parsePoints()
}

// sameTime reads "4 days", if it is that.
func (b *bracket) sameTime(text string) (n int, every Every, ok bool, err error) {
	t := strings.TrimSpace(text)
	d := digits(t)
	word := strings.ToLower(strings.TrimSpace(t[d:]))
	switch strings.TrimSuffix(word, "s") {
	case "day":
		every = Days
	case "weekday":
		every = Weekdays
	case "week":
		every = Weeks
	default:
		return 0, 0, false, nil
	}
	n, e := strconv.Atoi(t[:d])
	if d == 0 || e != nil || n < 1 || n > maxDays {
		return 0, 0, false, b.fail(0, fmt.Sprintf("%q: how many?", t), fmt.Sprintf("write a number from 1 to %d, such as [4 %ss]", maxDays, strings.TrimSuffix(word, "s")))
	}
	return n, every, true, nil
}

// around reads -30M:+30M.
func (b *bracket) around(offset int, text string) error {
	const hint = "write [4 weeks, -30M:+30M]"
	before, after, ok := strings.Cut(text, ":")
	if !ok {
		return b.fail(offset, "around the same time of what?", hint)
	}
	for i, part := range []string{before, after} {
		sign, into, at := "-", &b.s.Before, offset
		if i == 1 {
			sign, into, at = "+", &b.s.After, offset+len(before)+1
		}
		t := strings.TrimSpace(part)
		rest, signed := strings.CutPrefix(t, sign)
		ago, problem := duration(rest)
		if !signed || problem != "" {
			return b.fail(at, fmt.Sprintf("%q is not a time %s the same time", t, map[string]string{"-": "before", "+": "after"}[sign]), hint)
		}
		*into = ago
	}
	return nil
}

func (b *bracket) span(from, to string) error {
	p, err := b.point(0, from)
	if err != nil {
		return err
	}
	q, err := b.point(len(from)+1, to)
	switch {
	case err != nil:
		return err
	case p.end:
		return b.fail(0, "a range does not begin at END", "write [10:END] or [-1H:END]")
	case !q.end && p.timed != q.timed:
		return b.fail(0, "this is half an index, half a time", "write [0:9] or [-0M:-30M]")
	case p.timed:
		b.s.By, b.s.Newer, b.s.Older = ByTimeRange, p.ago, q.ago
		if q.end {
			b.s.Older = END
		} else if q.ago < p.ago {
			b.s.Newer, b.s.Older = q.ago, p.ago
		}
		return nil
	}
	b.s.By, b.s.From, b.s.To = ByIndexRange, p.index, q.index
	if q.end {
		b.s.To = END
	} else if q.index < p.index {
		b.s.From, b.s.To = q.index, p.index
	}
	return nil
}

func (b *bracket) parsePoints() error {
	offset := 0
	for part := range strings.SplitSeq(b.text, ",") {
		p, err := b.point(offset, part)
		switch {
		case err != nil:
			return err
		case p.end:
			return b.fail(offset, "END ends a range", "write [10:END] or [-1H:END]")
		case p.timed && len(part) != len(b.text):
			return b.fail(offset, "a list in brackets is of indexes", "write avg(x[-10M], x[-20M]), or [-10M:-20M] for all between")
		case p.timed:
			b.s.By, b.s.Ago = ByTime, p.ago
		default:
			b.s.By, b.s.Indexes = ByIndex, append(b.s.Indexes, p.index)
		}
		offset += len(part) + 1
	}
	return nil
}

// point reads 9, -30M or END, at offset in the brackets.
func (b *bracket) point(offset int, text string) (point, error) {
	t := strings.TrimSpace(text)
	p := point{offset: offset, text: t}
	if strings.EqualFold(t, "END") {
		p.end = true
		return p, nil
	}
	rest, past := strings.CutPrefix(t, "-")
	rest = strings.TrimSpace(rest)
	d := digits(rest)
	unit := strings.TrimSpace(rest[d:])
	switch {
	case strings.HasPrefix(t, "+"):
		return p, b.fail(offset, fmt.Sprintf("%q lies in the future", t), "write [-30M]; only [4 weeks, -30M:+30M] has a plus")
	case d == 0:
		return p, b.fail(offset, fmt.Sprintf("%q is neither an index nor a time", t), "write [0], [0:9], [10:END], [-30M], [-30M:-120M], [4 weeks]")
	case strings.HasPrefix(unit, "."):
		return p, b.fail(offset, fmt.Sprintf("%q is not a whole number", t), "write it in a smaller unit: [-90M]")
	case past && unit == "":
		hint := fmt.Sprintf("a time needs a unit: write [-%sH], or [%s] for the %s newest", rest, rest, ordinal(rest))
		if strings.Trim(rest, "0") == "" {
			hint = "write [0] for the newest, or [-0M] for now"
		}
		return p, b.fail(offset, fmt.Sprintf("%q is neither an index nor a time", t), hint)
	case past:
		ago, problem := duration(rest)
		if problem != "" {
			return p, b.fail(offset, fmt.Sprintf("%q %s", t, problem), "units are S M H D W, for seconds, minutes, hours, days, weeks")
		}
		p.timed, p.ago = true, ago
		return p, nil
	case unit != "":
		return p, b.fail(offset, fmt.Sprintf("%q is neither an index nor a time", t), fmt.Sprintf("history lies behind: write [-%[1]s] for then, [-%[1]s:-0M] for all since", rest[:d]+strings.ToUpper(unit)))
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n > maxIndex {
		return p, b.fail(offset, fmt.Sprintf("index %s is too large", rest), fmt.Sprintf("the largest is %d", maxIndex))
	}
	p.index = n
	return p, nil
}

func (b *bracket) fail(offset int, message, hint string) error {
	// Point at the first letter rather than at the space before it.
	rest := b.text[min(offset, len(b.text)):]
	offset += len(rest) - len(strings.TrimLeft(rest, " \t\r\n"))
	return newError(b.src, b.offset+offset, message, hint)
}

// duration reads 30M. Its error says what to write.
func duration(s string) (time.Duration, string) {
	d := digits(s)
	unit := strings.TrimSpace(s[d:])
	if d == 0 || len(unit) != 1 || units[unit[0]&^0x20] == 0 {
		return 0, "has no known unit"
	}
	each := units[unit[0]&^0x20]
	n, err := strconv.ParseInt(s[:d], 10, 64)
	if err != nil || n > int64(maxAgo/each) {
		return 0, "is more than a hundred years"
	}
	return time.Duration(n) * each, ""
}

// ordinal returns the ordinal of the index s: 24 is the 25th newest.
func ordinal(s string) string {
	n, err := strconv.Atoi(s)
	if err != nil {
		return "so many-th"
	}
	n++
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// print writes s in its canonical form.
func (s *Selector) print(b *strings.Builder) {
	b.WriteString(s.Family)
	if len(s.Matchers) > 0 {
		b.WriteByte('{')
		for i, m := range s.Matchers {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(m.Name)
			b.WriteString(m.Type.String())
			b.WriteString(strconv.Quote(m.Value))
		}
		b.WriteByte('}')
	}
	b.WriteByte('[')
	switch s.By {
	case ByIndex:
		for i, n := range s.Indexes {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(n))
		}
	case ByIndexRange:
		b.WriteString(strconv.Itoa(s.From) + ":")
		if s.To == END {
			b.WriteString("END")
		} else {
			b.WriteString(strconv.Itoa(s.To))
		}
	case ByTime:
		b.WriteString("-" + formatDuration(s.Ago))
	case ByTimeRange:
		b.WriteString("-" + formatDuration(s.Newer) + ":")
		if s.Older == END {
			b.WriteString("END")
		} else {
			b.WriteString("-" + formatDuration(s.Older))
		}
	case BySameTime:
		b.WriteString(strconv.Itoa(s.N) + " " + s.Every.String())
		if s.Before != 0 || s.After != 0 {
			b.WriteString(", -" + formatDuration(s.Before) + ":+" + formatDuration(s.After))
		}
	}
	b.WriteByte(']')
}

func (e Every) String() string { return [...]string{"days", "weekdays", "weeks"}[e] }

// formatDuration writes a whole number of seconds in the largest unit that holds
// it whole: 90M. Two days are 2D, an hour of 3600 seconds is 1H.
func formatDuration(d time.Duration) string {
	for _, u := range "WDHM" {
		if each := units[byte(u)]; d != 0 && d%each == 0 {
			return strconv.FormatInt(int64(d/each), 10) + string(u)
		}
	}
	if d == 0 {
		return "0M"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "S"
}
