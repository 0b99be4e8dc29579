package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"
)

// Run sends load until the plan, the requests, Options.Duration or ctx end.
//
// It connects once before it begins, so that an unreachable target is an error before
// any load is sent. At Options.Duration it sends what is due and finds a connection free,
// counts what waits as unsent, and gives what is under way Options.Drain. Where a plan
// without a duration ends, requests that wait for a connection are still sent for as long
// as Options.Drain lasts. When ctx is done Run sends nothing more, counts what waits as unsent, cuts
// off what is under way, and returns. It returns when the last request has been
// accounted for. Neither the end of ctx nor failed requests are errors.
func Run(ctx context.Context, o Options) (Account, error) {
	if err := o.complete(); err != nil {
		return Account{}, err
	}
	if err := o.reach(ctx); err != nil {
		return Account{}, err
	}
	if o.Loops == 0 {
		loops, err := o.chooseLoops()
		if err != nil {
			return Account{}, err
		}
		o.Loops = loops
	}
	switch {
	case o.Protocol == HTTP2:
		return runHTTP2(ctx, o)
	case o.TLS != nil || !events:
		return runStreams(ctx, o)
	default:
		return runEvents(ctx, o)
	}
}

// complete checks the options and sets the defaults.
func (o *Options) complete() error {
	switch {
	case o.Source == nil || o.Recorder == nil:
		return errors.New("a run of load needs a source of requests and a recorder")
	case o.Recorded && o.Pacer != nil:
		return errors.New("a run of load is recorded or has a pacer, not both")
	case o.Protocol > HTTP2:
		return fmt.Errorf("unknown protocol %d", o.Protocol)
	case min(o.Connections, o.Loops, o.Waiting, o.BodyLimit) < 0 || min(o.Duration, o.Timeout, o.Drain) < 0:
		return errors.New("the options of a run of load must not be negative")
	}
	if o.Connections == 0 {
		o.Connections = 64
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Drain == 0 {
		o.Drain = o.Timeout
	}
	if o.Waiting == 0 {
		o.Waiting = 1_000_000
	}
	if o.BodyLimit == 0 {
		o.BodyLimit = 1 << 20
	}
	o.Loops = min(o.Loops, o.Connections)
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("address %q: %w (hint: host:port, like 127.0.0.1:8080)", o.Address, err)
	}
	if o.Host == "" {
		o.Host = o.Address
	}
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		if o.TLS.ServerName == "" {
			o.TLS.ServerName = host
		}
		if o.TLS.NextProtos == nil {
			o.TLS.NextProtos = []string{"http/1.1"}
			if o.Protocol == HTTP2 {
				o.TLS.NextProtos = []string{"h2"}
			}
		}
	}
	return nil
}

// reach connects once and closes the connection. It sets Address to the one that
// answered, so that a name is looked up once and never while load is sent.
func (o *Options) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(o.Timeout, 10*time.Second))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("target %s cannot be reached: %w (hint: see that it runs and listens there: curl -v %s://%s/)", o.Address, err, o.scheme(), o.Host)
	}
	defer conn.Close()
	address := conn.RemoteAddr().String()
	if o.TLS != nil {
		secure := tls.Client(conn, o.TLS)
		err := secure.HandshakeContext(ctx)
		if o.Protocol == HTTP2 && alerted(err) && strings.HasSuffix(err.Error(), "no application protocol") {
			return fmt.Errorf("target %s does not agree to HTTP/2 (hint: switch it on there, or send HTTP/1.1)", o.Address)
		}
		if unknown := new(tls.CertificateVerificationError); errors.As(err, &unknown) {
			return fmt.Errorf("target %s: TLS: %w (hint: trust it by --set tls.ca=FILE, or take any certificate with --set tls.insecure=true; in a scenario tls: {ca: FILE} or {insecure: true})", o.Address, unknown)
		}
		if err != nil {
			return fmt.Errorf("target %s: TLS handshake: %w (hint: see what it says to openssl s_client -connect %[1]s)", o.Address, err)
		}
		if p := secure.ConnectionState().NegotiatedProtocol; o.Protocol == HTTP2 && p != "h2" {
			return fmt.Errorf("target %s does not agree to HTTP/2 (hint: switch it on there, or send HTTP/1.1)", o.Address)
		}
	}
	o.Address = address
	return nil
}

func (o *Options) begun(at time.Time) {
	if o.Begun != nil {
		o.Begun(at)
	}
}

func (o *Options) scheme() string {
	if o.TLS != nil {
		return "https"
	}
	return "http"
}

// loopRate is the highest rate for one loop in requests per second, well below what
// it can send.
const loopRate = 30_000

// chooseLoops returns as many loops as the schedule's highest rate needs. For a
// closed loop that is half of the cores: the other half is for a target on the same
// machine.
func (o *Options) chooseLoops() (int, error) {
	most := max(1, min(runtime.GOMAXPROCS(0)/2, o.Connections))
	if most == 1 || o.Recorded {
		return 1, nil
	}
	if o.Pacer == nil {
		return most, nil
	}
	p, err := o.Pacer(0, 1)
	if err != nil {
		return 0, err
	}
	const window = 1000 // requests
	var fastest float64
	var began time.Duration
	for n := range 1_000_000 {
		due, _, ok := p.Next()
		if !ok {
			break
		}
		if n%window == 0 {
			if n > 0 && due > began {
				fastest = max(fastest, window/(due-began).Seconds())
			}
			began = due
		}
	}
	return max(1, min(most, int(fastest/loopRate)+1)), nil
}
