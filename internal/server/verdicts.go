package server

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/figure"
	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/httpapi"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// openVerdicts makes what judges marks.
func (s *Server) openVerdicts() {
	s.changes = s.newFinder(s.store)
	cuts := func(ctx context.Context, of query.Selection) ([]api.Change, error) {
		return s.changes.Cuts(ctx, changes.Request{Selection: of, CohortOf: s.cohortOf()})
	}
	s.verdicts = marks.New(marks.Options{
		Around: marks.Around{Store: s.store, Changes: cuts}, Seconds: s.seconds, Now: s.now, Keep: s.cfg.Retain.Base, Logger: s.log.With("part", "verdicts"),
		CohortOf: s.cohortOf(), Final: s.sendVerdict,
		Once: func(ctx context.Context, do func(context.Context) error) (bool, error) {
			return s.once(ctx, workVerdicts, do)
		},
	})
	s.metrics.registry.MustRegister(verdictCollector{s.verdicts.Stats})
}

// newFinder returns what finds changes in a store. A search whose question's time is over goes on
// until the server stops.
func (s *Server) newFinder(st store.Store) *changes.Finder {
	f := changes.NewFinder(st)
	stop := f.GoOn(s.log.With("part", "changes"))
	s.started("searches for changes", func(context.Context) error {
		stop()
		return nil
	})
	return f
}

// startVerdicts starts the loop that judges marks, whose receivers are there. A judgement in
// progress is abandoned when the server stops, and repeated after the next start.
func (s *Server) startVerdicts() {
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

// checksMissing is how long after the last server with checks was seen verdicts wait for one.
const checksMissing = 10 * time.Minute

// sendVerdict has the final verdict of a mark told to the receivers that want verdicts, by the
// server that guards the checks of the store, if one has any.
func (s *Server) sendVerdict(ctx context.Context, m store.Mark, v *api.MarkVerdict) error {
	if s.checks == nil && (s.cluster == nil || !s.cluster.Offers(workChecks, checksMissing)) {
		return nil
	}
	of := map[string]string{"mark": m.Name}
	for name, value := range map[string]string{series.LabelService: m.Service, series.LabelEnvironment: m.Environment} {
		if value != "" {
			of[name] = value
		}
	}
	to, none := event.OK, math.NaN()
	if v.Verdict == judge.Regression || v.Verdict == judge.Mixed {
		to = event.Warning
	}
	e := event.Event{
		Incident: "mark-" + m.ID, Seq: 1, Kind: event.Verdict, Key: event.Key{Check: m.Name}, Labels: of, Host: cmp.Or(m.Service, "tailscope"), Service: m.Name,
		Time: s.now(), Opened: m.Time, Since: m.Time, From: event.OK, To: to, Value: none,
		Bands: event.Bands{Threshold: none, LowCritical: none, LowWarning: none, HighWarning: none, HighCritical: none},
		Text:  v.Sentence, User: m.User, Comment: m.Description, Link: "/marks/" + url.PathEscape(m.ID),
	}
	if s.checks == nil {
		return check.QueueVerdict(ctx, s.store, e)
	}
	return s.checks.TellVerdict(ctx, e)
}

// cohortOf returns what names the cohort of a tenant, nil without a list of tenants.
func (s *Server) cohortOf() func(tenant string) (cohort string, ok bool) {
	if s.tenants.Len() == 0 {
		return nil
	}
	return s.tenants.Cohort
}

// storyBefore is how long before the opening of an incident its cause may lie.
const storyBefore = time.Hour

// story returns by what the first page tells what made a service worse about the time at which
// an incident opened and lasts, but for what surely began after until; it is zero if nothing
// did, or if it is not known yet. The environment is empty for any.
func (s *Server) story(ctx context.Context, service, environment string, opened, until time.Time) (check.Story, error) {
	of := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, service)}
	if environment != "" {
		of = append(of, labels.MustNewMatcher(labels.MatchEqual, series.LabelEnvironment, environment))
	}
	now := s.now()
	found, err := httpapi.FindChanges(ctx, s.changes, s.verdicts, changes.Request{
		Selection: query.Selection{Matchers: of, Start: opened.Add(-storyBefore), End: now}, CohortOf: s.cohortOf(), Newest: s.seconds, Now: now,
	})
	if err != nil {
		return check.Story{}, err
	}
	return worsened(found.Changes, opened, until), nil
}

// worsened tells of the newest event among changes, which are in order of time, that made requests
// worse, was not over when an incident opened and did not surely begin after until: by the
// change which leads it.
func worsened(all []api.Change, opened, until time.Time) check.Story {
	var last *api.Change
	for i := range all {
		c := &all[i]
		switch {
		case c.Family != "" || c.Part != nil || c.Low > api.UnixTime(until):
		case c.Shape != nil && c.Shape.Kind == judge.Spike && c.Shape.End < opened.Unix():
		case c.Verdict == judge.Improvement && last != nil && c.Operation == last.Operation:
			last = nil
		case c.Verdict == judge.Regression || c.Verdict == judge.Mixed:
			if last == nil || c.Under != last.ID {
				last = c
			}
		}
	}
	if last == nil {
		return check.Story{}
	}
	if i := slices.IndexFunc(all, func(c api.Change) bool { return c.ID == last.Under }); i >= 0 {
		last = &all[i]
	}
	return check.Story{Sentence: figure.Sentence(last.Sentence), Since: last.Time.Time()}
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
