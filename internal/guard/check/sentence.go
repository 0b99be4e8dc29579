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
			return fmt.Sprintf("%s is over after %s: %s", id, figure.Span(s.Time.Sub(s.Opened).Seconds()), s.Why)
		}
		return fmt.Sprintf("%s is OK after %s%s", id, figure.Span(s.Time.Sub(s.Opened).Seconds()), measuredText(in, r))
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
		text += fmt.Sprintf("; for %s, %s", figure.Span(now.Sub(s.Opened).Seconds()), s.Why)
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
	value := figure.Quantity(r.Reading.Value, in.c.Unit)
	text := ": " + value
	b := &r.Bands
	for _, band := range []struct {
		at   float64
		over bool
	}{{b.HighCritical, true}, {b.LowCritical, false}, {b.HighWarning, true}, {b.LowWarning, false}} {
		switch {
		case math.IsNaN(band.at):
			continue
		case band.over && r.Reading.Value > band.at:
			return text + beyond("above", value, figure.Quantity(band.at, in.c.Unit)) + ruleText(b)
		case !band.over && r.Reading.Value < band.at:
			return text + beyond("below", value, figure.Quantity(band.at, in.c.Unit)) + ruleText(b)
		}
	}
	if l := r.Reading.Level; r.Reading.Text != "" && (in.c.Threshold == nil || l != nil && *l != event.OK) {
		return text + ", " + r.Reading.Text
	}
	return text
}

// beyond says on which side of a bound a value is: just above 300 ms where both read alike.
func beyond(side, value, bound string) string {
	v, unit := numberOf(value)
	if b, of := numberOf(bound); v == b && unit == of {
		side = "just " + side
	}
	return " is " + side + " " + bound
}

// numberOf returns the number that a quantity's text begins with, and what follows it: 90.0 % and
// 90 % have one number. What does not begin with a number is 0 and all of the text.
func numberOf(quantity string) (float64, string) {
	rest := strings.TrimLeft(quantity, "-−0123456789.,")
	v, err := strconv.ParseFloat(strings.NewReplacer(",", "", "−", "-").Replace(strings.TrimSuffix(quantity, rest)), 64)
	if err != nil {
		return 0, quantity
	}
	return v, rest
}

func ruleText(b *event.Bands) string {
	if b.Rule == "" {
		return ""
	}
	return " (" + b.Rule + ")"
}

func labelsOf(l labels.Labels) []labels.Label {
	out := make([]labels.Label, 0, l.Len())
	l.Range(func(l labels.Label) { out = append(out, l) })
	return out
}
