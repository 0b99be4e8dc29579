package spec

// The words of files. The decoder reads into these structs and the JSON Schema
// is made of them, so neither can know a key that the other does not. Tags: key
// is the word, is names the kind of scalar (kinds.go), doc is what editors show,
// need says that it must be there.

type rawFile struct {
	Node        *node
	Checks      map[string]rawCheck    `key:"checks" doc:"What is guarded, by name."`
	Templates   map[string]rawCheck    `key:"templates" doc:"What several checks share, by name. A check that names templates gets them merged in their order, and then what it says itself: mappings merge, lists and values replace."`
	Calendars   map[string]rawCalendar `key:"calendars" doc:"Holidays, time zone and weeks, for profiles."`
	Profiles    map[string]rawProfile  `key:"profiles" doc:"Thresholds by the clock and the calendar, or learned from history."`
	Receivers   map[string]rawReceiver `key:"receivers" doc:"Who is told, by name."`
	Maintenance []rawWindow            `key:"maintenance" doc:"Times in which nobody is told."`
	Page        text                   `key:"page" is:"url" doc:"Address under which people reach the page, for links in what receivers are told."`
	Zone        text                   `key:"zone" is:"zone" doc:"Time zone of cron, calendars and maintenance that name none; UTC unless given."`
}

type rawCheck struct {
	Node        *node
	Template    []text          `key:"template" is:"word" doc:"Templates to merge, in this order."`
	Description text            `key:"description" doc:"For people."`
	Host        text            `key:"host" doc:"What Nagios calls the host; may hold $label of each."`
	Service     text            `key:"service" doc:"What Nagios calls the service; may hold $label of each."`
	Item        text            `key:"item" doc:"Makes labels host, service and item of the check's series, so that host-service-item[-10M] finds them."`
	Aliases     *rawAliases     `key:"aliases" doc:"What $$HOSTALIAS$$, $$SERVICEALIAS$$ and $$ITEMALIAS$$ stand for."`
	Labels      map[string]text `key:"labels" doc:"Added to the check's series, states and events."`
	Unit        text            `key:"unit" is:"word" doc:"Of the value, such as s, B or %."`
	Inactive    text            `key:"inactive" is:"bool" doc:"Validated, never run."`
	Silent      text            `key:"silent" is:"bool" doc:"Run and stored, told to nobody."`
	Each        *rawEach        `key:"each" doc:"Apply the check to every series that has data."`
	Value       *rawSource      `key:"value" doc:"What is measured: an expression, or one kind of source."`
	Every       text            `key:"every" is:"duration" doc:"How often; the first run is at a random moment within it."`
	Cron        text            `key:"cron" is:"cron" doc:"Five fields, or six with seconds first."`
	After       text            `key:"after" is:"word" doc:"Run when this check has run."`
	Delay       text            `key:"delay" is:"duration" doc:"Wait so long after that."`
	Zone        text            `key:"zone" is:"zone" doc:"Time zone of cron and of the same time on earlier days."`
	Timeout     text            `key:"timeout" is:"duration" doc:"Of one run; 10s or the interval, whichever is shorter."`
	Null        text            `key:"null" is:"strict|skip|zero" doc:"What missing values do to expressions; strict unless given."`
	OnNull      text            `key:"on_null" is:"OK|WARNING|CRITICAL|UNKNOWN" doc:"The level of a run without a value; UNKNOWN unless given."`
	Tolerance   text            `key:"tolerance" is:"duration" doc:"How far from the asked time a sample may lie; twice the interval and at least 1m unless given."`
	Threshold   *rawThreshold   `key:"threshold" doc:"What the value is held against."`
	Soft        text            `key:"soft" is:"of" doc:"Bad runs that make the state hard: 3 of 5; 3 of 3 unless given."`
	Recover     text            `key:"recover" is:"of" doc:"Good runs that make it OK again: 2 of 2; 1 of 1 unless given."`
	Flapping    *rawFlapping    `key:"flapping" doc:"Shares of changes among the last 21 runs that begin and end flapping, or off."`
	Remind      text            `key:"remind" is:"duration" doc:"Tell of an open incident again after so long; never unless given."`
	Receivers   []text          `key:"receivers" is:"word" doc:"Who is told, by name."`
	DependsOn   []text          `key:"depends_on" is:"word" doc:"Checks: while one of them is not OK nobody is told of this one."`
}

type rawAliases struct {
	Node    *node
	Host    text `key:"host" doc:"$$HOSTALIAS$$"`
	Service text `key:"service" doc:"$$SERVICEALIAS$$"`
	Item    text `key:"item" doc:"$$ITEMALIAS$$"`
}

type rawEach struct {
	Node   *node
	Series text   `key:"series" is:"series" need:"yes" doc:"A family with matchers, such as span_duration_seconds{service=\"shop\"}."`
	By     []text `key:"by" is:"label" need:"yes" doc:"Labels that tell checks apart; $label stands for the value of each."`
	Most   text   `key:"most" is:"count" doc:"How many at most; 1000 unless given."`
	Within text   `key:"within" is:"duration" doc:"How lately a series must have had data; 1h unless given."`
}

// rawSource is an expression as a plain scalar, or one of the kinds.
type rawSource struct {
	Node       *node
	Expression text        `key:"expression" is:"expression" doc:"An expression; value: EXPRESSION says the same."`
	Query      *rawQuery   `key:"query" doc:"Measures a family over the last while."`
	PromQL     text        `key:"promql" is:"promql" doc:"A query that comes to one number."`
	HTTP       *rawHTTP    `key:"http" doc:"Asks a server."`
	TCP        *rawTCP     `key:"tcp" doc:"Connects; the value is how long that took."`
	TLS        *rawTLS     `key:"tls" doc:"Shakes hands; the value is the days to expiry."`
	Command    *rawCommand `key:"command" doc:"Runs a program, such as a Nagios plugin."`
	SQL        *rawSQL     `key:"sql" doc:"Asks a database; the value is the first column of the first row."`
}

type rawQuery struct {
	Node    *node
	Measure text `key:"measure" is:"measure" need:"yes" doc:"p50 to p99.9, mean, min, max, count, rate, errors, apdex, above, below; of numbers last, mean, min, max, sum, rate."`
	Series  text `key:"series" is:"series" need:"yes" doc:"A family with matchers."`
	T       text `key:"t" is:"seconds" doc:"Of apdex, above and below: seconds, or a duration such as 500ms."`
	Cohort  text `key:"cohort" is:"very large|large|medium|small" doc:"Only tenants of this cohort."`
	Over    text `key:"over" is:"duration" doc:"How far back; 5m unless given."`
}

type rawHTTP struct {
	Node      *node
	URL       text                   `key:"url" is:"url" need:"yes" doc:"Whom to ask."`
	Method    text                   `key:"method" is:"GET|HEAD|POST|PUT|OPTIONS" doc:"GET unless given, POST with a body."`
	Body      text                   `key:"body" doc:"What to send."`
	Headers   map[string]plainSecret `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Measure   text                   `key:"measure" is:"time|first_byte|status|size|json|regexp" doc:"What the value is; time unless json or regexp is given."`
	JSON      text                   `key:"json" doc:"Path within the body, such as data.items.0.count."`
	Regexp    text                   `key:"regexp" is:"regexp" doc:"The first group, or the match, is the value."`
	Expect    []text                 `key:"expect" is:"status" doc:"Statuses that are well; 200 to 399 unless given. Others are CRITICAL."`
	Redirects text                   `key:"redirects" is:"bool" doc:"Whether to follow them; true unless given."`
	MaxBytes  text                   `key:"max_bytes" is:"size" doc:"Of the body; 1MiB unless given."`
	CA        text                   `key:"ca" doc:"File of certificates to trust."`
	Insecure  text                   `key:"insecure" is:"bool" doc:"Trust any certificate."`
}

type rawTCP struct {
	Node    *node
	Address text `key:"address" is:"address" need:"yes" doc:"host:port"`
	Send    text `key:"send" doc:"What to send once connected."`
	Expect  text `key:"expect" is:"regexp" doc:"What the first line must match."`
}

type rawTLS struct {
	Node       *node
	Address    text `key:"address" is:"address" need:"yes" doc:"host:port"`
	ServerName text `key:"server_name" doc:"Name that the certificate must be of; the host unless given."`
	CA         text `key:"ca" doc:"File of certificates to trust."`
	Measure    text `key:"measure" is:"days|time" doc:"Days to expiry, or seconds of the handshake; days unless given."`
}

type rawCommand struct {
	Node     *node
	Args     []text                 `key:"args" doc:"The program and its arguments; no shell reads them."`
	Shell    text                   `key:"shell" doc:"A line for /bin/sh instead."`
	Env      map[string]plainSecret `key:"env" doc:"Environment: values, or {env: NAME} or {file: PATH} for secrets."`
	Dir      text                   `key:"dir" doc:"Where it runs."`
	Label    text                   `key:"label" doc:"Of the performance data that is the value; the first unless given."`
	Output   text                   `key:"output" is:"plugin|number" doc:"plugin: exit code and performance data as Nagios has them; number: what is printed is the value."`
	MaxBytes text                   `key:"max_bytes" is:"size" doc:"Of output; 64KiB unless given."`
}

type rawSQL struct {
	Node   *node
	Driver text        `key:"driver" is:"postgres|mysql|sqlite" need:"yes" doc:"Which database."`
	DSN    plainSecret `key:"dsn" need:"yes" doc:"How to reach it: text without a password, or {env: NAME} or {file: PATH}."`
	Query  text        `key:"query" need:"yes" doc:"%%yyyy-MM-dd%% and %%yyyy-MM-dd%[D-1]%% stand for dates."`
}

type rawThreshold struct {
	Node     *node
	Must     text `key:"must" is:"<|>|=" need:"yes" doc:"What a healthy value does: stay below (<), above (>) or near (=)."`
	Of       text `key:"of" is:"quantity" need:"yes" doc:"A number, an expression, or profile NAME."`
	Warning  text `key:"warning" is:"distance" doc:"How far beyond is a WARNING: 10% of it, or an amount."`
	Critical text `key:"critical" is:"distance" doc:"How far beyond is CRITICAL: 30% of it, or an amount."`
}

// rawFlapping is off, or two shares.
type rawFlapping struct {
	Node *node
	High text `key:"high" is:"share" need:"yes" doc:"Begins at this share of changes; 50% unless given."`
	Low  text `key:"low" is:"share" need:"yes" doc:"Ends at this share; 25% unless given."`
}
