package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Mirror says what is mirrored, and where to; see docs/mirror.md. The zero value
// of what has no default mirrors nothing. What URLs, patterns and rules mean is
// looked at when the mirror starts.
type Mirror struct {
	Listen     string // address that clients connect to
	Primary    string // URL
	Candidates []string
	Control    string
	Service    string
	Name       string

	Share      float64 // 0..1
	By         string
	Methods    []string
	Path       string
	Headers    []string
	Unsafe     bool
	Operations []string
	Tenant     string

	Host                           string
	Rewrite, SetHeader, DropHeader []string

	Amplify float64
	Spread  time.Duration
	Using   int // 0: all

	Queue             int
	Buffer, BodyLimit int64
	Timeout           time.Duration
	Connections       int
	Clients           int
	PrimaryTimeout    time.Duration

	Compare, Ignore, Redact []string

	Record       string
	RecordBodies bool

	TCP                 bool
	TLSCert, TLSKey, CA string
	Insecure, AllowSame bool

	To, ToOTLP string
	For        time.Duration // 0: until stopped
}

// defaultMirror is what holds of a mirror that was told nothing else.
var defaultMirror = Mirror{
	Listen: "127.0.0.1:8080", Service: "mirror", Share: 1, Amplify: 1, Spread: time.Second,
	Queue: 1000, Buffer: 64 << 20, BodyLimit: 1 << 20, Timeout: 30 * time.Second, Connections: 256, Clients: 4096, PrimaryTimeout: 60 * time.Second,
}

// Wanted says whether anything was said about what is mirrored.
func (m *Mirror) Wanted() bool { return !reflect.DeepEqual(*m, defaultMirror) }

// address is Listen if anything is to be mirrored.
func (m *Mirror) address() string {
	if m.Wanted() {
		return m.Listen
	}
	return ""
}

// MirrorSettings lists the settings of the section mirror.
func MirrorSettings() []Setting { return mirrorSettings }

// MirrorFlag is the flag of tailscope mirror for a setting of its section.
func MirrorFlag(s Setting) string { return strings.TrimPrefix(s.Flag(), "mirror-") }

// mirrorSettings come after those of the server.
var mirrorSettings = []Setting{
	{"mirror.listen", "Address that clients connect to, in place of the primary.",
		func(c *Config) Value { return text{&c.Mirror.Listen} }},
	{"mirror.primary", "URL of the server that answers the clients, such as `http://10.0.0.5:8081`; `https`, and `h2c` for HTTP/2 without TLS, are understood too. In TCP mode host:port.",
		func(c *Config) Value { return text{&c.Mirror.Primary} }},
	{"mirror.candidate", "Servers that get copies and are judged: `URL`, or `NAME=URL`; several URLs with commas between are a pool. May be given several times.",
		func(c *Config) Value { return entries{&c.Mirror.Candidates} }},
	{"mirror.control", "Servers that run the old code and get the same copies: what candidates are judged against. A URL, or several with commas between.",
		func(c *Config) Value { return text{&c.Mirror.Control} }},
	{"mirror.service", "Label service of what is measured.",
		func(c *Config) Value { return text{&c.Mirror.Service} }},
	{"mirror.name", "What the session is called; made of its targets unless given.",
		func(c *Config) Value { return text{&c.Mirror.Name} }},

	{"mirror.share", "Share of requests that are copied, from 0 to 1.",
		func(c *Config) Value { return decimal{&c.Mirror.Share} }},
	{"mirror.by", "Choose the share by a key, so that the same user is always in or always out: `header:NAME`, `cookie:NAME`, `query:NAME`, `tenant` or `address`.",
		func(c *Config) Value { return text{&c.Mirror.By} }},
	{"mirror.method", "Copy requests of these methods only.",
		func(c *Config) Value { return list{&c.Mirror.Methods} }},
	{"mirror.path", "Copy requests whose path matches this regular expression only.",
		func(c *Config) Value { return text{&c.Mirror.Path} }},
	{"mirror.header", "Copy requests with such a header only: `NAME: REGEX`. Of several, all must match.",
		func(c *Config) Value { return entries{&c.Mirror.Headers} }},
	{"mirror.unsafe", "Copy requests of methods that change something too (POST, PUT, PATCH, DELETE). The shadows must be able to bear it.",
		func(c *Config) Value { return yes{&c.Mirror.Unsafe} }},
	{"mirror.operation", "Name the operation of requests whose method and path, as in `GET /cart/7`, match: `REGEX=NAME`. Of others, ids in the path are replaced.",
		func(c *Config) Value { return entries{&c.Mirror.Operations} }},
	{"mirror.tenant", "Where the tenant stands: `header:NAME`, `cookie:NAME`, `query:NAME`, `host` (its first label), `host:REGEX` or `path:REGEX`, of which the first group is taken.",
		func(c *Config) Value { return text{&c.Mirror.Tenant} }},

	{"mirror.host", "Host header of copies; the client's unless given.",
		func(c *Config) Value { return text{&c.Mirror.Host} }},
	{"mirror.rewrite", "Rewrite the path of copies: `REGEX=REPLACEMENT`, with `$1` for a group; the query is kept. Applied in their order.",
		func(c *Config) Value { return entries{&c.Mirror.Rewrite} }},
	{"mirror.set_header", "Give copies this header: `NAME: VALUE`, in place of the client's.",
		func(c *Config) Value { return entries{&c.Mirror.SetHeader} }},
	{"mirror.drop_header", "Leave these headers out of copies.",
		func(c *Config) Value { return list{&c.Mirror.DropHeader} }},

	{"mirror.amplify", "Copies of each chosen request that a shadow gets; 2.5 is two or three.",
		func(c *Config) Value { return decimal{&c.Mirror.Amplify} }},
	{"mirror.spread", "Time within which the further copies are sent.",
		func(c *Config) Value { return duration{&c.Mirror.Spread} }},
	{"mirror.using", "How many servers of a candidate's pool are used; 0 is all.",
		func(c *Config) Value { return number{&c.Mirror.Using} }},

	{"mirror.queue", "Copies that may wait for a shadow. What is beyond is dropped and counted.",
		func(c *Config) Value { return number{&c.Mirror.Queue} }},
	{"mirror.buffer", "Bytes of requests that may be kept for a shadow.",
		func(c *Config) Value { return size{&c.Mirror.Buffer} }},
	{"mirror.body_limit", "Largest body that is copied.",
		func(c *Config) Value { return size{&c.Mirror.BodyLimit} }},
	{"mirror.timeout", "How long a copy may take, its wait in the queue included.",
		func(c *Config) Value { return duration{&c.Mirror.Timeout} }},
	{"mirror.connections", "Connections to each server of a shadow.",
		func(c *Config) Value { return number{&c.Mirror.Connections} }},
	{"mirror.clients", "Connections of clients; beyond it the one that asked nothing for longest is closed for a newcomer, or the newcomer, if all wait for answers.",
		func(c *Config) Value { return number{&c.Mirror.Clients} }},
	{"mirror.primary_timeout", "How long the primary may take to begin its answer; 0 is as long as it likes.",
		func(c *Config) Value { return duration{&c.Mirror.PrimaryTimeout} }},

	{"mirror.compare", "What of the answers is compared: `status`, `headers`, and `body` (its bytes) or `json` (its fields). Nothing unless given.",
		func(c *Config) Value { return list{&c.Mirror.Compare} }},
	{"mirror.ignore", "Places that may differ: `header NAME`, `body .items[].id`.",
		func(c *Config) Value { return entries{&c.Mirror.Ignore} }},
	{"mirror.redact", "Rules for what is not kept in examples and recordings, beside credentials; see docs/mirror.md.",
		func(c *Config) Value { return entries{&c.Mirror.Redact} }},

	{"mirror.record", "Write what clients sent to this file.",
		func(c *Config) Value { return text{&c.Mirror.Record} }},
	{"mirror.record_bodies", "Write the bodies of requests too.",
		func(c *Config) Value { return yes{&c.Mirror.RecordBodies} }},

	{"mirror.tcp", "Copy the bytes of connections without understanding them.",
		func(c *Config) Value { return yes{&c.Mirror.TCP} }},
	{"mirror.tls_cert", "Certificate file for clients that connect by TLS, with its chain.",
		func(c *Config) Value { return text{&c.Mirror.TLSCert} }},
	{"mirror.tls_key", "File of its key.",
		func(c *Config) Value { return text{&c.Mirror.TLSKey} }},
	{"mirror.ca", "File of certificate authorities that are trusted for primary and shadows, beside the system's.",
		func(c *Config) Value { return text{&c.Mirror.CA} }},
	{"mirror.insecure", "Do not check the certificates of primary and shadows.",
		func(c *Config) Value { return yes{&c.Mirror.Insecure} }},
	{"mirror.allow_same", "Let a shadow be the primary itself.",
		func(c *Config) Value { return yes{&c.Mirror.AllowSame} }},

	{"mirror.to", "URL of a running server that takes what is measured, such as `http://127.0.0.1:7099`; `tailscope mirror` alone. Without it the server runs in the same process.",
		func(c *Config) Value { return text{&c.Mirror.To} }},
	{"mirror.to_otlp", "URL of that server's OTLP over HTTP; asked of it unless given.",
		func(c *Config) Value { return text{&c.Mirror.ToOTLP} }},
	{"mirror.for", "How long to mirror; 0 is until stopped.",
		func(c *Config) Value { return duration{&c.Mirror.For} }},
}

// validate says what is wrong with what the mirror itself does not know of.
func (m *Mirror) validate(bad func(key, format string, args ...any)) {
	if m.ToOTLP != "" && m.To == "" {
		bad("mirror.to_otlp", "needs mirror.to, the URL of the same server's page and API")
	}
	if m.To == "" {
		return
	}
	for _, u := range []struct{ key, text string }{{"mirror.to", m.To}, {"mirror.to_otlp", m.ToOTLP}} {
		if p, err := url.Parse(u.text); u.text != "" && (err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "") {
			bad(u.key, "%q is not a URL: write one such as http://127.0.0.1:7099", u.text)
		}
	}
}

// MirrorMarkdown writes the settings of a mirror as a table, for docs/mirror.md.
func MirrorMarkdown() string {
	c := Default()
	var b strings.Builder
	b.WriteString("| flag | key | default | what it does |\n| --- | --- | --- | --- |\n")
	for _, s := range mirrorSettings {
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", MirrorFlag(s), s.Key, s.markdownDefault(&c), s.Doc)
	}
	return b.String()
}
