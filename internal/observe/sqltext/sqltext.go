// Package sqltext makes SQL fit for labels and display: Append removes its literals,
// Summary returns its verb and its table.
//
// Nothing here parses SQL. A lexer that knows the quoting rules of the common dialects
// cuts the text into tokens in one pass; Append writes them back with every literal as
// ?, Summary reads the first few keywords. Where dialects disagree and a wrong guess
// could let a literal through (does a backslash escape a quote? is "x" a name or a
// string?), it uses the reading that keeps less.
package sqltext

import "strings"

// IsStatement reports whether q begins with the verb of some SQL statement.
func IsStatement(q string) bool {
	l := lexer{src: q[:min(len(q), maxInput)], backslash: true}
	t := l.next()
	for t.char == '(' || t.char == ';' || t.is("EXPLAIN") {
		t = l.next()
	}
	return verbOf(t) != ""
}

// Looks reports whether s reads like an SQL statement rather than a name: a
// statement's verb, then more.
func Looks(s string) bool {
	verb, _, clause := summarize(s)
	return verb != "" && clause
}

// Summary returns the statement's verb in upper case and its main table, without quotes,
// with its schema if it has one. The verb is empty if q is not a statement that Summary
// knows, and the table if there is none.
//
// The table may be a view into q.
func Summary(q string) (verb, table string) {
	verb, table, _ = summarize(q)
	return verb, table
}

const maxTokens = 2000 // the verb and the table come long before

// summarize is Summary; clause reports a clause that only a statement has.
func summarize(q string) (verb, table string, clause bool) {
	s := scanner{lexer: lexer{src: q, backslash: true}}
	t := s.next()
	for t.char == '(' || t.char == ';' || t.is("EXPLAIN") || t.is("ANALYZE") && s.tokens > 1 || t.is("VERBOSE") {
		t = s.next()
	}
	if t.kind != word {
		return "", "", false
	}
	var ctes [8]struct{ name, table string }
	n := 0
	if t.is("WITH") {
		// name [(columns)] AS [[NOT] MATERIALIZED] ( query ) [, ...] statement
		t = s.next()
		if t.is("RECURSIVE") {
			t = s.next()
		}
		for t.kind == word || t.kind == name {
			if verbOf(t) != "" {
				break
			}
			cte := unquoteName(t.text)
			t = s.next()
			inner := ""
			for ; t.kind != end; t = s.next() {
				if inner == "" && s.depth > 0 && t.is("FROM") {
					inner = s.table()
				}
				if s.depth == 0 && t.char == ')' {
					p := s.peek()
					if p.is("AS") {
						continue // the columns' parenthesis
					}
					break
				}
			}
			if n < len(ctes) {
				ctes[n].name, ctes[n].table = cte, inner
				n++
			}
			t = s.next()
			if t.char == ',' {
				t = s.next()
				continue
			}
			break
		}
		if t.kind != word {
			return "WITH", "", true
		}
	}
	verb = verbOf(t)
	switch verb {
	case "":
		return "", "", false
	case "SELECT":
		table, clause = s.from()
	case "DELETE":
		p := s.peek()
		if p.is("FROM") {
			s.next()
			table, clause = s.table(), true
		} else {
			table, clause = s.from()
		}
	case "INSERT", "REPLACE", "MERGE", "UPSERT":
		for t = s.next(); t.kind != end; t = s.next() {
			if t.is("INTO") || t.is("OVERWRITE") {
				if p := s.peek(); p.is("TABLE") {
					s.next()
				}
				table, clause = s.table(), true
				break
			}
			if !(t.is("OR") || t.is("IGNORE") || t.is("REPLACE") || t.is("DELAYED") || t.is("LOW_PRIORITY") || t.is("HIGH_PRIORITY") || t.is("ABORT") || t.is("FAIL") || t.is("ROLLBACK")) {
				table = s.tableFrom(t)
				break
			}
		}
	case "UPDATE":
		t = s.next()
		for t.is("ONLY") || t.is("LOW_PRIORITY") || t.is("IGNORE") || t.is("OR") || t.is("REPLACE") || t.is("ABORT") || t.is("FAIL") || t.is("ROLLBACK") {
			t = s.next()
		}
		table = s.tableFrom(t)
		for t = s.next(); t.kind != end; t = s.next() {
			if t.is("SET") {
				clause = true
				break
			}
		}
	case "CREATE", "ALTER", "DROP", "TRUNCATE", "REFRESH":
		verb, table, clause = s.ddl(verb)
	case "COPY", "LOCK", "VACUUM", "ANALYZE", "REINDEX", "DESCRIBE":
		t = s.next()
		for t.is("TABLE") || t.is("FULL") || t.is("ANALYZE") || t.is("VERBOSE") {
			t = s.next()
		}
		table = s.tableFrom(t)
	case "CALL", "EXEC", "EXECUTE":
		table = s.table()
	}
	for _, c := range ctes[:n] {
		if c.name == table && c.table != "" {
			table = c.table
			break
		}
	}
	return verb, table, clause
}

type scanner struct {
	lexer
	ahead  token
	has    bool
	depth  int
	tokens int
}

func (s *scanner) next() token {
	t := s.ahead
	if s.has {
		s.has = false
	} else {
		t = s.lexer.next()
	}
	if s.tokens++; s.tokens > maxTokens {
		return token{kind: end}
	}
	switch t.char {
	case '(':
		s.depth++
	case ')':
		s.depth--
	}
	return t
}

func (s *scanner) peek() token {
	if !s.has {
		s.ahead, s.has = s.lexer.next(), true
	}
	return s.ahead
}

// from returns the table of the FROM at the present depth, or of a subquery there.
func (s *scanner) from() (table string, found bool) {
	depth := s.depth
	prev := token{}
	for t := s.next(); t.kind != end; prev, t = t, s.next() {
		if s.depth < depth {
			return "", false
		}
		if s.depth != depth || !t.is("FROM") || prev.is("DISTINCT") {
			continue
		}
		t = s.next()
		for t.char == '(' {
			t = s.next()
			if t.is("SELECT") {
				return first(s.from()), true
			}
		}
		for t.is("ONLY") || t.is("LATERAL") || t.is("TABLE") {
			t = s.next()
			for t.char == '(' {
				t = s.next()
				if t.is("SELECT") {
					return first(s.from()), true
				}
			}
		}
		return s.tableFrom(t), true
	}
	return "", false
}

func first(s string, _ bool) string { return s }

// ddl parses CREATE, ALTER, DROP and the like: the kind of their object joins the verb.
func (s *scanner) ddl(verb string) (string, string, bool) {
	for t := s.next(); t.kind == word; t = s.next() {
		var object string
		switch {
		case t.is("TABLE"):
			object = "TABLE"
		case t.is("VIEW"):
			object = "VIEW"
		case t.is("INDEX"):
			object = "INDEX"
		case t.is("SEQUENCE"):
			object = "SEQUENCE"
		case t.is("DATABASE"):
			object = "DATABASE"
		case t.is("SCHEMA"):
			object = "SCHEMA"
		case t.is("FUNCTION"):
			object = "FUNCTION"
		case t.is("TRIGGER"):
			object = "TRIGGER"
		case t.is("USER"), t.is("ROLE"):
			return verb + " USER", "", true
		case t.is("UNIQUE"), t.is("TEMP"), t.is("TEMPORARY"), t.is("OR"), t.is("REPLACE"), t.is("MATERIALIZED"), t.is("GLOBAL"), t.is("LOCAL"), t.is("UNLOGGED"), t.is("EXTERNAL"):
			continue
		default:
			if verb == "TRUNCATE" {
				return verb, s.tableFrom(t), false
			}
			return verb, "", false
		}
		verb += " " + object
		if object == "INDEX" && !strings.HasPrefix(verb, "DROP") {
			for t = s.next(); t.kind != end; t = s.next() {
				if t.is("ON") {
					return verb, s.table(), true
				}
			}
			return verb, "", true
		}
		t = s.next()
		for t.is("IF") || t.is("NOT") || t.is("EXISTS") || t.is("CONCURRENTLY") || t.is("ONLY") {
			t = s.next()
		}
		return verb, s.tableFrom(t), true
	}
	return verb, "", false
}

func (s *scanner) table() string {
	t := s.next()
	for t.is("ONLY") || t.is("LATERAL") || t.char == '(' {
		t = s.next()
	}
	return s.tableFrom(t)
}

// tableFrom parses a possibly dotted name whose first part is t.
func (s *scanner) tableFrom(t token) string {
	if t.kind != word && t.kind != name && t.kind != quoted {
		return ""
	}
	if t.kind == word && isReserved(t.text) {
		return ""
	}
	whole := unquoteName(t.text)
	for range 3 {
		if p := s.peek(); p.char != '.' || p.space {
			break
		}
		s.next()
		p := s.peek()
		if p.kind != word && p.kind != name && p.kind != quoted {
			break
		}
		s.next()
		whole += "." + unquoteName(p.text)
	}
	if len(whole) > 128 {
		return ""
	}
	return whole
}

// unquoteName returns a name without its quotes.
func unquoteName(s string) string {
	if len(s) >= 2 {
		switch s[0] {
		case '"', '`', '[':
			return s[1 : len(s)-1]
		}
	}
	return s
}

var verbs = [...]string{
	"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "UPSERT", "WITH",
	"CREATE", "ALTER", "DROP", "TRUNCATE", "REFRESH", "BEGIN", "COMMIT", "ROLLBACK",
	"SAVEPOINT", "RELEASE", "START", "SET", "SHOW", "PRAGMA", "USE", "COPY", "VACUUM",
	"ANALYZE", "LOCK", "UNLOCK", "FETCH", "DECLARE", "CLOSE", "DEALLOCATE", "PREPARE", "GRANT",
	"REVOKE", "VALUES", "LISTEN", "NOTIFY", "UNLISTEN", "CALL", "EXEC", "EXECUTE", "DESCRIBE",
	"REINDEX", "CHECKPOINT", "DISCARD", "RESET", "DO", "KILL", "LOAD", "OPTIMIZE",
}

func verbOf(t token) string {
	if t.kind != word {
		return ""
	}
	return Verb(t.text)
}

// Verb returns s in upper case if it is the first word of some SQL statement, otherwise
// "".
func Verb(s string) string {
	for _, v := range verbs {
		if len(v) == len(s) && strings.EqualFold(v, s) {
			return v
		}
	}
	return ""
}

// isReserved reports whether s cannot be a table where a table was expected.
func isReserved(s string) bool {
	switch strings.ToUpper(s) {
	case "SELECT", "FROM", "WHERE", "SET", "VALUES", "INTO", "ON", "JOIN", "ORDER", "GROUP", "UNION", "LIMIT", "AS", "AND", "OR":
		return true
	}
	return false
}
