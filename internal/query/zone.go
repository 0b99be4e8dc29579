package query

import (
	_ "embed"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a bare machine has no zones of its own
)

// zonesText names the zones of IANA's database, one a line, to find the one
// that was meant.
//
//go:embed zones.txt
var zonesText string

var zoneNames = sync.OnceValue(func() []string { return strings.Fields(zonesText) })

// Zone loads a time zone by its IANA name, such as Europe/Berlin; empty means UTC.
func Zone(field, name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	// "Local" would be the server's, which the asker does not know.
	if loc, err := time.LoadLocation(name); err == nil && name != "Local" {
		return loc, nil
	}
	return nil, Invalid(field, "there is no time zone %s; %s", quote(name), suggestZone(name))
}

// suggestZone compares without case, and also with the last part of a name
// alone: Berlin is Europe/Berlin.
func suggestZone(name string) string {
	low := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"))
	best, bestD := "", 1<<30
	for _, z := range zoneNames() {
		full := strings.ToLower(z)
		d := min(2*distance(low, full), 2*distance(low, full[strings.LastIndexByte(full, '/')+1:])+1)
		if d < bestD {
			best, bestD = z, d
		}
	}
	if bestD <= len(low) {
		return "did you mean " + quote(best) + "?"
	}
	return "write one such as Europe/Berlin, America/New_York or UTC"
}

// Midnight is the moment at which the day of t begins in t's zone: usually
// 00:00, but the first moment after it where clocks skip it.
func Midnight(t time.Time) time.Time { return startOfDay(t.Year(), t.Month(), t.Day(), t.Location()) }

func startOfDay(year int, month time.Month, day int, loc *time.Location) time.Time {
	noon := time.Date(year, month, day, 12, 0, 0, 0, loc)
	t := time.Date(year, month, day, 0, 0, 0, 0, loc)
	switch before := t.Add(-time.Hour); {
	case t.Day() != noon.Day(): // midnight was skipped, and this lies before it
		return time.Date(year, month, day, 1, 0, 0, 0, loc)
	case before.Day() == noon.Day(): // midnight came twice
		return before
	}
	return t
}

// AddDays is the beginning of the day that lies n days after that of t.
func AddDays(t time.Time, n int) time.Time {
	return startOfDay(t.Year(), t.Month(), t.Day()+n, t.Location())
}
