// Package listen holds what every listener of this program asks before it
// answers, and what it bounds.
//
// The server has no passwords, and a browser sends requests for any page that
// it shows. Three things keep such a page out. A page whose name was pointed at
// this machine (DNS rebinding) is told by the Host of its requests, which is
// its own name: [Names] lists those that are answered. A page of another site
// is told by Origin and by Sec-Fetch-Site, which scripts cannot set. And a
// frame around the page is refused by the headers that every response carries.
// Programs send neither Origin nor Sec-Fetch-Site and go on as before.
//
// https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/
package listen

import (
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

// Names are the hosts by which a server may be asked. IP addresses and
// localhost always may: to rebind takes a name, and nobody can point these
// elsewhere.
type Names struct {
	// Own are names of this server: what it listens on, what its machine is
	// called. They are no origins: another port is another program.
	Own []string
	// Allowed are names that the operator allows, as hosts and as origins, on
	// any port.
	Allowed []string
}

// host reports whether a request may name this host, which may carry a port.
func (n *Names) host(hostport string) bool {
	name := hostname(hostport)
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true // without a host: HTTP/1.0, and no browser
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return contains(n.Own, name) || n.allowed(name)
}

// origin reports whether a page of the origin may ask hostport.
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

// hostname is a host without its port, brackets and final dot, in lower case.
func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// withPort is a host with its port, also if that is the scheme's own.
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
	// Refuse answers a request that is refused; default is a line of text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, message string)
	// Tool reports whether no browser can have made the request; such a one may
	// name any host. Default: none is.
	Tool func(*http.Request) bool
}

// Handler returns next behind the guard.
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

// check returns the status and sentence of a refusal, or 0.
func (g *Guard) check(r *http.Request) (int, string) {
	if !g.Names.host(r.Host) && (g.Tool == nil || FromBrowser(r) || !g.Tool(r)) {
		return http.StatusMisdirectedRequest, fmt.Sprintf("host %q is not one of this server's names: add it to allowed_hosts", hostname(r.Host))
	}
	for _, o := range r.Header["Origin"] {
		if !g.Names.origin(o, r.Host) {
			return http.StatusForbidden, fmt.Sprintf("a page of another site (%q) asked for this: use the server's own page, the tailscope command or another program, or add the site's host to allowed_hosts", o)
		}
	}
	if len(r.Header["Origin"]) == 0 && foreign(r) {
		return http.StatusForbidden, "a page of another site asked for this: use the server's own page, the tailscope command or another program"
	}
	return 0, ""
}

// FromBrowser reports whether a browser says that it made the request for a
// page. Each browser says so of every request other than GET and HEAD.
func FromBrowser(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0
}

// answered are the paths that answer questions, which cost time and memory: no
// link of another site leads there.
var answered = []string{"/api/", "/prometheus/", "/debug/"}

// foreign reports whether a browser says that another site asks. A link that a
// user followed to one of this server's pages is not a question of that site.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	followed := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !followed || slices.ContainsFunc(answered, func(prefix string) bool { return strings.HasPrefix(path.Clean(r.URL.Path)+"/", prefix) })
}

// Policy is the Content-Security-Policy of what is not a page: it may load and
// run nothing, and be in no frame.
const Policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// setHeaders sets what browsers are told of every response. A page sets a
// Content-Security-Policy of its own over this one.
func setHeaders(h http.Header) {
	h["Content-Security-Policy"] = policy
	h["X-Frame-Options"] = deny
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = sameOrigin
	h["Cross-Origin-Opener-Policy"] = sameOrigin
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// The values are shared by all responses, which replace and never change them.
var (
	policy     = []string{Policy}
	deny       = []string{"DENY"}
	nosniff    = []string{"nosniff"}
	sameOrigin = []string{"same-origin"}
)
