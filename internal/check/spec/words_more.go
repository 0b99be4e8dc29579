package spec

type rawWindow struct {
	Node     *node
	Name     text   `key:"name" need:"yes" doc:"For people."`
	Checks   []text `key:"checks" is:"word" doc:"Names of checks; all unless given."`
	Match    text   `key:"match" is:"matchers" doc:"Only checks with these labels."`
	Start    text   `key:"start" is:"moment" doc:"2026-12-01 22:00, once."`
	End      text   `key:"end" is:"moment" doc:"2026-12-02 04:00"`
	Cron     text   `key:"cron" is:"cron" doc:"Or again and again: when it begins."`
	Duration text   `key:"duration" is:"duration" doc:"With cron: how long it takes."`
	Zone     text   `key:"zone" is:"zone" doc:"Of start, end and cron; the file's unless given."`
}

type rawCalendar struct {
	Node     *node
	Zone     text   `key:"zone" is:"zone" doc:"The file's unless given."`
	Holidays []text `key:"holidays" is:"date" doc:"2026-12-25, 12-25 for every year, easter, easter+1, easter-2, 11-thu#4 (fourth Thursday of November), 05-mon#L (last Monday of May), 06-20+sat (first Saturday from then on)."`
	Week     text   `key:"week" is:"iso|us" doc:"How weeks are numbered and begin; iso unless given."`
}

type rawProfile struct {
	Node     *node
	Calendar text      `key:"calendar" is:"word" doc:"Name of a calendar."`
	Days     []rawDay  `key:"days" doc:"The first that fits wins, in the order holiday, date, week and weekday, day of month, weekday, month, week, default."`
	Learn    *rawLearn `key:"learn" doc:"Made from history instead."`
}

type rawDay struct {
	Node      *node
	Name      text          `key:"name" doc:"For people."`
	Holiday   text          `key:"holiday" is:"bool" doc:"Holidays of the calendar."`
	Dates     []text        `key:"dates" is:"date" doc:"2026-12-24, 12-24 for every year, or as holidays."`
	Weeks     []text        `key:"weeks" is:"week" doc:"Numbers of weeks."`
	Weekdays  []text        `key:"weekdays" is:"weekday" doc:"mon to sun, or mon-fri."`
	MonthDays []text        `key:"month_days" is:"monthday" doc:"1 to 31; -1 is the last."`
	Months    []text        `key:"months" is:"month" doc:"1 to 12."`
	None      text          `key:"none" is:"bool" doc:"No threshold: always OK."`
	Hours     []text        `key:"hours" is:"hour" doc:"24 of them: a number, an expression or none; between two the threshold goes straight."`
	Intervals []rawInterval `key:"intervals" doc:"Local times with a threshold each; between them there is none."`
	Step      text          `key:"step" is:"bool" doc:"Hold the value of each hour instead."`
}

type rawInterval struct {
	Node     *node
	From     text `key:"from" is:"clock" need:"yes" doc:"09:00"`
	To       text `key:"to" is:"clock" need:"yes" doc:"17:30, or 24:00"`
	Value    text `key:"value" is:"hour" need:"yes" doc:"A number or an expression."`
	Warning  text `key:"warning" is:"distance" doc:"Instead of the check's."`
	Critical text `key:"critical" is:"distance" doc:"Instead of the check's."`
}

// rawLearn says what a profile is learned from.
type rawLearn struct {
	Node    *node
	Series  text        `key:"series" is:"selector" doc:"What it is learned from; the check's own values unless given."`
	By      text        `key:"by" is:"hour|weekday-weekend|weekday" doc:"Kinds of day; weekday unless given."`
	Over    text        `key:"over" is:"duration" doc:"How far back; 4w unless given."`
	Low     text        `key:"low" is:"share" doc:"5% unless given."`
	Middle  text        `key:"middle" is:"share" doc:"50% unless given."`
	High    text        `key:"high" is:"share" doc:"95% unless given."`
	Refresh *rawRefresh `key:"refresh" doc:"When it is learned again; daily unless given."`
	Least   text        `key:"least" is:"count" doc:"Samples that an hour needs for a threshold; 20 unless given."`
}

type rawRefresh struct {
	Node  *node
	Every text `key:"every" is:"duration" doc:"How often."`
	Cron  text `key:"cron" is:"cron" doc:"Or when."`
	Zone  text `key:"zone" is:"zone" doc:"Of cron."`
}

type rawReceiver struct {
	Node         *node
	NSCA         *rawNSCA         `key:"nsca" doc:"Nagios or Icinga by NSCA: every result. It has no acknowledgement: what is on the way when a server dies is lost."`
	Icinga       *rawIcinga       `key:"icinga" doc:"Icinga 2's API: every result."`
	Alertmanager *rawAlertmanager `key:"alertmanager" doc:"Alertmanager's API v2."`
	Webhook      *rawWebhook      `key:"webhook" doc:"Events by HTTP POST."`
	Email        *rawEmail        `key:"email" doc:"Events by SMTP."`
	Graphite     *rawGraphite     `key:"graphite" doc:"Every value with its threshold, warning and critical."`
	File         *rawFileOut      `key:"file" doc:"Lines of a file."`
	Match        text             `key:"match" is:"matchers" doc:"Only checks with these labels."`
	Levels       []text           `key:"levels" is:"OK|WARNING|CRITICAL|UNKNOWN" doc:"Of events; all unless given."`
	Spool        *rawSpool        `key:"spool" doc:"Bounds of what waits for a receiver that is down."`
	Timeout      text             `key:"timeout" is:"duration" doc:"Of one attempt; 10s unless given."`
}

type rawSpool struct {
	Node  *node
	Bytes text `key:"bytes" is:"size" doc:"64MiB unless given."`
	Age   text `key:"age" is:"duration" doc:"24h of results and 7d of events unless given."`
}

type rawNSCA struct {
	Node       *node
	Address    text       `key:"address" is:"address" need:"yes" doc:"host:port, usually 5667."`
	Password   *rawSecret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	Encryption text       `key:"encryption" is:"encryption" doc:"Must be the decryption_method of the server; xor unless given."`
	Short      text       `key:"short" is:"bool" doc:"Packets of 720 bytes instead of 4,304, for servers before nsca 2.9."`
}

type rawIcinga struct {
	Node     *node
	URL      text       `key:"url" is:"url" need:"yes" doc:"https://host:5665"`
	User     text       `key:"user" doc:"Of the API."`
	Password *rawSecret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	CA       text       `key:"ca" doc:"File of certificates to trust."`
	Insecure text       `key:"insecure" is:"bool" doc:"Trust any certificate."`
}

type rawAlertmanager struct {
	Node     *node
	URL      text       `key:"url" is:"url" need:"yes" doc:"http://host:9093"`
	User     text       `key:"user" doc:"Of basic authentication."`
	Password *rawSecret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	Resend   text       `key:"resend" is:"duration" doc:"How often firing alerts are sent again; 1m unless given."`
}

type rawWebhook struct {
	Node     *node
	URL      plainSecret            `key:"url" is:"url" need:"yes" doc:"Where to post; {env: NAME} or {file: PATH} if the address is a secret."`
	Headers  map[string]plainSecret `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Template text                   `key:"template" is:"template" doc:"Go text/template over the event; JSON unless given."`
	Secret   *rawSecret             `key:"secret" doc:"Signs time and body by HMAC-SHA256: {env: NAME} or {file: PATH}."`
}

type rawEmail struct {
	Node     *node
	Server   text       `key:"server" is:"address" need:"yes" doc:"host:port"`
	From     text       `key:"from" is:"mail" need:"yes" doc:"Sender."`
	To       []text     `key:"to" is:"mail" need:"yes" doc:"Who gets it."`
	User     text       `key:"user" doc:"Of the server."`
	Password *rawSecret `key:"password" doc:"{env: NAME} or {file: PATH}"`
	StartTLS text       `key:"starttls" is:"always|try|never" doc:"always unless given."`
	Subject  text       `key:"subject" is:"template" doc:"Go text/template over the event."`
	Body     text       `key:"body" is:"template" doc:"Go text/template over the event."`
}

type rawGraphite struct {
	Node    *node
	Address text `key:"address" is:"address" need:"yes" doc:"host:port, usually 2003."`
	Prefix  text `key:"prefix" doc:"Put before names."`
}

type rawFileOut struct {
	Node   *node
	Path   text `key:"path" need:"yes" doc:"Appended to; made if absent."`
	Format text `key:"format" is:"json|text" doc:"A line of JSON each, or text; json unless given."`
	What   text `key:"what" is:"events|results|both" doc:"events unless given."`
}

// rawSecret says where a secret is read from.
type rawSecret struct {
	Node *node
	Env  text `key:"env" doc:"A variable of the server's environment."`
	File text `key:"file" doc:"A file; its first line is the secret."`
}

// plainSecret is text, or says where a secret is read from.
type plainSecret struct {
	text
	secret *rawSecret
}
