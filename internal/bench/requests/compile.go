package requests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"tailscope/internal/bench/load"
)

// compiler makes a Set of a Spec, noting every problem on the way.
type compiler struct {
	spec     Spec
	set      *Set
	files    files
	problems Problems
	tenant   tenantRule
	tenants  names
	prefix   string // path of the base URL, without the slash at its end
	index    int    // of the query that is compiled, -1 if none is
	name     string // its name
}

// Compile makes a Set, or says everything that is wrong with the Spec: the error
// is Problems. It reads all files, so that nothing is found out under load.
func Compile(s Spec) (*Set, error) {
	c := &compiler{spec: s, index: -1, set: &Set{seed: s.Seed, now: s.Now, http2: s.HTTP2}}
	c.files = files{dir: s.Dir, left: s.MaxBytes}
	if c.files.left <= 0 {
		c.files.left = 1 << 30
	}
	if s.Now == nil {
		c.set.now = time.Now
	}
	c.spec.MaxQueries, c.spec.MaxTenants = cmp.Or(max(s.MaxQueries, 0), 500), cmp.Or(max(s.MaxTenants, 0), 100)
	c.setBase()
	var err error
	if c.set.think, err = parseThink(s.Think); err != nil {
		c.wrong("think", err)
	}
	if c.tenant, err = parseTenantRule(s.Tenant); err != nil {
		c.wrong("tenant", err)
	}
	c.checkOnly()
	kinds := 0
	for _, is := range [...]bool{len(s.Queries) > 0, s.Targets != "", s.Record != nil, s.AccessLog != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		c.problem("", "there is nothing to send", "give a URL, queries, a file of targets, a recording or an access log")
	case kinds > 1:
		c.problem("", "requests come from more than one place", "give one of: queries, targets, a recording, an access log")
	case len(s.Queries) > 0:
		c.compileQueries()
	case s.Targets != "":
		c.compileTargets()
	case s.Record != nil:
		c.compileRecord()
	default:
		c.compileAccessLog()
	}
	if len(c.problems) == 0 && c.set.base == nil {
		c.problem("target", "no host is named", "say which, such as http://127.0.0.1:8080")
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	if c.set.checker != nil && len(c.set.checker.names) == 0 {
		c.set.checker = nil
	}
	return c.set, nil
}

// problem notes one of the query that is compiled.
func (c *compiler) problem(field, text, hint string) {
	c.problems = append(c.problems, Problem{Query: c.name, Index: c.index, Field: field, Text: text, Hint: hint})
}

// wrong notes an error whose text ends in its hint.
func (c *compiler) wrong(field string, err error) { c.problem(field, err.Error(), "") }

// inFile notes a problem of a file that a field names.
func (c *compiler) inFile(field string, p Problem) {
	p.Query, p.Index, p.Field = c.name, c.index, field
	c.problems = append(c.problems, p)
}

// checkOnly compiles the check of everything, so that what is wrong with it is
// said once.
func (c *compiler) checkOnly() {
	c.set.checker = &checker{}
	for _, f := range c.set.checker.add(0, &c.spec.Check) {
		c.problem(f.field, f.text, f.hint)
	}
	c.set.checker = &checker{}
}

func (c *compiler) setBase() {
	if c.spec.Base == "" {
		return
	}
	u, text, hint := parseBase(c.spec.Base)
	if text != "" {
		c.problem("target", text, hint)
		return
	}
	c.prefix = strings.TrimSuffix(u.EscapedPath(), "/")
	c.set.base = &url.URL{Scheme: u.Scheme, Host: u.Host}
}

func parseBase(text string) (u *url.URL, fault, hint string) {
	u, err := url.Parse(text)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%q is no URL: %v", text, err), "write it as http://127.0.0.1:8080"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Sprintf("%q does not begin with http:// or https://", text), "write http://" + strings.TrimPrefix(text, u.Scheme+"://")
	case u.Hostname() == "":
		return nil, fmt.Sprintf("%q names no host", text), "write it as http://127.0.0.1:8080"
	case u.User != nil:
		return nil, "a password in the URL would be shown in results", "set the header Authorization instead"
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Sprintf("%q has more than a path", text), "put the query into the requests"
	}
	return u, "", ""
}

// target makes a path and query of a target, which may be a URL of the base's
// host. host tells whose Host field is meant.
func (c *compiler) localTarget(target string) (local, fault, hint string) {
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		return c.prefix + target, "", ""
	}
	scheme, rest, _ := strings.Cut(target, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	u, fault, hint := parseBase(scheme + "://" + rest[:end])
	if fault != "" {
		return "", fault, hint
	}
	if b := c.set.base; b == nil {
		c.set.base = u
	} else if b.Scheme != u.Scheme || !strings.EqualFold(b.Host, u.Host) {
		return "", fmt.Sprintf("%s://%s is another host than %s", u.Scheme, u.Host, b), "load goes to one host: leave it out, or run one for each host"
	}
	if local = rest[end:]; local == "" || local[0] != '/' {
		local = "/" + local
	}
	return local, "", ""
}

// splitRequest takes METHOD TARGET or TARGET apart.
func splitRequest(text string) (method, target string) {
	text = strings.TrimSpace(text)
	if method, target, ok := strings.Cut(text, " "); ok && validName(method) && strings.ToUpper(method) == method {
		return method, strings.TrimSpace(target)
	}
	return "GET", text
}

func (c *compiler) compileQueries() {
	seen := map[string]int{}
	var weights []float64
	for i := range c.spec.Queries {
		q := &c.spec.Queries[i]
		method, target := splitRequest(q.Request)
		c.index, c.name = i, q.Name
		if q.Name == "" {
			c.name = nameOf(method, strings.TrimPrefix(strings.TrimPrefix(target, "https://"), "http://"))
			if bare := strings.SplitN(target, "://", 2); len(bare) == 2 && !strings.Contains(bare[0], "/") {
				_, path, _ := strings.Cut(bare[1], "/")
				c.name = nameOf(method, "/"+path)
			}
			for n := 2; seen[c.name] > 0; n++ {
				if next := fmt.Sprintf("%s (%d)", nameOf(method, target), n); seen[next] == 0 {
					c.name = next
				}
			}
		} else if at := seen[q.Name]; at > 0 {
			c.problem("name", fmt.Sprintf("query %d is called so too", at), "give each query a name of its own")
		}
		seen[c.name] = i + 1
		w := q.Weight
		if w == 0 {
			w = 1
		}
		if !(w > 0) || math.IsInf(w, 0) {
			c.problem("weight", fmt.Sprintf("%v is no weight", q.Weight), "write a positive number; 2 is twice as often as 1")
			w = 1
		}
		weights = append(weights, w)
		c.set.queries = append(c.set.queries, c.name)
		c.set.items = append(c.set.items, c.query(q, method, target))
	}
	c.index, c.name = -1, ""
	if n := len(c.spec.Queries); n > c.spec.MaxQueries {
		c.problem("queries", fmt.Sprintf("there are %d, and at most %d are told apart", n, c.spec.MaxQueries), "give a file of targets instead, whose requests are named by their paths")
	}
	if len(c.problems) > 0 {
		return
	}
	if c.spec.Random {
		c.set.weights = cumulated(weights)
	} else {
		c.set.order = deal(weights)
	}
	c.boundTenants(weights)
}

func cumulated(weights []float64) []float64 {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	out, at := make([]float64, len(weights)), 0.0
	for i, w := range weights {
		at += w / sum
		out[i] = at
	}
	return out
}

// query compiles one; what is wrong is noted, and the result then of no use.
func (c *compiler) query(q *Query, method, target string) *item {
	it := &item{name: c.name, query: c.index, tenant: -1, method: method, seed: mix(c.spec.Seed, uint64(c.index)+1)}
	faults := len(c.problems)
	w := &words{vars: c.spec.Vars, file: q.Data}
	data := c.data(q, w)
	it.once, it.order = q.AtEnd == "once", map[string]order{"random": byChance, "shuffle": shuffled}[q.Order]
	if !slices.Contains([]string{"", "loop", "once"}, q.AtEnd) {
		c.problem("at_end", fmt.Sprintf("%q is not known", q.AtEnd), "write loop or once")
	}
	if !slices.Contains([]string{"", "sequential", "random", "shuffle"}, q.Order) {
		c.problem("order", fmt.Sprintf("%q is not known", q.Order), "write sequential, random or shuffle")
	}
	if it.once && it.order == byChance {
		c.problem("at_end", "rows by chance never run out", "write order: shuffle for each row once in random order")
	}
	if q.Data == "" && (it.once || q.Order != "") {
		c.problem("data", "there is no data whose order could be said", "say data: FILE.csv, or leave order and at_end out")
	}
	c.target(it, target, w)
	fields := c.fields(q, w)
	c.body(it, q, &fields, w)
	tenantColumn := -1
	if c.tenant.column != "" && q.Data != "" {
		if tenantColumn = slices.Index(w.known, c.tenant.column); tenantColumn < 0 {
			c.problem("tenant", fmt.Sprintf("%s has no column %s", q.Data, c.tenant.column), "its columns are "+strings.Join(w.known, ", "))
		} else {
			tenantColumn = w.column(c.tenant.column)
		}
	}
	var err error
	if it.think, err = parseThink(cmp.Or(q.Think, c.spec.Think)); err != nil && q.Think != "" {
		c.wrong("think", err)
	}
	check := q.Check
	if check == nil {
		check = &c.spec.Check
	}
	for _, f := range c.set.checker.add(c.index, check) {
		if q.Check != nil {
			c.problem(f.field, f.text, f.hint)
		}
	}
	if len(c.problems) > faults {
		return it
	}
	if data != nil {
		if len(w.columns) == 0 {
			c.problem("data", fmt.Sprintf("no word of the request is a column of %s", q.Data), "write {{"+w.known[0]+"}} where its values belong, or leave data out")
			return it
		}
		table, problems := readTable(q.Data, c.format(q), data, w.columns)
		for _, p := range problems {
			c.inFile("data", p)
		}
		if len(problems) > 0 {
			return it
		}
		it.table = table
	}
	c.finish(it, fields, tenantColumn)
	return it
}

func (c *compiler) format(q *Query) string {
	return cmp.Or(q.Format, formatOf(strings.TrimSuffix(q.Data, ".gz")))
}

// data reads a query's data and the names of its columns.
func (c *compiler) data(q *Query, w *words) []byte {
	if q.Data == "" {
		return nil
	}
	format := c.format(q)
	if !slices.Contains([]string{formatCSV, formatTSV, formatJSONL}, format) {
		c.problem("format", fmt.Sprintf("the format of %s is not known", q.Data), "say format: csv, tsv or jsonl")
		return nil
	}
	text, p := c.files.text(q.Data)
	if p == nil {
		if w.known, p = columnNames(q.Data, format, text); p == nil {
			return text
		}
	}
	c.inFile("data", *p)
	return nil
}

// template compiles one, and says nothing of unknown words if the data that they
// would be columns of could not be read.
func (c *compiler) template(field, text string, of place, w *words) template {
	t, f := parseTemplate(text, of, w)
	if f != nil && (w.file == "" || w.known != nil) {
		c.problem(field, f.text, f.hint)
	}
	if len(t.parts) == 0 || f != nil {
		t.parts = []part{{}}
	}
	return t
}

func (c *compiler) target(it *item, target string, w *words) {
	if it.method == "" || target == "" {
		c.problem("request", "there is none", "write METHOD /path, such as GET /select?q={{word}}")
		return
	}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		// Variables may be part of the host; they stand there as they are.
		at := strings.IndexAny(target[8:], "/?") + 8
		if at < 8 {
			at = len(target)
		}
		host := c.template("request", target[:at], ofText, &words{vars: w.vars})
		target = host.literal() + target[at:]
	}
	local, fault, hint := c.localTarget(target)
	if fault != "" {
		c.problem("request", fault, hint)
		return
	}
	it.target = c.template("request", local, ofTarget, w)
}

// fields compiles the header: the query's own, then those of all queries.
func (c *compiler) fields(q *Query, w *words) (fields []field) {
	for _, f := range slices.Concat(q.Header, c.spec.Header) {
		if slices.ContainsFunc(fields, func(have field) bool { return strings.EqualFold(have.name, f.Name) }) && !has(q.Header, f.Name) {
			continue
		}
		if has(q.Header, f.Name) && !slices.Contains(q.Header, f) {
			continue // the query says otherwise
		}
		if !validName(f.Name) {
			c.problem("header", fmt.Sprintf("%q is no name of a header field", f.Name), "write it as Name: value")
		}
		if hint, is := ours(f.Name); is {
			c.problem("header", f.Name+" cannot be chosen", hint)
		}
		if strings.ContainsAny(f.Value, "\r\n\x00") {
			c.problem("header", f.Name+" has more than one line", "write it on one line")
		}
		fields = append(fields, field{f.Name, c.template("header "+f.Name, f.Value, ofHeader, w)})
	}
	return fields
}

func fieldNamed(fields []field, name string) *template {
	for i := range fields {
		if strings.EqualFold(fields[i].name, name) {
			return &fields[i].value
		}
	}
	return nil
}

// body compiles the body, and says what it is if nobody does.
func (c *compiler) body(it *item, q *Query, fields *[]field, w *words) {
	it.body = template{parts: []part{{}}}
	text, name := q.Body, "body"
	if q.BodyFile != "" {
		if q.Body != "" {
			c.problem("body_file", "there is a body already", "leave one of body and body_file out")
			return
		}
		file, p := c.files.text(q.BodyFile)
		if p != nil {
			c.inFile("body_file", *p)
			return
		}
		text, name = string(file), "body_file"
	}
	if text == "" {
		return
	}
	if it.method == "GET" || it.method == "HEAD" {
		c.problem(name, it.method+" has no body", "write POST before the path")
		return
	}
	kind := ""
	if t := fieldNamed(*fields, "Content-Type"); t != nil {
		kind = strings.ToLower(t.text)
	} else if start := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(start, "{") && !strings.HasPrefix(start, "{{") || strings.HasPrefix(start, "[") {
		kind = "application/json"
		*fields = append(*fields, field{"Content-Type", template{parts: []part{{literal: kind}}, text: kind}})
	}
	of := ofText
	switch {
	case strings.Contains(kind, "json"):
		of = ofJSON
	case strings.Contains(kind, "x-www-form-urlencoded"):
		of = ofForm
	}
	it.body = c.template(name, text, of, w)
	if of == ofJSON {
		it.json = name
	}
}

// finish renders what is always the same, looks at what rows make of the rest,
// and tells tenants apart.
func (c *compiler) finish(it *item, fields []field, tenantColumn int) {
	host := c.hostOf(fields)
	c.lookAtRows(it, fields, host, tenantColumn)
	if !slices.ContainsFunc(fields, func(f field) bool { return strings.EqualFold(f.name, "User-Agent") }) {
		fields = append(fields, field{"User-Agent", template{parts: []part{{literal: agent}}}})
	}
	changing := slices.ContainsFunc(fields, func(f field) bool { return !f.value.static() })
	if it.target.static() && it.body.static() && !changing {
		r := &load.Request{Method: it.method, Path: it.target.literal(), Body: []byte(it.body.literal())}
		for _, f := range fields {
			r.Header = append(r.Header, load.Field{Name: f.name, Value: f.value.literal()})
		}
		if !c.spec.HTTP2 {
			r.Wire = appendRequest(nil, r.Method, r.Path, host, r.Header, r.Body)
		}
		it.ready = r
		return
	}
	if it.fields = fields; c.spec.HTTP2 {
		return
	}
	it.fields = nil
	if fieldNamed(fields, "Host") == nil {
		it.before = appendField(it.before, "Host", host)
	}
	for _, f := range fields {
		if f.value.static() {
			it.before = appendField(it.before, f.name, f.value.literal())
		} else {
			it.fields = append(it.fields, f)
		}
	}
}

func (c *compiler) hostOf(fields []field) string {
	if t := fieldNamed(fields, "Host"); t != nil && t.static() {
		return t.literal()
	}
	if c.set.base != nil {
		return c.set.base.Host
	}
	return ""
}

// lookAtRows renders every row once: a path that cannot be sent and a body that
// is no JSON are found before any load, and tenants become known.
func (c *compiler) lookAtRows(it *item, fields []field, host string, tenantColumn int) {
	rows := 1
	if it.table != nil {
		rows = it.table.rows
	}
	fill := filler{table: it.table, rng: rand.New(rand.NewPCG(1, 1)), now: c.set.now}
	where := func(row int) string {
		if it.table == nil {
			return ""
		}
		return fmt.Sprintf("row %d of %s: ", row+1, it.table.file)
	}
	named := c.tenant.of(fields)
	if c.tenant.header != "" && named != nil && !named.byData() {
		c.problem("tenant", fmt.Sprintf("header %s changes with every request", c.tenant.header), "tenants must come from data: write a column into it")
		return
	}
	weight := 1.0
	var target, body, text []byte
	for row := range rows {
		fill.row = row
		target = it.target.append(target[:0], &fill)
		if fault, hint := badTarget(string(target)); fault != "" {
			c.problem("request", where(row)+fault, hint)
			return
		}
		if it.json != "" && row < 1000 {
			body = it.body.append(body[:0], &fill)
			if err := validJSON(body); err != nil {
				c.problem(it.json, where(row)+"the body is no JSON: "+err.Error(), `write {{words}} that are texts in quotes, as "{{word}}"`)
				return
			}
		}
		switch {
		case tenantColumn >= 0:
			text = append(text[:0], it.table.cell(row, tenantColumn)...)
		case named != nil:
			text = named.append(text[:0], &fill)
		case c.tenant.place != nil:
			text = append(text[:0], c.tenant.place.Name([]byte(host), pathOf(target))...)
		case row >= 1000 && !it.target.raw():
			return // what comes now is like what came
		default:
			continue
		}
		n := c.tenants.add(string(text), weight/float64(rows))
		if it.table == nil {
			it.tenant = n
			return
		}
		it.tenants = append(it.tenants, int32(n))
	}
}

func pathOf(target []byte) []byte {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return path
}

func validJSON(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var v json.RawMessage
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// boundTenants keeps the heaviest tenants.
func (c *compiler) boundTenants(weights []float64) {
	if len(weights) > 1 {
		c.weighTenants(weights)
	}
	kept, renumber := c.tenants.bound(c.spec.MaxTenants)
	c.set.tenants = kept
	for _, it := range c.set.items {
		it.tenant = renumber(it.tenant)
		for i, n := range it.tenants {
			it.tenants[i] = int32(renumber(int(n)))
		}
	}
	for i := range c.set.fixed {
		c.set.fixed[i].Tenant = renumber(c.set.fixed[i].Tenant)
	}
}

// weighTenants counts tenants anew, each row by the weight of its query.
func (c *compiler) weighTenants(weights []float64) {
	clear(c.tenants.weight)
	for i, it := range c.set.items {
		if it.tenants == nil && it.tenant >= 0 {
			c.tenants.weight[it.tenant] += weights[i]
		}
		for _, n := range it.tenants {
			if n >= 0 {
				c.tenants.weight[n] += weights[i] / float64(len(it.tenants))
			}
		}
	}
}
