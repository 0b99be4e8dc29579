// Package listen checks requests before a handler sees them, and bounds connections and
// bodies. Every listener of this program uses it.
//
// The server has no passwords, and a browser sends requests for any page that it shows.
// Three checks keep such a page out. A page whose name was pointed at this machine (DNS
// rebinding) sends its own name as the Host: [Names] lists the names that are answered.
// A page of another site sends Origin and Sec-Fetch-Site, which scripts cannot set. The
// headers of every response forbid a frame around the page. Programs send neither Origin
// nor Sec-Fetch-Site, and are not affected.
//
// https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/
package listen

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Any among Names.Allowed allows every host and every origin.
const Any = "*"

// Names are the hosts that requests to a server may name. IP addresses and localhost are
// always allowed: rebinding needs a name, and nobody can point these elsewhere.
type Names struct {
	// Own lists names of this server: what it listens on, and its machine's name. They
	// are not allowed as origins: another port is another program.
	Own []string
	// Allowed lists names that the operator allows, as hosts and as origins, on any
	// port.
	Allowed []string
}

// host reports whether a request may name this host, which may carry a port.
func (n *Names) host(hostport string) bool {
	name := hostname(hostport)
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true // HTTP/1.0 without a host, which no browser sends
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return contains(n.Own, name) || n.allowed(name)
}

// origin reports whether a page of that origin may send requests to hostport.
func (n *Names) origin(origin, hostport string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null": a page that hides where it is from
	}
	return strings.EqualFold(withPort(u.Host, u.Scheme), withPort(hostport, u.Scheme)) || n.allowed(hostname(u.Host))
}

func (n *Names) allowed(name string) bool {
	return contains(n.Allowed, name) || contains(n.Allowed, Any)
}

func contains(list []string, name string) bool {
	for _, l := range list {
		if strings.EqualFold(strings.TrimSuffix(l, "."), name) {
			return true
		}
	}
	return false
}

// hostname returns a host without its port, brackets and final dot, in lower case.
func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// withPort returns a host with its port, which defaults to the scheme's.
func withPort(host, scheme string) string {
	u := url.URL{Host: host}
	if u.Port() != "" {
		return host
	}
	if scheme == "https" {
		return host + ":443"
	}
	return host + ":80"
}

// Guard checks requests and sets the headers that every response carries.
type Guard struct {
	Names Names
	// Setting is what allows the pages of a host; default allowed_hosts.
	Setting string
	// Refuse answers a request that is refused. The default writes a line of text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, message string)
	// Tool reports whether a request cannot come from a browser; such a request may name
	// any host. The default reports false.
	Tool func(*http.Request) bool
}

// Handler returns a handler that checks each request and passes it to next.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return Working(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if status, message := g.check(r); status != 0 {
			if g.Refuse != nil {
				g.Refuse(w, r, status, message)
			} else {
				http.Error(w, message, status)
			}
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// check returns the status and message of a refusal, or 0.
func (g *Guard) check(r *http.Request) (int, string) {
	if !g.Names.host(r.Host) && (g.Tool == nil || FromBrowser(r) || !g.Tool(r)) {
		return http.StatusMisdirectedRequest, fmt.Sprintf("host %q is not one of this server's names: add it to allowed_hosts", hostname(r.Host))
	}
	for _, o := range r.Header["Origin"] {
		if !g.Names.origin(o, r.Host) {
			return http.StatusForbidden, fmt.Sprintf("a page of another site (%q) asked for this: use the server's own page, the tailscope command or another program, or add the site's host to %s", o, cmp.Or(g.Setting, "allowed_hosts"))
		}
	}
	if len(r.Header["Origin"]) == 0 && isForeign(r) {
		return http.StatusForbidden, "a page of another site asked for this: use the server's own page, the tailscope command or another program"
	}
	return 0, ""
}

// FromBrowser reports whether the headers show that a browser made the request for a
// page. Every browser sends them with requests other than GET and HEAD.
func FromBrowser(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0
}

// answered lists the paths whose answers cost time and memory: no link of another site
// leads there.
var answered = []string{"/api/", "/prometheus/", "/debug/"}

// isForeign reports whether the headers show that a page of another site made the request.
// A link that a user followed to one of this server's pages is allowed.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	followed := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !followed || slices.ContainsFunc(answered, func(prefix string) bool { return strings.HasPrefix(path.Clean(r.URL.Path)+"/", prefix) })
}

// Policy is the Content-Security-Policy of responses that are not pages: they may load
// and run nothing, and may not be framed.
const Policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// setHeaders sets the headers of every response. A page replaces the
// Content-Security-Policy by its own.
func setHeaders(h http.Header) {
	h["Content-Security-Policy"] = policy
	h["X-Frame-Options"] = deny
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = sameOrigin
	h["Cross-Origin-Opener-Policy"] = sameOrigin
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// The values are shared by all responses, which replace them and never modify them.
var (
	policy     = []string{Policy}
	deny       = []string{"DENY"}
	nosniff    = []string{"nosniff"}
	sameOrigin = []string{"same-origin"}
)
