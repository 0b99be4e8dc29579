package expr

import (
	"slices"
	"strconv"
	"strings"
)

// node is a part of an expression.
type node struct {
	op         op
	start, end int     // in the source, bytes, with parentheses around it
	number     float64 // opNumber; opCall of pN: N
	name       string  // opVariable; opCall: the function as written
	text       string  // opText: the string's content
	selector   *Selector
	function   *Function
	old        *oldTrend // opCall of ols and olss in Bischeck's form
	args       []*node
	grouped    bool // stood in parentheses
}

type op uint8

const (
	opNumber op = iota
	opNull
	opVariable
	opText
	opSelect
	opCall
	opIf
	opNegate
	opNot
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opPower
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opEqual
	opUnequal
	opAnd
	opOr
)

// binary are the operators between two values. Those of higher precedence bind
// more tightly; ^ is right-associative, and - before a value binds less tightly
// than ^ does: -2^2 is -4.
var binary = map[string]struct {
	op         op
	precedence int
}{
	"or": {opOr, 1}, "||": {opOr, 1},
	"and": {opAnd, 2}, "&&": {opAnd, 2},
	"==": {opEqual, 4}, "!=": {opUnequal, 4},
	"<": {opLess, 4}, "<=": {opLessEqual, 4}, ">": {opGreater, 4}, ">=": {opGreaterEqual, 4},
	"+": {opAdd, 5}, "-": {opSubtract, 5},
	"*": {opMultiply, 6}, "/": {opDivide, 6}, "%": {opModulo, 6},
	"^": {opPower, 8},
}

const (
	precedenceNot    = 3
	precedenceNegate = 7
	precedencePower  = 8
	precedenceValue  = 9
)

// operators are the binary ones as they are printed.
var operators = map[op]string{opOr: "or", opAnd: "and", opEqual: "==", opUnequal: "!=",
	opLess: "<", opLessEqual: "<=", opGreater: ">", opGreaterEqual: ">=",
	opAdd: "+", opSubtract: "-", opMultiply: "*", opDivide: "/", opModulo: "%", opPower: "^"}

// calls reports whether n or what is in it calls one of the functions named.
func (n *node) calls(names []string) bool {
	return n.op == opCall && slices.Contains(names, n.function.Name) || slices.ContainsFunc(n.args, func(a *node) bool { return a.calls(names) })
}

// list reports whether n is several values.
func (n *node) list() bool { return n.op == opSelect && n.selector.list() }

func (n *node) precedence() int {
	switch {
	case n.op == opNot:
		return precedenceNot
	case n.op == opNegate:
		return precedenceNegate
	case operators[n.op] != "":
		return binary[operators[n.op]].precedence
	}
	return precedenceValue
}

// Canonical is the expression in one line with the least parentheses. Parsing it
// gives the same expression, and it again.
func (p *Program) Canonical() string {
	var b strings.Builder
	p.root.print(&b)
	return b.String()
}

func (n *node) print(b *strings.Builder) {
	switch n.op {
	case opNumber:
		b.WriteString(strconv.FormatFloat(n.number, 'g', -1, 64))
	case opNull:
		b.WriteString("null")
	case opVariable:
		b.WriteString(n.name)
	case opText:
		b.WriteString(strconv.Quote(n.text))
	case opSelect:
		n.selector.print(b)
	case opIf, opCall:
		b.WriteString(n.name)
		b.WriteByte('(')
		if n.old != nil {
			n.old.print(b)
		} else {
			for i, a := range n.args {
				if i > 0 {
					b.WriteString(", ")
				}
				a.print(b)
			}
		}
		b.WriteByte(')')
	case opNegate:
		b.WriteByte('-')
		n.args[0].printWithin(b, precedenceNegate)
	case opNot:
		b.WriteString("not ")
		n.args[0].printWithin(b, precedenceNot)
	default:
		precedence := n.precedence()
		left, right := precedence, precedence+1
		switch {
		case compares(n.op):
			left++
		case n.op == opPower:
			// What stands before ^ is a value; after it - needs no parentheses.
			left, right = precedenceValue, precedenceNegate
		}
		n.args[0].printWithin(b, left)
		b.WriteByte(' ')
		b.WriteString(operators[n.op])
		b.WriteByte(' ')
		n.args[1].printWithin(b, right)
	}
}

// printWithin prints n in parentheses unless it binds at least as tightly.
func (n *node) printWithin(b *strings.Builder, precedence int) {
	if n.precedence() >= precedence {
		n.print(b)
		return
	}
	b.WriteByte('(')
	n.print(b)
	b.WriteByte(')')
}
