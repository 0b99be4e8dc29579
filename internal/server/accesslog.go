package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/config"
	"tailscope/internal/observe/accesslog"
)

// accessLogs owns the ingestion of access logs, imported and followed.
type accessLogs struct {
	in      *accesslog.Ingester
	imports *accesslog.ImportHandler
	watches []accesslog.Watch
}

// openAccessLogs returns an error that names what is wrong with the configured logs.
func (s *Server) openAccessLogs(ctx context.Context) (*accessLogs, error) {
	o := accesslog.Options{
		Sink: accesslog.Into(s.agg), State: accesslog.In(s.own), Retention: s.cfg.Retain.Hour, Leapt: s.leapt, Longest: s.cfg.LongestSpan, Logger: s.log.With("part", "access logs"),
	}
	if s.traces != nil {
		o.Traces = s.traces
	}
	if s.data.shared {
		o.Routes = s.store
	}
	l := &accessLogs{in: accesslog.New(o)}
	l.imports = accesslog.NewImportHandler(l.in)
	var errs []error
	for i, c := range s.cfg.AccessLogs {
		w, err := parseWatch(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("access_logs[%d]: %w", i, err))
		}
		l.watches = append(l.watches, w)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	s.metrics.registry.MustRegister(accessLogCollector{l.in.Stats, l.imports.Stats})
	return l, nil
}

func parseWatch(c config.AccessLog) (accesslog.Watch, error) {
	src, err := accesslog.Config{
		Format: c.Format, Service: c.Service, Tenant: c.Tenant, Version: c.Version, Variant: c.Variant, Routes: c.Routes,
	}.Compile()
	return accesslog.Watch{Path: c.Path, Source: src, Whole: c.Whole}, err
}

// startAccessLogs follows the configured logs. It starts after the API, so that imports
// end before the API closes.
func (s *Server) startAccessLogs(ctx context.Context, l *accessLogs) error {
	s.started("imports", func(context.Context) error {
		l.imports.Close()
		return nil
	})
	if len(l.watches) == 0 {
		return nil
	}
	f, err := accesslog.Follow(ctx, accesslog.FollowOptions{Ingester: l.in, Watches: l.watches, Logger: s.log.With("part", "access logs")})
	if err != nil {
		return fmt.Errorf("follow access logs: %w", err)
	}
	s.started("access logs", func(context.Context) error {
		f.Close()
		return nil
	})
	s.metrics.registry.MustRegister(newPartCollector(f.Stats, followReadings))
	return nil
}

var followReadings = []reading[accesslog.FollowStats]{
	{"tailscope_access_log_files", "Access logs being read.", level, func(s accesslog.FollowStats) float64 { return float64(s.Files) }},
	{"tailscope_access_log_lag_bytes", "Bytes of followed access logs that are not read yet.", level, func(s accesslog.FollowStats) float64 { return float64(s.LagBytes) }},
	{"tailscope_access_log_rotations_total", "Followed access logs that were renamed.", counts, func(s accesslog.FollowStats) float64 { return float64(s.Rotations) }},
	{"tailscope_access_log_truncations_total", "Followed access logs that were emptied.", counts, func(s accesslog.FollowStats) float64 { return float64(s.Truncations) }},
	{"tailscope_access_log_failures_total", "Failures to read an access log, which were or will be tried again.", counts, func(s accesslog.FollowStats) float64 { return float64(s.Failures) }},
	{"tailscope_access_log_lost_files_total", "Rotated access logs that were gone or packed before they were read to their end.", counts, func(s accesslog.FollowStats) float64 { return float64(s.Lost) }},
}

// accessLogCollector collects the results of lines, imported and followed, and of
// imports.
type accessLogCollector struct {
	stats   func() accesslog.Stats
	imports func() accesslog.ImportStats
}

var (
	accessLogLines    = prometheus.NewDesc("tailscope_access_log_lines_total", "Lines of access logs that became requests.", nil, nil)
	accessLogBytes    = prometheus.NewDesc("tailscope_access_log_bytes_total", "Bytes of access logs read.", nil, nil)
	accessLogAttempts = prometheus.NewDesc("tailscope_access_log_upstream_calls_total", "Calls of upstreams that the lines tell of.", nil, nil)
	accessLogRefused  = prometheus.NewDesc("tailscope_access_log_refused_total", "Lines of access logs that were not used, by reason.", []string{"reason"}, nil)
	accessLogQueues   = prometheus.NewDesc("tailscope_access_log_queue_times_implausible_total", "Requests whose X-Request-Start or X-Queue-Start was more than a day off and left out.", nil, nil)
	accessLogWaits    = prometheus.NewDesc("tailscope_access_log_overloads_total", "Times reading waited because memory or the journal was at its bound.", nil, nil)
	importsRefused    = prometheus.NewDesc("tailscope_access_log_imports_refused_total", "Imports of access logs that were refused or broken off: they came too slowly (slow), or too many came at a time (busy).", []string{"reason"}, nil)
	importsArriving   = prometheus.NewDesc("tailscope_access_log_arriving_imports", "Imports of access logs of which the beginning is not there yet.", nil, nil)
)

func (c accessLogCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{accessLogLines, accessLogBytes, accessLogAttempts, accessLogRefused, accessLogQueues, accessLogWaits, importsRefused, importsArriving} {
		ch <- d
	}
}

func (c accessLogCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	add := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, counts, float64(v), labels...)
	}
	add(accessLogLines, s.Accepted)
	add(accessLogBytes, s.Bytes)
	add(accessLogAttempts, s.Attempts)
	add(accessLogWaits, s.Overloads)
	add(accessLogQueues, s.QueueImplausible)
	for _, r := range s.Refused {
		add(accessLogRefused, r.Count, r.Reason)
	}
	d := c.imports()
	add(importsRefused, d.Slow, "slow")
	add(importsRefused, d.Busy, "busy")
	ch <- prometheus.MustNewConstMetric(importsArriving, level, float64(d.Arriving))
}
