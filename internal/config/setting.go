package config

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is one thing an operator may say, wherever they say it.
type Setting struct {
	Key   string // in the file, sections joined by dots
	Doc   string // one sentence
	Value func(*Config) Value
}

// Env is the setting's environment variable.
func (s Setting) Env() string {
	return "TAILSCOPE_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag is the setting's flag, without the dashes.
func (s Setting) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// flagged are the keys that tailscope serve has a flag for. The others are given in
// the file, the environment, or by --set.
var flagged = []string{
	"data", "listen", "allowed_hosts", "otlp.grpc", "otlp.http", "retention.max_bytes", "labels.tenant", "labels.extra", "tenants.list",
	"limits.memory", "ingest.flush", "checks", "page_url", "log.level", "log.format", "debug.listen",
}

// HasFlag reports whether tailscope serve has a flag for the setting.
func (s Setting) HasFlag() bool { return slices.Contains(flagged, s.Key) }

// Find returns the setting of a key. The error names the nearest.
func Find(key string) (Setting, error) {
	s, ok := settingByKey(key)
	if !ok {
		return s, fmt.Errorf("unknown key %s: did you mean %s?", key, nearest(key))
	}
	return s, nil
}

// Settings lists every setting, in the order in which they are documented.
var Settings = append(serverSettings, mirrorSettings...)

var serverSettings = []Setting{
	{"data", "Directory of the store and the journal; made if absent. One process at a time.",
		func(c *Config) Value { return text{&c.Data} }},
	{"listen", "Address of the page and the API.",
		func(c *Config) Value { return text{&c.Listen} }},
	{"allowed_hosts", "Names under which the server may be asked, beside IP addresses, localhost, the machine's name and those in `listen` and `page_url`; pages of these hosts may change things. `*` allows every name: only where something else checks it.",
		func(c *Config) Value { return list{&c.AllowedHosts} }},

	{"otlp.grpc", "Address that takes OTLP over gRPC; empty turns it off.",
		func(c *Config) Value { return text{&c.OTLPGRPC} }},
	{"otlp.http", "Address that takes OTLP over HTTP; empty turns it off.",
		func(c *Config) Value { return text{&c.OTLPHTTP} }},
	{"otlp.max_request", "Largest OTLP request taken, after decompression; at most about a 64th of limits.memory.",
		func(c *Config) Value { return size{&c.MaxRequest} }},

	{"retention.10s", "How long slots of ten seconds are kept.",
		func(c *Config) Value { return duration{&c.Retain.Base} }},
	{"retention.1m", "How long slots of one minute are kept.",
		func(c *Config) Value { return duration{&c.Retain.Minute} }},
	{"retention.10m", "How long slots of ten minutes are kept.",
		func(c *Config) Value { return duration{&c.Retain.TenMin} }},
	{"retention.1h", "How long slots of one hour are kept.",
		func(c *Config) Value { return duration{&c.Retain.Hour} }},
	{"retention.max_bytes", "What the store may take on disk; the oldest raw samples and finest slots go first. 0 is no bound.",
		func(c *Config) Value { return size{&c.Retain.MaxBytes} }},

	{"labels.tenant", "Attributes of span or resource that name the tenant; the first present wins.",
		func(c *Config) Value { return list{&c.TenantKeys} }},
	{"labels.extra", "Further attributes to keep as labels: `attribute`, or `attribute=label`. Each multiplies the series; keep them few and low in cardinality.",
		func(c *Config) Value { return list{&c.ExtraLabels} }},

	{"tenants.list", "File of tenants with their sizes or cohorts, CSV or JSON: it makes the cohorts, in place of shares of requests. Read at the start; see docs/tenants.md.",
		func(c *Config) Value { return text{&c.Tenants.List} }},
	{"tenants.very_large", "Size on the list from which a tenant is very large; 0 in all three goes by the share of all sizes together, 5 %, 1 % and 0.1 %.",
		func(c *Config) Value { return number{&c.Tenants.VeryLarge} }},
	{"tenants.large", "Size on the list from which a tenant is large.",
		func(c *Config) Value { return number{&c.Tenants.Large} }},
	{"tenants.medium", "Size on the list from which a tenant is medium.",
		func(c *Config) Value { return number{&c.Tenants.Medium} }},

	{"limits.memory", "Bound on the memory of the whole program, divided among its parts; see [Memory](#memory). `auto` is nine tenths of the control group's limit, else half of the machine's memory and at most 1.5GiB. More than nine tenths of either is lowered to that.",
		func(c *Config) Value { return derived{&c.Memory} }},
	{"limits.tenants", "Tenants named per service; the heaviest keep their names, the rest are counted as `_other`.",
		func(c *Config) Value { return number{&c.MaxTenants} }},
	{"limits.operations", "Operations named per service; later ones are counted as `_other`.",
		func(c *Config) Value { return number{&c.MaxOperations} }},
	{"limits.families", "Names of metrics that have active series; points of later ones are refused, by the reason too_many_families.",
		func(c *Config) Value { return number{&c.MaxFamilies} }},
	{"limits.samples", "Raw samples kept per gauge or counter series.",
		func(c *Config) Value { return number{&c.MaxSamples} }},
	{"limits.sample_age", "Age at which raw samples of gauges and counters go.",
		func(c *Config) Value { return duration{&c.MaxSampleAge} }},
	{"limits.longest_span", "Longest span, and longest request of an access log, that is taken; a longer one is refused and counted as `too_long` or `long_duration`. A span whose start is not set has lasted since 1970.",
		func(c *Config) Value { return duration{&c.LongestSpan} }},
	{"limits.connections", "Connections of each listener; beyond it the one that has been idle for longest is closed for a newcomer. At most one for each 384KiB of limits.memory; see [Connections](#connections).",
		func(c *Config) Value { return number{&c.MaxConnections} }},

	{"traces.memory", "Bound on open traces and their tables; at the bound those that have waited longest are closed early and counted. `auto` is a twelfth of limits.memory; 0 turns the breakdown off.",
		func(c *Config) Value { return derived{&c.Traces.Memory} }},
	{"traces.grace", "How long a trace whose root has ended waits for spans under way.",
		func(c *Config) Value { return duration{&c.Traces.Grace} }},
	{"traces.idle", "How long a trace whose root has not come waits after its last span.",
		func(c *Config) Value { return duration{&c.Traces.Idle} }},
	{"traces.keep", "Age at which kept traces go.",
		func(c *Config) Value { return duration{&c.Traces.Keep} }},
	{"traces.max_bytes", "What kept traces may take on disk; the oldest go first.",
		func(c *Config) Value { return size{&c.Traces.MaxBytes} }},
	{"traces.link", "Address of a trace in another tracing system, with `{trace_id}` where its id goes; empty shows no link.",
		func(c *Config) Value { return text{&c.Traces.Link} }},

	{"ingest.flush", "How often what has arrived becomes visible to questions.",
		func(c *Config) Value { return duration{&c.Flush} }},
	{"ingest.sync", "How often the journal is synced: what a power loss may cost. A crash of the process costs nothing.",
		func(c *Config) Value { return duration{&c.Sync} }},

	{"checks", "Files of checks, or patterns of files, separated by commas; see docs/checks.md. SIGHUP reads them again.",
		func(c *Config) Value { return paths{list{&c.Checks}} }},
	{"page_url", "Address under which people reach the page, for links in what receivers of checks are told; `page` in a file of checks goes before it.",
		func(c *Config) Value { return text{&c.PageURL} }},

	{"log.level", "debug, info, warn or error.",
		func(c *Config) Value { return text{&c.LogLevel} }},
	{"log.format", "text or json.",
		func(c *Config) Value { return text{&c.LogFormat} }},
	{"debug.listen", "Address of Go's pprof, for finding out what the server itself does; empty is off.",
		func(c *Config) Value { return text{&c.DebugListen} }},
}

func settingByKey(key string) (Setting, bool) {
	for _, s := range Settings {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// Environ sets c from TAILSCOPE_* variables, given as os.Environ gives them.
// Variables that are no setting are left alone: orchestrators invent some
// (TAILSCOPE_PORT for a service of that name), and clients have their own.
func (c *Config) Environ(environ []string) []error {
	vars := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	var errs []error
	for _, s := range Settings {
		v, ok := vars[s.Env()]
		if !ok {
			continue
		}
		if err := s.Value(c).Set(v); err != nil {
			errs = append(errs, fmt.Errorf("environment: %s: %w", s.Env(), err))
		}
	}
	return errs
}

// YAML writes every setting as a file that would say the same.
func (c *Config) YAML() string {
	var b strings.Builder
	section := ""
	for _, s := range Settings {
		sec, leaf, nested := strings.Cut(s.Key, ".")
		indent := ""
		if nested {
			if sec != section {
				fmt.Fprintf(&b, "%s:\n", sec)
			}
			section, indent = sec, "  "
		} else {
			leaf = sec
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, leaf, s.Value(c).YAML())
	}
	c.accessLogsYAML(&b)
	return b.String()
}
