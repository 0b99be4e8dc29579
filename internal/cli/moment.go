package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/config"
)

func parseSince(s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not a time at all: write one such as 15m or 6h", s)
	}
	return d, err
}

// parseTime returns a moment as the server reads it. Of a date and a time without a
// zone it reads those of this machine.
func parseTime(text string) (api.Time, error) {
	if t, ok := parseLocal(text, time.Local); ok {
		return unix(t.Unix()), nil
	}
	if text == "0" {
		return api.Time(text), nil // the beginning of everything
	}
	_, err := parseMoment(text, time.Unix(0, 0))
	return api.Time(text), err
}

// momentOf returns a moment that parseTime has read.
func momentOf(t api.Time, now time.Time) time.Time {
	at, err := parseMoment(string(t), now)
	if err != nil {
		return time.Unix(0, 0)
	}
	return at
}

// secondsOf returns a moment that parseTime has read in Unix seconds, 0 if it is empty.
func secondsOf(t api.Time, now time.Time) api.Float {
	if t == "" {
		return 0
	}
	return api.Float(float64(momentOf(t, now).UnixMilli()) / 1e3)
}

// parseMoment reads what the server reads: RFC 3339, Unix seconds, now, now-6h;
// and a date or a date and time in the reader's own zone.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		if rest == "" {
			return now, nil
		}
		sign := rest[0]
		if d, err := config.ParseDuration(rest[1:]); err == nil && (sign == '-' || sign == '+') {
			if sign == '-' {
				d = -d
			}
			return now.Add(d), nil
		}
	}
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec > 0 && sec < 1e11 {
		return time.UnixMilli(int64(sec * 1e3)), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	if t, ok := parseLocal(s, now.Location()); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a moment: write RFC 3339, Unix seconds, 2006-01-02 15:04, now or now-6h", s)
}

// parseLocal reads a date, or a date and a time, in a zone.
func parseLocal(s string, zone *time.Location) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func unix(t int64) api.Time { return api.Time(strconv.FormatInt(t, 10)) }
