package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names are what Bischeck's macros stand for.
type Names struct {
	Host, HostAlias, Service, ServiceAlias, Item, ItemAlias string
}

// Expand replaces $$HOSTNAME$$, $$HOSTALIAS$$, $$SERVICENAME$$, $$SERVICEALIAS$$,
// $$SERVICEITEMNAME$$ and $$SERVICEITEMALIAS$$. In an expression (quote) dashes of
// names become \-, as the old notation needs them.
func (n Names) Expand(src string, quote bool) (string, error) {
	name := func(s string) string {
		if quote {
			return QuoteOld(s)
		}
		return s
	}
	macros := map[string]string{"HOSTNAME": name(n.Host), "HOSTALIAS": n.HostAlias,
		"SERVICENAME": name(n.Service), "SERVICEALIAS": n.ServiceAlias,
		"SERVICEITEMNAME": name(n.Item), "SERVICEITEMALIAS": n.ItemAlias}
	var b strings.Builder
	for rest := src; ; {
		before, after, ok := strings.Cut(rest, "$$")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		offset := len(src) - len(after) - 2
		word, after, ok := strings.Cut(after, "$$")
		if !ok {
			return "", newError(src, offset, "this macro does not end", "write $$HOSTNAME$$")
		}
		value, known := macros[word]
		if !known {
			return "", newError(src, offset, "there is no macro $$"+word+"$$", "there are $$"+strings.Join(slices.Sorted(maps.Keys(macros)), "$$, $$")+"$$")
		}
		b.WriteString(value)
		rest = after
	}
}

// Substitute replaces $label and ${label} by the values of labels, as one series
// of a check with each has them. In an expression a value becomes a string, or
// part of the string that it stands in, and cannot become anything else; after =~
// and !~ it matches only itself. $$ is a dollar sign.
func Substitute(src string, values map[string]string) (string, error) {
	var b strings.Builder
	quote := byte(0) // of the string that i is in
	pattern := false // the latest operator was =~ or !~
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '$' && strings.HasPrefix(src[i:], "$$"):
			b.WriteByte('$')
			i += 2
			continue
		case c == '$':
			name, n := dollar(src[i:])
			if n == 0 {
				break
			}
			value, ok := values[name]
			if !ok {
				hint := "there are no labels here: they are those of each"
				if len(values) > 0 {
					hint = "there are $" + strings.Join(slices.Sorted(maps.Keys(values)), ", $")
				}
				return "", newError(src, i, "there is no label $"+name, hint)
			}
			if pattern {
				value = regexp.QuoteMeta(value)
			}
			switch quote {
			case 0:
				value = strconv.Quote(value)
			case '`':
				if strings.Contains(value, "`") {
					return "", newError(src, i, "the value of $"+name+" holds a backquote", `write "…" around it`)
				}
			default:
				value = escape(value, quote)
			}
			b.WriteString(value)
			i += n
			continue
		case quote != 0 && c == '\\' && quote != '`' && i+1 < len(src):
			b.WriteByte(c)
			i++
			c = src[i]
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			quote = c
		case quote == 0 && c == '~':
			pattern = true
		case quote == 0 && (c == ',' || c == '}' || c == '='):
			pattern = false
		case quote == 0 && c == '#':
			// A comment: nothing in it is replaced.
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				n = len(src) - i
			}
			b.WriteString(src[i : i+n])
			i += n
			continue
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), nil
}

// escape makes s part of a string in the given quotes.
func escape(s string, quote byte) string {
	s = strconv.Quote(s)
	s = s[1 : len(s)-1]
	if quote == '\'' {
		s = strings.ReplaceAll(strings.ReplaceAll(s, `\"`, `"`), "'", `\'`)
	}
	return s
}

// dollar reads $name or ${name}, and how long that is.
func dollar(s string) (name string, length int) {
	rest, braced := strings.CutPrefix(s[1:], "{")
	if rest == "" || !letter(rest[0]) || rest[0] == ':' {
		return "", 0
	}
	n := 1
	for n < len(rest) && (letter(rest[n]) && rest[n] != ':' || digit(rest[n])) {
		n++
	}
	switch {
	case !braced:
		return rest[:n], n + 1
	case n == len(rest) || rest[n] != '}':
		return "", 0
	}
	return rest[:n], n + 3
}

// dateMacro is %%yyyy-MM-dd%% or %%yyyy-MM-dd%[D-1]%%.
var dateMacro = regexp.MustCompile(`%%([^%\n]*)(?:%\[([^\]\n]*)\])?%%`)

// Dates replaces Bischeck's runtime dates, such as %%yyyy-MM-dd%% and
// %%yy.MM.dd%[D-1]%% (yesterday; D, M or Y, one of them), by the moment at, in its
// zone. Formats are those of Java's SimpleDateFormat; a month later that does not
// have the day ends on its last day.
func Dates(src string, at time.Time) (string, error) {
	var failed error
	out := dateMacro.ReplaceAllStringFunc(src, func(m string) string {
		parts := dateMacro.FindStringSubmatch(m)
		t, err := shift(at, parts[2])
		if err == nil {
			var s string
			if s, err = javaDate(t, parts[1]); err == nil {
				return s
			}
		}
		if failed == nil {
			failed = newError(src, strings.Index(src, m), m+": "+err.Error(), "write %%yyyy-MM-dd%% or %%yyyy-MM-dd%[D-1]%%")
		}
		return m
	})
	if failed != nil {
		return "", failed
	}
	return out, nil
}

// shift moves t by D-1, M2, Y-1.
func shift(t time.Time, by string) (time.Time, error) {
	if by == "" {
		return t, nil
	}
	n, err := strconv.Atoi(by[1:])
	if err != nil || n < -100_000 || n > 100_000 {
		return t, fmt.Errorf("%q is no number of days, months or years", by[1:])
	}
	months := 0
	switch by[0] {
	case 'D':
		return t.AddDate(0, 0, n), nil
	case 'M':
		months = n
	case 'Y':
		months = 12 * n
	default:
		return t, fmt.Errorf("%q is none of D, M, Y", by[:1])
	}
	moved := t.AddDate(0, months, 0)
	if moved.Day() != t.Day() {
		moved = moved.AddDate(0, 0, -moved.Day())
	}
	return moved, nil
}

// javaLayouts are Go's layouts of what SimpleDateFormat writes for one, two,
// three and four of a letter; the last one also for more.
var javaLayouts = map[byte][4]string{
	'y': {"2006", "06", "2006", "2006"},
	'M': {"1", "01", "Jan", "January"},
	'd': {"2", "02", "02", "02"},
	'E': {"Mon", "Mon", "Mon", "Monday"},
	'a': {"PM", "PM", "PM", "PM"},
	'h': {"3", "03", "03", "03"},
	'H': {"15", "15", "15", "15"},
	'm': {"4", "04", "04", "04"},
	's': {"5", "05", "05", "05"},
	'D': {"002", "002", "002", "002"},
	'Z': {"-0700", "-0700", "-0700", "-0700"},
	'z': {"MST", "MST", "MST", "MST"},
	'X': {"Z07", "Z0700", "Z07:00", "Z07:00"},
}

// javaDate writes t in SimpleDateFormat's format: letters are fields, '…' is
// literal.
func javaDate(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); {
		c := format[i]
		n := 1
		switch {
		case c == '\'':
			end := strings.IndexByte(format[i+1:], '\'')
			if end < 0 {
				return "", fmt.Errorf("a quote does not end")
			}
			if end == 0 {
				b.WriteByte('\'')
			}
			b.WriteString(format[i+1 : i+1+end])
			n = end + 2
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			for i+n < len(format) && format[i+n] == c {
				n++
			}
			layouts, ok := javaLayouts[c]
			if !ok {
				return "", fmt.Errorf("%q is no part of a date", c)
			}
			field := t.Format(layouts[min(n, 4)-1])
			for (c == 'H' || c == 'D') && len(field) > n && field[0] == '0' {
				field = field[1:]
			}
			b.WriteString(field)
		default:
			b.WriteByte(c)
		}
		i += n
	}
	return b.String(), nil
}
