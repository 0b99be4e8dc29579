package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query"
)

// startVerdicts starts the loop that judges marks. A judgement in progress is abandoned
// when the server stops, and repeated after the next start.
func (s *Server) startVerdicts() {
	finder := changes.NewFinder(s.store)
	var cohortOf func(tenant string) (string, bool)
	if s.tenants.Len() > 0 {
		cohortOf = s.tenants.Cohort
	}
	cuts := func(ctx context.Context, of query.Selection) ([]api.Change, error) {
		return finder.Cuts(ctx, changes.Request{Selection: of, CohortOf: cohortOf})
	}
	s.verdicts = marks.New(marks.Options{
		Around: marks.Around{Store: s.store, Changes: cuts}, Seconds: s.seconds, Now: s.now, Keep: s.cfg.Retain.Base, Logger: s.log.With("part", "verdicts"),
		CohortOf: cohortOf,
		Once: func(ctx context.Context, do func(context.Context) error) (bool, error) {
			return s.once(ctx, workVerdicts, do)
		},
	})
	s.metrics.registry.MustRegister(verdictCollector{s.verdicts.Stats})
	if !s.ticks {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.verdicts.Run(ctx)
	}()
	s.started("verdicts", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// verdictCollector collects the number of marks judged, and the time it took.
type verdictCollector struct{ stats func() marks.Stats }

var (
	verdictsMade = prometheus.NewDesc("tailscope_mark_verdicts_total",
		"Verdicts of marks made, by whether they are provisional, early or final.", []string{"state"}, nil)
	verdictsFailed = prometheus.NewDesc("tailscope_mark_verdict_failures_total",
		"Verdicts of marks that could not be made and are tried again.", nil, nil)
	verdictSeconds = prometheus.NewDesc("tailscope_mark_verdict_seconds_total",
		"Time taken to judge marks.", nil, nil)
	verdictsWaiting = prometheus.NewDesc("tailscope_marks_without_final_verdict",
		"Marks whose verdict is not final.", nil, nil)
)

func (verdictCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{verdictsMade, verdictsFailed, verdictSeconds, verdictsWaiting} {
		ch <- d
	}
}

func (c verdictCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	ch <- prometheus.MustNewConstMetric(verdictsMade, counts, float64(s.Provisional), string(marks.Provisional))
	ch <- prometheus.MustNewConstMetric(verdictsMade, counts, float64(s.Early), string(marks.Early))
	ch <- prometheus.MustNewConstMetric(verdictsMade, counts, float64(s.Final), string(marks.Final))
	ch <- prometheus.MustNewConstMetric(verdictsFailed, counts, float64(s.Failures))
	ch <- prometheus.MustNewConstMetric(verdictSeconds, counts, s.Seconds)
	ch <- prometheus.MustNewConstMetric(verdictsWaiting, level, float64(s.Waiting))
}
