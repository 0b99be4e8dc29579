package logbook

import (
	"fmt"
	"math"

	"tailscope/api"
)

// Bounds of a document that is too long: slots and readings of a run, events, rows,
// names, and bytes of a file.
const (
	keptSlots  = 300
	keptEvents = 200
	keptRows   = 400
	keptNames  = 50
	keptFile   = 16 << 10
)

// A cutting shortens a long part of a report that is not essential, and describes
// what it left out, or returns "" if the report has no such part. Cuttings are tried
// in order until a report is short enough. They replace what they shorten, and do not
// change it.
type cutting func(*api.SessionReport) string

// cutExamples halves the examples, then the differences.
func cutExamples(p *api.SessionReport) string {
	if p.Mirror.Differences == nil {
		return ""
	}
	m, d := *p.Mirror, *p.Mirror.Differences
	switch {
	case len(d.Examples) > 0:
		d.Examples = d.Examples[:len(d.Examples)/2]
	case len(d.Rows) > 0:
		d.Rows = d.Rows[:len(d.Rows)/2]
	default:
		return ""
	}
	m.Differences = &d
	p.Mirror = &m
	return "differences of answers"
}

func cutBuckets(p *api.SessionReport) string {
	b, any := p.Bench, false
	cut := func(l *api.BenchLatency) {
		any = any || l.Counts != nil
		l.Bounds, l.Counts = nil, nil
	}
	for _, list := range [][]api.BenchQuery{b.Queries, b.Tenants} {
		for i := range list {
			cut(&list[i].Latency)
			cut(&list[i].Uncorrected)
		}
	}
	for i := range b.Phases {
		cut(&b.Phases[i].Latency)
		cut(&b.Phases[i].Uncorrected)
	}
	for i := range b.Loads {
		cut(&b.Loads[i].Latency)
	}
	cut(&b.FirstByte)
	if !any {
		return ""
	}
	return "the distributions of queries, tenants and phases: figures alone are kept"
}

// cutTimeline merges slots in pairs until they are few enough; of their quantiles it
// keeps the higher one.
func cutTimeline(p *api.SessionReport) string {
	slots := p.Bench.Timeline
	if len(slots) <= keptSlots {
		return ""
	}
	for len(slots) > keptSlots {
		short := make([]api.BenchSlot, 0, len(slots)/2+1)
		for i := 0; i < len(slots); i += 2 {
			s := slots[i]
			if i+1 < len(slots) {
				t := slots[i+1]
				s.Width, s.Due, s.Answered, s.Errors, s.Waiting = s.Width+t.Width, s.Due+t.Due, s.Answered+t.Answered, s.Errors+t.Errors, t.Waiting
				s.P50, s.P99, s.Max, s.Late = higher(s.P50, t.P50), higher(s.P99, t.P99), higher(s.Max, t.Max), higher(s.Late, t.Late)
			}
			short = append(short, s)
		}
		slots = short
	}
	p.Bench.Timeline = slots
	return "slots of the time line: longer ones are kept, with the higher of their quantiles"
}

func higher(a, b api.Float) api.Float {
	if math.IsNaN(float64(a)) || b > a {
		return b
	}
	return a
}

func cutResources(p *api.SessionReport) string {
	any := false
	for i := range p.Bench.Resources {
		r := &p.Bench.Resources[i]
		for len(r.Values) > keptSlots {
			any = true
			n := (len(r.Values) + 1) / 2
			times, values := make([]api.Float, n), make([]api.Float, n)
			for k := range n {
				times[k], values[k] = r.Times[2*k], r.Values[2*k]
				if 2*k+1 < len(r.Values) {
					values[k] = higher(values[k], r.Values[2*k+1])
				}
			}
			r.Times, r.Values = times, values
		}
	}
	if !any {
		return ""
	}
	return "readings of resources: the higher of each two is kept"
}

func cutConfiguration(p *api.SessionReport) string {
	var e *api.Environment
	switch {
	case p.Bench != nil:
		e = &p.Bench.Environment
	case p.Experiment != nil:
		e = &p.Experiment.Environment
	default:
		e = &p.Capacity.Environment
	}
	n := dropLong(e.Configuration)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d recorded configurations longer than 16 kB", n)
}

func dropLong(texts map[string]string) (n int) {
	for name, text := range texts {
		if len(text) > keptFile {
			delete(texts, name)
			n++
		}
	}
	return n
}

func cutNames(p *api.SessionReport) string {
	b := p.Bench
	if len(b.Queries) <= keptNames && len(b.Tenants) <= keptNames {
		return ""
	}
	b.Queries, b.Tenants = first(b.Queries, keptNames), first(b.Tenants, keptNames)
	return fmt.Sprintf("queries and tenants after the first %d", keptNames)
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list)):min(n, len(list))] }

// cutEvents keeps the last events.
func cutEvents(p *api.SessionReport) string {
	var list *[]api.BenchEvent
	switch {
	case p.Bench != nil:
		list = &p.Bench.Events
	case p.Experiment != nil:
		list = &p.Experiment.Events
	default:
		list = &p.Capacity.Events
	}
	if len(*list) <= keptEvents {
		return ""
	}
	*list = (*list)[len(*list)-keptEvents:]
	return fmt.Sprintf("events before the last %d", keptEvents)
}

// cutFigures keeps the usual figures of single queries.
func cutFigures(p *api.SessionReport) string {
	keep := map[string]bool{"p50": true, "p95": true, "p99": true, "mean": true, "errors": true, p.Experiment.Stopping.Measure: true}
	any := false
	for i := range p.Experiment.Rounds {
		for query, figures := range p.Experiment.Rounds[i].Figures {
			for name := range figures {
				if query != "" && !keep[name] {
					delete(figures, name)
					any = true
				}
			}
		}
	}
	if !any {
		return ""
	}
	return "of rounds, figures of single queries beyond p50, p95, p99, mean and errors"
}

func cutQueries(p *api.SessionReport) string {
	any := false
	for i := range p.Experiment.Rounds {
		for query := range p.Experiment.Rounds[i].Figures {
			if query != "" {
				delete(p.Experiment.Rounds[i].Figures, query)
				any = true
			}
		}
	}
	if !any {
		return ""
	}
	return "figures of single queries in each round"
}

func cutRows(p *api.SessionReport) string {
	if len(p.Experiment.Rows) <= keptRows {
		return ""
	}
	p.Experiment.Rows = first(p.Experiment.Rows, keptRows)
	return fmt.Sprintf("rows after the first %d", keptRows)
}

func cutFiles(p *api.SessionReport) string {
	n := dropLong(p.Experiment.Files)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d files longer than 16 kB, so it cannot be run again from here", n)
}
