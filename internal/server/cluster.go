package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/cluster"
)

// Pieces of work that one of the servers which share a store does for all.
const (
	workMaintenance = "maintenance"
	workVerdicts    = "verdicts"
	workChecks      = "checks"
)

// startCluster joins the servers that share the store. A store of one server alone has
// none.
func (s *Server) startCluster(ctx context.Context) (err error) {
	if !s.data.shared {
		return nil
	}
	work := []string{workMaintenance, workVerdicts}
	if len(s.cfg.Checks) > 0 {
		work = append(work, workChecks)
	}
	reached := s.peerAddress(ctx)
	spans := reached
	if s.shares.Traces == 0 {
		spans = ""
	}
	s.cluster, err = cluster.Join(ctx, cluster.Options{
		Records: s.store, Writer: s.data.writer, Address: s.cfg.PageURL, Spans: s.whileReady(spans), Agents: s.whileReady(reached), Version: s.version,
		Work: work, State: s.describe, Logger: s.log.With("part", "cluster"),
	})
	if err != nil {
		return err
	}
	s.metrics.registry.MustRegister(clusterCollector{s.cluster.Members})
	running, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.cluster.Run(running); err != nil {
			s.fail("cluster", err)
		}
	}()
	s.started("cluster", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// whileReady returns a function that returns the address while the server is ready, and "" while
// it starts or stops.
func (s *Server) whileReady(address string) func() string {
	return func() string {
		if s.ready.Load() {
			return address
		}
		return ""
	}
}

// announceReady tells the servers of the store at once that this one takes what they send.
func (s *Server) announceReady(ctx context.Context) {
	if s.cluster == nil {
		return
	}
	if err := s.cluster.Round(ctx); err != nil {
		s.log.Warn("other servers do not send spans and frames here yet; they are told with the next renewal", "error", err)
	}
}

// countAlive returns the number of servers of the store that are alive, at least 1.
func (s *Server) countAlive() int {
	n := 0
	if s.cluster != nil {
		for _, m := range s.cluster.Members() {
			if m.Alive {
				n++
			}
		}
	}
	return max(n, 1)
}

// once calls do if no other server of the store has that work, and reports whether it
// did.
func (s *Server) once(ctx context.Context, work string, do func(context.Context) error) (did bool, err error) {
	if s.cluster == nil {
		return true, do(ctx)
	}
	return s.cluster.Do(ctx, work, do)
}

// clusterCollector collects the servers of the store, as this one sees them.
type clusterCollector struct{ members func() []cluster.Member }

var (
	clusterAlive = prometheus.NewDesc("tailscope_cluster_server_alive",
		"1 for each server of the store that is alive, 0 for one that is not.", []string{"server"}, nil)
	clusterSeen = prometheus.NewDesc("tailscope_cluster_server_seen_seconds",
		"How long ago a server of the store was seen to be alive.", []string{"server"}, nil)
	clusterHolds = prometheus.NewDesc("tailscope_cluster_work",
		"1 for each piece of work, by the server that does it.", []string{"server", "work"}, nil)
)

func (clusterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clusterAlive, clusterSeen, clusterHolds} {
		ch <- d
	}
}

func (c clusterCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.members() {
		alive := 0.0
		if m.Alive {
			alive = 1
		}
		ch <- prometheus.MustNewConstMetric(clusterAlive, level, alive, m.Writer)
		ch <- prometheus.MustNewConstMetric(clusterSeen, level, m.Seen.Seconds(), m.Writer)
		for _, work := range m.Works {
			ch <- prometheus.MustNewConstMetric(clusterHolds, level, 1, m.Writer, work)
		}
	}
}
