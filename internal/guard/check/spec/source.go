package spec

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/query"
)

// source reads where a value comes from.
func (r *reader) source(c *Check, raw *rawSource) Source {
	var s Source
	given := r.d.Count(&raw.Expression, &raw.Query, &raw.PromQL, &raw.HTTP, &raw.TCP, &raw.TLS, &raw.Command, &raw.SQL)
	if given != 1 && r.d.Given(raw) {
		message := "the value says no source"
		if given > 1 {
			message = "the value says several sources"
		}
		r.d.Wrong(raw, "write an expression, or one of query, promql, http, tcp, tls, command and sql", "%s", message)
		return s
	}
	switch {
	case r.d.Given(&raw.Expression):
		s.Expr = r.expression(c, r.d.Node(&raw.Expression))
	case raw.Query != nil:
		s.Query = r.query(raw.Query)
	case r.d.Given(&raw.PromQL):
		s.PromQL = r.promQL(&raw.PromQL)
	case raw.HTTP != nil:
		s.HTTP = r.http(raw.HTTP)
	case raw.TCP != nil:
		s.TCP = raw.TCP
	case raw.TLS != nil:
		s.TLS = raw.TLS
	case raw.Command != nil:
		s.Command = r.command(raw.Command)
	case raw.SQL != nil:
		s.SQL = r.sql(raw.SQL)
	}
	return s
}

func (r *reader) query(raw *rawQuery) *Query {
	q := &Query{Measure: raw.Measure, T: raw.T, Cohort: raw.Cohort, Over: raw.Over}
	q.Family, q.Matchers = r.series(&raw.Series)
	if r.d.OK(&raw.Over) && q.Over < 10*time.Second {
		r.d.Wrong(&raw.Over, "at least 10s, one slot", "over %s is too short", r.d.S(&raw.Over))
	}
	needsT := q.Measure == "above" || q.Measure == "below"
	if needsT && !r.d.Given(&raw.T) {
		r.d.Wrong(raw, "write t: 500ms", "%s needs t", q.Measure)
	}
	if r.d.Given(&raw.T) && !needsT && q.Measure != "apdex" {
		r.d.Wrong(&raw.T, "only apdex, above and below have one", "%s has no t", q.Measure)
	}
	return q
}

func (r *reader) promQL(t *string) string {
	if err := query.CheckText("query", *t); err != nil {
		r.d.Wrong(t, "", "%v", err)
		return ""
	}
	e, err := promParser.ParseExpr(*t)
	if err != nil {
		r.promProblem(t, err)
		return ""
	}
	if k := e.Type(); k != parser.ValueTypeScalar && k != parser.ValueTypeVector {
		r.d.Wrong(t, "put a function such as rate or avg_over_time around it", "this comes to a %s, not to a number", k)
	}
	return *t
}

func (r *reader) http(raw *rawHTTP) *HTTP {
	h := &HTTP{
		URL: raw.URL, Method: raw.Method, Body: raw.Body, Measure: raw.Measure,
		JSON: raw.JSON, Regexp: raw.Regexp, NoRedirects: !raw.Redirects,
		MaxBytes: raw.MaxBytes, CA: raw.CA, Insecure: raw.Insecure,
	}
	if h.Method == "" {
		h.Method = "GET"
		if h.Body != "" {
			h.Method = "POST"
		}
	}
	r.noPassword(r.d.Node(&raw.URL))
	if r.d.Given(&raw.JSON) && r.d.Given(&raw.Regexp) {
		r.d.Wrong(&raw.Regexp, "leave one of them out", "json and regexp are two values")
	}
	switch {
	case h.Measure == "" && r.d.Given(&raw.JSON):
		h.Measure = "json"
	case h.Measure == "" && r.d.Given(&raw.Regexp):
		h.Measure = "regexp"
	case h.Measure == "":
		h.Measure = "time"
	case h.Measure == "json" && !r.d.Given(&raw.JSON):
		r.d.Wrong(&raw.Measure, "write json: data.items.0.count", "json needs a path")
	case h.Measure == "regexp" && !r.d.Given(&raw.Regexp):
		r.d.Wrong(&raw.Measure, `write regexp: "active: (\\d+)"`, "regexp needs one")
	}
	h.Headers, h.SecretHeaders = r.plainAndSecret("header", raw.Headers)
	h.Expect = raw.Expect
	return h
}

func (r *reader) command(raw *rawCommand) *Command {
	c := &Command{Shell: raw.Shell, Dir: raw.Dir, Label: raw.Label, Output: raw.Output, MaxBytes: raw.MaxBytes}
	c.Args = raw.Args
	for _, a := range fields(raw.Args) {
		if plainArgument.MatchString(*a) {
			r.d.Wrong(a, "everybody on the machine sees arguments: give it by env: {NAME: {env: NAME}}", "a secret is written in an argument")
		}
	}
	if (len(c.Args) == 0) == (c.Shell == "") {
		r.d.Wrong(raw, "write args: [/usr/lib/nagios/plugins/check_disk, -w, 10%], or shell: with a line for /bin/sh", "a command has either args or shell")
	}
	c.Env, c.SecretEnv = r.plainAndSecret("env", raw.Env)
	return c
}

func (r *reader) sql(raw *rawSQL) *SQL {
	s := &SQL{Driver: raw.Driver, DSN: raw.DSN.text, Query: raw.Query}
	if raw.DSN.secret != nil {
		s.SecretDSN, s.DSN = r.secret(raw.DSN.secret), ""
		return s
	}
	if raw.DSN.given() && (passwordInDSN.MatchString(s.DSN) || hasPassword(s.DSN)) {
		r.problem(raw.DSN.node.At, "write dsn: {env: NAME} or dsn: {file: PATH}", "the dsn holds a password, which is not written here")
	}
	return s
}

var (
	headerName    = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$") // RFC 9110, section 5.6.2
	secretName    = regexp.MustCompile(`(?i)(authorization|cookie|passw|secret|token|api-?_?key|private)`)
	plainArgument = regexp.MustCompile(`(?i)^--?(password|passwd|token|secret|api-?key)=.`)
	// passwordInDSN finds password=… of lib/pq's form and user:password@ of MySQL's.
	passwordInDSN = regexp.MustCompile(`(?i)\bpassword\s*=\s*[^\s&]|^[^:@/]+:[^@]+@`)
)

// hasPassword says whether a URL holds one.
func hasPassword(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return false
	}
	p, ok := u.User.Password()
	return ok && p != ""
}

func (r *reader) noPassword(n *node) {
	if n != nil && hasPassword(n.Text) {
		r.problem(n.At, "give it where it can be read from the environment or a file, such as headers: {Authorization: {env: NAME}}", "the address holds a password, which is not written here")
	}
}

// plainAndSecret parts values from secrets.
func (r *reader) plainAndSecret(what string, raw map[string]plainSecret) (map[string]string, map[string]Secret) {
	plain, secret := map[string]string{}, map[string]Secret{}
	for _, name := range names(raw) {
		v := raw[name]
		if what == "header" && !headerName.MatchString(name) {
			r.problem(v.node.At, "write one such as X-From", "%q is not a name of a header", name)
		}
		switch {
		case what == "header" && v.given() && strings.ContainsFunc(v.text, unicode.IsControl):
			r.problem(v.node.At, "write one line", "the header %s has line breaks or control characters", name)
		case v.secret != nil:
			if s := r.secret(v.secret); s != nil {
				secret[name] = *s
			}
		case secretName.MatchString(name) && v.text != "":
			r.problem(v.node.At, name+": {env: NAME} or "+name+": {file: PATH}", "the %s %s is a secret and not written here", what, name)
		default:
			plain[name] = v.text
		}
	}
	return plain, secret
}

func (p *plainSecret) given() bool { return p.node != nil && p.secret == nil }

// secret returns where one comes from, nil if nowhere or if the file says it wrong.
func (r *reader) secret(raw *Secret) *Secret {
	if raw == nil {
		return nil
	}
	if r.d.Given(&raw.Env) == r.d.Given(&raw.File) {
		r.d.Wrong(raw, "write {env: NAME} or {file: PATH}", "a secret is read from the environment or from a file")
		return nil
	}
	return raw
}

// strs are texts without the space around them, each once.
func strs(texts []string) []string {
	var out []string
	for _, t := range texts {
		if !slices.Contains(out, t) {
			out = append(out, strings.TrimSpace(t))
		}
	}
	return out
}
