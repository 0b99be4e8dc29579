package requests

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

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
			c.problem("weight", fmt.Sprintf("%v is not a weight", q.Weight), "write a positive number; 2 is twice as often as 1")
			w = 1
		}
		weights = append(weights, w)
		c.set.queries = append(c.set.queries, c.name)
		c.set.items = append(c.set.items, c.query(q, method, target))
	}
	c.index, c.name = -1, ""
	if n := len(c.spec.Queries); n > c.spec.MaxQueries {
		c.problem("queries", fmt.Sprintf("there are %d, and at most %d are counted apart", n, c.spec.MaxQueries), "give a file of targets instead, whose requests are named by their paths")
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

// query compiles a query. The result is unusable if it has noted a problem.
func (c *compiler) query(q *Query, method, target string) *item {
	it := &item{name: c.name, query: c.index, tenant: -1, method: method, seed: mix(c.spec.Seed, uint64(c.index)+1)}
	faults := len(c.problems)
	w := &scope{vars: c.spec.Vars, file: q.Data}
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
func (c *compiler) data(q *Query, w *scope) []byte {
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

// template compiles a template. It reports no unknown names if the data whose columns
// they may be could not be read.
func (c *compiler) template(field, text string, of place, w *scope) template {
	t, f := parseTemplate(text, of, w)
	if f != nil && (w.file == "" || w.known != nil) {
		c.problem(field, f.text, f.hint)
	}
	if len(t.parts) == 0 || f != nil {
		t.parts = []part{{}}
	}
	return t
}

func (c *compiler) target(it *item, target string, w *scope) {
	if it.method == "" || target == "" {
		c.problem("request", "there is none", "write METHOD /path, such as GET /select?q={{word}}")
		return
	}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		// Variables may be part of the host; they are left as they are.
		at := strings.IndexAny(target[8:], "/?") + 8
		if at < 8 {
			at = len(target)
		}
		host := c.template("request", target[:at], ofText, &scope{vars: w.vars})
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
func (c *compiler) fields(q *Query, w *scope) (fields []field) {
	for _, f := range slices.Concat(q.Header, c.spec.Header) {
		if slices.ContainsFunc(fields, func(have field) bool { return strings.EqualFold(have.name, f.Name) }) && !has(q.Header, f.Name) {
			continue
		}
		if has(q.Header, f.Name) && !slices.Contains(q.Header, f) {
			continue // the query says otherwise
		}
		if !validName(f.Name) {
			c.problem("header", fmt.Sprintf("%q is not a name of a header field", f.Name), "write it as Name: value")
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

// body compiles the body, and sets its content type if no field does.
func (c *compiler) body(it *item, q *Query, fields *[]field, w *scope) {
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
