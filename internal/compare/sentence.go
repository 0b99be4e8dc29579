package compare

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// subject is what is compared, in words: GET /search of shop for acme.
func (c *comparison) subject() string {
	of := map[string]string{}
	var rest []string
	for _, m := range c.Matchers {
		switch m.Name {
		case series.LabelService, series.LabelOperation, series.LabelTenant, series.LabelComponent, series.LabelEnvironment:
			if m.Type == labels.MatchEqual && m.Value != "" && of[m.Name] == "" {
				of[m.Name] = m.Value
				continue
			}
		}
		rest = append(rest, m.String())
	}
	var words []string
	if c.kind != ofSpans {
		words = append(words, c.Family)
	}
	add := func(before, v string) {
		if v != "" {
			if len(words) > 0 && before != "" {
				v = before + " " + v
			}
			words = append(words, v)
		}
	}
	if v := of[series.LabelComponent]; v != "" && c.Family == series.SpanSelf {
		// The time may have passed in a service that they called.
		add("", v+" time")
		if of[series.LabelOperation]+of[series.LabelService] != "" {
			add("", "of requests")
		}
	} else {
		add("", v)
	}
	add("of", of[series.LabelOperation])
	add("of", of[series.LabelService])
	if len(words) == 0 {
		words = append(words, "all requests")
	}
	add("in", of[series.LabelEnvironment])
	add("for", of[series.LabelTenant])
	if len(rest) > 0 {
		add("where", strings.Join(rest, ", "))
	}
	return strings.Join(words, " ")
}

func quote(s string) string { return strconv.Quote(s) }

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// NextMinute writes the first whole minute that is not before t, which is in Unix seconds.
func NextMinute(t int64) string { return clock(t + 59) }

func clock(t int64) string { return time.Unix(t, 0).UTC().Format("2006-01-02 15:04") }
