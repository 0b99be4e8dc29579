// Package config reads the server's settings: defaults, then one strict YAML
// file, then the environment, then flags, each over the one before.
//
// A setting is written once, in Settings: its key, what it does and where its
// value lies. The file, the environment and the command line all set it
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
)

// Config is what an operator may decide about a server. Default returns it
// with every field set; Validate says what is wrong with it.
type Config struct {
	Data        string // data directory
	Listen      string // address of the page and the API
	DebugListen string // address of pprof, empty is off

	AllowedHosts   []string // names under which the server may be asked, beside its own
	MaxConnections int      // of each listener

	OTLPGRPC, OTLPHTTP string // addresses, empty is off
	MaxRequest         int64  // bytes of one decoded OTLP request

	Traces Traces

	Retain        Retention
	TenantKeys    []string // span or resource attributes that name the tenant, first present wins
	ExtraLabels   []string // further attributes kept as labels of spans
	Memory        int64    // bytes of the whole program, or Auto; see MemoryBound
	MaxTenants    int      // named per service
	MaxOperations int      // named per service
	MaxFamilies   int      // of incoming metrics, with active series
	MaxSamples    int      // raw samples kept per number series
	MaxSampleAge  time.Duration
	LongestSpan   time.Duration // a longer one is refused
	Flush, Sync   time.Duration

	LogLevel, LogFormat string

	AccessLogs []AccessLog // followed as they grow

	Checks  []string // files of checks, or patterns of files
	PageURL string   // under which people reach the page; empty is unknown

	Tenants Tenants

	Mirror Mirror
}

// Traces says how traces are put together and which are kept.
type Traces struct {
	Memory      int64         // bytes of open traces and tables, or Auto; 0 turns the breakdown off
	Grace, Idle time.Duration // how long a trace is waited for, see the settings
	Keep        time.Duration // age at which kept traces go
	MaxBytes    int64         // what kept traces may take on disk
	Link        string        // URL of a trace in another system, {trace_id} in it; empty is none
}

// Retention says how long points of each resolution are kept, and how many
// bytes everything together may take on disk (0: no bound).
type Retention struct {
	Base, Minute, TenMin, Hour time.Duration
	MaxBytes                   int64
}

const day = 24 * time.Hour

// Default returns the settings of a server that was told nothing.
func Default() Config {
	return Config{
		MaxConnections: 4096,

		Data:       "data",
		Listen:     "127.0.0.1:7099",
		OTLPGRPC:   "127.0.0.1:4317",
		OTLPHTTP:   "127.0.0.1:4318",
		MaxRequest: 16 << 20,
		Traces: Traces{
			Memory: Auto, Grace: 10 * time.Second, Idle: time.Minute, Keep: 7 * day, MaxBytes: 1 << 30,
		},
		Retain: Retention{
			Base: 48 * time.Hour, Minute: 35 * day, TenMin: 100 * day, Hour: 400 * day,
		},
		TenantKeys:    []string{"tenant.id", "tenant", "customer.id", "org.id"},
		Memory:        Auto,
		MaxTenants:    20_000,
		MaxOperations: 2_000,
		MaxFamilies:   5_000,
		MaxSamples:    15_000,
		MaxSampleAge:  35 * day,
		LongestSpan:   day,
		Flush:         10 * time.Second,
		Sync:          time.Second,
		LogLevel:      "info",
		LogFormat:     "text",
		Mirror:        defaultMirror,
	}
}

// reserved are the labels every span has anyway; an extra label may not
// take the name of one.
var reserved = map[string]bool{
	"service": true, "operation": true, "component": true, "kind": true, "status": true,
	"tenant": true, "version": true, "variant": true, "instance": true,
}

var attributeKey = regexp.MustCompile(`^[^\s,=]+(=[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// Validate reports every problem at once, each naming its setting.
func (c *Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}

	if c.Data == "" {
		bad("data", "needs a directory")
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

	for _, h := range c.AllowedHosts {
		if u := (url.URL{Host: h}); h != "*" && (u.Hostname() != h || strings.ContainsAny(h, "/*@:?# ")) {
			bad("allowed_hosts", "%q is not a host name: write one such as tailscope.example.com, without scheme and port, or * for any", h)
		}
	}

	oneOf := func(key, v string, of ...string) {
		for _, o := range of {
			if v == o {
				return
			}
		}
		bad(key, "%q is none of %s", v, strings.Join(of, ", "))
	}
	oneOf("log.level", c.LogLevel, "debug", "info", "warn", "error")
	oneOf("log.format", c.LogFormat, "text", "json")
	c.validateAccessLogs(bad)
	c.Tenants.validate(bad)
	c.Mirror.validate(bad)
	return errors.Join(errs...)
}

// checkLink says what is wrong with the template of a trace's address.
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
	u, err := url.Parse(filled)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not a web address: %s", link, example)
	}
	return nil
}

// Extra is one configured extra label: the attribute it is read from and the
// label it becomes.
type Extra struct{ Attribute, Label string }

// ExtraLabel splits an entry of ExtraLabels: "attribute=label", or an attribute
// alone whose dots and dashes become underscores.
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
