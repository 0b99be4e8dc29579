package report

import (
	"math"
	"regexp"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// LogBook returns the sessions of the log book, a line each.
func LogBook(r *api.SessionsResponse, zone *time.Location) *Document {
	d := &Document{Name: "sessions", Data: r}
	t := Columns("started", ">took", "state", "kind", "name", "service", ">requests", "found", "id")
	var rows [][]string
	for i := range r.Sessions {
		x := &r.Sessions[i]
		end := x.End
		if IsNaN(end) {
			end = x.Updated
		}
		took := float64(end - x.Start)
		requests, said := requestsOf(x)
		t.Add(ClockIn(x.Start, zone), Duration(time.Duration(took*float64(time.Second))), x.State, x.Kind, cut(x.Name, widestName), x.Service, said, intervals.ReplaceAllString(x.Headline, ""), x.ID)
		rows = append(rows, []string{unixFloat(x.Start), Raw(api.Float(math.Round(took*1e3) / 1e3)), x.State, x.Kind, x.Name, x.Service, whole(requests), x.Headline, x.ID})
	}
	d.Table(t)
	d.Sheet(t.Header, rows)
	return d
}

// widestName is the most characters of a name in a table.
const widestName = 48

// requestsOf writes the number of requests of a session, or the rounds of an experiment,
// with their noun.
func requestsOf(x *api.Session) (n uint64, said string) {
	switch {
	case x.Mirror != nil:
		n = x.Mirror.Requests
	case x.Bench != nil:
		n = x.Bench.Account.Sent
	case x.Experiment != nil:
		return uint64(max(x.Experiment.Stopping.Done, 0)), Plural(x.Experiment.Stopping.Done, "round")
	case x.Simulation != nil:
		return uint64(len(x.Simulation.Layouts)), Plural(len(x.Simulation.Layouts), "layout")
	}
	return n, figure.Thousands(n)
}

// intervals matches intervals, which short lines leave out. The text after one (another
// candidate, a warning) stays.
var intervals = regexp.MustCompile(` \(\d[\d.]* % interval[^)]*\)`)
