package scenario

import (
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// The words of files. They are decoded into these structs and the JSON Schema is
// made of them, so neither can know a key that the other does not.

type node = strictyaml.Node

type rawFile struct {
	Scenario    string            `key:"scenario" is:"word" need:"yes" doc:"Its name."`
	Description string            `key:"description" doc:"For people."`
	Target      string            `key:"target" is:"url" need:"yes" doc:"Base address: http://127.0.0.1:8983"`
	Service     string            `key:"service" is:"word" doc:"Label of its series; the scenario's name unless given."`
	Vars        map[string]string `key:"vars" doc:"What {{name}} stands for in any text of the file; commands have them in their environment too. The command line and experiments give them other values."`
	Env         map[string]string `key:"env" doc:"Environment of every command and server."`

	Setup    []rawCommand `key:"setup" doc:"Commands before everything else, one after another."`
	Teardown []rawCommand `key:"teardown" doc:"Commands at the end, whatever happened."`
	Servers  []rawServer  `key:"servers" doc:"Processes under test: started here, or found."`
	Load     []rawLoad    `key:"load" doc:"Data that is loaded before."`
	WarmUp   *WarmUp      `key:"warm_up" doc:"The same load until its latency no longer drifts."`

	Queries   []rawQuery        `key:"queries" doc:"What is asked, by name."`
	Targets   string            `key:"targets" doc:"Or a file of targets, a line each."`
	Record    *rawRecord        `key:"record" doc:"Or a recorded mirror session."`
	AccessLog *rawAccessLog     `key:"access_log" doc:"Or an access log."`
	Header    map[string]string `key:"header" doc:"Of every request that does not set the same itself."`
	Tenant    string            `key:"tenant" doc:"Where a request's tenant stands: header:NAME, column:NAME, host or path:REGEX."`
	Think     string            `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check     *rawCheck         `key:"check" doc:"Of answers to queries that have no check of their own."`
	Order     string            `key:"order" is:"dealt|random" doc:"Queries by their weights: dealt out evenly unless given, or each drawn."`

	Arrivals    string        `key:"arrivals" is:"constant|poisson|recorded|closed" doc:"constant unless given; recorded of a recording or log without phases."`
	Phases      []rawPhase    `key:"phases" doc:"Stretches of load, one after another."`
	Duration    time.Duration `key:"duration" doc:"Of a recording or log without phases; until its end unless given."`
	Protocol    string        `key:"protocol" is:"HTTP/1.1|HTTP/2" default:"HTTP/1.1" doc:"Version of HTTP."`
	TLS         *TLS          `key:"tls" doc:"Whom to trust."`
	Connections int           `key:"connections" is:"1..1000000" default:"64" doc:"Open at once at most."`
	KeepAlive   bool          `key:"keep_alive" default:"true" doc:"Connections serve many requests."`
	Timeout     time.Duration `key:"timeout" default:"30s" doc:"Of a request, from when it is sent."`
	Seed        uint64        `key:"seed" is:"0.." default:"1" doc:"Of arrivals, weights and data."`

	Faults     []rawFault        `key:"faults" doc:"What goes wrong meanwhile; undone at the end."`
	Limits     *rawLimits        `key:"limits" doc:"How much of the generator's own error a run may have and count nevertheless, on a machine that is never quiet."`
	Thresholds []string          `key:"thresholds" is:"threshold" doc:"p(99) < 300ms, errors < 1%, rate > 450/s, p(99){query} < 50ms; ', abort' at the end stops the run."`
	Versions   map[string]string `key:"versions" doc:"Commands whose first line of output says what ran here, by name: {nginx: nginx -v}"`
	Configs    []string          `key:"configuration" doc:"Files that are kept with the result."`
}

type rawCommand struct {
	Run     rawRun            `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    string            `key:"name" is:"word" doc:"For people; its first word unless given."`
	Dir     string            `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Env     map[string]string `key:"env" doc:"Added to the environment."`
	Timeout time.Duration     `key:"timeout" default:"5m" doc:"How long it may take."`
}

type rawServer struct {
	Name    string            `key:"name" is:"word" need:"yes" doc:"Faults and resources are of this name."`
	Run     rawRun            `key:"run" doc:"Starts it: a line for /bin/sh, or a list. It stays in the foreground."`
	Dir     string            `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Env     map[string]string `key:"env" doc:"Added to the environment."`
	Ready   *Ready            `key:"ready" doc:"When it counts as started."`
	Stop    string            `key:"stop" is:"INT|TERM|QUIT|KILL|HUP" default:"TERM" doc:"Signal that ends it."`
	Grace   time.Duration     `key:"grace" default:"10s" doc:"How long it may take to end before it is killed."`
	PID     int               `key:"pid" is:"1..1000000" doc:"Instead of run: a process that runs already."`
	PIDFile string            `key:"pid_file" doc:"Instead of run: a file that holds its process id."`
	Port    int               `key:"port" is:"1..65535" doc:"Instead of run: the process that listens on this TCP port."`
	Metrics []Metrics         `key:"metrics" doc:"Its own figures, once a second."`
}

type rawLoad struct {
	Name      string            `key:"name" is:"word" need:"yes" doc:"For people."`
	File      string            `key:"file" doc:"JSONL, CSV or any lines."`
	Run       rawRun            `key:"run" doc:"Or a command that prints them."`
	Dir       string            `key:"dir" doc:"Where run runs; the directory of the file unless given."`
	Env       map[string]string `key:"env" doc:"Added to the environment of run."`
	Format    string            `key:"format" is:"jsonl|csv|tsv|lines" doc:"Of the data; by the file's ending unless given, jsonl of a command. Rows of CSV and TSV become JSON objects of texts."`
	Request   string            `key:"request" is:"request" need:"yes" doc:"POST /solr/docs/update"`
	Header    map[string]string `key:"header" doc:"Of each request; Content-Type goes by as unless given."`
	As        string            `key:"as" is:"ndjson|json|bulk|lines|single" default:"ndjson" doc:"How a batch becomes a body: a line each, a JSON array, Elasticsearch's bulk format, lines as they are, or one document a request."`
	Action    string            `key:"action" doc:"With bulk: the line before each document; {\"index\":{}} unless given."`
	Batch     int               `key:"batch" is:"1..1000000" default:"1000" doc:"Documents a request."`
	Parallel  int               `key:"parallel" is:"1..1000000" default:"4" doc:"Requests under way at once."`
	AtMost    uint64            `key:"at_most" is:"1.." doc:"Documents; all unless given."`
	Check     *rawCheck         `key:"check" doc:"Of answers; a status below 300 unless given."`
	Errors    float64           `key:"errors" is:"share" doc:"Share of batches that may fail; none unless given."`
	Timeout   time.Duration     `key:"timeout" default:"1m" doc:"Of a request."`
	Finally   string            `key:"finally" is:"request" doc:"A request after the last batch, such as a commit: POST /solr/docs/update?commit=true"`
	FinalBody string            `key:"finally_body" doc:"Its body."`
}

type rawLimits struct {
	Late float64 `key:"late" is:"share" doc:"How much of the measured latency may be its own lateness; 10% unless given, 100% for any."`
	CPU  float64 `key:"cpu" is:"share" doc:"How busy its busiest thread, and the machine, may be; 95% unless given, 100% for any."`
}

type rawQuery struct {
	Name     string            `key:"name" doc:"Its method and path unless given."`
	Request  string            `key:"request" need:"yes" doc:"METHOD TARGET with {{words}} of the data: GET /select?q={{word}}"`
	Header   map[string]string `key:"header" doc:"May hold {{words}}."`
	Body     string            `key:"body" doc:"May hold {{words}}."`
	BodyFile string            `key:"body_file" doc:"File that holds the body."`
	Data     string            `key:"data" doc:"File of rows: CSV with a header line, or JSONL."`
	Format   string            `key:"format" is:"csv|tsv|jsonl" doc:"Of data; by the file's ending unless given."`
	Order    string            `key:"order" is:"sequential|random|shuffle" doc:"Of rows; default sequential."`
	AtEnd    string            `key:"at_end" is:"loop|once" doc:"What follows the last row; default loop. once ends the run."`
	Weight   float64           `key:"weight" is:"positive" default:"1" doc:"Share of requests, relative to others."`
	Think    string            `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check    *rawCheck         `key:"check" doc:"What its answers must be like."`
}

type rawCheck struct {
	Status   []string          `key:"status" is:"statuses" doc:"200, 2xx, 200..204"`
	Header   map[string]string `key:"header" doc:"Value by name; * for any."`
	Contains []string          `key:"contains" doc:"Texts in the body."`
	Matches  []string          `key:"matches" is:"regexp" doc:"Regular expressions on the body."`
	JSON     map[string]string `key:"json" doc:"Value by path: {responseHeader.status: 0}"`
	Size     string            `key:"size" doc:"Of the body in bytes: > 100, 1kB..2MB"`
}

type rawRecord struct {
	File    string   `key:"file" need:"yes" doc:"What tailscope mirror recorded."`
	Speed   float64  `key:"speed" is:"positive" default:"1" doc:"2 is twice as fast."`
	Loop    bool     `key:"loop" doc:"Begins again at its end."`
	Only    []string `key:"only" doc:"Operations, such as GET /shop/{id}."`
	Methods []string `key:"methods" doc:"Methods; all unless given."`
	Tenants []string `key:"tenants" doc:"Tenants; all unless given."`
}

type rawAccessLog struct {
	File    string   `key:"file" need:"yes" doc:"The log."`
	Format  string   `key:"format" doc:"As tailscope import knows it; told by its lines unless given."`
	Routes  []string `key:"routes" doc:"REGEX=NAME names operations."`
	Speed   float64  `key:"speed" is:"positive" default:"1" doc:"2 is twice as fast."`
	Loop    bool     `key:"loop" doc:"Begins again at its end."`
	Only    []string `key:"only" doc:"Operations."`
	Methods []string `key:"methods" doc:"GET and HEAD unless given."`
	Tenants []string `key:"tenants" doc:"Tenants; all unless given."`
}

type rawPhase struct {
	Name string        `key:"name" doc:"For people; its rate unless given."`
	Rate string        `key:"rate" doc:"Requests a second: 200, 200..800 for a ramp, 200,400,800 for steps."`
	For  time.Duration `key:"for" need:"yes" doc:"How long."`
}

type rawFault struct {
	At      time.Duration `key:"at" need:"yes" doc:"From the start of the phases."`
	Name    string        `key:"name" doc:"For people."`
	Pause   string        `key:"pause" is:"word" doc:"A server: its processes stand still, as in a pause of garbage collection."`
	Kill    string        `key:"kill" is:"word" doc:"A server: it is killed at once, and started again after for."`
	Restart string        `key:"restart" is:"word" doc:"A server: it is ended and started again."`
	Run     rawRun        `key:"run" doc:"Or a command."`
	Undo    rawRun        `key:"undo" doc:"Command that undoes run after for, and at the end in any case."`
	For     time.Duration `key:"for" doc:"How long; of pause needed."`
	Every   time.Duration `key:"every" doc:"Again and again so often."`
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
			var arg string
			d.Read(what, "", item, &arg)
			r.args = append(r.args, arg)
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
