package query

import (
	_ "embed"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a bare machine has no zones of its own

	"tailscope/internal/strictyaml"
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
		d := min(2*strictyaml.Distance(low, full), 2*strictyaml.Distance(low, full[strings.LastIndexByte(full, '/')+1:])+1)
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
// 00:00, the first of two, or where clocks skip it the moment they do.
func Midnight(t time.Time) time.Time { return startOfDay(t.Year(), t.Month(), t.Day(), t.Location()) }

func startOfDay(year int, month time.Month, day int, loc *time.Location) time.Time {
	wall := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	before, after := offsetAt(wall.Add(-24*time.Hour), loc), offsetAt(wall.Add(24*time.Hour), loc)
	// The greater offset is the earlier moment.
	for _, offset := range [...]time.Duration{max(before, after), min(before, after)} {
		if t := wall.Add(-offset); offsetAt(t, loc) == offset {
			return t.In(loc)
		}
	}
	skipped := wall.Add(-before).In(loc) // in the zone that the skip led to
	start, _ := skipped.ZoneBounds()
	return start.In(loc)
}

// offsetAt is by how much clocks of the zone are ahead of UTC. Within a day of
// a wall-clock time read as UTC they change once at most.
func offsetAt(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}

// AddDays is the beginning of the day that lies n days after that of t.
func AddDays(t time.Time, n int) time.Time {
	return startOfDay(t.Year(), t.Month(), t.Day()+n, t.Location())
}
