package spec

import "time"

// The words of files. The decoder reads into these structs and the JSON Schema
// is made of them, so neither can know a key that the other does not. Tags: key
// is the word, is names the kind of scalar (kinds.go), doc is what editors show,
// need says that it must be there.

type rawFile struct {
	Checks      map[string]rawCheck    `key:"checks" doc:"What is guarded, by name."`
	Templates   map[string]rawCheck    `key:"templates" doc:"What several checks share, by name. A check that names templates gets them merged in their order, and then what it says itself: mappings merge, lists and values replace."`
	Calendars   map[string]Calendar    `key:"calendars" doc:"Holidays, time zone and weeks, for profiles."`
	Profiles    map[string]rawProfile  `key:"profiles" doc:"Thresholds by the clock and the calendar, or learned from history."`
	Receivers   map[string]rawReceiver `key:"receivers" doc:"Who is told, by name."`
	Maintenance []rawWindow            `key:"maintenance" doc:"Times in which nobody is told."`
	Page        string                 `key:"page" is:"url" doc:"Address under which people reach the page, for links in what receivers are told."`
	Zone        string                 `key:"zone" is:"zone" doc:"Time zone of cron, calendars and maintenance that name none; default UTC."`
}

type rawCheck struct {
	Template    []string          `key:"template" is:"word" doc:"Templates to merge, in this order."`
	Description string            `key:"description" doc:"For people."`
	Host        string            `key:"host" doc:"What Nagios calls the host; may hold $label of each."`
	Service     string            `key:"service" doc:"What Nagios calls the service; may hold $label of each."`
	Item        string            `key:"item" doc:"Makes labels host, service and item of the check's series, so that host-service-item[-10M] finds them."`
	Aliases     *rawAliases       `key:"aliases" doc:"What $$HOSTALIAS$$, $$SERVICEALIAS$$ and $$ITEMALIAS$$ stand for."`
	Labels      map[string]string `key:"labels" doc:"Added to the check's series, states and events."`
	Unit        string            `key:"unit" is:"word" doc:"Of the value, such as s, B or %."`
	Inactive    bool              `key:"inactive" doc:"Validated, never run."`
	Silent      bool              `key:"silent" doc:"Run and stored, told to nobody."`
	Each        *rawEach          `key:"each" doc:"Apply the check to every series that has data."`
	Value       *rawSource        `key:"value" doc:"What is measured: an expression, or one kind of source."`
	Every       time.Duration     `key:"every" doc:"How often; the first run is at a random moment within it."`
	Cron        string            `key:"cron" is:"cron" doc:"Five fields, or six with seconds first."`
	After       string            `key:"after" is:"word" doc:"Run when this check has run."`
	Delay       time.Duration     `key:"delay" doc:"Wait so long after that."`
	Zone        string            `key:"zone" is:"zone" doc:"Time zone of cron and of the same time on earlier days."`
	Timeout     time.Duration     `key:"timeout" doc:"Of one run; 10s or the interval, whichever is shorter."`
	Null        string            `key:"null" is:"strict|skip|zero" default:"strict" doc:"What missing values do to expressions."`
	OnNull      string            `key:"on_null" is:"OK|WARNING|CRITICAL|UNKNOWN" default:"UNKNOWN" doc:"The level of a run without a value."`
	Tolerance   time.Duration     `key:"tolerance" doc:"How far from the asked time a sample may lie; default twice the interval and at least 1m."`
	Threshold   *rawThreshold     `key:"threshold" doc:"What the value is held against."`
	Soft        nOfM              `key:"soft" default:"3 of 3" doc:"Bad runs that make the state hard: 3 of 5."`
	Recover     nOfM              `key:"recover" default:"1 of 1" doc:"Good runs that make it OK again: 2 of 2."`
	Flapping    *rawFlapping      `key:"flapping" doc:"Shares of changes among the last 21 runs that begin and end flapping, or off."`
	Remind      time.Duration     `key:"remind" doc:"Tell of an open incident again after so long; default never."`
	Receivers   []string          `key:"receivers" is:"word" doc:"Who is told, by name."`
	DependsOn   []string          `key:"depends_on" is:"word" doc:"Checks: while one of them is not OK nobody is told of this one."`
}

type rawAliases struct {
	Host    string `key:"host" doc:"$$HOSTALIAS$$"`
	Service string `key:"service" doc:"$$SERVICEALIAS$$"`
	Item    string `key:"item" doc:"$$ITEMALIAS$$"`
}

type rawEach struct {
	Series string        `key:"series" is:"series" need:"yes" doc:"A family with matchers, such as span_duration_seconds{service=\"shop\"}."`
	By     []string      `key:"by" is:"label" need:"yes" doc:"Labels that tell checks apart; $label stands for the value of each."`
	Most   int           `key:"most" is:"1..1000000" default:"1000" doc:"How many at most."`
	Within time.Duration `key:"within" default:"1h" doc:"How lately a series must have had data."`
}

// rawSource is an expression as a plain scalar, or one of the kinds.
type rawSource struct {
	Expression string      `key:"expression" is:"expression" doc:"An expression; value: EXPRESSION says the same."`
	Query      *rawQuery   `key:"query" doc:"Measures a family over the last while."`
	PromQL     string      `key:"promql" is:"promql" doc:"A query that comes to one number."`
	HTTP       *rawHTTP    `key:"http" doc:"Asks a server."`
	TCP        *TCP        `key:"tcp" doc:"Connects; the value is how long that took."`
	TLS        *TLS        `key:"tls" doc:"Shakes hands; the value is the days to expiry."`
	Command    *rawCommand `key:"command" doc:"Runs a program, such as a Nagios plugin."`
	SQL        *rawSQL     `key:"sql" doc:"Asks a database; the value is the first column of the first row."`
}

type rawQuery struct {
	Measure string        `key:"measure" is:"measure" need:"yes" doc:"p50 to p99.9, mean, min, max, count, rate, errors, apdex, above, below; of numbers last, mean, min, max, sum, rate."`
	Series  string        `key:"series" is:"series" need:"yes" doc:"A family with matchers."`
	T       float64       `key:"t" is:"seconds" doc:"Of apdex, above and below: seconds, or a duration such as 500ms."`
	Cohort  string        `key:"cohort" is:"very large|large|medium|small" doc:"Only tenants of this cohort."`
	Over    time.Duration `key:"over" default:"5m" doc:"How far back."`
}

type rawHTTP struct {
	URL       string                 `key:"url" is:"url" need:"yes" doc:"Whom to ask."`
	Method    string                 `key:"method" is:"GET|HEAD|POST|PUT|OPTIONS" doc:"Default: GET, or POST with a body."`
	Body      string                 `key:"body" doc:"What to send."`
	Headers   map[string]plainSecret `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Measure   string                 `key:"measure" is:"time|first_byte|status|size|json|regexp" doc:"What the value is; time unless json or regexp is given."`
	JSON      string                 `key:"json" doc:"Path within the body, such as data.items.0.count."`
	Regexp    string                 `key:"regexp" is:"regexp" doc:"The first group, or the match, is the value."`
	Expect    []int                  `key:"expect" is:"100..599" doc:"Statuses that are well; default 200 to 399. Others are CRITICAL."`
	Redirects bool                   `key:"redirects" default:"true" doc:"Whether to follow them."`
	MaxBytes  int64                  `key:"max_bytes" is:"size" default:"1MiB" doc:"Of the body."`
	CA        string                 `key:"ca" doc:"File of certificates to trust."`
	Insecure  bool                   `key:"insecure" doc:"Trust any certificate."`
}

type rawCommand struct {
	Args     []string               `key:"args" doc:"The program and its arguments; no shell reads them."`
	Shell    string                 `key:"shell" doc:"A line for /bin/sh instead."`
	Env      map[string]plainSecret `key:"env" doc:"Environment: values, or {env: NAME} or {file: PATH} for secrets."`
	Dir      string                 `key:"dir" doc:"Where it runs."`
	Label    string                 `key:"label" doc:"Of the performance data that is the value; default the first."`
	Output   string                 `key:"output" is:"plugin|number" default:"plugin" doc:"plugin: exit code and performance data as Nagios has them; number: what is printed is the value."`
	MaxBytes int64                  `key:"max_bytes" is:"size" default:"64KiB" doc:"Of output."`
}

type rawSQL struct {
	Driver string      `key:"driver" is:"postgres|mysql|sqlite" need:"yes" doc:"Which database."`
	DSN    plainSecret `key:"dsn" need:"yes" doc:"How to reach it: text without a password, or {env: NAME} or {file: PATH}."`
	Query  string      `key:"query" need:"yes" doc:"%%yyyy-MM-dd%% and %%yyyy-MM-dd%[D-1]%% stand for dates."`
}

type rawThreshold struct {
	Must     string    `key:"must" is:"<|>|=" need:"yes" doc:"What a healthy value does: stay below (<), above (>) or near (=)."`
	Of       string    `key:"of" is:"quantity" need:"yes" doc:"A number, an expression, or profile NAME."`
	Warning  *Distance `key:"warning" doc:"How far beyond is a WARNING: 10% of it, or an amount."`
	Critical *Distance `key:"critical" doc:"How far beyond is CRITICAL: 30% of it, or an amount."`
}

// rawFlapping is off, or two shares.
type rawFlapping struct {
	High float64 `key:"high" is:"share" need:"yes" default:"50%" doc:"Begins at this share of changes."`
	Low  float64 `key:"low" is:"share" need:"yes" default:"25%" doc:"Ends at this share."`
}
