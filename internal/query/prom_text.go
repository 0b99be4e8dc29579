package query

import (
	"regexp/syntax"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"tailscope/internal/figure"
)

// Bounds on the text of a query. What is long is long to check: types are
// worked out anew at each depth, and a regular expression of a few bytes, such
// as (x{999}y){999}, compiles to megabytes.
const (
	maxTextBytes  = 64 << 10
	maxTextParts  = 8192 // numbers, names, operators, brackets, matchers
	maxTextDepth  = 1000
	maxRegexpSize = 64 << 10 // instructions of all regular expressions of a query
	maxRegexpSets = 100      // Unicode classes such as \pL, which are tables of ranges
)

// CheckText refuses a PromQL text that would take long to parse, before it is
// parsed. field is the parameter that holds it.
func CheckText(field, text string) error {
	if len(text) > maxTextBytes {
		return Invalid(field, "the query is %s bytes long; at most %s are read: ask for its parts one by one", figure.Thousands(len(text)), figure.Thousands(maxTextBytes))
	}
	lexer := parser.Lex(text)
	var item parser.Item
	regexps, parts := 0, 0
	for pattern := false; ; parts++ {
		lexer.NextItem(&item)
		if item.Typ == parser.EOF || item.Typ == parser.ERROR { // the parser says what is wrong
			break
		}
		if pattern && item.Typ == parser.STRING {
			if s, err := strutil.Unquote(item.Val); err == nil {
				regexps += regexpSize(s)
			}
		}
		pattern = item.Typ == parser.EQL_REGEX || item.Typ == parser.NEQ_REGEX
		if regexps > maxRegexpSize {
			return Invalid(field, "the query's regular expressions are too large, they compile to %s instructions or more; at most %s are allowed: write fewer repetitions and shorter alternatives", figure.Thousands(regexps), figure.Thousands(maxRegexpSize))
		}
	}
	if parts > maxTextParts {
		return Invalid(field, "the query has %s numbers, names and operators; at most %s are read: ask for its parts one by one", figure.Thousands(parts), figure.Thousands(maxTextParts))
	}
	return nil
}

// regexpSize estimates the instructions that a regular expression compiles to,
// 0 if it is not one.
func regexpSize(s string) int {
	if strings.Count(s, `\p`)+strings.Count(s, `\P`) > maxRegexpSets {
		return maxRegexpSize + 1
	}
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOfRegexp(re)
}

func sizeOfRegexp(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		n = min(n+sizeOfRegexp(sub), 2*maxRegexpSize)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, 2*maxRegexpSize)
}

// checkDepth refuses an expression whose parts lie too deep within one another.
func checkDepth(e parser.Expr) error {
	if depth := depthOf(e); depth > maxTextDepth {
		return Invalid("query", "the query's parts lie %s deep within one another; at most %s levels are read: ask for its parts one by one", figure.Thousands(depth), figure.Thousands(maxTextDepth))
	}
	return nil
}

func depthOf(n parser.Node) int {
	deepest := 0
	for child := range parser.ChildrenIter(n) {
		deepest = max(deepest, depthOf(child))
	}
	return deepest + 1
}
