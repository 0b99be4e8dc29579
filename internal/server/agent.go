package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/observe/agents"
	"tailscope/internal/observe/forward"
	"tailscope/internal/observe/otlp"
	"tailscope/internal/store/outbox"
	"tailscope/internal/store/packed"
)

// closeSending bounds the time for sending what waits when an agent stops. What it does not
// send, the next start does.
const closeSending = 2 * time.Second

// openOutbox makes the store of an agent: the store of its data directory keeps its state,
// points and traces go to the server.
func (s *Server) openOutbox(ctx context.Context, d *dataStore) error {
	c := s.cfg.Agent
	host, _ := os.Hostname() // without one it is called by its writer
	o := outbox.Options{
		Dir: filepath.Join(s.cfg.Data, "spool"), Writer: d.writer, Name: cmp.Or(c.Name, host), Version: s.version,
		To: c.To, OTLP: c.Forward == "otlp", MaxBytes: c.Spool, Now: s.now, Logger: s.log.With("part", "sender"),
	}
	if s.carrier != nil {
		o.HTTP = &http.Client{Transport: s.carrier}
	}
	out, err := outbox.Open(ctx, d.store, o)
	if err != nil {
		return err
	}
	s.outbox, d.store = out, out
	s.metrics.registry.MustRegister(newPartCollector(out.Stats, outboxReadings))
	s.health.watch(sendingProblems(out, c.To, s.now))
	return nil
}

// startSending sends what is put until the agent stops, and then what is put last.
func (s *Server) startSending() {
	if s.outbox == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	if s.ticks {
		go func() {
			defer close(done)
			s.outbox.Run(ctx)
		}()
	} else {
		close(done)
	}
	s.started("sender", func(ctx context.Context) error {
		cancel()
		<-done
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeSending)
		defer stop()
		s.outbox.Send(ctx)
		if st := s.outbox.Stats(); st.Files > 0 {
			s.log.Warn("what waits in the spool is sent by the next start", "files", st.Files, "bytes", st.SpoolBytes, "last_error", st.LastError)
		}
		return nil
	})
}

// sendingProblems returns a source that reports a server that does not take what is sent,
// and a spool that is full.
func sendingProblems(out *outbox.Store, to string, now func() time.Time) func() []api.Problem {
	return func() []api.Problem {
		st, full := out.Stats(), out.Room()
		if !st.Down && full == nil {
			return nil
		}
		waiting := "Waiting in the spool: " + figure.Counted(st.Files, "file")
		if !st.Oldest.IsZero() {
			waiting += fmt.Sprintf(", the oldest for %s", now().Sub(st.Oldest).Round(time.Second))
		}
		p := api.Problem{
			Code: problemSending, From: unixOrNull(st.Oldest), To: unixOrNull(time.Time{}), Text: waiting + ".",
			Next: "see to the server, or give its address with --to; it is tried again by itself, after five minutes at most",
		}
		if st.Down {
			p.Summary = "The server takes nothing: what is measured waits on disk. See to the server."
			p.Text = fmt.Sprintf("The server at %s takes nothing: %s. %s", to, st.LastError, p.Text)
		}
		if full != nil {
			p.Summary = "The spool is full: senders are soon asked to retry. See to the server, or raise agent.spool."
			p.Text = fmt.Sprintf("%v. %s %s", full, waits, p.Text)
		}
		return []api.Problem{p}
	}
}

var outboxReadings = []reading[outbox.Stats]{
	{"tailscope_agent_generations_sent_total", "Generations that the server has acknowledged.", counts, func(s outbox.Stats) float64 { return float64(s.Generations) }},
	{"tailscope_agent_frames_sent_total", "Frames that the server has acknowledged.", counts, func(s outbox.Stats) float64 { return float64(s.Frames) }},
	{"tailscope_agent_bytes_sent_total", "Bytes of frames that the server has acknowledged.", counts, func(s outbox.Stats) float64 { return float64(s.Bytes) }},
	{"tailscope_agent_frames_duplicate_total", "Frames that the server had before, after a lost acknowledgement.", counts, func(s outbox.Stats) float64 { return float64(s.Duplicates) }},
	{"tailscope_agent_requests_total", "Requests to the server.", counts, func(s outbox.Stats) float64 { return float64(s.Attempts) }},
	{"tailscope_agent_failures_total", "Requests to the server that failed, and are repeated.", counts, func(s outbox.Stats) float64 { return float64(s.Failures) }},
	{"tailscope_agent_files_refused_total", "Files that the server refused for good, set aside in spool/refused.", counts, func(s outbox.Stats) float64 { return float64(s.Refused) }},
	{"tailscope_agent_files_damaged_total", "Files of the spool that could not be read, set aside in spool/refused.", counts, func(s outbox.Stats) float64 { return float64(s.Damaged) }},
	{"tailscope_agent_files_deleted_total", "Files in spool/refused deleted for newer ones: they take a quarter of agent.spool.", counts, func(s outbox.Stats) float64 { return float64(s.Deleted) }},
	{"tailscope_agent_traces_lost_total", "Lists of kept traces dropped because traces had a quarter of the spool.", counts, func(s outbox.Stats) float64 { return float64(s.TracesLost) }},
	{"tailscope_agent_spool_full_total", "Generations that the spool had no space for; they are put again.", counts, func(s outbox.Stats) float64 { return float64(s.Full) }},
	{"tailscope_agent_spool_files", "Files that wait for the server.", level, func(s outbox.Stats) float64 { return float64(s.Files) }},
	{"tailscope_agent_spool_bytes", "Bytes that wait for the server, bounded by agent.spool.", level, func(s outbox.Stats) float64 { return float64(s.SpoolBytes) }},
	{"tailscope_agent_spool_oldest_timestamp_seconds", "When the oldest generation that waits was written; 0 if none waits.", level, func(s outbox.Stats) float64 { return unixOrZero(s.Oldest) }},
	{"tailscope_agent_heard_timestamp_seconds", "When the server last acknowledged anything; 0 before it has.", level, func(s outbox.Stats) float64 { return unixOrZero(s.Heard) }},
}

func unixOrZero(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// agentRoutes returns the handler of the main address of an agent: the paths for operating
// it, and in a few lines what it does.
func (s *Server) agentRoutes() http.Handler {
	mux := s.operating()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		st := s.outbox.Stats()
		text := fmt.Sprintf("tailscope agent %s\nsends to %s\nwaiting: %s, %d bytes\nlast generation: %d\n", s.version, s.cfg.Agent.To, figure.Counted(st.Files, "file"), st.SpoolBytes, st.Generation)
		if st.LastError != "" {
			text += "last error: " + st.LastError + "\n"
		}
		writeText(w, http.StatusOK, text+"metrics: /metrics, state: /readyz\n")
	})
	return s.guarded(mux)
}

// startAgents makes what receives frames of agents. An agent takes none.
func (s *Server) startAgents() {
	if s.outbox != nil {
		return
	}
	s.agents = agents.New(agents.Options{Store: s.store, Own: s.data.writer, Now: s.now, Log: s.log.With("part", "agents")})
	s.metrics.registry.MustRegister(newPartCollector(s.agents.Totals, agentReadings), agentCollector{s.agents.Agents})
	s.passAgentsOn()
}

// frames lists what the receiver of OTLP over HTTP takes beside OTLP.
func (s *Server) frames() (out []otlp.Frames) {
	if s.agents != nil {
		out = append(out, otlp.Frames{Path: packed.Path, ContentType: packed.ContentType, Sender: "tailscope agent", Answers: http.Header{forward.ToHeader: {s.data.writer}}, Receiver: s.passing})
	}
	if s.forward != nil {
		out = append(out, otlp.Frames{Path: forward.Path, ContentType: forward.ContentType, Sender: "another server of the store", Receiver: s.forward})
	}
	return out
}

// listAgents returns the agents for the API.
func (s *Server) listAgents() []api.Agent {
	var out []api.Agent
	for _, a := range s.agents.Agents() {
		oldest := math.NaN()
		if a.SpoolOldest > 0 {
			oldest = a.SpoolOldest
		}
		out = append(out, api.Agent{
			Name: a.Name, Writer: a.Writer, Version: a.Version, Heard: api.Float(unixOrZero(a.Heard)), Generation: a.Generation, Stored: a.Stored,
			SpoolFiles: a.SpoolFiles, SpoolBytes: a.SpoolBytes, WaitingSince: api.Float(oldest),
			Frames: a.Frames, Bytes: a.Bytes, Duplicates: a.Duplicates, Refused: a.Refused,
		})
	}
	return out
}

var agentReadings = []reading[agents.Totals]{
	{"tailscope_agents_requests_total", "Requests of agents.", counts, func(s agents.Totals) float64 { return float64(s.Requests) }},
	{"tailscope_agents_frames_total", "Frames of agents that are stored.", counts, func(s agents.Totals) float64 { return float64(s.Frames) }},
	{"tailscope_agents_bytes_total", "Bytes of these frames.", counts, func(s agents.Totals) float64 { return float64(s.Bytes) }},
	{"tailscope_agents_points_total", "Points of agents stored, of every view.", counts, func(s agents.Totals) float64 { return float64(s.Points) }},
	{"tailscope_agents_traces_total", "Kept traces of agents stored.", counts, func(s agents.Totals) float64 { return float64(s.Traces) }},
	{"tailscope_agents_frames_duplicate_total", "Frames that had been stored before, after a lost acknowledgement.", counts, func(s agents.Totals) float64 { return float64(s.Duplicates) }},
	{"tailscope_agents_malformed_total", "Requests refused because they are not a frame, one that was changed, or one with times too far ahead of the clock.", counts, func(s agents.Totals) float64 { return float64(s.Malformed) }},
	{"tailscope_agents_versions_total", "Requests refused because of a version of the packed form that is not known here.", counts, func(s agents.Totals) float64 { return float64(s.Versions) }},
	{"tailscope_agents_identities_total", "Requests refused because another agent has the identity.", counts, func(s agents.Totals) float64 { return float64(s.Identities) }},
	{"tailscope_agents_failures_total", "Requests that could not be stored, to be repeated.", counts, func(s agents.Totals) float64 { return float64(s.Failed) }},
}

// agentCollector collects what each agent told last. Those beyond mostAgentMetrics have none.
type agentCollector struct{ agents func() []agents.Status }

const mostAgentMetrics = 1000

var (
	agentLabels = []string{"agent", "writer"}
	agentHeard  = prometheus.NewDesc("tailscope_agents_heard_timestamp_seconds", "When the agent was last heard.", agentLabels, nil)
	agentBehind = prometheus.NewDesc("tailscope_agents_behind_generations", "Generations that the agent has put in its spool and that are not stored here.", agentLabels, nil)
	agentSpool  = prometheus.NewDesc("tailscope_agents_spool_bytes", "Bytes in the agent's spool.", agentLabels, nil)
)

func (agentCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- agentHeard
	ch <- agentBehind
	ch <- agentSpool
}

func (c agentCollector) Collect(ch chan<- prometheus.Metric) {
	list := c.agents()
	for _, a := range list[:min(len(list), mostAgentMetrics)] {
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, level, v, a.Name, a.Writer)
		}
		gauge(agentHeard, unixOrZero(a.Heard))
		gauge(agentBehind, float64(a.Generation-min(a.Stored, a.Generation)))
		gauge(agentSpool, float64(a.SpoolBytes))
	}
}
