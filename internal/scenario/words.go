package scenario

import (
	"strings"

	"tailscope/internal/strictyaml"
)

// The words of files. They are decoded into these structs and the JSON Schema is
// made of them, so neither can know a key that the other does not.

type (
	text = strictyaml.Text
	node = strictyaml.Node
)

type rawFile struct {
	Node        *node
	Scenario    text            `key:"scenario" is:"word" need:"yes" doc:"Its name."`
	Description text            `key:"description" doc:"For people."`
	Target      text            `key:"target" is:"url" need:"yes" doc:"Base address: http://127.0.0.1:8983"`
	Service     text            `key:"service" is:"word" doc:"Label of its series; the scenario's name unless given."`
	Vars        map[string]text `key:"vars" doc:"What {{name}} stands for in any text of the file; commands have them in their environment too. The command line and experiments give them other values."`
	Env         map[string]text `key:"env" doc:"Environment of every command and server."`

	Setup    []rawCommand `key:"setup" doc:"Commands before everything else, one after another."`
	Teardown []rawCommand `key:"teardown" doc:"Commands at the end, whatever happened."`
	Servers  []rawServer  `key:"servers" doc:"Processes under test: started here, or found."`
	Load     []rawLoad    `key:"load" doc:"Data that is loaded before."`
	WarmUp   *rawWarmUp   `key:"warm_up" doc:"The same load until its latency no longer drifts."`

	Queries   []rawQuery      `key:"queries" doc:"What is asked, by name."`
	Targets   text            `key:"targets" doc:"Or a file of targets, a line each."`
	Record    *rawRecord      `key:"record" doc:"Or a recorded mirror session."`
	AccessLog *rawAccessLog   `key:"access_log" doc:"Or an access log."`
	Header    map[string]text `key:"header" doc:"Of every request that does not set the same itself."`
	Tenant    text            `key:"tenant" doc:"Where a request's tenant stands: header:NAME, column:NAME, host or path:REGEX."`
	Think     text            `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check     *rawCheck       `key:"check" doc:"Of answers to queries that have no check of their own."`
	Order     text            `key:"order" is:"dealt|random" doc:"Queries by their weights: dealt out evenly unless given, or each drawn."`

	Arrivals    text       `key:"arrivals" is:"constant|poisson|recorded|closed" doc:"constant unless given; recorded of a recording or log without phases."`
	Phases      []rawPhase `key:"phases" doc:"Stretches of load, one after another."`
	Duration    text       `key:"duration" is:"span" doc:"Of a recording or log without phases; until its end unless given."`
	Protocol    text       `key:"protocol" is:"HTTP/1.1|HTTP/2" doc:"HTTP/1.1 unless given."`
	TLS         *rawTLS    `key:"tls" doc:"Whom to trust."`
	Connections text       `key:"connections" is:"count" doc:"Open at once at most; 64 unless given."`
	KeepAlive   text       `key:"keep_alive" is:"bool" doc:"Connections serve many requests; true unless given."`
	Timeout     text       `key:"timeout" is:"span" doc:"Of a request, from when it is sent; 30s unless given."`
	Seed        text       `key:"seed" is:"seed" doc:"Of arrivals, weights and data."`

	Faults     []rawFault      `key:"faults" doc:"What goes wrong meanwhile; undone at the end."`
	Limits     *rawLimits      `key:"limits" doc:"How much of the generator's own error a run may have and count nevertheless, on a machine that is never quiet."`
	Thresholds []text          `key:"thresholds" is:"threshold" doc:"p(99) < 300ms, errors < 1%, rate > 450/s, p(99){query} < 50ms; ', abort' at the end stops the run."`
	Versions   map[string]text `key:"versions" doc:"Commands whose first line of output says what ran here, by name: {nginx: nginx -v}"`
	Configs    []text          `key:"configuration" doc:"Files that are kept with the result."`
}

type rawCommand struct {
	Node    *node
	Run     rawRun          `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    text            `key:"name" is:"word" doc:"For people; its first word unless given."`
	Dir     text            `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Env     map[string]text `key:"env" doc:"Added to the environment."`
	Timeout text            `key:"timeout" is:"span" doc:"5m unless given."`
}

type rawServer struct {
	Node    *node
	Name    text            `key:"name" is:"word" need:"yes" doc:"Faults and resources are of this name."`
	Run     rawRun          `key:"run" doc:"Starts it: a line for /bin/sh, or a list. It stays in the foreground."`
	Dir     text            `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Env     map[string]text `key:"env" doc:"Added to the environment."`
	Ready   *rawReady       `key:"ready" doc:"When it counts as started."`
	Stop    text            `key:"stop" is:"INT|TERM|QUIT|KILL|HUP" doc:"Signal that ends it; TERM unless given."`
	Grace   text            `key:"grace" is:"span" doc:"How long it may take to end before it is killed; 10s unless given."`
	PID     text            `key:"pid" is:"count" doc:"Instead of run: a process that runs already."`
	PIDFile text            `key:"pid_file" doc:"Instead of run: a file that holds its process id."`
	Port    text            `key:"port" is:"port" doc:"Instead of run: the process that listens on this TCP port."`
	Metrics []rawMetrics    `key:"metrics" doc:"Its own figures, once a second."`
}

type rawReady struct {
	Node   *node
	HTTP   text `key:"http" is:"url" doc:"Answers below 400."`
	TCP    text `key:"tcp" is:"address" doc:"Takes connections."`
	Log    text `key:"log" is:"regexp" doc:"A line of its output matches."`
	Within text `key:"within" is:"span" doc:"1m unless given."`
}

type rawMetrics struct {
	Node       *node
	Prometheus text   `key:"prometheus" is:"url" doc:"Address of metrics in Prometheus' text format."`
	Families   []text `key:"families" doc:"Which of them, such as jvm_gc_pause_seconds_sum or go_gc_duration_seconds_sum{area=\"x\"}; series of one name are added up."`
	JSON       text   `key:"json" is:"url" doc:"Or the address of a JSON document."`
	Path       text   `key:"path" doc:"Where in it the number stands: metrics.jvm.gc.time"`
	Name       text   `key:"name" is:"word" doc:"Of the number; the last part of path unless given."`
	Unit       text   `key:"unit" is:"word" doc:"Of the number, such as s or B."`
	Adds       text   `key:"adds" is:"bool" doc:"It is a total that only grows; true for names that end in _total, _sum or _count unless given."`
	Scale      text   `key:"scale" is:"number" doc:"Each value is multiplied by this: 0.001 makes seconds of milliseconds."`
}

type rawLoad struct {
	Node      *node
	Name      text            `key:"name" is:"word" need:"yes" doc:"For people."`
	File      text            `key:"file" doc:"JSONL, CSV or any lines."`
	Run       rawRun          `key:"run" doc:"Or a command that prints them."`
	Dir       text            `key:"dir" doc:"Where run runs; the directory of the file unless given."`
	Env       map[string]text `key:"env" doc:"Added to the environment of run."`
	Format    text            `key:"format" is:"jsonl|csv|tsv|lines" doc:"Of the data; by the file's ending unless given, jsonl of a command. Rows of CSV and TSV become JSON objects of texts."`
	Request   text            `key:"request" is:"request" need:"yes" doc:"POST /solr/docs/update"`
	Header    map[string]text `key:"header" doc:"Of each request; Content-Type goes by as unless given."`
	As        text            `key:"as" is:"ndjson|json|bulk|lines|single" doc:"How a batch becomes a body: a line each, a JSON array, Elasticsearch's bulk format, lines as they are, or one document a request. ndjson unless given."`
	Action    text            `key:"action" doc:"With bulk: the line before each document; {\"index\":{}} unless given."`
	Batch     text            `key:"batch" is:"count" doc:"Documents a request; 1000 unless given."`
	Parallel  text            `key:"parallel" is:"count" doc:"Requests under way at once; 4 unless given."`
	AtMost    text            `key:"at_most" is:"whole" doc:"Documents; all unless given."`
	Check     *rawCheck       `key:"check" doc:"Of answers; a status below 300 unless given."`
	Errors    text            `key:"errors" is:"share" doc:"Share of batches that may fail; none unless given."`
	Timeout   text            `key:"timeout" is:"span" doc:"Of a request; 1m unless given."`
	Finally   text            `key:"finally" is:"request" doc:"A request after the last batch, such as a commit: POST /solr/docs/update?commit=true"`
	FinalBody text            `key:"finally_body" doc:"Its body."`
}

type rawWarmUp struct {
	Node    *node
	Steady  text `key:"steady" is:"share" doc:"How much p50, p99 and mean may drift over the stretch that is judged; 3% unless given."`
	AtLeast text `key:"at_least" is:"span" doc:"How long in any case; 3s unless given."`
	AtMost  text `key:"at_most" is:"span" doc:"When to stop waiting; 1m unless given."`
	Slot    text `key:"slot" is:"span" doc:"How long one figure is measured; by the rate unless given."`
	Need    text `key:"need" is:"bool" doc:"Whether not becoming steady is an error; false unless given."`
}

type rawLimits struct {
	Node *node
	Late text `key:"late" is:"share" doc:"How much of the measured latency may be its own lateness; 10% unless given, 100% for any."`
	CPU  text `key:"cpu" is:"share" doc:"How busy its busiest thread, and the machine, may be; 95% unless given, 100% for any."`
}

type rawQuery struct {
	Node     *node
	Name     text            `key:"name" doc:"Its method and path unless given."`
	Request  text            `key:"request" need:"yes" doc:"METHOD TARGET with {{words}} of the data: GET /select?q={{word}}"`
	Header   map[string]text `key:"header" doc:"May hold {{words}}."`
	Body     text            `key:"body" doc:"May hold {{words}}."`
	BodyFile text            `key:"body_file" doc:"File that holds the body."`
	Data     text            `key:"data" doc:"File of rows: CSV with a header line, or JSONL."`
	Format   text            `key:"format" is:"csv|tsv|jsonl" doc:"Of data; by the file's ending unless given."`
	Order    text            `key:"order" is:"sequential|random|shuffle" doc:"Of rows; sequential unless given."`
	AtEnd    text            `key:"at_end" is:"loop|once" doc:"loop unless given; once ends the run when rows have run out."`
	Weight   text            `key:"weight" is:"number" doc:"Share of requests, relative to others; 1 unless given."`
	Think    text            `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check    *rawCheck       `key:"check" doc:"What its answers must be like."`
}

type rawCheck struct {
	Node     *node
	Status   []text          `key:"status" is:"statuses" doc:"200, 2xx, 200..204"`
	Header   map[string]text `key:"header" doc:"Value by name; * for any."`
	Contains []text          `key:"contains" doc:"Texts in the body."`
	Matches  []text          `key:"matches" is:"regexp" doc:"Regular expressions on the body."`
	JSON     map[string]text `key:"json" doc:"Value by path: {responseHeader.status: 0}"`
	Size     text            `key:"size" doc:"Of the body in bytes: > 100, 1kB..2MB"`
}

type rawRecord struct {
	Node    *node
	File    text   `key:"file" need:"yes" doc:"What tailscope mirror recorded."`
	Speed   text   `key:"speed" is:"number" doc:"2 is twice as fast; 1 unless given."`
	Loop    text   `key:"loop" is:"bool" doc:"Begins again at its end."`
	Only    []text `key:"only" doc:"Operations, such as GET /shop/{id}."`
	Methods []text `key:"methods" doc:"Methods; all unless given."`
	Tenants []text `key:"tenants" doc:"Tenants; all unless given."`
}

type rawAccessLog struct {
	Node    *node
	File    text   `key:"file" need:"yes" doc:"The log."`
	Format  text   `key:"format" doc:"As tailscope import knows it; told by its lines unless given."`
	Routes  []text `key:"routes" doc:"REGEX=NAME names operations."`
	Speed   text   `key:"speed" is:"number" doc:"2 is twice as fast; 1 unless given."`
	Loop    text   `key:"loop" is:"bool" doc:"Begins again at its end."`
	Only    []text `key:"only" doc:"Operations."`
	Methods []text `key:"methods" doc:"GET and HEAD unless given."`
	Tenants []text `key:"tenants" doc:"Tenants; all unless given."`
}

type rawPhase struct {
	Node *node
	Name text `key:"name" doc:"For people; its rate unless given."`
	Rate text `key:"rate" doc:"Requests a second: 200, 200..800 for a ramp, 200,400,800 for steps."`
	For  text `key:"for" is:"span" need:"yes" doc:"How long."`
}

type rawTLS struct {
	Node       *node
	CA         text `key:"ca" doc:"File of certificates to trust."`
	ServerName text `key:"server_name" doc:"Name that the certificate must be of; the target's host unless given."`
	Insecure   text `key:"insecure" is:"bool" doc:"Trust any certificate."`
}

type rawFault struct {
	Node    *node
	At      text   `key:"at" is:"span" need:"yes" doc:"From the start of the phases."`
	Name    text   `key:"name" doc:"For people."`
	Pause   text   `key:"pause" is:"word" doc:"A server: its processes stand still, as in a pause of garbage collection."`
	Kill    text   `key:"kill" is:"word" doc:"A server: it is killed at once, and started again after for."`
	Restart text   `key:"restart" is:"word" doc:"A server: it is ended and started again."`
	Run     rawRun `key:"run" doc:"Or a command."`
	Undo    rawRun `key:"undo" doc:"Command that undoes run after for, and at the end in any case."`
	For     text   `key:"for" is:"span" doc:"How long; of pause needed."`
	Every   text   `key:"every" is:"span" doc:"Again and again so often."`
}

// rawRun is a line for the shell, or a program and its arguments.
type rawRun struct {
	node *node
	line bool
	args []string
}

func (r *rawRun) given() bool { return r.node != nil }

// ReadNode reads either.
func (r *rawRun) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	switch n.Kind {
	case strictyaml.Null:
		return
	case strictyaml.Scalar:
		r.line, r.args = true, []string{n.Text}
	case strictyaml.List:
		for _, item := range n.Items {
			r.args = append(r.args, d.Text(what, "", item).S())
		}
	default:
		d.Problems.Add(n.At, "write a line for /bin/sh, or a list: the program and its arguments", "%s is not a command", what)
	}
	r.node = n
	if len(r.args) > 0 && strings.TrimSpace(r.args[0]) == "" {
		d.Problems.Add(n.At, "write a line for /bin/sh, or a list: the program and its arguments", "%s is empty", what)
	}
}

// SchemaOf says so.
func (*rawRun) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, strictyaml.M{"type": "array", "items": strictyaml.M{"type": []string{"string", "number"}}}}}
}
