package scenario

import (
	"strings"
	"time"

	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/strictyaml"
)

// The keys of files. They are decoded into these structs and the JSON Schema is made
// of them, so neither has a key that the other lacks.

type node = strictyaml.Node

// scenarioFile is a Scenario with the source of its load.
type scenarioFile struct {
	Scenario
	Target  string       `key:"target" is:"url" need:"yes" doc:"Base address: http://127.0.0.1:8983"`
	Servers []fileServer `key:"servers" doc:"Processes under test: started here, or found."`
	Load    []fileData   `key:"load" doc:"Data that is loaded before."`

	Queries   []fileQuery         `key:"queries" doc:"What is asked, by name."`
	Targets   string              `key:"targets" doc:"Or a file of targets, a line each."`
	Record    *requests.Record    `key:"record" doc:"Or a recorded mirror session."`
	AccessLog *requests.AccessLog `key:"access_log" doc:"Or an access log."`
	Header    map[string]string   `key:"header" doc:"Of every request that does not set the same itself."`
	Tenant    string              `key:"tenant" doc:"Where a request's tenant stands: header:NAME, column:NAME, host or path:REGEX."`
	Think     string              `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check     *requests.Check     `key:"check" doc:"Of answers to queries that have no check of their own."`
	Order     string              `key:"order" is:"dealt|random" doc:"Queries by their weights: dealt out evenly (default), or each drawn."`

	Arrivals    string        `key:"arrivals" is:"constant|poisson|recorded|closed" doc:"Default: constant; recorded of a recording or log without phases."`
	Precise     bool          `key:"precise" doc:"Whether each request of constant arrivals has its own time. Default: above 2,500 a second they come in groups every 400µs, which takes less CPU."`
	Phases      []filePhase   `key:"phases" doc:"Stretches of load, one after another."`
	Protocol    string        `key:"protocol" is:"HTTP/1.1|HTTP/2" default:"HTTP/1.1" doc:"Version of HTTP."`
	Connections int           `key:"connections" is:"1..1000000" default:"64" doc:"Open at once at most."`
	KeepAlive   bool          `key:"keep_alive" default:"true" doc:"Connections serve many requests."`
	Timeout     time.Duration `key:"timeout" default:"30s" doc:"Of a request, from when it is sent."`
	Seed        uint64        `key:"seed" is:"0.." default:"1" doc:"Of arrivals, weights and data."`

	Faults     []fileFault `key:"faults" doc:"What goes wrong meanwhile; undone at the end."`
	Limits     *fileLimits `key:"limits" doc:"How much of the generator's own error a run may have and count nevertheless, on a machine that is never quiet."`
	Thresholds []string    `key:"thresholds" is:"threshold" doc:"p(99) < 300ms, errors < 1%, rate > 450/s, p(99){query} < 50ms; ', abort' at the end stops the run."`
}

type fileServer struct {
	Server
	Run Program           `key:"run" doc:"Starts it: a line for /bin/sh, or a list. It stays in the foreground."`
	Dir string            `key:"dir" doc:"Where it runs; default the directory of the file."`
	Env map[string]string `key:"env" doc:"Added to the environment."`
}

type fileData struct {
	DataLoad
	Run     Program           `key:"run" doc:"Or a command that prints them."`
	Dir     string            `key:"dir" doc:"Where run runs; default the directory of the file."`
	Env     map[string]string `key:"env" doc:"Added to the environment of run."`
	Request string            `key:"request" is:"request" need:"yes" doc:"POST /solr/docs/update"`
	Header  map[string]string `key:"header" doc:"Of each request; default content-Type goes by as."`
	Finally string            `key:"finally" is:"request" doc:"A request after the last batch, such as a commit: POST /solr/docs/update?commit=true"`
}

type fileQuery struct {
	requests.Query
	Header map[string]string `key:"header" doc:"May hold {{words}}."`
}

type fileFault struct {
	Fault
	Run  Program `key:"run" doc:"Or a command."`
	Undo Program `key:"undo" doc:"Command that undoes run after for, and at the end in any case."`
}

type fileLimits struct {
	Late float64 `key:"late" is:"share" doc:"How much of the measured latency may be its own lateness; default 10%, 100% for any."`
	CPU  float64 `key:"cpu" is:"share" doc:"How busy its busiest thread, and the machine, may be; default 95%, 100% for any."`
}

type filePhase struct {
	Name string        `key:"name" doc:"For people; default its rate."`
	Rate string        `key:"rate" doc:"Requests a second: 200, 200..800 for a ramp, 200,400,800 for steps."`
	For  time.Duration `key:"for" need:"yes" doc:"How long."`
}

// ReadNode reads either form.
func (r *Program) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	switch n.Kind {
	case strictyaml.Null:
		return
	case strictyaml.Scalar:
		r.Shell, r.Args = true, []string{n.Text}
	case strictyaml.List:
		for _, item := range n.Items {
			var arg string
			d.Read(what, "", item, &arg)
			r.Args = append(r.Args, arg)
		}
	default:
		d.Problems.Add(n.At, "write a line for /bin/sh, or a list: the program and its arguments", "%s is not a command", what)
	}
	if len(r.Args) > 0 && strings.TrimSpace(r.Args[0]) == "" {
		d.Problems.Add(n.At, "write a line for /bin/sh, or a list: the program and its arguments", "%s is empty", what)
	}
}

// SchemaOf returns the schema of either form.
func (*Program) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, strictyaml.M{"type": "array", "items": strictyaml.M{"type": []string{"string", "number"}}}}}
}
