package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment/otlpsink"
	"tailscope/internal/figure"
	"tailscope/internal/server"
)

// startTo starts a session whose measurements go to another server. The session serves
// clients even if that server is away.
func (r *mirrorRun) startTo(ctx context.Context, log *slog.Logger) error {
	to := r.cfg.Mirror.To
	hc := &http.Client{Timeout: 10 * time.Second}
	r.client = &client.Client{Address: to, HTTP: hc}
	address := findOTLP(r.client, r.cfg.Mirror.ToOTLP)
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := address(asked); err != nil {
		if !errors.Is(err, client.ErrUnreachable) && asked.Err() == nil {
			return withHint(err, "--server takes the address of a server's page, such as http://127.0.0.1:7099; --set mirror.to_otlp=URL that of its OTLP over HTTP")
		}
		log.Warn("the server that takes what is measured is away; clients are served, and it is tried again", "to", to, "error", err)
	}
	sink := otlpsink.New(otlpsink.Options{Address: address, HTTP: hc, Scope: "tailscope.mirror", Log: log})
	var mu sync.Mutex
	var last error
	report := func(ctx context.Context, id string, p api.SessionReport) (api.SessionReply, error) {
		reply, err := r.client.ReportSession(ctx, id, p)
		mu.Lock()
		defer mu.Unlock()
		last = err
		return reply, err
	}
	r.trouble = func() string {
		mu.Lock()
		defer mu.Unlock()
		switch s := sink.Stats(); {
		case s.LastError != "":
			return "what is measured waits: " + s.LastError
		case last != nil:
			return "the server does not take reports: " + last.Error()
		case s.Rejected > 0:
			return fmt.Sprintf("the server refused %s points", figure.Thousands(s.Rejected))
		}
		return ""
	}
	m, err := server.StartMirror(context.WithoutCancel(ctx), r.cfg.Mirror, sink, report, r.heard, log)
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	r.mirror = m
	return nil
}

// findOTLP returns a function that returns the address at which a server accepts OTLP
// over HTTP: said if it is not empty, else the one that the server reports.
func findOTLP(c *client.Client, said string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if said != "" {
			return said, nil
		}
		st, err := c.Status(ctx)
		if err != nil {
			return "", err
		}
		return otlpAddress(c.Address, st.OTLPHTTP)
	}
}

// otlpAddress returns the address at which a server accepts OTLP over HTTP, from the
// address of its page and the one that it listens on.
func otlpAddress(to, listen string) (string, error) {
	if listen == "" {
		return "", fmt.Errorf("the server at %s takes no OTLP over HTTP: start it with --otlp-http", to)
	}
	u, err := url.Parse(withScheme(to))
	if err != nil {
		return "", fmt.Errorf("address of the server: %w", err)
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("the server at %s takes OTLP on %q: %w", to, listen, err)
	}
	ip := net.ParseIP(host)
	switch page := u.Hostname(); {
	case ip == nil || ip.IsUnspecified():
		host = page
	case ip.IsLoopback():
		if p := net.ParseIP(page); page != "localhost" && (p == nil || !p.IsLoopback()) {
			return "", fmt.Errorf("the server at %s takes OTLP on its own machine only, at %s: start it with --otlp-http :%s", to, listen, port)
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}
