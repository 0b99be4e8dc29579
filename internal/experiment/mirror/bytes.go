package mirror

import (
	"context"
	"fmt"
	"net"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/tcp"
)

// assembleTCP makes the parts of a session in tcp mode. If it fails, it closes
// everything except l.
func (s *Session) assembleTCP(ctx context.Context, l net.Listener) error {
	o := &s.o
	if err := thisMachine().checkServers(ctx, o, l.Addr()); err != nil {
		return err
	}
	to, err := parseTCPServer(o.Primary)
	if err != nil {
		return fmt.Errorf("primary: %w", err)
	}
	dialing, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(dialing, "tcp", to.addr())
	if err != nil {
		return fmt.Errorf("primary: %s is not reached: %w: start it, or correct its address", o.Primary, err)
	}
	c.Close()
	s.boundConnections()
	options := tcp.Options{
		Primary: to.addr(), Service: o.Service, Experiment: o.ID, Sink: o.Sink, Share: o.Share,
		Buffer: o.Buffer, Connections: o.Connections, Timeout: o.Timeout, Log: s.log,
	}
	for _, p := range o.shadows() {
		t := tcp.Shadow{Name: p.Name, Role: p.role, Using: p.using}
		for _, text := range p.Servers {
			at, err := parseTCPServer(text)
			if err != nil {
				return err
			}
			t.Servers = append(t.Servers, at.addr())
		}
		options.Shadows = append(options.Shadows, t)
	}
	if s.tcp, err = tcp.New(options); err != nil {
		return err
	}
	s.tcp.SetPaused(o.Paused)
	s.away = s.probe(ctx)
	s.listener = l
	return nil
}

// tcpState returns State in tcp mode without the settings.
func (s *Session) tcpState() api.MirrorState {
	stats := s.tcp.Stats()
	return api.MirrorState{
		Mode: "tcp", Listen: s.addr.String(), Primary: s.tcp.Primary(), Shadows: s.tcp.Shadows(),
		Requests: stats.Requests, Skipped: stats.Skipped, Failed: stats.Failed,
	}
}
