package requests

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/experiment/bench/load"
)

// check is one compiled condition on a query's answers.
type check struct {
	number int // index in Set.Checks
	kind   checkKind
	ranges [][2]int // of statuses
	name   string   // of a header field
	text   []byte
	re     *regexp.Regexp
	path   []step
	op     string // of JSON: = != < <= > >= ~ *
	number64
	min, max int64 // of size
}

// number64 is the number that a JSON value is compared with.
type number64 struct {
	v  float64
	ok bool
}

type checkKind uint8

const (
	onStatus checkKind = iota
	onHeader
	onSize
	onContains
	onMatches
	onJSON
)

// checker holds the checks of every query.
type checker struct {
	queries [][]check
	wants   [][2]bool // header, body
	names   []string
}

// Wants implements load.Checker.
func (c *checker) Wants(query int) (header, body bool) {
	w := c.wants[query]
	return w[0], w[1]
}

// Check implements load.Checker. It allocates nothing, unless a JSON string has
// escapes.
func (c *checker) Check(query, status int, header []load.Field, body []byte) int {
	checks := c.queries[query]
	for i := range checks {
		if !checks[i].holds(status, header, body) {
			return checks[i].number
		}
	}
	return -1
}

func (c *check) holds(status int, header []load.Field, body []byte) bool {
	switch c.kind {
	case onStatus:
		return c.wantsStatus(status)
	case onHeader:
		for _, f := range header {
			if strings.EqualFold(f.Name, c.name) && (c.op == "*" || c.re != nil && c.re.MatchString(f.Value) || c.re == nil && f.Value == string(c.text)) {
				return true
			}
		}
		return false
	case onSize:
		size := int64(len(body))
		for _, f := range header { // more than is kept of a body counts too
			if strings.EqualFold(f.Name, "Content-Length") {
				if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
					size = max(size, n)
				}
			}
		}
		return c.min <= size && size <= c.max
	case onContains:
		return bytes.Contains(body, c.text)
	case onMatches:
		return c.re.Match(body)
	}
	value, ok := find(body, c.path)
	return ok && c.likes(value)
}

func (c *check) wantsStatus(status int) bool {
	for _, r := range c.ranges {
		if r[0] <= status && status <= r[1] {
			return true
		}
	}
	return false
}

// likes compares a JSON value with the expected one.
func (c *check) likes(value []byte) bool {
	if c.op == "*" {
		return true
	}
	quoted := value[0] == '"'
	if c.op == "~" {
		if quoted {
			value = value[1 : len(value)-1]
		}
		return c.re.Match(value)
	}
	if c.ok && !quoted {
		if v, err := strconv.ParseFloat(view(value), 64); err == nil {
			return compare(v, c.op, c.v)
		}
	}
	equal := quoted && same(value, view(c.text)) || !quoted && bytes.Equal(value, c.text)
	return c.op == "=" && equal || c.op == "!=" && !equal
}

func compare(a float64, op string, b float64) bool {
	switch op {
	case "=":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// checkFault names the fault of a check and its field.
type checkFault struct{ field, text, hint string }

func (c *Check) empty() bool {
	return c == nil || len(c.Status)+len(c.Header)+len(c.Contains)+len(c.Matches)+len(c.JSON) == 0 && c.Size == ""
}

// add compiles a query's check. names are numbered as they come.
func (c *checker) add(query int, of *Check) (faults []checkFault) {
	for len(c.queries) <= query {
		c.queries, c.wants = append(c.queries, nil), append(c.wants, [2]bool{})
	}
	if of.empty() {
		return nil
	}
	fault := func(field, text, hint string) { faults = append(faults, checkFault{"check." + field, text, hint}) }
	put := func(name string, k check) {
		if len(name) > 100 {
			name = strings.ToValidUTF8(name[:97], "") + "…"
		}
		if k.number = slices.Index(c.names, name); k.number < 0 {
			k.number = len(c.names)
			c.names = append(c.names, name)
		}
		c.queries[query] = append(c.queries[query], k)
		c.wants[query][0] = c.wants[query][0] || k.kind == onHeader || k.kind == onSize
		c.wants[query][1] = c.wants[query][1] || k.kind >= onSize
	}

	if len(of.Status) > 0 {
		k := check{kind: onStatus}
		for _, text := range of.Status {
			from, to, ok := statuses(text)
			if !ok {
				fault("status", fmt.Sprintf("%q is not a status", text), "write 200, 2xx or 200..204")
			}
			k.ranges = append(k.ranges, [2]int{from, to})
		}
		put("status "+strings.Join(of.Status, " or "), k)
	}
	for _, name := range slices.Sorted(maps.Keys(of.Header)) {
		k := check{kind: onHeader, name: name, text: []byte(of.Header[name])}
		var err error
		if k.op, k.re, err = pattern(of.Header[name]); err != nil {
			fault("header", fmt.Sprintf("%s: %v", name, err), "see https://pkg.go.dev/regexp/syntax for what may be written")
		}
		if !validName(name) {
			fault("header", fmt.Sprintf("%q is not a name of a header field", name), "write the value by the name: content-type: application/json")
		}
		put("header "+strings.ToLower(name)+": "+of.Header[name], k)
	}
	if of.Size != "" {
		k := check{kind: onSize}
		var err error
		if k.min, k.max, err = sizes(of.Size); err != nil {
			fault("size", err.Error(), "write > 100, < 2MB, 1kB..2MB or 512")
		}
		put("size "+of.Size, k)
	}
	for _, text := range of.Contains {
		if text == "" {
			fault("contains", "the text is empty, and every body contains that", "write a text, or size: > 0 for any body at all")
		}
		put(fmt.Sprintf("body contains %q", text), check{kind: onContains, text: []byte(text)})
	}
	for _, text := range of.Matches {
		re, err := regexp.Compile(text)
		if err != nil {
			fault("matches", err.Error(), "see https://pkg.go.dev/regexp/syntax for what may be written")
		}
		put("body matches "+text, check{kind: onMatches, re: re})
	}
	for _, path := range slices.Sorted(maps.Keys(of.JSON)) {
		k, err := jsonCheck(path, of.JSON[path])
		if err != nil {
			fault("json", err.Error(), "")
		}
		put("json "+path+" "+k.op+" "+string(k.text), k)
	}
	return faults
}

// pattern parses the value of a check: * for any, ~ REGEX, or a text.
func pattern(text string) (op string, re *regexp.Regexp, err error) {
	if text == "*" {
		return "*", nil, nil
	}
	if expr, ok := strings.CutPrefix(text, "~"); ok {
		re, err = regexp.Compile(strings.TrimSpace(expr))
		return "~", re, err
	}
	return "", nil, nil
}

func jsonCheck(path, want string) (check, error) {
	k := check{kind: onJSON, op: "="}
	var err error
	if k.path, err = parsePath(path); err != nil {
		return k, err
	}
	op, re, err := pattern(want)
	if err != nil {
		return k, fmt.Errorf("%s: %w (hint: see https://pkg.go.dev/regexp/syntax for what may be written)", path, err)
	}
	k.re = re
	text := want
	if op != "" {
		k.op = op
		text = strings.TrimSpace(strings.TrimLeft(want, "*~"))
	} else {
		for _, known := range [...]string{"!=", "<=", ">=", "==", "<", ">", "="} {
			if rest, ok := strings.CutPrefix(want, known); ok {
				k.op, text = known, strings.TrimSpace(rest)
				break
			}
		}
		if k.op == "==" {
			k.op = "="
		}
	}
	k.text = []byte(text)
	k.v, err = strconv.ParseFloat(text, 64)
	k.ok = err == nil
	if !k.ok && (k.op[0] == '<' || k.op[0] == '>') {
		return k, fmt.Errorf("%s: %s compares numbers, and %q is none (hint: write %s: %s 10)", path, k.op, text, path, k.op)
	}
	return k, nil
}

// statuses parses 200, 2xx or 200..204.
func statuses(text string) (from, to int, ok bool) {
	if len(text) == 3 && strings.HasSuffix(strings.ToLower(text), "xx") && '1' <= text[0] && text[0] <= '5' {
		from = int(text[0]-'0') * 100
		return from, from + 99, true
	}
	a, b, span := strings.Cut(text, "..")
	if !span {
		b = a
	}
	from, err := strconv.Atoi(strings.TrimSpace(a))
	to, err2 := strconv.Atoi(strings.TrimSpace(b))
	return from, to, err == nil && err2 == nil && 100 <= from && from <= to && to <= 999
}

// sizes parses > 100, >= 1kB, < 2MB, 1kB..2MB or 512.
func sizes(text string) (low, high int64, err error) {
	const most = int64(1) << 62
	if a, b, ok := strings.Cut(text, ".."); ok {
		if low, err = bytesOf(a); err == nil {
			high, err = bytesOf(b)
		}
		if err == nil && low > high {
			err = fmt.Errorf("%s is not above %s", strings.TrimSpace(b), strings.TrimSpace(a))
		}
		return low, high, err
	}
	digits := strings.TrimLeft(text, "<>=")
	n, err := bytesOf(digits)
	switch op := text[:len(text)-len(digits)]; op {
	case "", "=":
		return n, n, err
	case ">":
		return n + 1, most, err
	case ">=":
		return n, most, err
	case "<":
		return 0, n - 1, err
	case "<=":
		return 0, n, err
	default:
		return 0, 0, fmt.Errorf("comparison %s is not known", op)
	}
}

func bytesOf(text string) (int64, error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "bBkKMGi ")
	unit, ok := map[string]float64{"": 1, "b": 1, "kb": 1e3, "k": 1e3, "kib": 1 << 10, "mb": 1e6, "m": 1e6, "mib": 1 << 20, "gb": 1e9, "gib": 1 << 30}[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || !(v >= 0 && v*unit < 1<<60) {
		return 0, fmt.Errorf("%q is not a number of bytes", text)
	}
	return int64(v * unit), nil
}
