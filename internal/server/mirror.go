package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/config"
	"tailscope/internal/experiment/mirror"
	"tailscope/internal/experiment/mirror/live"
	"tailscope/internal/experiment/mirror/pair"
)

// Mirror is a session that runs in this process, with its last seconds.
type Mirror struct {
	*mirror.Session
	Window *live.Window
}

// Reporter sends a report of a session, and returns the changes that users want.
type Reporter func(ctx context.Context, id string, p api.SessionReport) (api.SessionReply, error)

// Hearer receives the header of each answer of a shadow; see mirror.Options.OnHeader.
type Hearer func(shadow int, header []pair.Field)

// StartMirror starts a session that sends measurements to sink and reports to report.
// heard may be nil.
func StartMirror(ctx context.Context, m config.Mirror, sink pair.Sink, report Reporter, heard Hearer, log *slog.Logger) (*Mirror, error) {
	o := MirrorOptions(m)
	o.OnHeader = heard
	o.ID = mirror.NewID(time.Now())
	w := live.New(sink, time.Now)
	o.Sink, o.Log = w, log
	o.Report = func(ctx context.Context, p api.SessionReport) (api.SessionReply, error) {
		return report(ctx, o.ID, p)
	}
	s, err := mirror.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Mirror{s, w}, nil
}

// MirrorOptions returns the options of the section mirror, not validated.
func MirrorOptions(m config.Mirror) mirror.Options {
	o := mirror.Options{
		Name: m.Name, Service: m.Service, Listen: m.Listen, Primary: m.Primary, Control: parseServers(m.Control),
		Share: m.Share, By: m.By, Methods: m.Methods, Path: m.Path, Headers: m.Headers, Unsafe: m.Unsafe,
		Operations: m.Operations, Tenant: m.Tenant,
		Host: m.Host, Rewrites: m.Rewrite, SetHeaders: m.SetHeader, DropHeaders: m.DropHeader,
		Amplify: m.Amplify, Spread: m.Spread, Using: m.Using,
		Queue: m.Queue, Buffer: m.Buffer, BodyLimit: m.BodyLimit, Timeout: m.Timeout, Connections: m.Connections, Clients: m.Clients, PrimaryTimeout: m.PrimaryTimeout,
		Compare: m.Compare, Ignore: m.Ignore, Redact: m.Redact, Allow: m.Allow, Record: m.Record, RecordBodies: m.RecordBodies,
		TCP: m.TCP, TLSCert: m.TLSCert, TLSKey: m.TLSKey, CA: m.CA, Insecure: m.Insecure, AllowSame: m.AllowSame, For: m.For,
	}
	for _, c := range m.Candidates {
		var p mirror.Pool
		// The text before the first equals sign is a name, unless it is part of an
		// address.
		if name, rest, ok := strings.Cut(c, "="); ok && !strings.ContainsAny(name, ":/,") {
			p.Name, c = strings.TrimSpace(name), rest
		}
		p.Servers = parseServers(c)
		o.Candidates = append(o.Candidates, p)
	}
	return o
}

// parseServers returns the URLs of a pool.
func parseServers(text string) []string {
	var out []string
	for u := range strings.SplitSeq(text, ",") {
		if u = strings.TrimSpace(u); u != "" {
			out = append(out, u)
		}
	}
	return out
}

// Mirror returns the session of the section mirror, or nil if nothing is mirrored.
func (s *Server) Mirror() *Mirror { return s.mirror }

// startMirror starts the session of the section mirror. It starts last: a client behind
// it needs every other part, and it must hand over its measurements before the
// aggregator stops.
func (s *Server) startMirror(ctx context.Context) error {
	if !s.cfg.Mirror.Wanted() {
		return nil
	}
	log := s.log.With("part", "mirror")
	c := s.cfg.Mirror
	c.Clients = s.connections("mirror.clients", c.Clients)
	m, err := StartMirror(context.WithoutCancel(ctx), c, newMirrorSink(s.agg, log), s.sessions.Report, nil, log)
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	s.mirror = m
	s.listeners = append(s.listeners, listener{"mirror", m.Clients})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Wait(); err != nil {
			s.fail("mirror", err)
		}
	}()
	s.started("mirror", func(ctx context.Context) error {
		err := m.Close(ctx)
		<-ended
		return err
	})
	return nil
}
