package requests

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"tailscope/internal/experiment/bench/load"
)

// Targets are written as vegeta reads them, or as a list of URLs:
//
//	# a comment
//	GET http://127.0.0.1:8080/shop/1
//	Accept: application/json
//
//	POST /orders
//	Content-Type: application/json
//	@order.json
//
//	http://127.0.0.1:8080/shop/2
//
// A line is a request (METHOD URL, or URL alone for GET); below it stand its
// header fields and the file of its body, relative to the file of targets. Blank
// lines part requests; where nothing can be mistaken they may be left out.

// target is a request of a file of targets.
type target struct {
	line         int
	method, path string
	fields       []load.Field
	body         string // file
}

// parseTargets reads a file of targets. At most maxProblems problems are
// returned.
func parseTargets(file string, text []byte) (targets []target, problems []Problem) {
	wrong := func(line int, text, hint string) {
		problems = append(problems, Problem{File: file, Line: line, Text: text, Hint: hint})
	}
	open := false // a request may go on
	number := 0
	for text = withoutMark(text); len(text) > 0 && len(problems) < maxProblems; {
		raw, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		number++
		line := strings.TrimSpace(string(raw))
		switch {
		case line == "":
			open = false
		case line[0] == '#':
		case line[0] == '@':
			switch {
			case !open:
				wrong(number, "a body stands here, but no request above it", "write METHOD URL on the line before")
			case targets[len(targets)-1].body != "":
				wrong(number, "the request has a body already", "leave one of the two out")
			case line == "@":
				wrong(number, "@ names no file", "write @order.json")
			default:
				targets[len(targets)-1].body = line[1:]
			}
		case isRequest(line):
			method, path := splitRequest(line)
			targets = append(targets, target{line: number, method: method, path: path})
			open = true
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok || !validName(name) {
				wrong(number, fmt.Sprintf("%q is neither a request, a header field nor a body", cut(line)), "write METHOD URL, Name: value or @FILE")
				continue
			}
			if !open {
				wrong(number, "a header field stands here, but no request above it", "write METHOD URL on the line before")
				continue
			}
			if hint, is := ours(name); is {
				wrong(number, name+" cannot be chosen", hint)
				continue
			}
			t := &targets[len(targets)-1]
			t.fields = append(t.fields, load.Field{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	if len(targets) == 0 && len(problems) == 0 {
		problems = []Problem{{File: file, Text: "it holds no requests", Hint: "write one a line, as GET http://127.0.0.1:8080/"}}
	}
	return targets, problems
}

// isRequest reports whether a line is a request, not a header field.
func isRequest(line string) bool {
	_, target := splitRequest(line)
	return strings.HasPrefix(target, "/") || strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

func cut(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:79], "") + "…"
	}
	return s
}

func (c *compiler) compileTargets() {
	name := c.spec.Targets
	c.set.what, c.set.loop = name, !c.spec.Once
	text, p := c.files.text(name)
	if p != nil {
		c.inFile("targets", *p)
		return
	}
	targets, problems := parseTargets(name, text)
	for _, p := range problems {
		c.inFile("targets", p)
	}
	header := c.constantHeader()
	bodies := c.files
	bodies.dir = filepath.Dir(c.files.path(name))
	var known operations
	for i := range targets {
		t := &targets[i]
		wrong := func(fault, hint string) {
			c.inFile("targets", Problem{File: name, Line: t.line, Text: fault, Hint: hint})
		}
		local, fault, hint := c.localTarget(t.path)
		if fault == "" {
			fault, hint = badTarget(local)
		}
		if fault != "" {
			wrong(fault, hint)
		}
		t.path = local
		var body []byte
		if t.body != "" {
			if body, p = bodies.text(t.body); p != nil {
				wrong("body "+t.body+": "+p.Text, p.Hint)
			}
			if t.method == "GET" || t.method == "HEAD" {
				wrong(t.method+" has no body", "write POST before the URL")
			}
		}
		if len(c.problems) >= maxProblems {
			return
		}
		known.learn(local)
		c.set.fixed = append(c.set.fixed, c.whole(t.method, local, "", merged(t.fields, header), body))
	}
	if len(c.problems) == 0 {
		c.nameFixed(func(i int) (string, string) {
			r := &c.set.fixed[i]
			return known.name(r.Method, r.Path), c.tenant.named(c.hostHeader(r.Header), r.Path, r.Header)
		})
	}
}

// constantHeader returns Spec.Header for requests without data.
func (c *compiler) constantHeader() (header []load.Field) {
	if c.tenant.column != "" {
		c.problem("tenant", "there are no columns here", "write header:NAME, host, host:REGEX or path:REGEX")
	}
	for _, f := range c.fields(&Query{}, &scope{vars: c.spec.Vars}) {
		if !f.value.static() {
			c.problem("header "+f.name, "it changes with every request, which only queries can", "write a constant, or say queries")
			continue
		}
		header = append(header, load.Field{Name: f.name, Value: f.value.literal()})
	}
	return header
}

// merged returns own, and those of others whose names own lacks.
func merged(own, others []load.Field) []load.Field {
	out := own
	for _, f := range others {
		if !has(own, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

func (c *compiler) hostHeader(fields []load.Field) string {
	if host := valueOfField(fields, "Host"); host != "" || c.set.base == nil {
		return host
	}
	return c.set.base.Host
}

// whole makes a request that does not depend on data. Its header is kept until it has
// a name.
func (c *compiler) whole(method, path, host string, fields []load.Field, body []byte) load.Request {
	if !has(fields, "User-Agent") {
		fields = append(fields[:len(fields):len(fields)], load.Field{Name: "User-Agent", Value: agent})
	}
	if host != "" && !has(fields, "Host") {
		fields = append(fields[:len(fields):len(fields)], load.Field{Name: "Host", Value: host})
	}
	return load.Request{Method: method, Path: path, Header: fields, Body: body, Tenant: -1}
}

// nameFixed sets every request's query and tenant by call, and renders it.
func (c *compiler) nameFixed(call func(i int) (query, tenant string)) {
	var queries names
	for i := range c.set.fixed {
		query, tenant := call(i)
		c.set.fixed[i].Query = queries.add(query, 1)
		c.set.fixed[i].Tenant = c.tenants.add(tenant, 1)
	}
	kept, renumber := queries.bound(c.spec.MaxQueries)
	c.set.queries = kept
	for i := range c.set.fixed {
		r := &c.set.fixed[i]
		r.Query = renumber(r.Query)
		if c.spec.HTTP2 {
			continue
		}
		r.Wire = appendRequest(nil, r.Method, r.Path, c.hostHeader(r.Header), r.Header, r.Body)
		// One copy is enough.
		r.Body = r.Wire[len(r.Wire)-len(r.Body):]
		from := len(r.Method) + 1
		r.Path = view(r.Wire[from : from+len(r.Path)])
	}
	for q := range kept {
		c.set.checker.add(q, &c.spec.Check)
	}
	c.boundTenants(nil)
}
