package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

// figure is a metric that a process reports of itself.
type figure struct {
	name, unit string
	adds       bool // it is a total that only grows
	value      float64
}

// maxMetrics bounds a server's answer with its metrics.
const maxMetrics = 32 << 20

// read requests the figures.
func (m *Metrics) read(ctx context.Context, client *http.Client) ([]figure, error) {
	address := m.Prometheus + m.JSON
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if m.Prometheus != "" {
		req.Header.Set("Accept", "text/plain;version=0.0.4")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMetrics))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", address, res.Status)
	}
	if m.JSON != "" {
		v, err := atPath(b, m.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		return []figure{m.figure(m.Name, m.Unit, v)}, nil
	}
	return m.families(b)
}

func (m *Metrics) figure(name, unit string, v float64) figure {
	f := figure{name: name, unit: unit, value: v * m.Scale}
	base := name
	for _, suffix := range []string{"_total", "_sum", "_count"} {
		if s, ok := strings.CutSuffix(base, suffix); ok {
			f.adds, base = true, s
			break
		}
	}
	switch {
	case f.unit == "s", f.unit == "" && strings.HasSuffix(base, "_seconds"):
		f.unit = "seconds"
	case f.unit == "B", f.unit == "" && strings.HasSuffix(base, "_bytes"):
		f.unit = "bytes"
	}
	if m.Adds != nil {
		f.adds = *m.Adds
	}
	return f
}

// families adds up the series of each family.
func (m *Metrics) families(b []byte) ([]figure, error) {
	wanted := make([]family, len(m.Families))
	for i, text := range m.Families {
		var err error
		if wanted[i], err = parseFamily(text); err != nil {
			return nil, err
		}
	}
	sums, seen := make([]float64, len(wanted)), make([]bool, len(wanted))
	p := textparse.NewPromParser(b, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Prometheus, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var ls labels.Labels
		p.Labels(&ls)
		_, _, v := p.Series()
		for i, w := range wanted {
			if w.matches(ls) {
				sums[i], seen[i] = sums[i]+v, true
			}
		}
	}
	var out []figure
	for i, w := range wanted {
		if !seen[i] {
			return out, fmt.Errorf("%s has no series %s", m.Prometheus, m.Families[i])
		}
		f := m.figure(w.name, m.Unit, sums[i])
		if len(w.matchers) > 1 { // beside others of the family
			f.name = m.Families[i]
		}
		out = append(out, f)
	}
	return out, nil
}

// family is a name with matchers.
type family struct {
	name     string
	matchers []*labels.Matcher
}

func (f family) matches(ls labels.Labels) bool {
	for _, m := range f.matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

func parseFamily(text string) (family, error) {
	all, err := parser.NewParser(parser.Options{}).ParseMetricSelector(text)
	if err != nil {
		return family{}, fmt.Errorf("%s: %w", text, err)
	}
	f := family{matchers: all}
	for _, m := range all {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			f.name = m.Value
		}
	}
	if f.name == "" {
		return f, fmt.Errorf("%s names no family", text)
	}
	return f, nil
}

// atPath returns the number at a path of a document, such as metrics.jvm.0.time or
// metrics["solr.jvm"]["gc.time"]. It finds a key with dots without brackets too.
func atPath(b []byte, path string) (float64, error) {
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		return 0, fmt.Errorf("this is not JSON: %w", err)
	}
	v, ok := walk(doc, pathParts(path))
	if !ok {
		return 0, fmt.Errorf("nothing is at %s", path)
	}
	switch v := v.(type) {
	case float64:
		return v, nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("what is at %s is not a number", path)
}

func walk(v any, parts []string) (any, bool) {
	if len(parts) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		for n := len(parts); n > 0; n-- {
			if next, ok := v[strings.Join(parts[:n], ".")]; ok {
				if found, ok := walk(next, parts[n:]); ok {
					return found, true
				}
			}
		}
	case []any:
		if i, err := strconv.Atoi(parts[0]); err == nil && i >= 0 && i < len(v) {
			return walk(v[i], parts[1:])
		}
	}
	return nil, false
}

// pathParts splits a path at its dots and brackets.
func pathParts(path string) []string {
	var parts []string
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "["); ok {
			inner, after, closed := strings.Cut(rest, "]")
			if quoted := strings.HasPrefix(rest, `"`); quoted && closed {
				if inner, after, closed = strings.Cut(rest[1:], `"]`); !closed {
					inner = rest
				}
			}
			parts, path = append(parts, inner), strings.TrimPrefix(after, ".")
			continue
		}
		n := strings.IndexAny(path, ".[")
		if n < 0 {
			n = len(path)
		}
		parts = append(parts, path[:n])
		path = strings.TrimPrefix(path[n:], ".")
	}
	return parts
}

const metricsTimeout = 2 * time.Second
