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
	given := 0
	for _, yes := range []bool{raw.Expression.Given(), raw.Query != nil, raw.PromQL.Given(), raw.HTTP != nil, raw.TCP != nil, raw.TLS != nil, raw.Command != nil, raw.SQL != nil} {
		if yes {
			given++
		}
	}
	if given != 1 && raw.Node != nil {
		message := "the value says no source"
		if given > 1 {
			message = "the value says several sources"
		}
		r.problem(raw.Node.At, "write an expression, or one of query, promql, http, tcp, tls, command and sql", "%s", message)
		return s
	}
	switch {
	case raw.Expression.Given():
		s.Expr = r.expression(c, raw.Expression.Node)
	case raw.Query != nil:
		s.Query = r.query(raw.Query)
	case raw.PromQL.Given():
		s.PromQL = r.promQL(raw.PromQL)
	case raw.HTTP != nil:
		s.HTTP = r.http(raw.HTTP)
	case raw.TCP != nil:
		s.TCP = &TCP{Address: raw.TCP.Address.S(), Send: raw.TCP.Send.S(), Expect: raw.TCP.Expect.S()}
	case raw.TLS != nil:
		t := raw.TLS
		s.TLS = &TLS{Address: t.Address.S(), ServerName: t.ServerName.S(), CA: t.CA.S(), Measure: t.Measure.Or("days")}
	case raw.Command != nil:
		s.Command = r.command(raw.Command)
	case raw.SQL != nil:
		s.SQL = r.sql(raw.SQL)
	}
	return s
}

func (r *reader) query(raw *rawQuery) *Query {
	q := &Query{Measure: raw.Measure.S(), T: raw.T.Number, Cohort: raw.Cohort.S(), Over: 5 * time.Minute}
	q.Family, q.Matchers = r.series(raw.Series)
	if raw.Over.OK {
		if q.Over = raw.Over.Duration; q.Over < 10*time.Second {
			r.problem(raw.Over.Node.At, "at least 10s, one slot", "over %s is too short", raw.Over.S())
		}
	}
	needsT := q.Measure == "above" || q.Measure == "below"
	if needsT && !raw.T.Given() {
		r.problem(raw.Node.At, "write t: 500ms", "%s needs t", q.Measure)
	}
	if raw.T.Given() && !needsT && q.Measure != "apdex" {
		r.problem(raw.T.Node.At, "only apdex, above and below have one", "%s has no t", q.Measure)
	}
	return q
}

func (r *reader) promQL(t text) string {
	if err := query.CheckText("query", t.S()); err != nil {
		r.problem(t.Node.At, "", "%v", err)
		return ""
	}
	e, err := promParser.ParseExpr(t.S())
	if err != nil {
		r.promProblem(t, err)
		return ""
	}
	if k := e.Type(); k != parser.ValueTypeScalar && k != parser.ValueTypeVector {
		r.problem(t.Node.At, "put a function such as rate or avg_over_time around it", "this comes to a %s, not to a number", k)
	}
	return t.S()
}

func (r *reader) http(raw *rawHTTP) *HTTP {
	h := &HTTP{
		URL: raw.URL.S(), Method: raw.Method.S(), Body: raw.Body.S(), Measure: raw.Measure.S(),
		JSON: raw.JSON.S(), Regexp: raw.Regexp.S(), NoRedirects: raw.Redirects.Given() && !raw.Redirects.Bool,
		MaxBytes: size(raw.MaxBytes, 1<<20), CA: raw.CA.S(), Insecure: raw.Insecure.Bool,
	}
	if h.Method == "" {
		h.Method = "GET"
		if h.Body != "" {
			h.Method = "POST"
		}
	}
	r.noPassword(raw.URL)
	if raw.JSON.Given() && raw.Regexp.Given() {
		r.problem(raw.Regexp.Node.At, "leave one of them out", "json and regexp are two values")
	}
	switch {
	case h.Measure == "" && raw.JSON.Given():
		h.Measure = "json"
	case h.Measure == "" && raw.Regexp.Given():
		h.Measure = "regexp"
	case h.Measure == "":
		h.Measure = "time"
	case h.Measure == "json" && !raw.JSON.Given():
		r.problem(raw.Measure.Node.At, "write json: data.items.0.count", "json needs a path")
	case h.Measure == "regexp" && !raw.Regexp.Given():
		r.problem(raw.Measure.Node.At, `write regexp: "active: (\\d+)"`, "regexp needs one")
	}
	h.Headers, h.SecretHeaders = r.plainAndSecret("header", raw.Headers)
	for _, t := range raw.Expect {
		if t.OK {
			h.Expect = append(h.Expect, int(t.Int))
		}
	}
	return h
}

func (r *reader) command(raw *rawCommand) *Command {
	c := &Command{Shell: raw.Shell.S(), Dir: raw.Dir.S(), Label: raw.Label.S(), Output: raw.Output.Or("plugin"), MaxBytes: size(raw.MaxBytes, 64<<10)}
	for _, a := range raw.Args {
		if a.Given() {
			c.Args = append(c.Args, a.S())
			if plainArgument.MatchString(a.S()) {
				r.problem(a.Node.At, "everybody on the machine sees arguments: give it by env: {NAME: {env: NAME}}", "a secret is written in an argument")
			}
		}
	}
	if (len(c.Args) == 0) == (c.Shell == "") {
		r.problem(raw.Node.At, "write args: [/usr/lib/nagios/plugins/check_disk, -w, 10%], or shell: with a line for /bin/sh", "a command has either args or shell")
	}
	c.Env, c.SecretEnv = r.plainAndSecret("env", raw.Env)
	return c
}

func (r *reader) sql(raw *rawSQL) *SQL {
	s := &SQL{Driver: raw.Driver.S(), DSN: raw.DSN.S(), Query: raw.Query.S()}
	if raw.DSN.secret != nil {
		s.SecretDSN, s.DSN = r.secret(raw.DSN.secret), ""
		return s
	}
	if raw.DSN.Given() && (passwordInDSN.MatchString(s.DSN) || hasPassword(s.DSN)) {
		r.problem(raw.DSN.Node.At, "write dsn: {env: NAME} or dsn: {file: PATH}", "the dsn holds a password, which is not written here")
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

func (r *reader) noPassword(t text) {
	if t.Given() && hasPassword(t.S()) {
		r.problem(t.Node.At, "give it where it can be read from the environment or a file, such as headers: {Authorization: {env: NAME}}", "the address holds a password, which is not written here")
	}
}

// plainAndSecret parts values from secrets.
func (r *reader) plainAndSecret(what string, raw map[string]plainSecret) (map[string]string, map[string]Secret) {
	plain, secret := map[string]string{}, map[string]Secret{}
	for _, name := range names(raw) {
		v := raw[name]
		if what == "header" && !headerName.MatchString(name) && (v.Given() || v.secret != nil) {
			at := v.Node
			if v.secret != nil {
				at = v.secret.Node
			}
			r.problem(at.At, "write one such as X-From", "%q is not a name of a header", name)
		}
		switch {
		case what == "header" && v.Given() && strings.ContainsFunc(v.S(), unicode.IsControl):
			r.problem(v.Node.At, "write one line", "the header %s has line breaks or control characters", name)
		case v.secret != nil:
			if s := r.secret(v.secret); s != nil {
				secret[name] = *s
			}
		case !v.Given():
		case secretName.MatchString(name) && v.S() != "":
			r.problem(v.Node.At, name+": {env: NAME} or "+name+": {file: PATH}", "the %s %s is a secret and not written here", what, name)
		default:
			plain[name] = v.S()
		}
	}
	return plain, secret
}

// secret reads where one comes from.
func (r *reader) secret(raw *rawSecret) *Secret {
	if raw == nil {
		return nil
	}
	if raw.Env.Given() == raw.File.Given() {
		r.problem(raw.Node.At, "write {env: NAME} or {file: PATH}", "a secret is read from the environment or from a file")
		return nil
	}
	return &Secret{Env: raw.Env.S(), File: raw.File.S()}
}

func size(t text, otherwise int64) int64 {
	if !t.OK {
		return otherwise
	}
	return t.Int
}

func strs(texts []text) []string {
	var out []string
	for _, t := range texts {
		if t.Given() && !slices.Contains(out, t.S()) {
			out = append(out, strings.TrimSpace(t.S()))
		}
	}
	return out
}
