package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/experiment/logbook"
)

// startExperiments makes the registry of what is tried, and owns the loop that
// keeps its headlines up to date.
func (s *Server) startExperiments() {
	s.experiments = logbook.New(logbook.Options{Store: s.store, Logger: s.log.With("part", "experiments")})
	s.metrics.registry.MustRegister(experimentCollector{s.experiments.Stats})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.experiments.Run(ctx)
	}()
	s.started("experiments", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// experimentCollector tells what is reported of experiments.
type experimentCollector struct{ stats func() logbook.Stats }

var (
	experimentReports = prometheus.NewDesc("tailscope_experiment_reports_total",
		"Reports of experiments, by whether they were taken.", []string{"outcome"}, nil)
	experimentChanges = prometheus.NewDesc("tailscope_experiment_changes_total",
		"Changes of running experiments that users asked for.", nil, nil)
	experimentVerdicts = prometheus.NewDesc("tailscope_experiment_verdicts_total",
		"Headlines of experiments made, by whether that worked.", []string{"outcome"}, nil)
	experimentsKept = prometheus.NewDesc("tailscope_experiments",
		"Experiments that are kept, by whether they run.", []string{"state"}, nil)
	experimentBytes = prometheus.NewDesc("tailscope_experiment_bytes",
		"Bytes of the reports of experiments that are kept.", nil, nil)
)

func (experimentCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{experimentReports, experimentChanges, experimentVerdicts, experimentsKept, experimentBytes} {
		ch <- d
	}
}

func (c experimentCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	ch <- prometheus.MustNewConstMetric(experimentReports, counts, float64(s.Reports-s.Refused), "taken")
	ch <- prometheus.MustNewConstMetric(experimentReports, counts, float64(s.Refused), "refused")
	ch <- prometheus.MustNewConstMetric(experimentChanges, counts, float64(s.Changes))
	ch <- prometheus.MustNewConstMetric(experimentVerdicts, counts, float64(s.Verdicts), "made")
	ch <- prometheus.MustNewConstMetric(experimentVerdicts, counts, float64(s.Failures), "failed")
	ch <- prometheus.MustNewConstMetric(experimentsKept, level, float64(s.Running), "running")
	ch <- prometheus.MustNewConstMetric(experimentsKept, level, float64(s.Kept-s.Running), "over")
	ch <- prometheus.MustNewConstMetric(experimentBytes, level, float64(s.Bytes))
}
