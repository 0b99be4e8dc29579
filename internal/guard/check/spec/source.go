package spec

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// checkSource checks a Source.
func (r *reader) checkSource(s *Source) {
	if !r.checkOne(r.d.Node(s).At, "the value says", "source", "write an expression, or one of query, promql, http, tcp, tls, command and sql",
		&s.Expr, &s.Query, &s.PromQL, &s.HTTP, &s.TCP, &s.TLS, &s.Command, &s.SQL) {
		return
	}
	switch {
	case s.Expr != nil:
		r.checkNames(r.d.Node(&s.Expr), s.Expr)
	case s.Query != nil:
		r.checkQuery(s.Query)
	case s.HTTP != nil:
		r.checkHTTP(s.HTTP)
	case s.Command != nil:
		r.checkCommand(s.Command)
	case s.SQL != nil:
		r.checkSQL(s.SQL)
	}
}

func (r *reader) checkQuery(q *Query) {
	if r.d.OK(&q.Over) && q.Over < 10*time.Second {
		r.d.Wrong(&q.Over, "at least 10s, one slot", "over %s is too short", r.d.S(&q.Over))
	}
	needsT := q.Measure == "above" || q.Measure == "below"
	if needsT && !r.d.Given(&q.T) {
		r.d.Wrong(q, "write t: 500ms", "%s needs t", q.Measure)
	}
	if r.d.Given(&q.T) && !needsT && q.Measure != "apdex" {
		r.d.Wrong(&q.T, "only apdex, above and below have one", "%s has no t", q.Measure)
	}
}

func (r *reader) checkHTTP(h *HTTP) {
	if h.Method == "" {
		h.Method = "GET"
		if h.Body != "" {
			h.Method = "POST"
		}
	}
	r.refusePassword(&h.URL)
	if r.d.Given(&h.JSON) && r.d.Given(&h.Regexp) {
		r.d.Wrong(&h.Regexp, "leave one of them out", "json and regexp are two values")
	}
	switch {
	case h.Measure == "" && r.d.Given(&h.JSON):
		h.Measure = "json"
	case h.Measure == "" && r.d.Given(&h.Regexp):
		h.Measure = "regexp"
	case h.Measure == "":
		h.Measure = "time"
	case h.Measure == "json" && !r.d.Given(&h.JSON):
		r.d.Wrong(&h.Measure, "write json: data.items.0.count", "json needs a path")
	case h.Measure == "regexp" && !r.d.Given(&h.Regexp):
		r.d.Wrong(&h.Measure, `write regexp: "active: (\\d+)"`, "regexp needs one")
	}
	r.checkTexts("header", &h.Headers)
}

func (r *reader) checkCommand(c *Command) {
	for _, a := range pointers(c.Args) {
		if plainArgument.MatchString(*a) {
			r.d.Wrong(a, "everybody on the machine sees arguments: give it by env: {NAME: {env: NAME}}", "a secret is written in an argument")
		}
	}
	if (len(c.Args) == 0) == (c.Shell == "") {
		r.d.Wrong(c, "write args: [/usr/lib/nagios/plugins/check_disk, -w, 10%], or shell: with a line for /bin/sh", "a command has either args or shell")
	}
	r.checkTexts("env", &c.Env)
}

func (r *reader) checkSQL(s *SQL) {
	r.checkSecret(s.DSN.Secret)
	if dsn := s.DSN.Plain; passwordInDSN.MatchString(dsn) || hasPassword(dsn) {
		r.d.Wrong(&s.DSN, "write dsn: {env: NAME} or dsn: {file: PATH}", "the dsn holds a password, which is not written here")
	}
}

var (
	headerName    = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$") // RFC 9110, section 5.6.2
	secretName    = regexp.MustCompile(`(?i)(authorization|cookie|passw|secret|token|api-?_?key|private)`)
	plainArgument = regexp.MustCompile(`(?i)^--?(password|passwd|token|secret|api-?key)=.`)
	// passwordInDSN finds password=… of lib/pq's form and user:password@ of MySQL's.
	passwordInDSN = regexp.MustCompile(`(?i)\bpassword\s*=\s*[^\s&]|^[^:@/]+:[^@]+@`)
)

// hasPassword reports whether a URL holds a password.
func hasPassword(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return false
	}
	p, ok := u.User.Password()
	return ok && p != ""
}

// refusePassword refuses an address, at a pointer to its field, that holds a password.
func (r *reader) refusePassword(field any) {
	if hasPassword(r.d.S(field)) {
		r.d.Wrong(field, "give it where it can be read from the environment or a file, such as headers: {Authorization: {env: NAME}}", "the address holds a password, which is not written here")
	}
}

// checkTexts checks headers, or an environment.
func (r *reader) checkTexts(what string, texts *map[string]Text) {
	for _, name := range names(*texts) {
		v, at := (*texts)[name], r.d.Node(texts).Get(name).At
		if what == "header" && !headerName.MatchString(name) {
			r.problem(at, "write one such as X-From", "%q is not a name of a header", name)
		}
		switch {
		case v.Secret != nil:
			r.checkSecret(v.Secret)
		case what == "header" && strings.ContainsFunc(v.Plain, unicode.IsControl):
			r.problem(at, "write one line", "the header %s has line breaks or control characters", name)
		case secretName.MatchString(name) && v.Plain != "":
			r.problem(at, name+": {env: NAME} or "+name+": {file: PATH}", "the %s %s is a secret and not written here", what, name)
		}
	}
}

// checkSecret checks that one, if there is one, comes from one place.
func (r *reader) checkSecret(s *Secret) {
	if s != nil && r.d.Given(&s.Env) == r.d.Given(&s.File) {
		r.d.Wrong(s, "write {env: NAME} or {file: PATH}", "a secret is read from the environment or from a file")
	}
}

// unique returns items without those that came before.
func unique[T comparable](items []T) []T {
	var out []T
	for _, v := range items {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
