// Package config reads the server's settings: defaults, then one strict YAML
// file, then the environment, then flags, each over the one before.
//
// A setting is written once, as a field of Config whose tags are its key, its default
// and what it does. The file, the environment and the command line all set it
// through the same text form, so what one of them can say the others can too:
//
//	otlp:
//	  grpc: 127.0.0.1:4317        otlp.grpc in the file
//	TAILSCOPE_OTLP_GRPC=…         in the environment
//	--otlp-grpc …                 on the command line
//
// Nothing is repaired silently: an unknown key is an error with its line and
// the nearest known key, and every problem is reported at once.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tailscope/internal/strictyaml"
)

// Config holds the settings of a server. Default returns it with every field set;
// Validate checks it.
type Config struct {
	Data         string   `key:"data" default:"data" flag:"yes" doc:"Directory of the store and the journal; made if absent. One process at a time."`
	Store        string   `key:"store" flag:"yes" doc:"Where points, traces and records are kept, if not in the directory of data: clickhouse://host:8123/database, see docs/clickhouse.md. The journal, and the server's name, stay in the directory."`
	Listen       string   `key:"listen" default:"127.0.0.1:7099" flag:"yes" doc:"Address of the page and the API."`
	AllowedHosts []string `key:"allowed_hosts" is:"commas" flag:"yes" doc:"Names under which the server may be asked, beside IP addresses, localhost, the machine's name and those in ‘listen’ and ‘page_url’; pages of these hosts may change things. ‘*’ allows every name: only where something else checks it."`
	OTLP         `key:"otlp" doc:"What takes OTLP."`
	Retain       Retention `key:"retention" doc:"How long points of each resolution are kept."`
	Labels       `key:"labels" doc:"Which attributes become labels."`
	Tenants      Tenants `key:"tenants" doc:"Who is large, in place of shares of requests."`
	Limits       `key:"limits" doc:"Bounds."`
	Traces       Traces `key:"traces" doc:"How traces are put together and which are kept."`
	Ingest       `key:"ingest" doc:"How what arrives is taken."`
	Checks       []string `key:"checks" is:"commas" flag:"yes" doc:"Files of checks, or patterns of files, separated by commas; see docs/checks.md. SIGHUP reads them again."`
	PageURL      string   `key:"page_url" flag:"yes" doc:"Address under which people reach the page, for links in notifications of checks; ‘page’ in a file of checks goes before it."`
	Log          `key:"log" doc:"What the log has."`
	Debug        `key:"debug" doc:"For finding out what the server itself does."`
	Cluster      Cluster     `key:"cluster" doc:"What servers that share a store have."`
	Agent        Agent       `key:"agent" doc:"What ‘tailscope agent’ alone has: where it sends to."`
	Mirror       Mirror      `key:"mirror" doc:"What is mirrored, and where to."`
	AccessLogs   []AccessLog `key:"access_logs" doc:"Access logs that are followed as they grow."`
}

// OTLP configures the addresses that receive OTLP, and bounds on requests.
type OTLP struct {
	OTLPGRPC    string   `key:"grpc" default:"127.0.0.1:4317" flag:"yes" doc:"Address that takes OTLP over gRPC; empty turns it off."`
	OTLPHTTP    string   `key:"http" default:"127.0.0.1:4318" flag:"yes" doc:"Address that takes OTLP over HTTP; empty turns it off."`
	OTLPOrigins []string `key:"origins" is:"commas" doc:"Hosts whose pages may send by OTLP over HTTP from a browser, such as shop.example.com or localhost, on any port; ‘*’ for any. They may ask nothing. Default none."`
	MaxRequest  int64    `key:"max_request" is:"bound" default:"16MiB" doc:"Largest OTLP request taken, after decompression; at most about a 64th of limits.memory."`
}

// Retention configures how long points of each resolution are kept, and bounds the bytes
// on disk of the whole store.
type Retention struct {
	Base     time.Duration `key:"10s" default:"2d" doc:"How long slots of ten seconds are kept."`
	Minute   time.Duration `key:"1m" default:"35d" doc:"How long slots of one minute are kept."`
	TenMin   time.Duration `key:"10m" default:"100d" doc:"How long slots of ten minutes are kept."`
	Hour     time.Duration `key:"1h" default:"400d" doc:"How long slots of one hour are kept."`
	MaxBytes int64         `key:"max_bytes" is:"bound" flag:"yes" doc:"What the store may take on disk; the oldest raw samples and finest slots go first. 0 is no bound."`
}

// Labels configures which attributes become labels.
type Labels struct {
	TenantKeys  []string `key:"tenant" is:"commas" default:"tenant.id, tenant, customer.id, org.id" flag:"yes" doc:"Attributes of span or resource that name the tenant; the first present wins."`
	ExtraLabels []string `key:"extra" is:"commas" flag:"yes" doc:"Further attributes to keep as labels: ‘attribute’, or ‘attribute=label’. Each multiplies the series; keep them few and low in cardinality."`
}

// Limits bounds the numbers of names, samples and connections, and the memory of the
// program.
type Limits struct {
	Memory         int64         `key:"memory" is:"memory" default:"auto" flag:"yes" doc:"Bound on the memory of the whole program, divided among its parts; see [Memory](#memory). ‘auto’ is nine tenths of the control group's limit, else half of the machine's memory and at most 1.5GiB. More than nine tenths of either is lowered to that."`
	MaxTenants     int           `key:"tenants" default:"20000" doc:"Tenants named per service; the heaviest keep their names, the rest are counted as ‘_other’."`
	MaxOperations  int           `key:"operations" default:"2000" doc:"Operations named per service; later ones are counted as ‘_other’."`
	MaxFamilies    int           `key:"families" default:"5000" doc:"Names of metrics that have active series; points of later ones are refused, by the reason too_many_families."`
	MaxSamples     int           `key:"samples" default:"15000" doc:"Raw samples kept per gauge or counter series."`
	MaxSampleAge   time.Duration `key:"sample_age" default:"35d" doc:"Age at which raw samples of gauges and counters go."`
	LongestSpan    time.Duration `key:"longest_span" default:"1d" doc:"Longest span, and longest request of an access log, that is taken; a longer one is refused and counted as ‘too_long’ or ‘long_duration’. A span whose start is not set has lasted since 1970."`
	MaxConnections int           `key:"connections" default:"4096" doc:"Connections of each listener; beyond it the one that has been idle for longest is closed for a newcomer. At most one for each 384KiB of limits.memory; see [Connections](#connections)."`
}

// Traces configures how traces are assembled and which are kept.
type Traces struct {
	Memory   int64         `key:"memory" is:"memory" default:"auto" doc:"Bound on open traces and their tables; near it one of several traces is put together and counts for all. ‘auto’ is a twelfth of limits.memory; 0 turns the breakdown off."`
	Grace    time.Duration `key:"grace" default:"10s" doc:"How long a trace whose root has ended waits for spans under way."`
	Idle     time.Duration `key:"idle" default:"1m" doc:"How long a trace whose root has not come waits after its last span."`
	Keep     time.Duration `key:"keep" default:"7d" doc:"Age at which kept traces go."`
	MaxBytes int64         `key:"max_bytes" is:"bound" default:"1GiB" doc:"What kept traces may take on disk; the oldest go first."`
	Link     string        `key:"link" doc:"Address of a trace in another tracing system, with ‘{trace_id}’ where its id goes; empty shows no link."`
}

// Ingest configures how often the aggregator flushes.
type Ingest struct {
	Flush time.Duration `key:"flush" default:"10s" flag:"yes" doc:"How often what has arrived is stored. Questions see it before; checks and verdicts of marks wait for it."`
	Sync  time.Duration `key:"sync" default:"1s" doc:"How often the journal is synced: what a power loss may cost. A crash of the process costs nothing."`
}

// Log configures the level and form of the log.
type Log struct {
	LogLevel  string `key:"level" is:"debug|info|warn|error" default:"info" flag:"yes" doc:"debug, info, warn or error."`
	LogFormat string `key:"format" is:"text|json" default:"text" flag:"yes" doc:"text or json."`
}

// Agent configures what an agent sends and where to; see docs/agent.md. To is empty for a
// server.
type Agent struct {
	To      string `key:"to" doc:"URL of the server's OTLP over HTTP, such as ‘http://tailscope:4318’; ‘tailscope agent’ alone, as ‘--to’."`
	Name    string `key:"name" doc:"What the agent is called where agents are listed; default the machine's name."`
	Forward string `key:"forward" is:"packed|otlp" default:"packed" doc:"‘packed’ for a Tailscope server; ‘otlp’ sends any receiver of OTLP metrics the distributions as delta exponential histograms, at least once; as ‘--forward’."`
	Spool   int64  `key:"spool" is:"bound" default:"1GiB" doc:"What may wait on disk for the server. When it is full senders are asked to retry."`
}

// validate reports what is wrong with the settings of an agent.
func (a *Agent) validate(bad func(key, format string, args ...any)) {
	if a.Spool < 16<<20 {
		bad("agent.spool", "%s is too little: at least 16MiB", FormatSize(a.Spool))
	}
	if len(a.Name) > 256 || !utf8.ValidString(a.Name) || strings.ContainsFunc(a.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		bad("agent.name", "%.40q is not a name: write at most 256 bytes that can be printed", a.Name)
	}
	if a.To == "" {
		return
	}
	if !isURL(a.To) {
		bad("agent.to", "%q is not a URL: write one such as http://tailscope:4318", a.To)
	}
}

// Cluster configures how servers that share a store reach each other.
type Cluster struct {
	Address string `key:"address" flag:"yes" doc:"URL at which other servers of the store reach this one's OTLP over HTTP, such as ‘http://10.0.0.7:4318’, to send it spans of traces that it puts together and frames of agents that it stores; see docs/clickhouse.md. By default the address in otlp.http, and where that is every interface this machine's towards ClickHouse; ‘none’ takes neither of others."`
}

// NoAddress is a Cluster.Address at which nothing is taken.
const NoAddress = "none"

// validate reports what is wrong with the settings of servers that share a store.
func (c *Cluster) validate(bad func(key, format string, args ...any)) {
	if c.Address == "" || c.Address == NoAddress {
		return
	}
	if !isURL(c.Address) {
		bad("cluster.address", "%q is not a URL: write one such as http://10.0.0.7:4318, or none", c.Address)
	} else if u, _ := url.Parse(c.Address); u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		bad("cluster.address", "has a user, a query or a fragment, which every server would read: write only what leads to this one, such as http://10.0.0.7:4318")
	}
}

// isURL reports whether s is an address that HTTP can be sent to.
func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Debug configures the address of pprof; empty disables it.
type Debug struct {
	DebugListen string `key:"listen" doc:"Address of Go's pprof, for finding out what the server itself does; empty is off."`
}

const day = 24 * time.Hour

// Default returns the default settings of a server.
func Default() Config {
	var c Config
	strictyaml.Fill(&c, leaves)
	return c
}

// reserved holds the labels that every span has; an extra label must not take one of
// these names.
var reserved = map[string]bool{
	"service": true, "operation": true, "component": true, "kind": true, "status": true,
	"tenant": true, "version": true, "variant": true, "instance": true,
}

var attributeKey = regexp.MustCompile(`^[^\s,=]+(=[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// Validate returns an error that joins every problem, each with the name of its setting.
func (c *Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}

	if c.Data == "" {
		bad("data", "needs a directory")
	}
	if c.Store != "" && !strings.HasPrefix(c.Store, "clickhouse://") {
		bad("store", "it is not an address of a store: write clickhouse://host:8123/database, or leave it out")
	}
	address := func(key, addr string, required bool) {
		if addr == "" {
			if required {
				bad(key, "needs an address such as 127.0.0.1:7099")
			}
			return
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad(key, "%q is not an address: write host:port, such as 127.0.0.1:7099 or :7099 for every interface", addr)
		}
	}
	address("listen", c.Listen, true)
	address("debug.listen", c.DebugListen, false)
	address("otlp.grpc", c.OTLPGRPC, false)
	address("otlp.http", c.OTLPHTTP, false)
	used := map[string]string{}
	for _, a := range []struct{ key, addr string }{
		{"listen", c.Listen}, {"otlp.grpc", c.OTLPGRPC}, {"otlp.http", c.OTLPHTTP}, {"debug.listen", c.DebugListen},
		{"mirror.listen", c.Mirror.address()},
	} {
		if a.addr == "" || strings.HasSuffix(a.addr, ":0") {
			continue
		}
		if first, ok := used[a.addr]; ok {
			bad(a.key, "%s is already the address of %s", a.addr, first)
		}
		used[a.addr] = a.key
	}

	atLeast := func(key string, v, low time.Duration) {
		if v < low {
			bad(key, "%s is too short: at least %s", FormatDuration(v), FormatDuration(low))
		}
	}
	atLeast("retention.10s", c.Retain.Base, 2*time.Hour)
	longer := func(key string, v time.Duration, than string, other time.Duration) {
		if v < other {
			bad(key, "%s is shorter than %s (%s): a coarser resolution is kept at least as long as a finer one",
				FormatDuration(v), than, FormatDuration(other))
		}
	}
	longer("retention.1m", c.Retain.Minute, "retention.10s", c.Retain.Base)
	longer("retention.10m", c.Retain.TenMin, "retention.1m", c.Retain.Minute)
	longer("retention.1h", c.Retain.Hour, "retention.10m", c.Retain.TenMin)
	if b := c.Retain.MaxBytes; b != 0 && b < 64<<20 {
		bad("retention.max_bytes", "%s is too little: at least 64MiB, or 0 for no bound", FormatSize(b))
	}

	if m := c.Traces.Memory; m != 0 && m != Auto && m < 8<<20 {
		bad("traces.memory", "%s is too little: at least 8MiB, or 0 to break nothing down", FormatSize(m))
	}
	atLeast("traces.grace", c.Traces.Grace, 100*time.Millisecond)
	atLeast("traces.idle", c.Traces.Idle, time.Second)
	atLeast("traces.keep", c.Traces.Keep, time.Hour)
	if c.Traces.MaxBytes < 16<<20 {
		bad("traces.max_bytes", "%s is too little: at least 16MiB", FormatSize(c.Traces.MaxBytes))
	}
	if err := checkLink(c.Traces.Link); err != nil {
		bad("traces.link", "%v", err)
	}

	c.validateChecks(bad)
	if c.MaxRequest < 1<<20 {
		bad("otlp.max_request", "%s is too little: at least 1MiB", FormatSize(c.MaxRequest))
	}
	if c.Memory != Auto && c.Memory < LeastMemory {
		bad("limits.memory", "%s is too little: at least %s, it is for the whole program", FormatSize(c.Memory), FormatSize(LeastMemory))
	}
	positive := func(key string, v int) {
		if v < 1 {
			bad(key, "%d is too little: at least 1", v)
		}
	}
	positive("limits.tenants", c.MaxTenants)
	positive("limits.operations", c.MaxOperations)
	positive("limits.families", c.MaxFamilies)
	positive("limits.samples", c.MaxSamples)
	positive("limits.connections", c.MaxConnections)
	atLeast("limits.sample_age", c.MaxSampleAge, time.Hour)
	atLeast("limits.longest_span", c.LongestSpan, time.Second)
	atLeast("ingest.flush", c.Flush, 100*time.Millisecond)
	atLeast("ingest.sync", c.Sync, time.Millisecond)

	for _, k := range c.TenantKeys {
		if !attributeKey.MatchString(k) || strings.Contains(k, "=") {
			bad("labels.tenant", "%q is not an attribute key: write one such as tenant.id", k)
		}
	}
	for _, k := range c.ExtraLabels {
		if !attributeKey.MatchString(k) {
			bad("labels.extra", "%q is neither an attribute key nor attribute=label", k)
			continue
		}
		if l := ExtraLabel(k).Label; reserved[l] {
			bad("labels.extra", "%q would become the label %s, which every span has: write %s=another_name", k, l, ExtraLabel(k).Attribute)
		}
	}

	for _, list := range []struct {
		key   string
		hosts []string
	}{{"allowed_hosts", c.AllowedHosts}, {"otlp.origins", c.OTLPOrigins}} {
		for _, h := range list.hosts {
			if u := (url.URL{Host: h}); h != "*" && (u.Hostname() != h || strings.ContainsAny(h, "/*@:?# ")) {
				bad(list.key, "%q is not a host name: write one such as tailscope.example.com, without scheme and port, or * for any", h)
			}
		}
	}

	c.validateAccessLogs(bad)
	c.Tenants.validate(bad)
	c.Cluster.validate(bad)
	c.Agent.validate(bad)
	c.Mirror.validate(bad)
	return errors.Join(errs...)
}

// checkLink returns an error if link is not a template of a trace's address.
func checkLink(link string) error {
	const example = "write one such as https://jaeger.example/trace/{trace_id}"
	if link == "" {
		return nil
	}
	if !strings.Contains(link, "{trace_id}") {
		return fmt.Errorf("%q has no {trace_id} in it: %s", link, example)
	}
	filled := strings.ReplaceAll(link, "{trace_id}", "0af7651916cd43dd8448eb211c80319c")
	if strings.ContainsAny(filled, "{}") {
		return fmt.Errorf("%q has a placeholder other than {trace_id}: %s", link, example)
	}
	if !isURL(filled) {
		return fmt.Errorf("%q is not a web address: %s", link, example)
	}
	return nil
}

// Extra is one configured extra label: the attribute that it is read from, and its name
// as a label.
type Extra struct{ Attribute, Label string }

// ExtraLabel parses an entry of ExtraLabels: "attribute=label", or an attribute alone,
// whose dots and dashes become underscores in the label.
func ExtraLabel(entry string) Extra {
	if attr, label, ok := strings.Cut(entry, "="); ok {
		return Extra{attr, label}
	}
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, entry)
	return Extra{entry, label}
}
