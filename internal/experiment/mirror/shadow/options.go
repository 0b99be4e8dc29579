package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// Options configures a Sender: its servers and its bounds. A field's zero value is
// its default.
type Options struct {
	Name    string    // label variant, and the mark on copies
	Role    pair.Role // Control or Candidate
	Session string    // the session's id, in the mark on copies
	// Servers are the pool: URLs of http, https (HTTP/2 if the server agrees to
	// it) or h2c, with a host and nothing behind it. At least one.
	Servers []string
	// Using is the number of servers in use at first, from the front of Servers;
	// default all.
	Using int

	// Connections bounds the connections to one server, default 256. Streams bounds
	// the requests at a time on each that speaks HTTP/2, default 64.
	Connections int
	Streams     int
	// Queue bounds the copies that wait for a connection or for their time, default
	// 4096. Buffer bounds the bytes held for copies not yet sent, default 64 MiB.
	Queue  int
	Buffer int64
	// BodyLimit bounds a request's body, default 16 MiB. AnswerLimit bounds the bytes
	// read of an answer's body, default 256 MiB.
	BodyLimit   int64
	AnswerLimit int64
	// KeepLimit bounds the part of an answer's body that is kept with a leg, default
	// 256 KiB.
	KeepLimit int
	// Timeout bounds the time from when a copy is sent to the end of its answer, and
	// before that its time in the queue. Default 30 s.
	Timeout time.Duration
	// Connect bounds the time to connect, default 5 s. Idle bounds the time that a
	// connection is kept unused, default 60 s.
	Connect time.Duration
	Idle    time.Duration

	// Amplify is the mean number of copies of each request: 2.5 is two, and a third
	// of every other request. Default 1; see SetAmplify. Spread is the time over
	// which the copies of one request are spread.
	Amplify float64
	Spread  time.Duration

	Rewrite Rewrite
	// OnHeader is called with the header of each answer as soon as it has arrived,
	// under locks: it must not wait. Default none.
	OnHeader func(header []pair.Field)
	// TLS is the configuration for https; default the machine's trusted roots.
	TLS *tls.Config
	// Dial makes a connection; default net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock of legs and time limits, in Unix nanoseconds. It must not go
	// back. Default pair.Steady.
	Now func() int64
}

// ensureDefaults sets the defaults and reports every field that is wrong.
func (o *Options) ensureDefaults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Servers) == 0 {
		bad("no server: give at least one URL")
	}
	for _, s := range o.Servers {
		if _, err := parseServer(s); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Using < 0 || o.Using > len(o.Servers) {
		bad("using %d of %d servers: give 1 to %d", o.Using, len(o.Servers), len(o.Servers))
	}
	if o.Using == 0 {
		o.Using = len(o.Servers)
	}
	if err := checkAmplify(o.Amplify); err != nil {
		errs = append(errs, err)
	}
	if o.Amplify == 0 {
		o.Amplify = 1
	}
	orDefault(&o.Connections, 256)
	orDefault(&o.Streams, 64)
	orDefault(&o.Queue, 4096)
	orDefault(&o.Buffer, 64<<20)
	orDefault(&o.BodyLimit, 16<<20)
	orDefault(&o.AnswerLimit, 256<<20)
	orDefault(&o.KeepLimit, 256<<10)
	orDefault(&o.Timeout, 30*time.Second)
	orDefault(&o.Connect, 5*time.Second)
	orDefault(&o.Idle, time.Minute)
	if o.Connections < 0 || o.Streams < 0 || o.Queue < 0 || o.Buffer < 0 || o.BodyLimit < 0 ||
		o.AnswerLimit < 0 || o.KeepLimit < 0 || o.Timeout < 0 || o.Connect < 0 || o.Idle < 0 || o.Spread < 0 {
		bad("a bound is negative: give 0 for its default")
	}
	if o.TLS == nil {
		o.TLS = &tls.Config{}
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Now == nil {
		o.Now = pair.Steady
	}
	return errors.Join(errs...)
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// target is a server's URL, parsed.
type target struct {
	url, scheme   string
	address, host string // host:port to dial; the name in a certificate
}

func parseServer(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, fmt.Errorf("server %q: %w", raw, err)
	}
	port := u.Port()
	switch u.Scheme {
	case "http", "h2c":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
	default:
		return target{}, fmt.Errorf("server %q: give a URL with http, https or h2c", raw)
	}
	if u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return target{}, fmt.Errorf("server %q: give a scheme, a host and perhaps a port, and nothing else", raw)
	}
	return target{raw, u.Scheme, net.JoinHostPort(u.Hostname(), port), u.Hostname()}, nil
}

// maxAmplify bounds the copies of one request, as pair.Ledger does.
const maxAmplify = 255

func checkAmplify(f float64) error {
	if !(f >= 0 && f <= maxAmplify) {
		return fmt.Errorf("amplify %v: give 0 to %d", f, maxAmplify)
	}
	return nil
}
