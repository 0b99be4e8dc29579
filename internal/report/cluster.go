package report

import (
	"math"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Cluster returns the servers that share a store, its nodes and agents, and before them what
// is wrong.
func Cluster(r *api.ClusterResponse) *Document {
	d := &Document{Name: "cluster", Data: r}
	if r.Store == "" {
		d.Line("This server is alone: it keeps its data in its own directory.")
	} else {
		d.Line(r.Store)
	}
	for _, f := range r.Findings {
		d.Gap()
		what := f.What
		if f.Where != "" {
			what = f.Where + ": " + what
		}
		d.Line(what)
		if f.Costs != "" {
			d.Line("  " + f.Costs)
		}
		d.Line("  next: " + f.Next)
	}
	since := func(t api.Float) string {
		if IsNaN(t) || t <= 0 {
			return "-"
		}
		return figure.Span(math.Round(max(0, float64(r.Now-t))))
	}
	seconds := func(f api.Float) string {
		if IsNaN(f) {
			return "-"
		}
		return figure.Span(math.Round(float64(f)))
	}
	if len(r.Servers) > 0 {
		t := Columns("server", "alive", ">runs for", ">seen", ">lag", ">clock", "does for all", "version", "address")
		for _, s := range r.Servers {
			alive, runs := "yes", since(s.Since)
			if !s.Alive {
				alive, runs = "no", "-"
			}
			clock := seconds(s.Ahead)
			if s.Ahead > 0 {
				clock = "+" + clock
			}
			t.Add(s.Name, alive, runs, seconds(s.Seen), seconds(s.Lag), clock, OrNone(strings.Join(s.Works, ", ")), s.Version, s.Address)
		}
		d.Gap()
		d.Table(t)
		for _, s := range r.Servers {
			for _, p := range s.Problems {
				d.Line(s.Name + " is degraded: " + p)
			}
		}
	}
	if len(r.Nodes) > 0 {
		t := Columns("node", ">shard", "answers", ">parts", ">rows", ">on disk", ">free", ">statements", ">failed", "version")
		for _, n := range r.Nodes {
			host, answers := n.Host, "yes"
			parts, rows, size, free := figure.Thousands(n.Parts), figure.Thousands(n.Rows), Bytes(int64(n.Bytes)), "-"
			if n.First {
				host += " (first)"
			}
			if !n.Answers {
				answers, parts, rows, size = "no", "-", "-", "-"
				if !IsNaN(n.Away) {
					answers = "no, for " + since(n.Away)
				}
			}
			if !IsNaN(n.Free) {
				free = ratio(n.Free / n.Total)
			}
			shard := "-"
			if n.Shard > 0 {
				shard = strconv.Itoa(n.Shard)
			}
			t.Add(host, shard, answers, parts, rows, size, free, figure.Thousands(n.Statements), figure.Thousands(n.Failed), OrNone(n.Version))
		}
		d.Gap()
		d.Table(t)
	}
	if len(r.Agents) > 0 {
		t := Columns("agent", ">heard", ">waits", ">in files", ">since", ">frames", ">again", ">refused", "version")
		for _, a := range r.Agents {
			t.Add(a.Name, since(a.Heard), Bytes(a.SpoolBytes), strconv.Itoa(a.SpoolFiles), since(a.WaitingSince), figure.Thousands(a.Frames), figure.Thousands(a.Duplicates), figure.Thousands(a.Refused), a.Version)
		}
		d.Gap()
		d.Table(t)
	}
	return d
}
