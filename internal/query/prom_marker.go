package query

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tailscope/internal/series"
)

// markerName is the private label that carries a marker from the rewritten
// query to the Queryable. No series has it.
const markerName = "__tailscope_read__"

// marker says how a selector of a distribution is to be read.
type marker struct {
	view    series.View // of span families
	window  int64       // > 0: each sample is the sum of a window so many milliseconds long
	period  int64       // windows end at phase plus multiples of period, in milliseconds
	phase   int64
	moments bool // buckets will not be looked at
	sum     bool // series will be summed by the labels of by
	classic classic
	by      []string // cohort alone, if it is not summed: each series has that label as well
}

// String encodes the marker as a label value.
func (m marker) String() string {
	flags := ""
	for _, f := range []struct {
		set  bool
		name string
	}{{m.moments, "m"}, {m.sum, "s"}} {
		if f.set {
			flags += f.name
		}
	}
	by := make([]string, len(m.by))
	for i, n := range m.by {
		by[i] = url.QueryEscape(n)
	}
	text := fmt.Sprintf("%s/%d/%d/%d/%d/%s", flags, m.view, m.window, m.period, m.phase, strings.Join(by, ","))
	if c := m.classic.String(); c != "" {
		text += "/" + url.QueryEscape(c)
	}
	return text
}

// parseMarker reads what String wrote.
func parseMarker(s string) (marker, error) {
	var m marker
	parts := strings.Split(s, "/")
	if len(parts) != 6 && len(parts) != 7 {
		return m, fmt.Errorf("marker %q: %d parts", s, len(parts))
	}
	m.moments = strings.Contains(parts[0], "m")
	m.sum = strings.Contains(parts[0], "s")
	view, err := strconv.ParseUint(parts[1], 10, 8)
	if err != nil {
		return m, fmt.Errorf("marker %q: %w", s, err)
	}
	m.view = series.View(view)
	for i, p := range [...]*int64{&m.window, &m.period, &m.phase} {
		if *p, err = strconv.ParseInt(parts[2+i], 10, 64); err != nil {
			return m, fmt.Errorf("marker %q: %w", s, err)
		}
	}
	if parts[5] != "" {
		for n := range strings.SplitSeq(parts[5], ",") {
			name, err := url.QueryUnescape(n)
			if err != nil {
				return m, fmt.Errorf("marker %q: %w", s, err)
			}
			m.by = append(m.by, name)
		}
	}
	if len(parts) == 7 {
		text, err := url.QueryUnescape(parts[6])
		if err != nil {
			return m, fmt.Errorf("marker %q: %w", s, err)
		}
		m.classic, err = parseClassic(text)
		return m, err
	}
	return m, nil
}
