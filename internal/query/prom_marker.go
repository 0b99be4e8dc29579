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
	increments bool        // samples will be added up over windows
	view       series.View // of span families
	block      int64       // seconds of slots to merge into one sample; 0 means a base slot
	phase      int64       // blocks end at phase plus multiples of block
	moments    bool        // buckets will not be looked at
	sum        bool        // series will be summed by the labels of by
	by         []string
}

// String encodes the marker as a label value.
func (m marker) String() string {
	flags := ""
	for _, f := range []struct {
		set  bool
		name string
	}{{m.increments, "i"}, {m.moments, "m"}, {m.sum, "s"}} {
		if f.set {
			flags += f.name
		}
	}
	by := make([]string, len(m.by))
	for i, n := range m.by {
		by[i] = url.QueryEscape(n)
	}
	return fmt.Sprintf("%s/%d/%d/%d/%s", flags, m.view, m.block, m.phase, strings.Join(by, ","))
}

// parseMarker reads what String wrote.
func parseMarker(s string) (marker, error) {
	var m marker
	parts := strings.Split(s, "/")
	if len(parts) != 5 {
		return m, fmt.Errorf("marker %q: %d parts", s, len(parts))
	}
	m.increments = strings.Contains(parts[0], "i")
	m.moments = strings.Contains(parts[0], "m")
	m.sum = strings.Contains(parts[0], "s")
	view, err := strconv.ParseUint(parts[1], 10, 8)
	if err != nil {
		return m, fmt.Errorf("marker %q: %w", s, err)
	}
	m.view = series.View(view)
	for i, p := range [...]*int64{&m.block, &m.phase} {
		if *p, err = strconv.ParseInt(parts[2+i], 10, 64); err != nil {
			return m, fmt.Errorf("marker %q: %w", s, err)
		}
	}
	if parts[4] != "" {
		for n := range strings.SplitSeq(parts[4], ",") {
			name, err := url.QueryUnescape(n)
			if err != nil {
				return m, fmt.Errorf("marker %q: %w", s, err)
			}
			m.by = append(m.by, name)
		}
	}
	return m, nil
}
