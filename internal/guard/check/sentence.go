package check

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/state"
)

// link returns the address of a check on the page, empty if that of the page is not known.
func (e *Engine) link(id string) string { return e.linkTo("/checks/" + url.PathEscape(id)) }

// linkTo returns the address of a path of the page, empty if the page's is not known.
func (e *Engine) linkTo(path string) string {
	if e.page == "" {
		return ""
	}
	return strings.TrimSuffix(e.page, "/") + path
}

// sentence says for people what happened: what, how much, since when.
func sentence(in *instance, s *state.Event, r *event.Result, now time.Time) string {
	id := in.id
	switch s.Kind {
	case event.Resolved:
		if s.Why != "" {
			return fmt.Sprintf("%s is over after %s: %s", id, span(s.Time.Sub(s.Opened)), s.Why)
		}
		return fmt.Sprintf("%s is OK after %s%s", id, span(s.Time.Sub(s.Opened)), measuredText(in, r))
	case event.Acknowledged:
		text := fmt.Sprintf("%s acknowledged that %s is %s", s.Ack.User, id, s.To)
		if s.Ack.Comment != "" {
			text += ": " + s.Ack.Comment
		}
		return text
	case event.Flapping:
		return fmt.Sprintf("%s is flapping: its changes are told once it is steady", id)
	case event.Steady:
		return fmt.Sprintf("%s is steady, %s%s", id, s.To, measuredText(in, r))
	}
	text := fmt.Sprintf("%s is %s%s", id, s.To, measuredText(in, r))
	if s.Why != "" {
		text += fmt.Sprintf("; for %s, %s", span(now.Sub(s.Opened)), s.Why)
	}
	return text
}

// measuredText returns the value beside the band that it lies beyond, or what failed.
func measuredText(in *instance, r *event.Result) string {
	if r.Time.IsZero() {
		return ""
	}
	if r.Reading.Null {
		if err := r.Reading.Err; err != nil {
			return ": " + err.Error()
		}
		if r.Reading.Text != "" {
			return ": no value, " + r.Reading.Text
		}
		return ": no value"
	}
	text := ": " + quantity(r.Reading.Value, in.c.Unit)
	b := &r.Bands
	for _, band := range []struct {
		at   float64
		over bool
	}{{b.HighCritical, true}, {b.LowCritical, false}, {b.HighWarning, true}, {b.LowWarning, false}} {
		switch {
		case math.IsNaN(band.at):
			continue
		case band.over && r.Reading.Value > band.at:
			return text + " is above " + quantity(band.at, in.c.Unit) + ruleText(b)
		case !band.over && r.Reading.Value < band.at:
			return text + " is below " + quantity(band.at, in.c.Unit) + ruleText(b)
		}
	}
	if l := r.Reading.Level; r.Reading.Text != "" && (in.c.Threshold == nil || l != nil && *l != event.OK) {
		return text + ", " + r.Reading.Text
	}
	return text
}

func ruleText(b *event.Bands) string {
	if b.Rule == "" {
		return ""
	}
	return " (" + b.Rule + ")"
}

// quantity is a number of four digits with its unit, for seconds and bytes the
// one of its size: 635.5 ms, 84.77/s.
func quantity(v float64, unit string) string {
	switch unit {
	case "s", "B":
		a := math.Abs(v)
		for _, scale := range scales[unit] {
			if a >= scale.from && !math.IsInf(v, 0) {
				v, unit = v/scale.from, scale.unit
				break
			}
		}
	}
	text := strconv.FormatFloat(v, 'g', 4, 64)
	if math.Abs(v) >= 1e4 && math.Abs(v) < 1e15 {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	switch unit {
	case "":
		return text
	case "%":
		return text + "%"
	}
	if strings.HasPrefix(unit, "/") {
		return text + unit
	}
	return text + " " + unit
}

type scale struct {
	from float64
	unit string
}

// scales are the units from the largest on; what is smaller than all keeps its own.
var scales = map[string][]scale{
	"s": {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}},
	"B": {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}},
}

// span prints a duration without more detail than a person wants: 1h30m, 2h.
func span(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	if d < time.Hour {
		d = d.Round(time.Second)
	} else {
		d = d.Round(time.Minute)
	}
	return figure.Duration(d)
}

func labelsOf(l labels.Labels) []labels.Label {
	out := make([]labels.Label, 0, l.Len())
	l.Range(func(l labels.Label) { out = append(out, l) })
	return out
}
