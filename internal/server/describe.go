package server

import (
	"context"
	"time"

	"tailscope/api"
	"tailscope/internal/cluster"
)

// describe returns what this server tells the others of its store.
func (s *Server) describe() cluster.State {
	st := cluster.State{Now: time.Now()}
	if !s.ready.Load() { // not all parts are there yet
		return st
	}
	if oldest := s.agg.Stats().Oldest; !oldest.IsZero() {
		st.Lag = max(0, s.now().Sub(oldest).Seconds())
	}
	for _, p := range s.health.problems() {
		st.Problems = append(st.Problems, p.Summary)
	}
	return st
}

// describeCluster answers /api/v1/cluster.
func (s *Server) describeCluster(ctx context.Context) *api.ClusterResponse {
	out := &api.ClusterResponse{Now: api.Float(float64(s.now().UnixMilli()) / 1e3), Server: s.data.writer, Agents: s.listAgents()}
	members := []cluster.Member{{Writer: s.data.writer, Address: s.cfg.PageURL, Version: s.version, Since: s.since, Alive: true}}
	if s.cluster != nil {
		members = s.cluster.Members()
	}
	for i := range members {
		if m := &members[i]; m.Writer == s.data.writer {
			m.State, m.Ahead = s.describe(), 0
		}
	}
	servers, findings := cluster.Servers(members)
	if out.Servers = servers; s.data.describe != nil { // what is wrong with one alone is its problems
		s.data.describe(ctx, out)
		out.Findings = append(out.Findings, findings...)
	}
	return out
}
