package expr

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/strutil"
)

// Bounds of a source, so that neither reading nor evaluating one can take long.
const (
	MaxSource = 16 << 10 // bytes
	maxDepth  = 100      // of parentheses, calls and signs
)

// parser is Pratt's: operators have precedences, and an expression of at least
// some precedence ends before the first operator of a lower one.
type parser struct {
	lexer
	options   Options
	token     token // the next
	depth     int
	selectors []*Selector
	isOld     bool // something is in the old notation
}

func parse(src string, o Options) (*Program, error) {
	p := &parser{lexer: lexer{src: src}, options: o, isOld: o.Old}
	p.old = p.oldLength
	if len(src) > MaxSource {
		return nil, p.fail(MaxSource, fmt.Sprintf("the expression is longer than %d bytes", MaxSource), "make parts of it checks of their own")
	}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	if p.token.kind == tEnd {
		return nil, p.fail(0, "there is no expression", "write a number, x[0] or avg(x[0:9])")
	}
	root, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.token.kind != tEnd {
		return nil, p.unexpected("an operator")
	}
	if err := p.wantNumber(root); err != nil {
		return nil, err
	}
	return &Program{source: src, selectors: p.selectors, root: root, old: p.isOld}, nil
}

// advance reads the next token; operand reports that a value may begin there.
func (p *parser) advance(operand bool) (err error) {
	p.operand = operand
	p.token, err = p.next()
	return err
}

func (p *parser) sign(s string) bool { return p.token.kind == tSign && p.token.text == s }

// expect skips a sign.
func (p *parser) expect(s string, operand bool) error {
	if !p.sign(s) {
		return p.unexpected(s)
	}
	return p.advance(operand)
}

// unexpected refuses the next token where want should stand.
func (p *parser) unexpected(want string) error {
	if p.token.kind == tEnd {
		return p.fail(p.token.start, "the expression ends too early", "here should be "+want)
	}
	hint := "here should be " + want
	switch {
	case p.sign("="):
		hint = "write == to compare"
	case p.token.kind == tBracket:
		hint = "brackets follow the name of a series: x[0]"
	case p.sign(",") && want == "an operator":
		hint = "a comma stands between the arguments of a function"
	}
	return p.fail(p.token.start, fmt.Sprintf("%q does not belong here", p.token.text), hint)
}

func (p *parser) expression(least int) (*node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, p.fail(p.token.start, "the expression is nested too deeply", "make parts of it checks of their own")
	}
	left, err := p.value()
	for err == nil {
		word := p.token.text
		if p.token.kind == tWord {
			word = strings.ToLower(word)
		} else if p.token.kind != tSign {
			break
		}
		b, ok := binary[word]
		if !ok || b.precedence < least {
			break
		}
		at := p.token
		if err := p.advance(true); err != nil {
			return nil, err
		}
		next := b.precedence + 1
		if b.op == opPower {
			next = b.precedence
		}
		right, err := p.expression(next)
		if err != nil {
			return nil, err
		}
		for _, n := range []*node{left, right} {
			if err := p.wantNumber(n); err != nil {
				return nil, err
			}
		}
		if compares(b.op) && compares(left.op) && !left.grouped {
			return nil, p.fail(at.start, "comparisons do not follow one another", "write a < b and b < c")
		}
		left = &node{op: b.op, start: left.start, end: right.end, args: []*node{left, right}}
	}
	return left, err
}

func compares(o op) bool { return opLess <= o && o <= opUnequal }

// value reads what may stand on either side of an operator.
func (p *parser) value() (*node, error) {
	t := p.token
	switch t.kind {
	case tNumber:
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.start, t.text+" is too large", "")
		}
		if err := p.advance(false); err != nil {
			return nil, err
		}
		if p.token.kind == tWord && p.token.start == t.end {
			return nil, p.fail(t.start, fmt.Sprintf("%q is not a number", t.text+p.token.text), "times stand in brackets: x[-30M]; names do not begin with a digit")
		}
		return &node{op: opNumber, start: t.start, end: t.end, number: v}, nil
	case tString:
		return p.string()
	case tOld:
		return p.oldSelector()
	case tWord:
		return p.word()
	}
	switch {
	case p.sign("("):
		if err := p.advance(true); err != nil {
			return nil, err
		}
		n, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.grouped, n.start, n.end = true, t.start, p.token.end
		return n, p.expect(")", false)
	case p.sign("-"):
		return p.prefix(opNegate, precedenceNegate)
	case p.sign("!"):
		return p.prefix(opNot, precedenceNegate)
	case p.sign("+"):
		if err := p.advance(true); err != nil {
			return nil, err
		}
		return p.expression(precedenceNegate)
	case p.sign("{"):
		return p.selector(t, "")
	}
	return nil, p.unexpected("a value")
}

func (p *parser) prefix(o op, precedence int) (*node, error) {
	start := p.token.start
	if err := p.advance(true); err != nil {
		return nil, err
	}
	n, err := p.expression(precedence)
	if err != nil {
		return nil, err
	}
	return &node{op: o, start: start, end: n.end, args: []*node{n}}, p.wantNumber(n)
}

func (p *parser) string() (*node, error) {
	t := p.token
	text, err := strutil.Unquote(t.text)
	if err != nil {
		return nil, p.fail(t.start, fmt.Sprintf("%s is not a string", t.text), `write \\ for a backslash`)
	}
	return &node{op: opText, start: t.start, end: t.end, text: text}, p.advance(false)
}

// constants are words that mean the same everywhere.
var constants = map[string]float64{"pi": math.Pi, "e": math.E, "true": 1, "false": 0}

// word reads what begins with a name: a call, a selector, a variable.
func (p *parser) word() (*node, error) {
	t := p.token
	lower := strings.ToLower(t.text)
	if lower == "not" {
		return p.prefix(opNot, precedenceNot)
	}
	if err := p.advance(false); err != nil {
		return nil, err
	}
	n := &node{start: t.start, end: t.end, name: t.text}
	switch {
	case p.sign("("):
		return p.call(t)
	case p.sign("{"), p.token.kind == tBracket:
		return p.selector(t, t.text)
	case slices.Contains(p.options.Variables, t.text):
		n.op = opVariable
		return n, nil
	case lower == "null":
		n.op = opNull
		return n, nil
	}
	if v, ok := constants[lower]; ok {
		n.op, n.number = opNumber, v
		return n, nil
	}
	return nil, p.unknown(t)
}

// unknown refuses a bare word.
func (p *parser) unknown(t token) error {
	message := fmt.Sprintf("%s is not a variable", t.text)
	switch {
	case t.text == "END":
		return p.fail(t.start, "END stands in brackets", "write x[10:END]")
	case findFunction(t.text) != nil:
		return p.fail(t.start, t.text+" is a function", "write "+t.text+"(…)")
	}
	hint := "write " + t.text + "[0] for the newest value of the series " + t.text
	if near := nearest(t.text, p.options.Variables); near != "" {
		hint = "did you mean " + near + "? If not, " + hint
	}
	return p.fail(t.start, message, hint)
}

// selector reads matchers and brackets after the name t, or without a name.
func (p *parser) selector(t token, family string) (*node, error) {
	s := &Selector{Offset: t.start, Family: family}
	if p.sign("{") {
		if err := p.parseMatchers(s); err != nil {
			return nil, err
		}
	}
	if s.Family == "" {
		s.Family = ValueFamily
		if len(s.Matchers) == 0 {
			return nil, p.fail(t.start, "{} selects everything", `write {check="orders"}[0] or name{label="value"}[0]`)
		}
	}
	return p.parseBrackets(s)
}

// ValueFamily is the family of a selector without a name: the values of checks.
const ValueFamily = "check_value"

// parseBrackets reads those that end a selector.
func (p *parser) parseBrackets(s *Selector) (*node, error) {
	t := p.token
	if t.kind != tBracket {
		return nil, p.fail(s.Offset, "which of its past?", "write "+strings.TrimSpace(p.src[s.Offset:t.start])+"[0] for the newest value")
	}
	b := &bracket{src: p.src, offset: t.start + 1, text: t.text[1 : len(t.text)-1], s: s}
	if err := b.parse(); err != nil {
		return nil, err
	}
	s.Text = p.src[s.Offset:t.end]
	p.selectors = append(p.selectors, s)
	return &node{op: opSelect, start: s.Offset, end: t.end, selector: s}, p.advance(false)
}

// parseMatchers reads {a="b",c!="d",e=~"f",g!~"h"}.
func (p *parser) parseMatchers(s *Selector) error {
	if err := p.advance(false); err != nil {
		return err
	}
	for !p.sign("}") {
		name := p.token
		if name.kind != tWord || strings.Contains(name.text, ":") {
			return p.unexpected("a label")
		}
		if err := p.advance(false); err != nil {
			return err
		}
		kind := slices.IndexFunc(matchTypes, func(m labels.MatchType) bool { return p.sign(m.String()) })
		if kind < 0 {
			return p.unexpected("one of = != =~ !~")
		}
		if err := p.advance(false); err != nil {
			return err
		}
		if p.token.kind != tString {
			return p.fail(p.token.start, "the value of a label is a string", fmt.Sprintf("write %s%s\"%s\"", name.text, matchTypes[kind], strings.Trim(p.token.text, "[]{}(),")))
		}
		value, err := p.string()
		if err != nil {
			return err
		}
		m, err := labels.NewMatcher(matchTypes[kind], name.text, value.text)
		if err != nil {
			return p.fail(value.start, "this is not a regular expression: "+err.Error(), "")
		}
		switch {
		case m.Name != labels.MetricName:
			s.Matchers = append(s.Matchers, m)
		case m.Type != labels.MatchEqual || s.Family != "" || !family(m.Value):
			return p.fail(name.start, "a selector is of one family", `write name{…}, or __name__="name" once`)
		default:
			s.Family = m.Value
		}
		if p.sign("}") {
			break
		}
		if err := p.expect(",", false); err != nil {
			return err
		}
	}
	return p.advance(false)
}

var matchTypes = []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp}

func family(s string) bool { return s != "" && letter(s[0]) && wordLength(s) == len(s) }

// wantNumber refuses a list or a string where one number is needed.
func (p *parser) wantNumber(n *node) error {
	switch {
	case n.op == opText:
		return p.fail(n.start, "a string is not a number", "")
	case n.list():
		text := p.src[n.start:n.end]
		return p.fail(n.start, text+" is a list, not one number", "write avg("+text+"), or max, median, p95 …")
	}
	return nil
}
