package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/probe"
	"tailscope/internal/query"
)

// RunCheck runs one check once, without a server. It measures and judges as a server
// would, but without history, and sends no notifications.
func RunCheck(ctx context.Context, file *spec.File, c spec.Check) (_ *api.Check, err error) {
	dir, err := os.MkdirTemp("", "tailscope-check-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data, err := openEmptyStore(ctx, filepath.Join(dir, "store"))
	if err != nil {
		return nil, err
	}
	st := data.store
	defer func() { err = errors.Join(err, st.Close()) }()
	a, err := agg.Open(ctx, st, agg.Options{Writer: data.writer, Dir: filepath.Join(dir, "journal")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()
	prober := probe.New(probe.Options{})
	defer func() { err = errors.Join(err, prober.Close()) }()

	// It runs alone, on request only.
	c.Schedule, c.DependsOn, c.Receivers, c.Inactive = spec.Schedule{Interval: 24 * time.Hour}, nil, nil, false
	alone := spec.File{Checks: []spec.Check{c}, Calendars: file.Calendars, Profiles: file.Profiles}
	engine, err := check.Open(ctx, check.Options{
		Store: st, Agg: a, Prober: prober, Prom: query.NewPromEngine(st, query.PromOptions{}), File: alone,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		engine.Run(running)
	}()
	defer func() {
		cancel()
		<-done
	}()
	return engine.RunNow(ctx, c.Name)
}
