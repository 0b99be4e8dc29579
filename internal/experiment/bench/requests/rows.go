package requests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"tailscope/internal/experiment/bench/load"
)

// finish renders the parts that are constant, checks the others with every row, and
// numbers tenants.
func (c *compiler) finish(it *item, fields []field, tenantColumn int) {
	host := c.hostOf(fields)
	c.checkRows(it, fields, host, tenantColumn)
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

// checkRows renders every row once. It finds paths that cannot be sent and bodies
// that are not JSON before any load, and learns the tenants.
func (c *compiler) checkRows(it *item, fields []field, host string, tenantColumn int) {
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
	named := c.tenant.templateOf(fields)
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
				c.problem(it.json, where(row)+"the body is not JSON: "+err.Error(), `write {{words}} that are texts in quotes, as "{{word}}"`)
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
