package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/figure"
	"tailscope/internal/store"
)

// Look returns the servers of a store, by name, without joining them. It watches their
// records for half as long again as a renewal takes at most: a server whose record does not
// change is not alive.
func Look(ctx context.Context, records store.Records) ([]Member, error) {
	c := &Cluster{o: Options{Records: records}}
	for begin := time.Now(); ; {
		if err := c.read(ctx); err != nil {
			return nil, fmt.Errorf("read the servers of the store: %w", err)
		}
		if time.Since(begin) > Every*3/2 {
			break
		}
		if err := backoff.Sleep(ctx, Every/10); err != nil {
			return nil, err
		}
	}
	members := c.Members()
	for i := range members {
		if m := &members[i]; !c.seen[m.Writer].changed {
			m.Alive, m.Works = false, nil
		}
	}
	return members, nil
}

// longLag is the lag beyond which Servers reports.
const longLag = time.Minute

// Servers returns members as the API has them, and what is wrong with them.
func Servers(members []Member) (servers []api.ClusterServer, findings []api.ClusterFinding) {
	versions := map[string]string{} // a server of each
	for _, m := range members {
		s := api.ClusterServer{
			Name: m.Writer, Address: m.Address, Version: m.Version, Since: api.Float(m.Since.Unix()), Seen: api.Float(m.Seen.Seconds()), Alive: m.Alive,
			Works: m.Works, Lag: api.Float(m.State.Lag), Ahead: api.Float(m.Ahead.Seconds()), Problems: m.State.Problems,
		}
		if m.State.Now.IsZero() {
			s.Lag, s.Ahead = api.Float(math.NaN()), api.Float(math.NaN())
		}
		servers = append(servers, s)
		if !m.Alive {
			continue
		}
		versions[m.Version] = m.Writer
		if lag := time.Duration(m.State.Lag * float64(time.Second)); lag > longLag {
			findings = append(findings, api.ClusterFinding{
				Where: m.Writer, What: fmt.Sprintf("what it accepted %s ago is not stored", figure.Duration(lag.Round(time.Second))),
				Costs: "Other servers do not show it yet. It waits in the journal and in memory, and is not lost.",
				Next:  "see why in its log; ClickHouse is away, full, or slower than what comes",
			})
		}
		if clock := figure.Clock(m.Ahead.Seconds()); clock != "" {
			findings = append(findings, api.ClusterFinding{
				Where: m.Writer, What: "its clock is at least " + clock,
				Costs: "What it measures itself lies at wrong times, and data expires by the clock of the server that maintains.",
				Next:  figure.SetClocks,
			})
		}
	}
	if len(versions) > 1 {
		f := api.ClusterFinding{What: "servers run different versions", Next: "start all of them with one version"}
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			f.What += fmt.Sprintf(", %s has %s", versions[v], v)
		}
		findings = append(findings, f)
	}
	return servers, findings
}
