// Package spec reads files of checks: YAML, strict, with the line of every mistake. The
// keys are tags of the structs that the program works with, and the JSON Schema is made
// of the same tags. What Read returns is whole and valid: templates are merged in,
// expressions parsed, names resolved and defaults filled in. Commands and secrets are
// left to those who run them.
package spec

import (
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/state"
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
	Name        string            // unique
	Templates   []string          `key:"template" is:"word" doc:"Templates to merge, in this order."` // empty once they are merged in
	Description string            `key:"description" doc:"For people."`
	Host        string            `key:"host" doc:"What Nagios calls the host; may hold $label of each."`
	Service     string            `key:"service" doc:"What Nagios calls the service; may hold $label of each."`
	Item        string            `key:"item" doc:"Makes labels host, service and item of the check's series, so that host-service-item[-10M] finds them."`
	Aliases     Aliases           `key:"aliases" doc:"What $$HOSTALIAS$$, $$SERVICEALIAS$$ and $$ITEMALIAS$$ stand for."`
	Labels      map[string]string `key:"labels" doc:"Added to the check's series, states and events."`
	Unit        string            `key:"unit" is:"word" doc:"Of the value, such as s, B, % or ratio, which is written in per cent; default ratio of the measures errors, above and below."`
	Inactive    bool              `key:"inactive" doc:"Validated, never run."`
	Silent      bool              `key:"silent" doc:"Run and stored; nobody is notified."` // Bischeck's sendserver=false

	Each  *Each  `key:"each" doc:"Apply the check to every series that has data."`
	Value Source `key:"value" doc:"What is measured: an expression, or one kind of source."`
	Schedule
	Timeout   time.Duration `key:"timeout" doc:"Of one run; 10s or the interval, whichever is shorter."`
	Null      expr.Nulls    `key:"null" default:"strict" doc:"What missing values do to expressions."`
	OnNull    string        `key:"on_null" is:"OK|WARNING|CRITICAL|UNKNOWN" default:"UNKNOWN" doc:"The level of a run without a value."`
	Tolerance time.Duration `key:"tolerance" doc:"How far from the asked time a sample may lie; default twice the interval and at least 1m."`
	Threshold *Threshold    `key:"threshold" doc:"What the value is held against."` // nil: the source's own level, or always OK
	state.Rules
	Receivers []string `key:"receivers" is:"word" doc:"Who is notified, by name."`
	DependsOn []string `key:"depends_on" is:"word" doc:"Checks: while one of them is not OK nobody is notified of this one."`

	File string // where it is defined
	Line int

	plan *plan // what Instance and YAML are made of; nil unless it was read
}

// Aliases are put in place of names by macros.
type Aliases struct {
	Host    string `key:"host" doc:"$$HOSTALIAS$$"`
	Service string `key:"service" doc:"$$SERVICEALIAS$$"`
	Item    string `key:"item" doc:"$$ITEMALIAS$$"`
}

// Each applies a check to every group of series that had data within Within. The
// check of a series that had none for longer is closed.
type Each struct {
	Series Series        `key:"series" need:"yes" doc:"A family with matchers, such as span_duration_seconds{service=\"shop\"}."`
	By     []string      `key:"by" is:"label" need:"yes" doc:"Labels that tell checks apart; $label stands for the value of each."`
	Most   int           `key:"most" is:"1..1000000" default:"1000" doc:"How many at most."` // those beyond are counted and shown
	Within time.Duration `key:"within" default:"1h" doc:"How lately a series must have had data."`
}

// Source takes a value: exactly one field is set.
type Source struct {
	Expr    *expr.Program `key:"expression" doc:"An expression; value: EXPRESSION says the same."` // over other series and checks
	Query   *Query        `key:"query" doc:"Measures a family over the last while."`
	PromQL  string        `key:"promql" is:"promql" doc:"A query that comes to one number."`
	HTTP    *HTTP         `key:"http" doc:"Asks a server."`
	TCP     *TCP          `key:"tcp" doc:"Connects; the value is how long that took."`
	TLS     *TLS          `key:"tls" doc:"Shakes hands; the value is the days to expiry."`
	Command *Command      `key:"command" doc:"Runs a program, such as a Nagios plugin."`
	SQL     *SQL          `key:"sql" doc:"Asks a database; the value is the first column of the first row."`
}

// Kind returns the source's key in files, which the page shows too.
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
	Measure string        `key:"measure" is:"measure" need:"yes" doc:"p50 to p99.9, mean, min, max, count, rate, errors, apdex, above, below; of numbers last, mean, min, max, sum, rate."`
	Series  Series        `key:"series" need:"yes" doc:"A family with matchers."`
	T       float64       `key:"t" is:"seconds" doc:"Of apdex, above and below: seconds, or a duration such as 500ms."` // default the service's target
	Cohort  string        `key:"cohort" is:"very large|large|medium|small" doc:"Only tenants of this cohort."`
	Over    time.Duration `key:"over" default:"5m" doc:"How far back."` // from the last slot that is surely whole
}

// Secret is read when it is needed, from the environment or a file. It never
// prints: String, GoString, MarshalJSON and LogValue return only where it comes from.
type Secret struct {
	Env  string `key:"env" doc:"A variable of the server's environment."`
	File string `key:"file" doc:"A file; its first line is the secret."`
}

// Text is Plain or, if it has one, its Secret.
type Text struct {
	Plain  string
	Secret *Secret
}

type HTTP struct {
	URL         string          `key:"url" is:"url" need:"yes" doc:"Whom to ask."`
	Method      string          `key:"method" is:"GET|HEAD|POST|PUT|OPTIONS" doc:"Default: GET, or POST with a body."`
	Body        string          `key:"body" doc:"What to send."`
	Headers     map[string]Text `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Measure     string          `key:"measure" is:"time|first_byte|status|size|json|regexp" doc:"What the value is; time unless json or regexp is given."`
	JSON        string          `key:"json" doc:"Path within the body, such as data.items.0.count."`
	Regexp      string          `key:"regexp" is:"regexp" doc:"The first group, or the match, is the value."`
	Expect      []int           `key:"expect" is:"100..599" doc:"Statuses that are well; default 200 to 399. Others are CRITICAL."`
	NoRedirects bool            `key:"redirects" is:"inverted" default:"true" doc:"Whether to follow them."`
	MaxBytes    int64           `key:"max_bytes" is:"size" default:"1MiB" doc:"Of the body."`
	CA          string          `key:"ca" doc:"File of certificates to trust."`
	Insecure    bool            `key:"insecure" doc:"Trust any certificate."`
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
	Args     []string        `key:"args" doc:"The program and its arguments; no shell reads them."`
	Shell    string          `key:"shell" doc:"A line for /bin/sh instead."`
	Env      map[string]Text `key:"env" doc:"Environment: values, or {env: NAME} or {file: PATH} for secrets."`
	Dir      string          `key:"dir" doc:"Where it runs."`
	Label    string          `key:"label" doc:"Of the performance data that is the value; default the first."`
	Output   string          `key:"output" is:"plugin|number" default:"plugin" doc:"plugin: exit code and performance data as Nagios has them; number: what is printed is the value."`
	MaxBytes int64           `key:"max_bytes" is:"size" default:"64KiB" doc:"Of output."`
}

type SQL struct {
	Driver string `key:"driver" is:"postgres|mysql|sqlite" need:"yes" doc:"Which database."`
	DSN    Text   `key:"dsn" need:"yes" doc:"How to reach it: text without a password, or {env: NAME} or {file: PATH}."`
	Query  string `key:"query" need:"yes" doc:"%%yyyy-MM-dd%% and %%yyyy-MM-dd%[D-1]%% stand for dates."`
}

// Schedule is when a check runs: exactly one of Interval, Cron and After is set.
type Schedule struct {
	Interval time.Duration `key:"every" doc:"How often; the first run is at a random moment within it."`
	Cron     string        `key:"cron" is:"cron" doc:"Five fields, or six with seconds first."` // ? as in Quartz
	After    string        `key:"after" is:"word" doc:"Run when this check has run."`
	Delay    time.Duration `key:"delay" doc:"Wait so long after that."`
	Zone     string        `key:"zone" is:"zone" doc:"Time zone of cron and of the same time on earlier days."` // default the file's
}

// Threshold judges a value. Warning and Critical reach from Of to the bad side; nil is
// never that level.
type Threshold struct {
	Must     string    `key:"must" is:"<|>|=" doc:"What a healthy value does: stay below (<), above (>) or near (=)."`
	Of       Of        `key:"of" need:"yes" doc:"A number, an expression, or profile NAME."`
	Warning  *Distance `key:"warning" doc:"How far beyond is a WARNING: 10% of it, or an amount."`
	Critical *Distance `key:"critical" doc:"How far beyond is CRITICAL: 30% of it, or an amount."`
	Allow    string    `key:"allow" doc:"In place of must and critical, as comparisons have it: increase:3%, decrease:3%, or 3% to either side. What is beyond is CRITICAL."`
}

// Of is one of a number, an expression and the name of a profile.
type Of struct {
	Number  *float64
	Expr    *expr.Program
	Profile string
}

// Distance is a part of |T| or an absolute amount.
type Distance struct {
	Share    float64 // 0.1 is 10 %
	Absolute float64
}

// Window is a time in which nobody is notified: once from Start to End, or for Duration
// whenever Cron says.
type Window struct {
	Name       string   `key:"name" need:"yes" doc:"For people."`
	Checks     []string `key:"checks" is:"word" doc:"Names of checks; default all."`
	Match      Matchers `key:"match" doc:"Only checks with these labels."`
	Start, End time.Time
	Cron       string        `key:"cron" is:"cron" doc:"Or again and again: when it begins."`
	Duration   time.Duration `key:"duration" doc:"With cron: how long it takes."`
	Zone       string        `key:"zone" is:"zone" doc:"Of start, end and cron; default the file's."`
}

// Calendar lists holidays. Package profile applies it.
type Calendar struct {
	Zone     string   `key:"zone" is:"zone" doc:"Default: the file's."`
	Holidays []string `key:"holidays" is:"date" doc:"2026-12-25, 12-25 for every year, easter, easter+1, easter-2, 11-thu#4 (fourth Thursday of November), 05-mon#L (last Monday of May), 06-20+sat (first Saturday from then on)."`
	Week     string   `key:"week" is:"iso|us" default:"iso" doc:"How weeks are numbered and begin."`
}

// Profile is a threshold by the clock. Package profile applies it.
type Profile struct {
	Calendar string       `key:"calendar" is:"word" doc:"Name of a calendar."`
	Days     []ProfileDay `key:"days" doc:"The first that fits wins, in the order holiday, date, week and weekday, day of month, weekday, month, week, default."`
	Learn    *Learn       `key:"learn" doc:"Made from history instead."`
	File     string
	Line     int
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
// the quantiles Low, Middle and High of the values in Over.
type Learn struct {
	Selector string        `key:"series" is:"selector" doc:"What it is learned from; default the check's own values."`
	By       string        `key:"by" is:"hour|weekday-weekend|weekday" default:"weekday" doc:"Kinds of day."`
	Over     time.Duration `key:"over" default:"4w" doc:"How far back."`
	Low      float64       `key:"low" is:"share" default:"5%" doc:"Quantile of what is low."`
	Middle   float64       `key:"middle" is:"share" default:"50%" doc:"Quantile of what is usual."`
	High     float64       `key:"high" is:"share" default:"95%" doc:"Quantile of what is high."`
	Refresh  Refresh       `key:"refresh" doc:"When it is learned again; default daily."`
	Least    int           `key:"least" is:"1..1000000" default:"20" doc:"Samples that an hour needs for a threshold."`
}

// Refresh is when a profile is learned again: either Every or Cron is set.
type Refresh struct {
	Every time.Duration `key:"every" doc:"How often."`
	Cron  string        `key:"cron" is:"cron" doc:"Or when."`
	Zone  string        `key:"zone" is:"zone" doc:"Of cron."`
}

// Schedule returns the schedule that f is.
func (f Refresh) Schedule() Schedule {
	return Schedule{Interval: f.Every, Cron: f.Cron, Zone: f.Zone}
}

// Receiver is somebody who is notified: exactly one kind is set.
type Receiver struct {
	Name         string
	NSCA         *NSCA         `key:"nsca" doc:"Nagios or Icinga by NSCA: every result. It has no acknowledgement: what is on the way when a server dies is lost."`
	Icinga       *Icinga       `key:"icinga" doc:"Icinga 2's API: every result."`
	Alertmanager *Alertmanager `key:"alertmanager" doc:"Alertmanager's API v2."`
	Webhook      *Webhook      `key:"webhook" doc:"Events by HTTP POST."`
	Email        *Email        `key:"email" doc:"Events by SMTP."`
	Graphite     *Graphite     `key:"graphite" doc:"Every value with its threshold, warning and critical."`
	FileOut      *FileOut      `key:"file" doc:"Lines of a file."`
	Verdicts     bool          `key:"verdicts" doc:"Also the verdicts of marks, each once it is final; of a webhook, an email or a file of events. Default no."`
	Match        Matchers      `key:"match" doc:"Only checks with these labels."`
	Levels       []string      `key:"levels" is:"OK|WARNING|CRITICAL|UNKNOWN" doc:"Of events; default all."`
	Spool        Spool         `key:"spool" doc:"Bounds of what waits for a receiver that is down."`
	Timeout      time.Duration `key:"timeout" default:"10s" doc:"Of one attempt."`
	File         string
	Line         int
}

// Spool bounds what waits for a receiver that is down. The oldest beyond it are
// dropped and counted.
type Spool struct {
	Bytes int64         `key:"bytes" is:"size" default:"64MiB" doc:"On disk."`
	Age   time.Duration `key:"age" doc:"Default: 24h of results and 7d of events."`
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
	URL      Text            `key:"url" is:"url" need:"yes" doc:"Where to post; {env: NAME} or {file: PATH} if the address is a secret."`
	Headers  map[string]Text `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Template string          `key:"template" is:"template" doc:"Go text/template over the event; default JSON."`
	Secret   *Secret         `key:"secret" doc:"Signs time and body by HMAC-SHA256: {env: NAME} or {file: PATH}."`
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
