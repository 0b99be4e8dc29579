package mirror

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/judge/legs"
)

// Validate reports every problem at once: the option's name, what is wrong, and what
// to write instead. It resolves no names and opens no connections; Start does.
func (o *Options) Validate() error {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{option}, args...)...))
	}

	if o.ID != "" && !validID.MatchString(o.ID) {
		bad("id", "%q is not a name of a session: use 1 to 64 of a-z, 0-9 and -", o.ID)
	}
	if o.Service == "" || len(o.Service) > maxNameBytes {
		bad("service", "%q is not a label: give the name that the session's series are to have, such as mirror", o.Service)
	}
	if len(o.Name) > maxNameBytes {
		bad("name", "it has %d bytes: at most %d", len(o.Name), maxNameBytes)
	}
	if err := checkListen(o.Listen); err != nil {
		bad("listen", "%w", err)
	}
	o.validateServers(bad)

	within := func(option string, v, low, high float64, more string) {
		if math.IsNaN(v) || v < low || v > high {
			bad(option, "%s is not from %s to %s%s", plainly(v), plainly(low), plainly(high), more)
		}
	}
	if !(o.Share >= 0 && o.Share <= 1) {
		bad("share", "%v is not from 0 to 1: write 0.1 for a tenth of the requests", o.Share)
	}
	within("amplify", o.Amplify, 0, maxAmplify, ": write 2 for two copies of each request")
	within("using", float64(o.Using), 0, maxServers, ": 0 uses all servers of a pool")
	within("queue", float64(o.Queue), 1, 1<<20, " copies")
	within("buffer", float64(o.Buffer), 64<<10, 64<<30, " bytes")
	within("body-limit", float64(o.BodyLimit), 0, 64<<30, " bytes: 0 copies no request that has a body")
	within("connections", float64(o.Connections), 1, 1<<16, "")
	within("clients", float64(o.Clients), 1, 1<<20, "")
	duration := func(option string, d, low, high time.Duration) {
		if d < low || d > high {
			bad(option, "%v is not from %v to %v", d, low, high)
		}
	}
	duration("spread", o.Spread, 0, 10*time.Minute)
	duration("timeout", o.Timeout, time.Millisecond, time.Hour)
	duration("primary-timeout", o.PrimaryTimeout, 0, 24*time.Hour)
	duration("for", o.For, 0, 10*365*24*time.Hour)

	if _, err := legs.Gates(strings.Join(o.Allow, ",")); err != nil {
		bad("allow", "%w", err)
	}
	if len(o.Compare) == 0 && len(o.Ignore) > 0 {
		bad("ignore", "nothing is compared: add --compare status,headers,json")
	}
	if o.RecordBodies && o.Record == "" {
		bad("record-bodies", "nothing is recorded: add --record FILE")
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		bad("tls-cert", "a certificate needs its key: give both mirror.tls_cert and mirror.tls_key, or neither")
	}
	if o.TCP {
		o.validateTCP(bad)
	} else if err := o.validateRules(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// plainly writes a number in full, as people write it.
func plainly(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

const (
	maxNameBytes = 200
	maxAmplify   = 255
	maxServers   = 1000
	maxShadows   = 15 // beside the control
)

var (
	validID   = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// validateTCP refuses options that need requests to be understood.
func (o *Options) validateTCP(bad func(option, format string, args ...any)) {
	const why = "in tcp mode bytes are not understood: leave it out, or leave out mirror.tcp"
	for _, s := range []struct {
		option string
		set    bool
	}{
		{"by", o.By != ""}, {"method", len(o.Methods) > 0}, {"path", o.Path != ""},
		{"header", len(o.Headers) > 0}, {"operation", len(o.Operations) > 0}, {"tenant", o.Tenant != ""},
		{"host", o.Host != ""}, {"rewrite", len(o.Rewrites) > 0}, {"set-header", len(o.SetHeaders) > 0},
		{"drop-header", len(o.DropHeaders) > 0}, {"compare", len(o.Compare) > 0}, {"record", o.Record != ""},
		{"tls-cert", o.TLSCert != ""}, {"amplify", o.Amplify != 1},
	} {
		if s.set {
			bad(s.option, why)
		}
	}
}

// validateServers checks the names and URLs of all servers.
func (o *Options) validateServers(bad func(option, format string, args ...any)) {
	parse := o.parse
	if o.Primary == "" {
		bad("primary", "no server answers the clients: give --primary http://HOST:PORT")
	} else if _, err := parse(o.Primary); err != nil {
		bad("primary", "%w", err)
	}
	if len(o.Candidates) == 0 && len(o.Control) == 0 {
		bad("candidate", "there is nobody to copy to: give --candidate http://HOST:PORT")
	}
	if len(o.Candidates) > maxShadows {
		bad("candidate", "%d are too many: at most %d", len(o.Candidates), maxShadows)
	}
	names := map[string]bool{"primary": true, "control": true}
	for i, p := range o.named() {
		if len(p.Servers) == 0 {
			bad("candidate", "%s has no server: write %s=http://HOST:PORT", p.Name, p.Name)
		}
		switch {
		case !validName.MatchString(p.Name):
			bad("candidate", "%q is not a name: use 1 to 64 letters, digits, _, - and .", p.Name)
		case names[p.Name] && (p.Name == "primary" || p.Name == "control"):
			bad("candidate", "the name %q is taken by the session: use another", p.Name)
		case names[p.Name]:
			bad("candidate", "there are two of the name %q: name this one differently, such as %s%d=%s", p.Name, p.Name, i+1, strings.Join(p.Servers, ","))
		}
		names[p.Name] = true
		o.validatePool(bad, "candidate", p.Servers, parse)
		if o.Using > len(p.Servers) {
			bad("using", "%d are more than the %d of %s: name more servers, or use fewer", o.Using, len(p.Servers), p.Name)
		}
	}
	o.validatePool(bad, "control", o.Control, parse)
}

func (o *Options) validatePool(bad func(option, format string, args ...any), option string, servers []string, parse func(string) (server, error)) {
	if len(servers) > maxServers {
		bad(option, "%d servers are too many for a pool: at most %d", len(servers), maxServers)
		return
	}
	seen := make(map[string]bool, len(servers))
	for _, text := range servers {
		s, err := parse(text)
		if err != nil {
			bad(option, "%w", err)
			continue
		}
		if seen[s.scheme+s.addr()] {
			bad(option, "%s is named twice in one pool: once is enough", text)
		}
		seen[s.scheme+s.addr()] = true
	}
}

// named returns the candidates with their names, the defaults included.
func (o *Options) named() []Pool {
	pools := slices.Clone(o.Candidates)
	for i := range pools {
		if pools[i].Name == "" {
			pools[i].Name = "candidate"
			if i > 0 {
				pools[i].Name += strconv.Itoa(i + 1)
			}
		}
	}
	return pools
}

// parse parses a server in the syntax of the session's mode.
func (o *Options) parse(text string) (server, error) {
	if o.TCP {
		return parseTCPServer(text)
	}
	return parseServer(text)
}

// server is a server that requests are sent to.
type server struct {
	text   string // as it was given
	scheme string // http, https, h2c; tcp in tcp mode
	host   string // name or address, no brackets
	port   string
}

func (s server) addr() string { return net.JoinHostPort(s.host, s.port) }
func (s server) tls() bool    { return s.scheme == "https" }

// URL returns the server's URL, as shown and as passed to the parts.
func (s server) URL() string { return s.scheme + "://" + s.addr() }

var defaultPorts = map[string]string{"http": "80", "https": "443", "h2c": "80"}

// parseServer parses a URL that names a server and nothing else.
func parseServer(text string) (server, error) {
	s := server{text: text}
	if !strings.Contains(text, "://") {
		return s, fmt.Errorf("%q has no scheme: write http://%s", text, text)
	}
	u, err := url.Parse(text)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return s, fmt.Errorf("%q is not a URL (%w): write http://HOST:PORT", text, err)
	}
	s.scheme, s.host, s.port = strings.ToLower(u.Scheme), u.Hostname(), u.Port()
	base := s.scheme + "://" + u.Host
	switch {
	case defaultPorts[s.scheme] == "":
		return s, fmt.Errorf("%q has the scheme %s: http, https and h2c (HTTP/2 without TLS) are understood", text, u.Scheme)
	case u.User != nil:
		return s, fmt.Errorf("%q holds a user's name: write %s, and send credentials to shadows by --set mirror.set_header='Authorization: …'", redactUser(u), base)
	case u.Path != "" && u.Path != "/":
		return s, fmt.Errorf("%q has a path, but paths are the clients': write %s; those of copies are changed by --set mirror.rewrite='^/=%s/'", text, base, strings.TrimSuffix(u.Path, "/"))
	case u.RawQuery != "" || u.ForceQuery:
		return s, fmt.Errorf("%q has a query, but queries are the clients': write %s", text, base)
	case u.Fragment != "":
		return s, fmt.Errorf("%q has a fragment: write %s", text, base)
	}
	if s.port == "" {
		s.port = defaultPorts[s.scheme]
	}
	return s, s.check()
}

func redactUser(u *url.URL) string {
	c := *u
	c.User = url.User("xxx")
	return c.String()
}

// parseTCPServer parses host:port, and tcp://host:port.
func parseTCPServer(text string) (server, error) {
	s := server{text: text, scheme: "tcp"}
	rest, ok := strings.CutPrefix(text, "tcp://")
	if !ok && strings.Contains(text, "://") {
		return s, fmt.Errorf("%q is a URL, and in tcp mode servers are HOST:PORT: write that, or leave out mirror.tcp", text)
	}
	var err error
	if s.host, s.port, err = net.SplitHostPort(rest); err != nil {
		return s, fmt.Errorf("%q is not HOST:PORT: write tcp://127.0.0.1:6379", text)
	}
	return s, s.check()
}

func (s server) check() error {
	if s.host == "" {
		return fmt.Errorf("%q names no host: write %s://127.0.0.1:%s", s.text, s.scheme, s.port)
	}
	if n, err := strconv.ParseUint(s.port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has the port %q: write one from 1 to 65535", s.text, s.port)
	}
	return nil
}

func checkListen(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not an address: write :8080, or 127.0.0.1:8080", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has the port %q: write one from 0 (any that is free) to 65535", text, port)
	}
	return nil
}
