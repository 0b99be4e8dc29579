package chstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"tailscope/internal/store/tier"
)

// Options configures a Store. Only Address is required; each other field has a default for
// its zero value.
type Options struct {
	// Address names the servers and the database:
	//
	//	clickhouse://user:password@host:8123,other:8123/database?cluster=name&replicated=true&tls=true
	//
	// Each host is one node's HTTP interface; the port is 8123 by default, 8443 with tls. The
	// first keeps what is not spread over shards; see the package comment. With a cluster,
	// one node of each of its shards is named at least; without one, one host alone.
	Address string

	// Retention is how long the slots of each resolution are kept, finest first; defaults
	// 48 h, 35 days, 100 days, 400 days. Each must be at least as long as the one before,
	// and the first at least 2 h.
	Retention [tier.Count]time.Duration
	// SampleAge and SampleCount bound the raw samples of each number series; defaults 35
	// days and 15,000. Samples of a series are dropped by the hour, once it has SampleCount
	// newer ones in later hours.
	SampleAge   time.Duration
	SampleCount int
	// TraceAge is how long kept traces are kept, default 7 days; TraceBytes bounds their
	// bytes before compression on each shard, default 1 GiB. What lies in six hours is
	// dropped at once, the oldest first.
	TraceAge   time.Duration
	TraceBytes int64

	// Rollup is how long after its end a slot is rolled up; default 20 s.
	Rollup time.Duration

	// AnswerBytes bounds the memory of one answer; a larger query is refused with
	// store.ErrTooMany. Default 1 GiB.
	AnswerBytes int64
	// Timeout bounds a statement whose context has no deadline; default 1 min.
	Timeout time.Duration

	// Now is the clock by which what has expired is deleted; default time.Now.
	Now func() time.Time
	// Transport sends requests; default one of the store's own.
	Transport http.RoundTripper
	Logger    *slog.Logger // default discards
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (o *Options) ensureDefaults() error {
	defaults := [...]time.Duration{48 * time.Hour, 35 * 24 * time.Hour, 100 * 24 * time.Hour, 400 * 24 * time.Hour}
	for i := range o.Retention {
		if o.Retention[i] == 0 {
			o.Retention[i] = defaults[i]
			if i > 0 {
				o.Retention[i] = max(o.Retention[i], o.Retention[i-1])
			}
		}
		if i == 0 && o.Retention[i] < 2*time.Hour {
			return fmt.Errorf("retention of %d s slots is %v, must be at least 2h", tier.Slot(i), o.Retention[i])
		}
		if i > 0 && o.Retention[i] < o.Retention[i-1] {
			return fmt.Errorf("retention of %d s slots is %v, shorter than that of the finer ones, %v", tier.Slot(i), o.Retention[i], o.Retention[i-1])
		}
	}
	setDefault(&o.SampleAge, 35*24*time.Hour)
	setDefault(&o.SampleCount, 15000)
	setDefault(&o.TraceAge, 7*24*time.Hour)
	setDefault(&o.TraceBytes, 1<<30)
	setDefault(&o.Rollup, 20*time.Second)
	setDefault(&o.AnswerBytes, 1<<30)
	setDefault(&o.Timeout, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Scheme begins the address of a store in ClickHouse.
const Scheme = "clickhouse://"

// address is a parsed Options.Address.
type address struct {
	hosts          []string // host:port
	database       string
	cluster        string // empty: none
	replicated     bool
	tls            bool
	user, password string
}

// name is what databases and clusters are called: they stand in statements.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseAddress returns an error that says what to write, if s is not an address.
func parseAddress(s string) (a address, err error) {
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		return a, fmt.Errorf("%s is not an address of ClickHouse: write clickhouse://host:8123/database", Redact(s))
	}
	// net/url takes one host.
	before, path, _ := strings.Cut(rest, "/")
	database, _, _ := strings.Cut(path, "?")
	user, hosts := "", before
	if i := strings.LastIndexByte(before, '@'); i >= 0 {
		user, hosts = before[:i+1], before[i+1:]
	}
	if strings.ContainsAny(user, "?#") || strings.ContainsRune(database, '@') {
		return a, fmt.Errorf("address %s: /, ? or # stands before the @: in a password write %%2F, %%3F and %%23", Redact(s))
	}
	u, err := url.Parse(Scheme + user + "host/" + path)
	if err != nil {
		return a, fmt.Errorf("address %s: %w", Redact(s), errors.Unwrap(err))
	}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
	}
	settings, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, fmt.Errorf("address %s: %w", Redact(s), err)
	}
	for key, values := range settings {
		v := values[len(values)-1]
		switch key {
		case "cluster":
			if a.cluster = v; !name.MatchString(v) {
				return a, fmt.Errorf("address %s: %q is not the name of a cluster: use letters, digits and _", Redact(s), v)
			}
		case "replicated", "tls":
			if v != "true" && v != "false" {
				return a, fmt.Errorf("address %s: %s is %q, want true or false", Redact(s), key, v)
			}
			if key == "tls" {
				a.tls = v == "true"
			} else {
				a.replicated = v == "true"
			}
		default:
			return a, fmt.Errorf("address %s: %q is not a setting: use cluster, replicated or tls", Redact(s), key)
		}
	}
	a.database = strings.Trim(u.Path, "/")
	if !name.MatchString(a.database) {
		return a, fmt.Errorf("address %s: %q is not the name of a database: write clickhouse://host:8123/database, with letters, digits and _", Redact(s), a.database)
	}
	port := "8123"
	if a.tls {
		port = "8443"
	}
	for h := range strings.SplitSeq(hosts, ",") {
		if h = strings.TrimSpace(h); h == "" {
			return a, fmt.Errorf("address %s: a host is empty: write clickhouse://host:8123/database", Redact(s))
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		a.hosts = append(a.hosts, h)
	}
	switch {
	case a.cluster == "" && len(a.hosts) > 1:
		return a, fmt.Errorf("address %s: several hosts are the nodes of a cluster: add ?cluster=NAME, as in system.clusters", Redact(s))
	case a.cluster == "" && a.replicated:
		return a, fmt.Errorf("address %s: tables are replicated in a cluster: add cluster=NAME, as in system.clusters", Redact(s))
	}
	return a, nil
}

// Redact returns an address without its password, also of what is not an address.
func Redact(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || strings.ContainsAny(scheme, ":@") { // within a password
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	before, _, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(before, '@')
	if at < 0 {
		at = strings.LastIndexByte(rest, '@')
	}
	if at < 0 {
		return s
	}
	user, _, _ := strings.Cut(rest[:at], ":")
	return scheme + user + rest[at:]
}
