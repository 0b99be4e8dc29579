package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/experiment/logbook"
)

// startSessions opens the log book of sessions, and starts the loop that keeps its
// headlines up to date.
func (s *Server) startSessions() {
	s.sessions = logbook.New(logbook.Options{Store: s.store, Now: s.now, Logger: s.log.With("part", "sessions")})
	s.metrics.registry.MustRegister(sessionCollector{s.sessions.Stats})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.sessions.Run(ctx)
	}()
	s.started("sessions", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// sessionCollector collects the reports of sessions.
type sessionCollector struct{ stats func() logbook.Stats }

var (
	sessionReports = prometheus.NewDesc("tailscope_session_reports_total",
		"Reports of sessions, by whether they were taken.", []string{"outcome"}, nil)
	sessionChanges = prometheus.NewDesc("tailscope_session_changes_total",
		"Changes of running sessions that users asked for.", nil, nil)
	sessionVerdicts = prometheus.NewDesc("tailscope_session_verdicts_total",
		"Headlines of sessions made, by whether that worked.", []string{"outcome"}, nil)
	sessionsKept = prometheus.NewDesc("tailscope_sessions",
		"Sessions that are kept, by whether they run.", []string{"state"}, nil)
	sessionBytes = prometheus.NewDesc("tailscope_session_bytes",
		"Bytes of the reports of sessions that are kept.", nil, nil)
)

func (sessionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionReports, sessionChanges, sessionVerdicts, sessionsKept, sessionBytes} {
		ch <- d
	}
}

func (c sessionCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	ch <- prometheus.MustNewConstMetric(sessionReports, counts, float64(s.Reports-s.Refused), "taken")
	ch <- prometheus.MustNewConstMetric(sessionReports, counts, float64(s.Refused), "refused")
	ch <- prometheus.MustNewConstMetric(sessionChanges, counts, float64(s.Changes))
	ch <- prometheus.MustNewConstMetric(sessionVerdicts, counts, float64(s.Verdicts), "made")
	ch <- prometheus.MustNewConstMetric(sessionVerdicts, counts, float64(s.Failures), "failed")
	ch <- prometheus.MustNewConstMetric(sessionsKept, level, float64(s.Running), "running")
	ch <- prometheus.MustNewConstMetric(sessionsKept, level, float64(s.Kept-s.Running), "over")
	ch <- prometheus.MustNewConstMetric(sessionBytes, level, float64(s.Bytes))
}
