package spec

import "time"

type rawWindow struct {
	Name     string        `key:"name" need:"yes" doc:"For people."`
	Checks   []string      `key:"checks" is:"word" doc:"Names of checks; default all."`
	Match    string        `key:"match" is:"matchers" doc:"Only checks with these labels."`
	Start    string        `key:"start" is:"moment" doc:"2026-12-01 22:00, once."`
	End      string        `key:"end" is:"moment" doc:"2026-12-02 04:00"`
	Cron     string        `key:"cron" is:"cron" doc:"Or again and again: when it begins."`
	Duration time.Duration `key:"duration" doc:"With cron: how long it takes."`
	Zone     string        `key:"zone" is:"zone" doc:"Of start, end and cron; default the file's."`
}

type rawProfile struct {
	Calendar string       `key:"calendar" is:"word" doc:"Name of a calendar."`
	Days     []ProfileDay `key:"days" doc:"The first that fits wins, in the order holiday, date, week and weekday, day of month, weekday, month, week, default."`
	Learn    *rawLearn    `key:"learn" doc:"Made from history instead."`
}

// rawLearn says what a profile is learned from.
type rawLearn struct {
	Series  string        `key:"series" is:"selector" doc:"What it is learned from; default the check's own values."`
	By      string        `key:"by" is:"hour|weekday-weekend|weekday" default:"weekday" doc:"Kinds of day."`
	Over    time.Duration `key:"over" default:"4w" doc:"How far back."`
	Low     float64       `key:"low" is:"share" default:"5%" doc:"Quantile of what is low."`
	Middle  float64       `key:"middle" is:"share" default:"50%" doc:"Quantile of what is usual."`
	High    float64       `key:"high" is:"share" default:"95%" doc:"Quantile of what is high."`
	Refresh *rawRefresh   `key:"refresh" doc:"When it is learned again; default daily."`
	Least   int           `key:"least" is:"1..1000000" default:"20" doc:"Samples that an hour needs for a threshold."`
}

type rawRefresh struct {
	Every time.Duration `key:"every" doc:"How often."`
	Cron  string        `key:"cron" is:"cron" doc:"Or when."`
	Zone  string        `key:"zone" is:"zone" doc:"Of cron."`
}

type rawReceiver struct {
	NSCA         *NSCA         `key:"nsca" doc:"Nagios or Icinga by NSCA: every result. It has no acknowledgement: what is on the way when a server dies is lost."`
	Icinga       *Icinga       `key:"icinga" doc:"Icinga 2's API: every result."`
	Alertmanager *Alertmanager `key:"alertmanager" doc:"Alertmanager's API v2."`
	Webhook      *rawWebhook   `key:"webhook" doc:"Events by HTTP POST."`
	Email        *Email        `key:"email" doc:"Events by SMTP."`
	Graphite     *Graphite     `key:"graphite" doc:"Every value with its threshold, warning and critical."`
	File         *FileOut      `key:"file" doc:"Lines of a file."`
	Match        string        `key:"match" is:"matchers" doc:"Only checks with these labels."`
	Levels       []string      `key:"levels" is:"OK|WARNING|CRITICAL|UNKNOWN" doc:"Of events; default all."`
	Spool        *rawSpool     `key:"spool" doc:"Bounds of what waits for a receiver that is down."`
	Timeout      time.Duration `key:"timeout" default:"10s" doc:"Of one attempt."`
}

type rawSpool struct {
	Bytes int64         `key:"bytes" is:"size" default:"64MiB" doc:"On disk."`
	Age   time.Duration `key:"age" doc:"Default: 24h of results and 7d of events."`
}

type rawWebhook struct {
	URL      plainSecret            `key:"url" is:"url" need:"yes" doc:"Where to post; {env: NAME} or {file: PATH} if the address is a secret."`
	Headers  map[string]plainSecret `key:"headers" doc:"Values, or {env: NAME} or {file: PATH} for secrets."`
	Template string                 `key:"template" is:"template" doc:"Go text/template over the event; default JSON."`
	Secret   *Secret                `key:"secret" doc:"Signs time and body by HMAC-SHA256: {env: NAME} or {file: PATH}."`
}

// plainSecret is text, or says where a secret is read from.
type plainSecret struct {
	node   *node
	text   string
	secret *Secret
}
