package notify

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// graphite sends lines of Carbon's plaintext protocol: path value seconds.
type graphite struct {
	spec spec.Graphite
	dial net.Dialer
	buf  []byte
}

func newGraphite(s spec.Graphite) *graphite {
	if s.Prefix == "" {
		s.Prefix = "tailscope"
	}
	return &graphite{spec: s}
}

func (g *graphite) capabilities() capabilities {
	return capabilities{kind: "graphite", to: g.spec.Address, results: true, batch: 2000, pause: time.Second}
}

func (g *graphite) close() {}

func (g *graphite) send(ctx context.Context, messages []message, report func(int, error)) error {
	c, done, err := connect(ctx, &g.dial, g.spec.Address)
	if err != nil {
		return err
	}
	defer done()
	b := g.buf[:0]
	for i := range messages {
		b = appendGraphite(b, g.spec.Prefix, messages[i].result)
	}
	g.buf = b
	if _, err := c.Write(b); err != nil {
		return explain(ctx, "write", err)
	}
	if err := drain(ctx, c); err != nil {
		return err
	}
	for i := range messages {
		report(i, nil)
	}
	return nil
}

// appendGraphite appends a result's lines: prefix.check.value, .threshold and so
// on, with the values of the series' labels between check and value.
func appendGraphite(b []byte, prefix string, r *event.Result) []byte {
	path := prefix + "." + graphiteName(r.Key.Check)
	for _, l := range labelValues(r.Key) {
		path += "." + graphiteName(l)
	}
	line := func(name string, v float64) {
		b = append(b, path...)
		b = append(b, '.')
		b = append(b, name...)
		b = append(b, ' ')
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
		b = append(b, ' ')
		b = strconv.AppendInt(b, r.Time.Unix(), 10)
		b = append(b, '\n')
	}
	if !r.Reading.Null && finite(r.Reading.Value) {
		line("value", r.Reading.Value)
	}
	for _, n := range bandNames(r.Bands) {
		line(n.name, n.value)
	}
	line("state", float64(r.State))
	return b
}

func labelValues(k event.Key) []string {
	if k.Labels == "" {
		return nil
	}
	var list []string
	for _, l := range seriesLabels(k) {
		list = append(list, l.value)
	}
	return list
}

// graphiteName makes one level of a path: letters, digits, - and _; anything else
// becomes _.
func graphiteName(s string) string {
	if s == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}
