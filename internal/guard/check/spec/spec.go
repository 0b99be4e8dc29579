// Package spec reads what an operator wants checked: files of YAML, strict, with
// the line of every mistake. What it returns is whole and valid: templates are
// merged in, expressions parsed, names resolved, defaults filled in. Only commands
// and secrets are left for those who run them.
package spec

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/guard/check/expr"
)

// File is everything that was read, from one file or several.
type File struct {
	Checks      []Check
	Calendars   map[string]Calendar
	Profiles    map[string]Profile
	Receivers   map[string]Receiver
	Maintenance []Window
	Page        string   // address under which people reach the page, for links; may be empty
	Files       []string // that were read
}

// Check is one definition. With Each it is applied to every series that a
// matcher finds, and then stands for as many checks as there are.
type Check struct {
	Name        string // unique
	Description string
	Labels      map[string]string // added to its series, states and events
	Host        string            // for Nagios; may hold $label of Each
	Service     string
	Unit        string
	Inactive    bool // validated, never run
	Silent      bool // run and stored, never told to receivers (sendserver=false)

	Each     *Each
	Value    Source
	Schedule Schedule
	Timeout  time.Duration // of one run; default 10 s, at most the interval
	Null     expr.Nulls
	// OnNull is the level of a run without a value: UNKNOWN unless OK is asked.
	OnNull    string
	Tolerance time.Duration // how far from [-30M] a sample may lie; default twice the interval, at least 1 min
	Threshold *Threshold    // nil: the source's own level, or always OK
	States    States
	Receivers []string // names
	DependsOn []string // names of checks: while one of them is not OK nothing is told

	File string // where it is defined
	Line int

	plan *plan // what Instance and YAML are made of; nil unless it was read
}

// Each applies a check to every group of series that had data lately.
type Each struct {
	Family   string
	Matchers []*labels.Matcher
	By       []string      // $name of these is replaced in expressions, matchers, host, service
	Most     int           // bound on how many; default 1,000; beyond it is counted and shown
	Within   time.Duration // "lately"; default 1 h. A series gone for longer closes its check.
}

// Source is where a value comes from: exactly one is set.
type Source struct {
	Query   *Query
	Expr    *expr.Program // virtual: an expression over other series and checks
	PromQL  string        // a scalar, or a vector of one element
	HTTP    *HTTP
	TCP     *TCP
	TLS     *TLS
	Command *Command
	SQL     *SQL
}

// Kind is the source's word in files and on the page.
func (s *Source) Kind() string {
	switch {
	case s.Query != nil:
		return "query"
	case s.Expr != nil:
		return "expression"
	case s.PromQL != "":
		return "promql"
	case s.HTTP != nil:
		return "http"
	case s.TCP != nil:
		return "tcp"
	case s.TLS != nil:
		return "tls"
	case s.Command != nil:
		return "command"
	case s.SQL != nil:
		return "sql"
	}
	return ""
}

// Query measures a family over the last while. All checks of one Each are
// answered by one query: in the definition matchers keep $label of Each as their
// value, as in operation="$operation"; those of an Instance have the series'.
type Query struct {
	Family   string
	Matchers []*labels.Matcher
	// Measure is p50..p99.9 (any pN), mean, min, max, count, rate (per second),
	// errors (share of status="error"), apdex (with T, default the service's
	// target), above (share above T), below; of numbers last, mean, min, max,
	// sum, rate (a counter's increase per second).
	Measure string
	T       float64       // seconds
	Cohort  string        // only tenants of this cohort
	Over    time.Duration // default 5 min; ends at the last slot that is surely whole
}

// Secret is read when it is needed, from the environment or a file. It never
// prints: String, GoString, MarshalJSON and LogValue say only where it comes from.
type Secret struct {
	Env  string `key:"env" doc:"A variable of the server's environment."`
	File string `key:"file" doc:"A file; its first line is the secret."`
}

type HTTP struct {
	URL, Method, Body string
	Headers           map[string]string
	SecretHeaders     map[string]Secret
	Measure           string // time (total, seconds), first_byte, status, size, json, regexp
	JSON              string // path within the body, such as data.items.0.count
	Regexp            string // first group, or the match, as a number
	Expect            []int  // statuses that are well; default 200-399; others are CRITICAL
	NoRedirects       bool
	MaxBytes          int64 // of the body, default 1 MiB
	CA                string
	Insecure          bool
}

type TCP struct {
	Address string `key:"address" is:"address" need:"yes" doc:"host:port"`
	Send    string `key:"send" doc:"What to send once connected."`
	Expect  string `key:"expect" is:"regexp" doc:"What the first line must match."`
}

type TLS struct {
	Address    string `key:"address" is:"address" need:"yes" doc:"host:port"`
	ServerName string `key:"server_name" doc:"Name that the certificate must be of; default the host."`
	CA         string `key:"ca" doc:"File of certificates to trust."`
	Measure    string `key:"measure" is:"days|time" default:"days" doc:"Days to expiry, or seconds of the handshake."`
}

type Command struct {
	Args      []string // the program and its arguments; no shell
	Shell     string   // a command line for /bin/sh -c, only where asked for by this key
	Env       map[string]string
	SecretEnv map[string]Secret
	Dir       string
	Label     string // of the perfdata that is the value; default the first
	// Output: "plugin" (default: exit code and perfdata) or "number" (stdout is one)
	Output   string
	MaxBytes int64 // of output, default 64 KiB
}

type SQL struct {
	Driver    string // postgres, mysql, sqlite
	DSN       string
	SecretDSN *Secret
	Query     string // first column of the first row; %%yyyy-MM-dd%% and %%…%[D-1]%% are dates
}

// Schedule says when: exactly one of Interval, Cron, After.
type Schedule struct {
	Interval time.Duration // first start random within it
	Cron     string        // five fields, or six with seconds; ? as in Quartz
	After    string        // another check's name
	Delay    time.Duration // after After; default 0
	Zone     string        // of Cron; default the file's, default UTC
}

// Threshold judges a value. T is one of Number, Expr, Profile.
type Threshold struct {
	// Must is what a healthy value does: "<" stays below T, ">" above, "=" near.
	Must              string
	Number            *float64
	Expr              *expr.Program
	Profile           string
	Warning, Critical *Distance // from T, on the bad side; nil: never that level
}

// Distance is a part of |T| or an absolute amount.
type Distance struct {
	Share    float64 // 0.1 is 10 %
	Absolute float64
}

// States says how runs become states.
type States struct {
	Bad, OfBad   int // hard after Bad not-OK of the last OfBad runs; default 3 of 3
	Good, OfGood int // and OK after Good of OfGood; default 1 of 1
	// FlapHigh and FlapLow are shares of state changes among the last 21 runs
	// that begin and end flapping; 0 is off; defaults 0.5 and 0.25.
	FlapHigh, FlapLow float64
	Remind            time.Duration // tell open incidents again; 0 never
}

// Window is a time in which nothing is told.
type Window struct {
	Name       string
	Checks     []string // names; empty: all
	Match      []*labels.Matcher
	Start, End time.Time // once
	Cron       string    // or again and again, for Duration
	Duration   time.Duration
	Zone       string
}

// Calendar says what days there are. Package profile gives it meaning.
type Calendar struct {
	Zone     string   `key:"zone" is:"zone" doc:"Default: the file's."`
	Holidays []string `key:"holidays" is:"date" doc:"2026-12-25, 12-25 for every year, easter, easter+1, easter-2, 11-thu#4 (fourth Thursday of November), 05-mon#L (last Monday of May), 06-20+sat (first Saturday from then on)."`
	Week     string   `key:"week" is:"iso|us" default:"iso" doc:"How weeks are numbered and begin."`
}

// Profile is a threshold by the clock. Package profile gives it meaning.
type Profile struct {
	Calendar string
	// Of what is listed the first day rule that applies wins, in the order
	// holiday, date, week and weekday, day of month, weekday, month, week, default.
	Days  []ProfileDay
	Learn *Learn // instead of Days
	File  string
	Line  int
}

type ProfileDay struct {
	Name      string     `key:"name" doc:"For people."`
	Holiday   bool       `key:"holiday" doc:"Holidays of the calendar."`
	Dates     []string   `key:"dates" is:"date" doc:"2026-12-24, 12-24 for every year, or as holidays."`
	Weeks     []int      `key:"weeks" is:"1..53" doc:"Numbers of weeks."`
	Weekdays  []string   `key:"weekdays" is:"weekday" doc:"mon to sun, or mon-fri."`
	MonthDays []int      `key:"month_days" is:"-31..31" doc:"1 to 31; -1 is the last."`
	Months    []int      `key:"months" is:"1..12" doc:"1 to 12."`
	None      bool       `key:"none" doc:"No threshold: always OK."`
	Hours     []string   `key:"hours" is:"hour" doc:"24 of them: a number, an expression or none; between two the threshold goes straight."`
	Intervals []Interval `key:"intervals" doc:"Local times with a threshold each; between them there is none."`
	Step      bool       `key:"step" doc:"Hold the value of each hour instead."`
	Line      int
}

type Interval struct {
	From     string    `key:"from" is:"clock" need:"yes" doc:"09:00"`
	To       string    `key:"to" is:"clock" need:"yes" doc:"17:30, or 24:00"`
	Value    string    `key:"value" is:"hour" need:"yes" doc:"A number or an expression."`
	Warning  *Distance `key:"warning" doc:"Instead of the check's."`
	Critical *Distance `key:"critical" doc:"Instead of the check's."`
}

// Learn makes a profile from history: for each hour of the kinds of day in By,
// the quantiles Low, Middle and High of what was seen in Over, Refresh often.
type Learn struct {
	Selector          string        // what is learned from; default the check's own values
	By                string        // hour, weekday-weekend, weekday (default)
	Over              time.Duration // default 4 weeks
	Low, Middle, High float64       // default 0.05, 0.5, 0.95
	Refresh           Schedule      // default daily
	Least             int           // samples an hour needs, else no threshold there; default 20
}

// Receiver is somebody who is told: exactly one kind is set.
type Receiver struct {
	Name         string
	NSCA         *NSCA
	Icinga       *Icinga
	Alertmanager *Alertmanager
	Webhook      *Webhook
	Email        *Email
	Graphite     *Graphite
	FileOut      *FileOut
	Match        []*labels.Matcher // only checks with these labels
	Levels       []string          // of events; default all
	// Spool bounds what waits for a dead receiver: bytes on disk (64 MiB) and age
	// (24 h for results, 7 days for events); beyond it the oldest are dropped, counted.
	SpoolBytes int64
	SpoolAge   time.Duration
	Timeout    time.Duration // default 10 s
	File       string
	Line       int
}

type NSCA struct {
	Address    string  `key:"address" is:"address" need:"yes" doc:"host:port, usually 5667."`
	Password   *Secret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	Encryption string  `key:"encryption" is:"encryption" default:"xor" doc:"Must be the decryption_method of the server."`
	Short      bool    `key:"short" doc:"Packets of 720 bytes instead of 4,304, for servers before nsca 2.9."`
}

type Icinga struct {
	URL      string  `key:"url" is:"url" need:"yes" doc:"https://host:5665"`
	User     string  `key:"user" doc:"Of the API."`
	Password *Secret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	CA       string  `key:"ca" doc:"File of certificates to trust."`
	Insecure bool    `key:"insecure" doc:"Trust any certificate."`
}

type Alertmanager struct {
	URL      string        `key:"url" is:"url" need:"yes" doc:"http://host:9093"`
	User     string        `key:"user" doc:"Of basic authentication."`
	Password *Secret       `key:"password" doc:"{env: NAME} or {file: PATH}"`
	Resend   time.Duration `key:"resend" default:"1m" doc:"How often firing alerts are sent again."`
}

type Webhook struct {
	URL           string
	SecretURL     *Secret // instead of URL: many a webhook's address is its password
	Headers       map[string]string
	SecretHeaders map[string]Secret
	Template      string  // text/template over the event; default JSON
	Secret        *Secret // HMAC-SHA256 of time and body
}

type Email struct {
	Server   string   `key:"server" is:"address" need:"yes" doc:"host:port"`
	From     string   `key:"from" is:"mail" need:"yes" doc:"Sender."`
	To       []string `key:"to" is:"mail" need:"yes" doc:"Who gets it."`
	User     string   `key:"user" doc:"Of the server."`
	Password *Secret  `key:"password" doc:"{env: NAME} or {file: PATH}"`
	StartTLS string   `key:"starttls" is:"always|try|never" default:"always" doc:"Whether mail is sent encrypted."`
	Subject  string   `key:"subject" is:"template" doc:"Go text/template over the event."`
	Body     string   `key:"body" is:"template" doc:"Go text/template over the event."`
}

type Graphite struct {
	Address string `key:"address" is:"address" need:"yes" doc:"host:port, usually 2003."`
	Prefix  string `key:"prefix" doc:"Put before names."`
}

type FileOut struct {
	Path   string `key:"path" need:"yes" doc:"Appended to; made if absent."`
	Format string `key:"format" is:"json|text" default:"json" doc:"A line of JSON each, or text."`
	What   string `key:"what" is:"events|results|both" default:"events" doc:"What is written."`
}
