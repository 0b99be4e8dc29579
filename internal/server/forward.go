package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"tailscope/api"
	"tailscope/internal/config"
	"tailscope/internal/figure"
	"tailscope/internal/observe/forward"
)

// forwardShare is the part of the memory of traces that spans for other servers may take: one
// in so many.
const forwardShare = 8

// startForwarding has each trace put together by one of the servers that share the store. It
// starts after the assembler and before the receivers, so that what was received last is
// sent before it stops.
func (s *Server) startForwarding() {
	if s.cluster == nil || s.traces == nil {
		return
	}
	r := forward.New(forward.Options{
		Assembler: s.traces, Writer: s.data.writer, Members: s.cluster.Members, Accepts: s.agg.Accepts, Longest: s.cfg.LongestSpan,
		QueueBytes: s.shares.Traces / forwardShare, Now: s.now, Logger: s.log.With("part", "spans"),
	})
	s.forward = r
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	s.started("spans between servers", func(ctx context.Context) error {
		cancel()
		<-done
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTraces)
		defer stop()
		r.Close(ctx)
		return nil
	})
	s.metrics.registry.MustRegister(newPartCollector(r.Stats, forwardReadings))
	s.health.watch(forwardProblems(r.Stats, s.now))
}

// passAgentsOn has what each agent sends stored by one of the servers that share the store. It
// starts before the receivers and stops after them.
func (s *Server) passAgentsOn() {
	o := forward.AgentsOptions{Receiver: s.agents, Writer: s.data.writer, Now: s.now, Logger: s.log.With("part", "agents")}
	if s.cluster != nil {
		o.Members = s.cluster.Members
	}
	s.passing = forward.NewAgents(o)
	if s.cluster == nil {
		return
	}
	s.started("agents of other servers", func(context.Context) error {
		s.passing.Close()
		return nil
	})
	s.metrics.registry.MustRegister(newPartCollector(s.passing.Stats, passingReadings))
}

// peerAddress returns the base URL at which other servers send spans and frames of agents here,
// or "" if none does.
func (s *Server) peerAddress(ctx context.Context) string {
	if s.otlpHTTP == nil || s.cfg.Cluster.Address == config.NoAddress {
		return ""
	}
	if s.cfg.Cluster.Address != "" {
		return s.cfg.Cluster.Address
	}
	const next = "no other server sends spans or frames of agents here, and this one puts no traces together: give the address at which they reach this one as cluster.address"
	near, err := ownAddress(ctx, s.data.host)
	if err != nil {
		s.log.Warn(next, "error", err)
		return ""
	}
	listens, err := netip.ParseAddrPort(s.OTLPHTTP())
	if err != nil {
		s.log.Warn(next, "error", err)
		return ""
	}
	ip := listens.Addr().Unmap()
	switch {
	case ip.IsUnspecified():
		ip = near
	case ip.IsLoopback() && !near.IsLoopback():
		s.log.Warn(next+", or let otlp.http listen on more than the loopback", "otlp_http", s.OTLPHTTP())
		return ""
	}
	if ip.IsLoopback() {
		s.log.Info("servers on other machines cannot reach this one for its share of traces and agents: give the address at which they do as cluster.address", "address", ip)
	}
	return "http://" + netip.AddrPortFrom(ip, listens.Port()).String()
}

// ownAddress returns the address by which this machine is known on the way to host, which has
// a port. Nothing is sent.
func ownAddress(ctx context.Context, host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find this machine's address towards %s: %w", host, err)
	}
	defer c.Close()
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find this machine's address towards %s: %w", host, err)
	}
	return at.Addr().Unmap(), nil
}

// forwardProblems returns a source that reports spans that were dropped on their way to other
// servers.
func forwardProblems(stats func() forward.Stats, now func() time.Time) func() []api.Problem {
	return func() []api.Problem {
		st := stats()
		if st.LastDrop.IsZero() || now().Sub(st.LastDrop) > lossShown {
			return nil
		}
		lost := figure.Counted(st.Dropped, "span")
		text := fmt.Sprintf("Not sent since the start: %s of traces that other servers put together, the last at %s.", lost, st.LastDrop.UTC().Format("2006-01-02 15:04:05Z"))
		if st.LastError != "" {
			text += fmt.Sprintf(" The last request that failed: %s.", st.LastError)
		}
		return []api.Problem{{
			Code: problemTraces, From: unixOrNull(time.Time{}), To: api.Float(st.LastDrop.Unix()),
			Summary: figure.Sentence(lost) + " missing in breakdowns: another server does not take them.",
			Text:    text + " Their durations are counted; where their requests spent the time is told without them.",
			Next:    "see to the other servers and to cluster.address, at which each must reach this one and be reached; a day after the last loss this is no longer reported",
		}}
	}
}

var passingReadings = []reading[forward.AgentStats]{
	{"tailscope_forward_agent_requests_total", "Requests of agents passed on to the servers that store what they send.", counts, func(s forward.AgentStats) float64 { return float64(s.Passed) }},
	{"tailscope_forward_agent_requests_answered_total", "Requests of agents passed on that those servers answered.", counts, func(s forward.AgentStats) float64 { return float64(s.Answered) }},
	{"tailscope_forward_agent_requests_away_total", "Requests of agents answered here because the server that stores what they send gave no answer.", counts, func(s forward.AgentStats) float64 { return float64(s.Away) }},
	{"tailscope_forward_agent_requests_received_total", "Requests of agents that other servers passed on to this one.", counts, func(s forward.AgentStats) float64 { return float64(s.Received) }},
	{"tailscope_forward_agent_requests_refused_total", "Requests of agents that were passed on to this server and name another.", counts, func(s forward.AgentStats) float64 { return float64(s.Refused) }},
}

var forwardReadings = []reading[forward.Stats]{
	{"tailscope_forward_spans_sent_total", "Spans sent to the servers that put their traces together.", counts, func(s forward.Stats) float64 { return float64(s.Sent) }},
	{"tailscope_forward_bytes_sent_total", "Bytes of these spans as sent.", counts, func(s forward.Stats) float64 { return float64(s.Bytes) }},
	{"tailscope_forward_frames_sent_total", "Requests that sent them.", counts, func(s forward.Stats) float64 { return float64(s.Frames) }},
	{"tailscope_forward_spans_received_total", "Spans that other servers sent here.", counts, func(s forward.Stats) float64 { return float64(s.Received) }},
	{"tailscope_forward_spans_untimely_total", "Spans that other servers sent here, which were too old, too new or too long to be taken.", counts, func(s forward.Stats) float64 { return float64(s.Untimely) }},
	{"tailscope_forward_spans_dropped_total", "Spans for other servers dropped: the queue was full, they waited too long, or were refused.", counts, func(s forward.Stats) float64 { return float64(s.Dropped) }},
	{"tailscope_forward_spans_rerouted_total", "Spans that waited for a server that went, and were routed anew.", counts, func(s forward.Stats) float64 { return float64(s.Rerouted) }},
	{"tailscope_forward_failures_total", "Requests to other servers that failed.", counts, func(s forward.Stats) float64 { return float64(s.Failures) }},
	{"tailscope_forward_refused_total", "Requests of other servers that were not taken.", counts, func(s forward.Stats) float64 { return float64(s.Refused) }},
	{"tailscope_forward_queue_bytes", "Bytes of spans that wait for other servers, bounded by an eighth of traces.memory.", level, func(s forward.Stats) float64 { return float64(s.QueueBytes) }},
	{"tailscope_forward_servers", "Other servers that put traces together.", level, func(s forward.Stats) float64 { return float64(s.Peers) }},
}
