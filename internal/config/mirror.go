package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Mirror configures what is mirrored, and where to; see docs/mirror.md. Its zero value
// mirrors nothing. The start of the mirror checks URLs, patterns and rules.
type Mirror struct {
	Listen         string        `key:"listen" default:"127.0.0.1:8080" doc:"Address that clients connect to, in place of the primary."`
	Primary        string        `key:"primary" doc:"URL of the server that answers the clients, such as ‘http://10.0.0.5:8081’; ‘https’, and ‘h2c’ for HTTP/2 without TLS, are understood too. In TCP mode host:port."`
	Candidates     []string      `key:"candidate" is:"lines" doc:"Servers that get copies and are judged: ‘URL’, or ‘NAME=URL’; several URLs with commas between are a pool. May be given several times."`
	Control        string        `key:"control" doc:"Servers that run the old code and get the same copies: what candidates are judged against. A URL, or several with commas between."`
	Service        string        `key:"service" default:"mirror" doc:"Label service of what is measured."`
	Name           string        `key:"name" doc:"What the session is called; default made of its targets."`
	Share          float64       `key:"share" default:"1" doc:"Share of requests that are copied, from 0 to 1."`
	By             string        `key:"by" doc:"Choose the share by a key, so that the same user is always in or always out: ‘header:NAME’, ‘cookie:NAME’, ‘query:NAME’, ‘tenant’ or ‘address’."`
	Methods        []string      `key:"method" is:"commas" doc:"Copy requests of these methods only."`
	Path           string        `key:"path" doc:"Copy requests whose path matches this regular expression only."`
	Headers        []string      `key:"header" is:"lines" doc:"Copy requests with such a header only: ‘NAME: REGEX’. Of several, all must match."`
	Unsafe         bool          `key:"unsafe" doc:"Copy requests of methods that change something too (POST, PUT, PATCH, DELETE). The shadows must be able to bear it."`
	Operations     []string      `key:"operation" is:"lines" doc:"Name the operation of requests whose method and path, as in ‘GET /cart/7’, match: ‘REGEX=NAME’. Of others, ids in the path are replaced."`
	Tenant         string        `key:"tenant" doc:"Where the tenant stands: ‘header:NAME’, ‘cookie:NAME’, ‘query:NAME’, ‘host’ (its first label), ‘host:REGEX’ or ‘path:REGEX’, of which the first group is taken."`
	Host           string        `key:"host" doc:"Host header of copies; default the client's."`
	Rewrite        []string      `key:"rewrite" is:"lines" doc:"Rewrite the path of copies: ‘REGEX=REPLACEMENT’, with ‘$1’ for a group; the query is kept. Applied in their order."`
	SetHeader      []string      `key:"set_header" is:"lines" doc:"Give copies this header: ‘NAME: VALUE’, in place of the client's."`
	DropHeader     []string      `key:"drop_header" is:"commas" doc:"Leave these headers out of copies."`
	Amplify        float64       `key:"amplify" default:"1" doc:"Copies of each chosen request that a shadow gets; 2.5 is two or three."`
	Spread         time.Duration `key:"spread" default:"1s" doc:"Time within which the further copies are sent."`
	Using          int           `key:"using" doc:"How many servers of a candidate's pool are used; 0 is all."`
	Queue          int           `key:"queue" default:"1000" doc:"Copies that may wait for a shadow. What is beyond is dropped and counted."`
	Buffer         int64         `key:"buffer" is:"bound" default:"64MiB" doc:"Bytes of requests that may be kept for a shadow."`
	BodyLimit      int64         `key:"body_limit" is:"bound" default:"1MiB" doc:"Largest body that is copied."`
	Timeout        time.Duration `key:"timeout" default:"30s" doc:"How long a copy may take, its wait in the queue included."`
	Connections    int           `key:"connections" default:"256" doc:"Connections to each server of a shadow."`
	Clients        int           `key:"clients" default:"4096" doc:"Connections of clients; beyond it the one that asked nothing for longest is closed for a newcomer, or the newcomer, if all wait for answers."`
	PrimaryTimeout time.Duration `key:"primary_timeout" default:"1m" doc:"How long the primary may take to begin its answer; 0 is as long as it likes."`
	Compare        []string      `key:"compare" is:"commas" doc:"What of the answers is compared: ‘status’, ‘headers’, and ‘body’ (its bytes) or ‘json’ (its fields). Default: nothing."`
	Ignore         []string      `key:"ignore" is:"lines" doc:"Places that may differ: ‘header NAME’, ‘body .items[].id’."`
	Redact         []string      `key:"redact" is:"lines" doc:"Rules for what is not kept in examples and recordings, beside credentials; see docs/mirror.md."`
	Allow          []string      `key:"allow" is:"commas" doc:"Changes that the verdict allows, such as ‘worse:3%’ or ‘p99=increase:5%’; default none."`
	Record         string        `key:"record" doc:"Write what clients sent to this file."`
	RecordBodies   bool          `key:"record_bodies" doc:"Write the bodies of requests too."`
	TCP            bool          `key:"tcp" doc:"Copy the bytes of connections without understanding them."`
	TLSCert        string        `key:"tls_cert" doc:"Certificate file for clients that connect by TLS, with its chain."`
	TLSKey         string        `key:"tls_key" doc:"File of its key."`
	CA             string        `key:"ca" doc:"File of certificate authorities that are trusted for primary and shadows, beside the system's."`
	Insecure       bool          `key:"insecure" doc:"Do not check the certificates of primary and shadows."`
	AllowSame      bool          `key:"allow_same" doc:"Let a shadow be the primary itself."`
	To             string        `key:"to" doc:"URL of a running server that takes what is measured, such as ‘http://127.0.0.1:7099’; ‘tailscope mirror’ alone. Without it the server runs in the same process."`
	ToOTLP         string        `key:"to_otlp" doc:"URL of that server's OTLP over HTTP; default what it answers."`
	For            time.Duration `key:"for" doc:"How long to mirror; 0 is until stopped."`
}

// Wanted reports whether any setting of the section differs from its default.
func (m *Mirror) Wanted() bool { return !reflect.DeepEqual(*m, Default().Mirror) }

// address returns Listen if a mirror is wanted, else "".
func (m *Mirror) address() string {
	if m.Wanted() {
		return m.Listen
	}
	return ""
}

// mirrorFlagged lists the keys of the section mirror that are flags of tailscope mirror.
// The file, the environment or --set set the others.
var mirrorFlagged = []string{
	"mirror.listen", "mirror.primary", "mirror.candidate", "mirror.control", "mirror.service", "mirror.name", "mirror.share", "mirror.unsafe",
	"mirror.operation", "mirror.tenant", "mirror.compare", "mirror.ignore", "mirror.record", "mirror.to", "mirror.for",
}

// MirrorFlag returns the flag of tailscope mirror for a setting of its section, without
// the dashes, or "" if it has none.
func MirrorFlag(s Setting) string {
	if !slices.Contains(mirrorFlagged, s.Key) {
		return ""
	}
	if s.Key == "mirror.to" {
		return "server" // as each command names a server
	}
	return strings.TrimPrefix(s.Flag(), "mirror-")
}

// validate reports the faults that the mirror itself does not check.
func (m *Mirror) validate(bad func(key, format string, args ...any)) {
	if m.ToOTLP != "" && m.To == "" {
		bad("mirror.to_otlp", "needs mirror.to, the URL of the same server's page and API")
	}
	if m.To == "" {
		return
	}
	for _, u := range []struct{ key, text string }{{"mirror.to", m.To}, {"mirror.to_otlp", m.ToOTLP}} {
		if u.text != "" && !isURL(u.text) {
			bad(u.key, "%q is not a URL: write one such as http://127.0.0.1:7099", u.text)
		}
	}
}

// MirrorMarkdown writes the settings of a mirror as a table, for docs/mirror.md.
func MirrorMarkdown() string {
	c := Default()
	var b strings.Builder
	b.WriteString("| flag | key | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, s := range MirrorSettings() {
		flag := ""
		if name := MirrorFlag(s); name != "" {
			flag = "`--" + name + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", flag, s.Key, s.markdownDefault(&c), s.Doc)
	}
	return b.String()
}
