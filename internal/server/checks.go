package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/notify"
	"tailscope/internal/guard/probe"
	"tailscope/internal/observe/sla"
	"tailscope/internal/query"
)

// startChecks starts the receivers, for what waits in their spools, then the engine. It
// returns an error for invalid definitions: a server that only seems to guard is worse
// than none.
func (s *Server) startChecks(ctx context.Context) error {
	if len(s.cfg.Checks) == 0 {
		return nil
	}
	file, problems := ReadChecks(s.cfg.Checks)
	if len(problems) > 0 {
		return checkProblems(problems)
	}
	s.pageOf(file)
	tenants, err := s.tenantList()
	if err != nil {
		return err
	}
	log := s.log.With("part", "checks")
	s.notifier, err = notify.Open(ctx, notify.Options{Dir: filepath.Join(s.cfg.Data, "receivers"), Receivers: file.Receivers, Leapt: s.leapt, Shared: s.cluster != nil, Logger: s.log.With("part", "receivers")})
	if err != nil {
		return fmt.Errorf("checks: receivers: %w", err)
	}
	s.started("receivers", s.notifier.Close)
	prober := probe.New(probe.Options{})
	s.started("probes", func(context.Context) error { return prober.Close() })

	targets := sla.NewTargets(s.store)
	st := query.WithCohorts(s.store, tenants)
	var once func(context.Context, func(context.Context) error) (bool, error)
	if s.cluster != nil {
		once = func(ctx context.Context, do func(context.Context) error) (bool, error) {
			return s.once(ctx, workChecks, do)
		}
	}
	s.checks, err = check.Open(ctx, check.Options{
		Store:     st,
		Records:   s.store, // a directory restored from a shared store has the keys of that
		Once:      once,
		Server:    s.data.writer,
		Cache:     s.samples,
		Agg:       s.agg,
		Prom:      query.NewPromEngine(st, query.PromOptions{Logger: log, QuestionBytes: s.shares.Question}),
		Prober:    prober,
		Notifier:  s.notifier,
		Receivers: s.notifier.States,
		Story:     s.story,
		Target: func(ctx context.Context, service string) float64 {
			set, err := targets.All(ctx)
			if err != nil {
				return query.DefaultApdexT
			}
			return set.OfService(service)
		},
		File:   *file,
		Now:    s.now,
		Leapt:  s.leapt,
		Logger: log,
	})
	if err != nil {
		return fmt.Errorf("checks: %w", err)
	}
	if err := s.notifier.Reconcile(s.openIncidents); err != nil {
		return fmt.Errorf("checks: receivers: %w", err)
	}
	s.receivers = file.Receivers
	s.metrics.registry.MustRegister(checkCollector{s.checks.Stats, s.notifier.States})
	if s.ticks {
		running, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.checks.Run(running)
		}()
		s.started("checks", func(context.Context) error {
			cancel()
			<-done
			return nil
		})
	}
	log.Info("checks are guarded", "definitions", len(file.Checks), "receivers", len(file.Receivers), "files", file.Files)
	return nil
}

// openIncidents returns the incidents that receivers may still be notified of.
func (s *Server) openIncidents() (map[string]bool, error) {
	r, err := s.checks.Incidents(context.Background(), check.IncidentsRequest{Kind: "check", Open: true, Limit: math.MaxInt})
	if err != nil {
		return nil, err
	}
	open := make(map[string]bool, len(r.Incidents))
	for i := range r.Incidents {
		open[r.Incidents[i].ID] = true
	}
	return open, nil
}

// pageOf fills in the page's address from the server's own settings.
func (s *Server) pageOf(f *spec.File) { f.Page = cmp.Or(f.Page, s.cfg.PageURL) }

// Reload reads the files of checks again. Invalid definitions change nothing: the old
// ones stay, and the page and the API report the error.
func (s *Server) Reload(ctx context.Context) error {
	if s.checks == nil {
		return nil
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.reload(ctx); err != nil {
		s.checks.SetProblem(err.Error())
		s.log.Error("checks not reloaded: the old ones stay in use", "err", err)
		return err
	}
	s.checks.SetProblem("")
	return nil
}

func (s *Server) reload(ctx context.Context) error {
	file, problems := ReadChecks(s.cfg.Checks)
	if len(problems) > 0 {
		return checkProblems(problems)
	}
	s.pageOf(file)
	// Both sets of receivers exist for a while: a check that goes away notifies its old
	// ones, one that is new its new ones.
	both := map[string]spec.Receiver{}
	for name, r := range s.receivers {
		both[name] = r
	}
	for name, r := range file.Receivers {
		both[name] = r
	}
	if err := s.notifier.Replace(both); err != nil {
		return fmt.Errorf("checks: receivers: %w", err)
	}
	if err := s.checks.Replace(ctx, *file); err != nil {
		return errors.Join(fmt.Errorf("checks: %w", err), s.notifier.Replace(s.receivers))
	}
	s.receivers = file.Receivers
	if err := s.notifier.Replace(file.Receivers); err != nil {
		return fmt.Errorf("checks: receivers: %w", err)
	}
	s.log.Info("checks reloaded", "definitions", len(file.Checks), "receivers", len(file.Receivers))
	return nil
}
