package server

import (
	"context"
	"fmt"
	"path/filepath"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/httpapi"
	"tailscope/internal/ingest/otlp"
	"tailscope/internal/store/pebblestore"
	"tailscope/ui"
)

func (s *Server) openStore(ctx context.Context) error {
	r := s.cfg.Retain
	o := pebblestore.Options{
		Dir:         filepath.Join(s.cfg.Data, "store"),
		SampleAge:   s.cfg.MaxSampleAge,
		SampleCount: s.cfg.MaxSamples,
		MaxBytes:    r.MaxBytes,
		TraceAge:    s.cfg.Traces.Keep,
		TraceBytes:  s.cfg.Traces.MaxBytes,
		Logger:      s.log.With("part", "store"),
	}
	o.Retention[0], o.Retention[1], o.Retention[2], o.Retention[3] = r.Base, r.Minute, r.TenMin, r.Hour
	st, err := pebblestore.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("open the store in %s: %w", s.cfg.Data, err)
	}
	s.store = st
	s.metrics.registry.MustRegister(newPartCollector(st.Stats, storeReadings))
	s.started("store", func(context.Context) error { return st.Close() })
	return nil
}

func (s *Server) openAggregator(ctx context.Context) error {
	a, err := agg.Open(ctx, s.store, agg.Options{
		Dir:           filepath.Join(s.cfg.Data, "journal"),
		FlushInterval: s.cfg.Flush,
		SyncInterval:  s.cfg.Sync,
		MemoryBytes:   s.cfg.Memory,
		MaxTenants:    s.cfg.MaxTenants,
		MaxOperations: s.cfg.MaxOperations,
		Retention:     s.cfg.Retain.Hour, // what is older than a tier goes into the next
		Logger:        s.log.With("part", "aggregator"),
	})
	if err != nil {
		return fmt.Errorf("open the journal in %s: %w", s.cfg.Data, err)
	}
	s.agg = a
	// What was accepted is flushed even when the caller's patience has ended:
	// the journal would keep it, but nobody could ask for it until a restart.
	s.started("aggregator", func(ctx context.Context) error { return a.Close(context.WithoutCancel(ctx)) })
	s.metrics.registry.MustRegister(newPartCollector(a.Stats, aggregatorReadings))
	return nil
}

// startDoors lets questions in, then data.
func (s *Server) startDoors(ctx context.Context) error {
	logs, err := s.openAccessLogs(ctx)
	if err != nil {
		return err
	}
	tenants, err := s.tenantList()
	if err != nil {
		return err
	}
	questions := httpapi.New(httpapi.Options{
		Store:       s.store,
		Logger:      s.log.With("part", "api"),
		TraceLink:   s.cfg.Traces.Link,
		TraceKept:   s.cfg.Traces.Keep,
		Verdicts:    s.verdicts,
		Experiments: s.experiments,
		Checks:      s.checks,
		Status: api.StatusResponse{
			Version: s.version, OTLPGRPC: s.OTLPGRPC(), OTLPHTTP: s.OTLPHTTP(),
			FlushSeconds: api.Float(s.cfg.Flush.Seconds() + 1),
		},
		TenantList: tenants,
	})
	if !ui.Built() {
		s.log.Warn("this binary was built without the page: make build makes one with it; the API is complete")
	}
	s.serveHTTP("page and API", s.http, s.routes(questions, logs.door, ui.Handler()))

	door, err := otlp.Start(ctx, otlp.Options{
		Sink:            otlp.Into(s.agg),
		Assembler:       s.assembler(),
		GRPCListener:    s.otlpGRPC,
		HTTPListener:    s.otlpHTTP,
		TenantKeys:      s.cfg.TenantKeys,
		ExtraLabels:     s.cfg.ExtraLabels,
		MaxRequestBytes: int(s.cfg.MaxRequest),
		Log:             s.log.With("part", "otlp"),
	})
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		select {
		case err := <-door.Failed():
			s.fail("ingest", err)
		case <-stopped:
		}
	}()
	s.started("ingest", func(ctx context.Context) error {
		err := door.Shutdown(ctx)
		close(stopped)
		<-forwarded
		return err
	})
	s.metrics.registry.MustRegister(ingestCollector{door.Stats})
	return s.startAccessLogs(ctx, logs)
}
