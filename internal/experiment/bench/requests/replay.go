package requests

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/mirror/record"
	"tailscope/internal/observe/accesslog"
)

// replay selects the requests of a recording or a log, and their times.
type replay struct {
	path, field   string
	speed         float64
	untimed, loop bool
	only          []string
	methods       []string
	tenants       []string
	left          int64 // bytes that may still be kept
	out           leftOut
	queries       []string // of each request
	tenantOf      []string
}

// leftOut counts the requests that are not sent, by reason.
type leftOut struct {
	operation, method, tenant, body, form uint64
}

func (c *compiler) compileRecord() {
	s := c.spec.Record
	r := &replay{path: s.Path, field: "record", speed: s.Speed, untimed: s.Untimed, loop: s.Loop, only: s.Only, methods: s.Methods, tenants: s.Tenants}
	file := c.openReplay(r)
	if file == nil {
		return
	}
	defer file.Close()
	reader, err := record.Open(file)
	if err != nil {
		c.inFile(r.field, Problem{File: s.Path, Text: err.Error(), Hint: "give a file that tailscope mirror --record wrote"})
		return
	}
	header := c.constantHeader()
	var e record.Entry
	for err == nil {
		if err = reader.Next(&e); err == nil {
			err = c.takeEntry(r, &e, header)
		}
	}
	switch {
	case errors.Is(err, errFull):
		c.inFile(r.field, *tooMuch(s.Path))
	case errors.Is(err, record.ErrTorn):
		c.set.notes = append(c.set.notes, fmt.Sprintf("%s: %v; what stands before that is sent", s.Path, err))
	case !errors.Is(err, io.EOF):
		c.inFile(r.field, Problem{File: s.Path, Text: err.Error(), Hint: "record the session again, or take another copy of the file"})
	}
	c.endReplay(r)
}

var errFull = errors.New("more than may be kept in memory")

// openReplay opens the file that is replayed. It returns nil and notes a problem if
// it cannot.
func (c *compiler) openReplay(r *replay) io.ReadCloser {
	if r.speed == 0 {
		r.speed = 1
	}
	if !(r.speed > 0) || math.IsInf(r.speed, 1) {
		c.problem("speed", fmt.Sprintf("%v is not a speed", r.speed), "write 1 for the original times, 2 for twice as fast")
	}
	if r.path == "" {
		c.problem(r.field, "no file is named", "say which")
	}
	if c.set.base == nil && len(c.problems) == 0 {
		c.problem("target", "no target is named", "say where the requests go, such as http://127.0.0.1:8080")
	}
	r.left = c.files.left
	if len(c.problems) > 0 {
		return nil
	}
	file, p := c.files.open(r.path)
	if p != nil {
		c.inFile(r.field, *p)
		return nil
	}
	return file
}

// wanted reports whether a request is to be sent, and counts it otherwise.
func (r *replay) wanted(operation, method, tenant string) bool {
	switch {
	case len(r.only) > 0 && !slices.ContainsFunc(r.only, func(p string) bool { return matches(p, operation) }):
		r.out.operation++
	case len(r.methods) > 0 && !slices.Contains(r.methods, method):
		r.out.method++
	case len(r.tenants) > 0 && !slices.Contains(r.tenants, tenant):
		r.out.tenant++
	default:
		return true
	}
	return false
}

// matches reports whether a name fits a pattern, in which * stands for any part.
func matches(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, before) {
		return false
	}
	name = name[len(before):]
	if after == "" {
		return true
	}
	for i := range len(name) + 1 {
		if matches(after, name[i:]) {
			return true
		}
	}
	return false
}

// takeEntry keeps a recorded request that is wanted and can be sent.
func (c *compiler) takeEntry(r *replay, e *record.Entry, header []load.Field) error {
	tenant := e.Tenant
	if !r.wanted(e.Operation, e.Method, tenant) {
		return nil
	}
	if !e.Whole() && (e.BodyBytes != -1 || len(e.Body) > 0 || e.Method != "GET" && e.Method != "HEAD") {
		r.out.body++
		return nil
	}
	var fields []load.Field
	for _, f := range e.Fields {
		if _, is := ours(f.Name); is || strings.EqualFold(f.Name, "Host") || !validName(f.Name) || strings.ContainsAny(f.Value, "\r\n\x00") || has(header, f.Name) {
			continue
		}
		fields = append(fields, load.Field{Name: strings.Clone(f.Name), Value: strings.Clone(f.Value)})
	}
	fields = append(fields, header...)
	if c.spec.Tenant != "" {
		tenant = c.tenant.named(e.Host, e.Target, fields)
	}
	return c.addRequest(r, e.Offset, e.Method, e.Target, fields, slices.Clone(e.Body), e.Operation, tenant)
}

// addRequest keeps a request.
func (c *compiler) addRequest(r *replay, at time.Duration, method, target string, fields []load.Field, body []byte, operation, tenant string) error {
	if fault, _ := badTarget(target); fault != "" || !validName(method) || method == "CONNECT" {
		r.out.form++
		return nil
	}
	size := int64(len(target)+len(body)+len(operation)) + 200
	for _, f := range fields {
		size += int64(len(f.Name)+len(f.Value)) + 32
	}
	if r.left -= size; r.left < 0 {
		return errFull
	}
	q := c.whole(strings.Clone(method), c.prefix+target, "", fields, body)
	q.Due = at
	q.Query = len(r.queries)
	c.set.fixed = append(c.set.fixed, q)
	r.queries = append(r.queries, intern(r.queries, operation))
	r.tenantOf = append(r.tenantOf, intern(r.tenantOf, tenant))
	return nil
}

// intern returns name, or the last name if it is the same, to save a copy.
func intern(have []string, name string) string {
	if n := len(have); n > 0 && have[n-1] == name {
		return have[n-1]
	}
	return strings.Clone(name)
}

// endReplay sorts the kept requests, sets their times, and notes what was left out.
func (c *compiler) endReplay(r *replay) {
	c.noteLeftOut(r)
	if len(c.problems) > 0 {
		return
	}
	fixed := c.set.fixed
	if len(fixed) == 0 {
		c.inFile(r.field, Problem{File: r.path, Text: "it holds no request to send" + r.out.text(), Hint: r.hint()})
		return
	}
	slices.SortStableFunc(fixed, func(a, b load.Request) int { return cmp.Compare(a.Due, b.Due) })
	first := fixed[0].Due
	for i := range fixed {
		fixed[i].Due = time.Duration(float64(fixed[i].Due-first) / r.speed)
	}
	last := fixed[len(fixed)-1].Due
	// The next pass begins one usual gap after the last request of this one.
	c.set.period = last + max(last/time.Duration(max(len(fixed)-1, 1)), time.Millisecond)
	if c.set.loop = r.loop; r.untimed {
		for i := range fixed {
			fixed[i].Due = 0
		}
	}
	c.set.recorded, c.set.what = !r.untimed, r.path
	c.nameFixed(func(i int) (string, string) { return r.queries[fixed[i].Query], r.tenantOf[fixed[i].Query] })
}

func (l leftOut) text() string {
	var parts []string
	for _, p := range [...]struct {
		n    uint64
		text string
	}{
		{l.operation, "of another operation"}, {l.method, "of another method"}, {l.tenant, "of another tenant"},
		{l.body, "whose bodies were not recorded"}, {l.form, "that cannot be sent as they are"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": left out are " + strings.Join(parts, ", ")
}

func (c *compiler) noteLeftOut(r *replay) {
	if text := r.out.text(); text != "" && len(c.set.fixed) > 0 {
		c.set.notes = append(c.set.notes, fmt.Sprintf("%s: %d requests are sent%s", r.path, len(c.set.fixed), strings.Replace(text, ": left", "; left", 1)))
	}
}

// hint says which options send what was left out.
func (r *replay) hint() string {
	switch l := r.out; {
	case l.operation > 0:
		return "see tailscope mirror show for the names of operations, and write * for any part of one"
	case l.method > 0:
		return "say methods: with those that are to be sent"
	case l.tenant > 0:
		return "leave tenants out"
	case l.body > 0:
		return "record the session with bodies"
	}
	return "give another file"
}

func (c *compiler) compileAccessLog() {
	s := c.spec.AccessLog
	r := &replay{path: s.Path, field: "access_log", speed: s.Speed, untimed: s.Untimed, loop: s.Loop, only: s.Only, methods: s.Methods, tenants: s.Tenants}
	if len(r.methods) == 0 {
		r.methods = []string{"GET", "HEAD"}
	}
	config := accesslog.Config{Format: s.Format, Service: "bench", Routes: s.Routes}
	if c.tenant.place != nil {
		config.Tenant = c.spec.Tenant
	}
	source, err := config.Compile()
	if err != nil {
		c.problem(r.field, err.Error(), "see docs/access-logs.md for formats and routes")
	}
	header := c.constantHeader()
	file := c.openReplay(r)
	if file == nil {
		return
	}
	defer file.Close()
	tally, err := source.Each(file, func(l *accesslog.Logged) error {
		method, tenant := string(l.Method), string(l.Tenant)
		if method == "" {
			method = "GET"
		}
		if !r.wanted(l.Operation, method, tenant) {
			return nil
		}
		if c.tenant.header != "" {
			tenant = valueOfField(header, c.tenant.header)
		}
		// Logs escape inexactly: bytes that cannot be sent are escaped.
		return c.addRequest(r, time.Duration(l.Start), method, string(appendTarget(nil, string(l.Target))), slices.Clone(header), nil, l.Operation, tenant)
	})
	if errors.Is(err, errFull) {
		c.inFile(r.field, *tooMuch(s.Path))
	} else if err != nil {
		c.inFile(r.field, Problem{File: s.Path, Text: err.Error(), Hint: "say format: with the log_format it was written in"})
	}
	if n := tally.TotalRefused(); n > 0 {
		note := fmt.Sprintf("%s: %d of %d lines hold no request that can be read", s.Path, n, tally.Lines)
		if len(tally.Problems) > 0 {
			first := tally.Problems[0]
			note += fmt.Sprintf("; the first is line %d, column %d: %s", first.Line, first.Column, first.Message)
		}
		c.set.notes = append(c.set.notes, note)
	}
	if !r.untimed {
		c.spreadSeconds()
	}
	c.endReplay(r)
}

// spreadSeconds spreads requests evenly over their second, in their order, if the
// log's times are whole seconds: otherwise they would all come at its beginning.
func (c *compiler) spreadSeconds() {
	fixed := c.set.fixed
	for i := range fixed {
		if fixed[i].Due%time.Second != 0 {
			return
		}
	}
	slices.SortStableFunc(fixed, func(a, b load.Request) int { return cmp.Compare(a.Due, b.Due) })
	for i := 0; i < len(fixed); {
		n := i
		for n < len(fixed) && fixed[n].Due == fixed[i].Due {
			n++
		}
		for j := i; j < n; j++ {
			fixed[j].Due += time.Second * time.Duration(j-i) / time.Duration(n-i)
		}
		i = n
	}
	if len(fixed) > 1 {
		c.set.notes = append(c.set.notes, "the log knows times to the second: requests are spread evenly over theirs")
	}
}
