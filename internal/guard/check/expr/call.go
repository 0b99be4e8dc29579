package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tailscope/internal/figure"
)

// call reads the arguments of the function named t.
func (p *parser) call(t token) (*node, error) {
	f := findFunction(t.text)
	if f == nil {
		hint := "docs/checks.md lists the functions"
		if over, ok := strings.CutSuffix(t.text, "_over_time"); ok && findFunction(over) != nil {
			hint = "write " + over + "(x[-1H:-0M])"
		} else if near := nearest(t.text, slices.Sorted(maps.Keys(byName))); near != "" {
			hint = "did you mean " + byName[near].named(near) + "?"
		}
		return nil, p.fail(t.start, "there is no function "+t.text, hint)
	}
	n := &node{op: opCall, start: t.start, name: t.text, function: f}
	if f.shape == takesBranches {
		n.op = opIf
	}
	if percent, ok := percentOf(t.text); ok {
		n.number = percent
	}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	for !p.sign(")") {
		if len(n.args) > 0 {
			if !p.sign(",") {
				return nil, p.unexpected("a comma or )")
			}
			if err := p.advance(true); err != nil {
				return nil, err
			}
		}
		a, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, a)
	}
	n.end = p.token.end
	if err := p.advance(false); err != nil {
		return nil, err
	}
	if old, err := p.oldTrend(n); old || err != nil {
		return n, err
	}
	return n, p.checkArguments(n)
}

// named is the function's own spelling of a name in lower case.
func (f *Function) named(lower string) string {
	for _, name := range append([]string{f.Name}, f.Aliases...) {
		if strings.ToLower(name) == lower {
			return name
		}
	}
	return lower
}

// checkArguments refuses those that the function does not take.
func (p *parser) checkArguments(n *node) error {
	f := n.function
	usage := "write " + n.name + "(" + f.Args + ")"
	least, most := f.least, f.most
	switch f.shape {
	case takesValues:
		least, most = 1, MaxSource
	case takesValuesNumber, takesNumberValues:
		least, most = 2, MaxSource
	case takesList:
		least, most = 1, 1
	case takesListTime:
		least, most = 2, 2
	}
	if len(n.args) < least || len(n.args) > most {
		return p.fail(n.start, fmt.Sprintf("%s has %s", n.name, figure.Counted(len(n.args), "argument")), usage)
	}
	values, number, _ := n.split()
	for _, a := range values {
		switch {
		case a.op == opText:
			return p.fail(a.start, "a string is not a number", usage)
		case (f.shape == takesList || f.shape == takesListTime) && !a.list():
			return p.fail(a.start, n.name+" needs a list with times", "write "+n.name+"(x[-6H:-0M]"+strings.TrimPrefix(f.Args, "list")+")")
		case f.number != nil || f.shape == takesBranches || f.shape == takesAny:
			if err := p.wantNumber(a); err != nil {
				return err
			}
		}
	}
	switch {
	case f.shape == takesListTime:
		return p.horizon(n, number)
	case number != nil:
		if err := p.wantNumber(number); err != nil {
			return err
		}
		if f == byName["percentile"] && number.op == opNumber && number.number > 100 {
			return p.fail(number.start, "a percentage is at most 100", usage)
		}
	}
	return nil
}

// horizon reads the "1H" of ols.
func (p *parser) horizon(n, ahead *node) error {
	if ahead.op != opText {
		return p.fail(ahead.start, "how far ahead?", `write a time as a string, such as "2H" or "14D"`)
	}
	d, problem := duration(strings.TrimSpace(ahead.text))
	if problem != "" {
		return p.fail(ahead.start, fmt.Sprintf("%q %s", ahead.text, problem), `write a time such as "2H" or "14D"`)
	}
	n.number = d.Seconds()
	return nil
}

// split parts a call's values from its parameter: an argument of its own, or,
// of pN, the number in the name.
func (n *node) split() (values []*node, parameter *node, fixed float64) {
	last := len(n.args) - 1
	switch n.function.shape {
	case takesValuesNumber, takesListTime:
		return n.args[:last], n.args[last], n.number
	case takesNumberValues:
		return n.args[1:], n.args[0], 0
	}
	return n.args, nil, n.number
}
