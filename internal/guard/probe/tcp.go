package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// maxGreeting bounds the line that a server is expected to say.
const maxGreeting = 4 << 10

func (p *Prober) tcp(ctx context.Context, s *spec.TCP) event.Reading {
	begin := time.Now()
	conn, err := p.dial(ctx, s.Address)
	if err != nil {
		return refused(err)
	}
	defer conn.Close()
	r := event.Reading{Value: time.Since(begin).Seconds()}
	r.Text = "connected in " + short(time.Since(begin))
	if s.Send != "" {
		if _, err := io.WriteString(conn, s.Send); err != nil {
			r.Level, r.Err = level(event.Critical), unreachable(ctx, s.Address, err)
			return r
		}
	}
	if s.Expect == "" {
		return r
	}
	want, err := regexp.Compile(s.Expect)
	if err != nil {
		r.Null, r.Err = true, fmt.Errorf("expect: %w", err)
		return r
	}
	// A line may end with the connection instead.
	said, err := bufio.NewReaderSize(io.LimitReader(conn, maxGreeting), maxGreeting).ReadString('\n')
	switch {
	case said == "" && err != nil:
		r.Level = level(event.Critical)
		if errors.Is(err, io.EOF) {
			err = errors.New("it closed the connection without a word")
		}
		r.Err = unreachable(ctx, s.Address, err)
	case !want.MatchString(trimEnd(said)):
		r.Level = level(event.Critical)
		r.Text = fmt.Sprintf("unexpected answer %q", line(said))
	default:
		r.Text += ": " + said
	}
	return r
}

func trimEnd(s string) string {
	for len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == '\r') {
		s = s[:len(s)-1]
	}
	return s
}

// watched is a connection that breaks off when its context does.
type watched struct {
	net.Conn
	stop func() bool
}

func (c watched) Close() error {
	c.stop()
	return c.Conn.Close()
}

// dial connects; reads and writes end with ctx.
func (p *Prober) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, unreachable(ctx, address, err)
	}
	stop := context.AfterFunc(ctx, func() {
		conn.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // it is closed already
	})
	return watched{conn, stop}, nil
}
