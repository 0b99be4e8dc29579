package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/httpapi"
	"tailscope/internal/observe/otlp"
	"tailscope/internal/store"
	"tailscope/ui"
)

// closeAggregator bounds the time for storing what is journalled when the server stops.
const closeAggregator = 3 * time.Second

func (s *Server) openStore(ctx context.Context) error {
	if err := ownerOnly(s.cfg.Data); err != nil {
		return err
	}
	d, f, err := s.openDataStore(ctx)
	s.damageFile = f
	if err != nil {
		return err
	}
	if s.cfg.Agent.To != "" {
		if err := s.openOutbox(ctx, d); err != nil {
			return errors.Join(err, d.store.Close())
		}
	}
	cached := history.CacheOptions{Bytes: s.shares.Samples, Samples: s.cfg.MaxSamples, Age: s.cfg.MaxSampleAge}
	if d.shared {
		cached.Refresh = 30 * time.Second // as long as another server may take to guard the checks
	}
	s.samples = history.NewCache(d.store, cached)
	s.data, s.store = d, s.samples
	s.metrics.registry.MustRegister(d.readings, newPartCollector(s.samples.Bytes, sampleReadings))
	s.health.watch(spaceProblems(d.space))
	s.started("store", func(context.Context) error { return s.store.Close() })
	s.startSending()
	s.own, err = store.OwnRecords(ctx, s.store, d.writer)
	return err
}

func (s *Server) openAggregator(ctx context.Context) error {
	s.startSeconds()
	a, err := agg.Open(ctx, s.store, agg.Options{
		Dir:           filepath.Join(s.cfg.Data, "journal"),
		Writer:        s.data.writer,
		Shared:        s.data.shared,
		Servers:       s.countAlive,
		FlushInterval: s.cfg.Flush,
		SyncInterval:  s.cfg.Sync,
		MemoryBytes:   s.shares.OpenSlots,
		MaxTenants:    s.cfg.MaxTenants,
		MaxOperations: s.cfg.MaxOperations,
		MaxFamilies:   s.cfg.MaxFamilies,
		CloseTimeout:  closeAggregator,
		Remember:      s.remember,
		Retention:     s.cfg.Retain.Hour, // points older than a tier go into the next
		Now:           s.now,
		Leapt:         s.leapt,
		Seconds:       s.seconds,
		Logger:        s.log.With("part", "aggregator"),
	})
	if err != nil {
		return fmt.Errorf("open the journal in %s: %w", s.cfg.Data, err)
	}
	s.agg = a
	// The last flush runs even after ctx ends: the journal would keep what was accepted,
	// but nobody could query it until a restart.
	s.started("aggregator", func(ctx context.Context) error { return a.Close(context.WithoutCancel(ctx)) })
	s.metrics.registry.MustRegister(newPartCollector(a.Stats, aggregatorReadings))
	s.health.watch(storingProblems(a.FlushError))
	s.health.watch(damageProblems(s.damage))
	s.health.watch(s.memoryProblems)
	s.metrics.registry.MustRegister(healthCollector{&s.health, s.damage})
	return nil
}

// startListeners serves questions first, then data.
func (s *Server) startListeners(ctx context.Context) error {
	logs, err := s.openAccessLogs(ctx)
	if err != nil {
		return err
	}
	s.sweepBodies()
	s.startAgents()
	if s.outbox != nil {
		s.serveHTTP("status", s.http, s.agentRoutes())
	} else {
		s.serveHTTP("page and API", s.http, s.questionRoutes(logs))
	}

	receiver, err := otlp.Start(ctx, otlp.Options{
		Sink:         otlp.Into(s.agg),
		Frames:       s.frames(),
		Assembler:    s.assembler(),
		GRPCListener: s.otlpGRPC,
		HTTPListener: s.otlpHTTP,
		TenantKeys:   s.cfg.TenantKeys,
		ExtraLabels:  s.cfg.ExtraLabels,
		LongestSpan:  s.cfg.LongestSpan,
		Routes:       s.store,
		Shared:       s.data.shared,
		// A protocol has half of the share, and one request half of that.
		MaxRequestBytes:  int(min(s.cfg.MaxRequest, s.shares.Ingest/4)),
		MaxInFlightBytes: s.shares.Ingest,
		TargetBytes:      s.shares.Targets,
		Log:              s.log.With("part", "otlp"),
		Names:            s.names(),
		Origins:          s.cfg.OTLPOrigins,
	})
	if err != nil {
		return err
	}
	s.otlp = receiver
	stopped := make(chan struct{})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		select {
		case err := <-receiver.Failed():
			s.fail("ingest", err)
		case <-stopped:
		}
	}()
	s.started("ingest", func(ctx context.Context) error {
		err := receiver.Shutdown(ctx)
		close(stopped)
		<-forwarded
		return err
	})
	s.metrics.registry.MustRegister(ingestCollector{receiver.Stats})
	return s.startAccessLogs(ctx, logs)
}

// questionRoutes returns the handler of the main address of a server.
func (s *Server) questionRoutes(logs *accessLogs) http.Handler {
	fresh := s.agg.Fresh(s.store)
	questions := httpapi.New(httpapi.Options{
		Store:     fresh,
		Changes:   s.newFinder(fresh),
		Now:       s.now,
		Logger:    s.log.With("part", "api"),
		TraceLink: s.cfg.Traces.Link,
		TraceKept: s.cfg.Traces.Keep,
		Verdicts:  s.verdicts,
		Seconds:   s.seconds,
		Sessions:  s.sessions,
		Checks:    s.checks,
		Status: api.StatusResponse{
			Version: s.version, OTLPGRPC: s.OTLPGRPC(), OTLPHTTP: s.OTLPHTTP(),
			FlushSeconds: 1, // what was accepted is visible before it is flushed
		},
		Problems:          s.health.problems,
		Agents:            s.listAgents,
		Cluster:           s.describeCluster,
		Acts:              s.acts,
		AcknowledgeDamage: s.acknowledgeDamage,
		TenantList:        s.tenants,
		QuestionBytes:     s.shares.Question,
		Memory:            s.questions,
	})
	if !ui.Built() {
		s.log.Warn("this binary was built without the page: make build makes one with it; the API is complete")
	}
	return s.routes(questions, logs.imports, ui.Handler())
}

// sweepBodies starts the loop that cuts off request bodies that are too slow.
func (s *Server) sweepBodies() {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.arriving.Run(end)
	}()
	s.started("bodies", func(context.Context) error {
		close(end)
		<-ended
		return nil
	})
}
