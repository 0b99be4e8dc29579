// Package scenario runs load against a target that has to be set up first: set-up
// commands, servers that are started and waited for, data that is loaded, a warm-up
// that goes on until latency no longer drifts, then phases of load with faults and
// readings of the processes under test on one time line. Whatever happens, everything
// that was started is ended and everything that was done to a process is undone.
//
// Load reads a file and reports every problem in it; Open brings the stage up;
// Measure sends load, as often as asked; Close takes the stage down.
package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"time"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

// Scenario is a file that was read, with its variables replaced. After Load only
// Judge changes it.
type Scenario struct {
	Name        string `key:"scenario" is:"word" need:"yes" doc:"Its name."`
	Description string `key:"description" doc:"For people."`
	Service     string `key:"service" is:"word" doc:"Label of its series; default the scenario's name."`
	File        string // its path
	Dir         string // which relative names are relative to
	Target      *url.URL
	Vars        map[string]string `key:"vars" doc:"What {{name}} stands for in any text of the file; commands have them in their environment too. The command line and experiments give them other values."` // once read all there are
	Env         map[string]string `key:"env" doc:"Environment of every command and server."`

	Setup    []Command `key:"setup" doc:"Commands before everything else, one after another."`
	Teardown []Command `key:"teardown" doc:"Commands at the end, whatever happened."`
	Servers  []Server
	Loads    []DataLoad
	WarmUp   *WarmUp `key:"warm_up" doc:"The same load until its latency no longer drifts."` // nil: none

	Requests   requests.Spec
	Plan       bench.Plan
	Duration   time.Duration `key:"duration" doc:"Of a recording or log without phases; default until its end."`
	HTTP       load.Options  // Protocol, Connections, Timeout, NoKeepAlive
	TLS        TLS           `key:"tls" doc:"Whom to trust."`
	Faults     []Fault
	Thresholds []threshold.Threshold
	Limits     tally.Limits      // of the generator's own error; zero fields: the usual
	Versions   map[string]string `key:"versions" doc:"Commands whose first line of output says what ran here, by name: {nginx: nginx -v}"`
	Configs    []string          `key:"configuration" doc:"Files that are kept with the result."`

	tree *strictyaml.Node // of the file, with {{name}} as written
}

// TLS configures trust in the target.
type TLS struct {
	CA         string `key:"ca" doc:"File of certificates to trust."`
	ServerName string `key:"server_name" doc:"Name that the certificate must be of; default the target's host."`
	Insecure   bool   `key:"insecure" doc:"Trust any certificate."`
}

// Config returns the client's configuration, or nil if the target does not use TLS.
func (t TLS) Config(target *url.URL) (*tls.Config, error) {
	if target.Scheme != "https" {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.Insecure} //nolint:gosec // asked for by name
	if c.ServerName == "" {
		c.ServerName = target.Hostname()
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("certificates to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate is in %s; write a file in PEM", t.CA)
		}
	}
	return c, nil
}

// Command is a program that is run to its end.
type Command struct {
	Run     Program           `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    string            `key:"name" is:"word" doc:"For people; default its first word."`
	Dir     string            `key:"dir" doc:"Where it runs; default the directory of the file."`
	Env     map[string]string `key:"env" doc:"Added to the environment."`
	Timeout time.Duration     `key:"timeout" default:"5m" doc:"How long it may take."`
}

// Program is the program of a command.
type Program struct {
	Args  []string // the program and its arguments
	Shell bool     // the one argument is a line for /bin/sh
}

// command returns the program with its arguments, /bin/sh if it is a line for the
// shell.
func (p *Program) command() *exec.Cmd {
	if p.Shell {
		return exec.Command("/bin/sh", "-c", p.Args[0])
	}
	return exec.Command(p.Args[0], p.Args[1:]...)
}

// Server is a process under test: started here if it has a Command, else found
// by exactly one of PID, PIDFile, Port.
type Server struct {
	Name    string `key:"name" is:"word" need:"yes" doc:"Faults and resources are of this name."`
	Command *Command
	Ready   Ready         `key:"ready" doc:"When it counts as started."`
	Stop    string        `key:"stop" is:"INT|TERM|QUIT|KILL|HUP" default:"TERM" doc:"Signal that ends it."` // without SIG
	Grace   time.Duration `key:"grace" default:"10s" doc:"How long it may take to end before it is killed."`
	PID     int           `key:"pid" is:"1..1000000" doc:"Instead of run: a process that runs already."`
	PIDFile string        `key:"pid_file" doc:"Instead of run: a file that holds its process id."`
	Port    int           `key:"port" is:"1..65535" doc:"Instead of run: the process that listens on this TCP port."`
	Metrics []Metrics     `key:"metrics" doc:"Its own figures, once a second."`
}

// Ready defines when a server counts as started; the zero value is as soon as it
// runs.
type Ready struct {
	HTTP   string        `key:"http" is:"url" doc:"Answers below 400."`
	TCP    string        `key:"tcp" is:"address" doc:"Takes connections."`
	Log    string        `key:"log" is:"regexp" doc:"A line of its output matches."`
	Within time.Duration `key:"within" default:"1m" doc:"How long that may take."`
}

// Metrics are figures that a server reports of itself.
type Metrics struct {
	Prometheus string   `key:"prometheus" is:"url" doc:"Address of metrics in Prometheus' text format."`
	Families   []string `key:"families" doc:"Which of them, such as jvm_gc_pause_seconds_sum or go_gc_duration_seconds_sum{area=\"x\"}; series of one name are added up."`
	JSON       string   `key:"json" is:"url" doc:"Or the address of a JSON document."`
	Path       string   `key:"path" doc:"Where in it the number stands: metrics.jvm.gc.time"`
	Name       string   `key:"name" is:"word" doc:"Of the number; default the last part of path."`
	Unit       string   `key:"unit" is:"word" doc:"Of the number, such as s or B."`
	Adds       *bool    `key:"adds" doc:"It is a total that only grows; default true for names that end in _total, _sum or _count."`
	Scale      float64  `key:"scale" is:"positive" default:"1" doc:"Each value is multiplied by this: 0.001 makes seconds of milliseconds."`
}

// DataLoad is data that is loaded before the load.
type DataLoad struct {
	Name        string   `key:"name" is:"word" need:"yes" doc:"For people."`
	File        string   `key:"file" doc:"JSONL, CSV or any lines."`
	Command     *Command // or what prints it
	Format      string   `key:"format" is:"jsonl|csv|tsv|lines" doc:"Of the data; default by the file's ending, jsonl of a command. Rows of CSV and TSV become JSON objects of texts."`
	Method, URL string
	Header      []load.Field
	As          string          `key:"as" is:"ndjson|json|bulk|lines|single" default:"ndjson" doc:"How a batch becomes a body: a line each, a JSON array, Elasticsearch's bulk format, lines as they are, or one document a request."`
	Action      string          `key:"action" doc:"With bulk: the line before each document; default {\"index\":{}}."`
	Batch       int             `key:"batch" is:"1..1000000" default:"1000" doc:"Documents a request."`
	Parallel    int             `key:"parallel" is:"1..1000000" default:"4" doc:"Requests under way at once."`
	AtMost      uint64          `key:"at_most" is:"1.." doc:"Documents; default all."`
	Check       *requests.Check `key:"check" doc:"Of answers; default a status below 300."`
	Errors      float64         `key:"errors" is:"share" doc:"Share of batches that may fail; default none."`
	Timeout     time.Duration   `key:"timeout" default:"1m" doc:"Of a request."`
	FinalMethod string
	FinalURL    string
	FinalBody   string `key:"finally_body" doc:"Its body."`
}

// WarmUp is load until its latency no longer drifts.
type WarmUp struct {
	Steady  float64       `key:"steady" is:"share" default:"3%" doc:"How much p50, p99 and mean may drift over the stretch that is judged."`
	AtLeast time.Duration `key:"at_least" default:"3s" doc:"How long in any case."`
	AtMost  time.Duration `key:"at_most" default:"1m" doc:"When to stop waiting."`
	Slot    time.Duration `key:"slot" doc:"How long one figure is measured; default by the rate."`
	Need    bool          `key:"need" doc:"Whether not becoming steady is an error; default false."`
}

// Fault is a failure during the load: exactly one of Pause, Kill, Restart (names of
// servers) and Run.
type Fault struct {
	Name      string        `key:"name" doc:"For people."`
	At        time.Duration `key:"at" need:"yes" doc:"From the start of the phases."`
	For       time.Duration `key:"for" doc:"How long; of pause needed."`
	Every     time.Duration `key:"every" doc:"Again and again so often."`
	Pause     string        `key:"pause" is:"word" doc:"A server: its processes stand still, as in a pause of garbage collection."`
	Kill      string        `key:"kill" is:"word" doc:"A server: it is killed at once, and started again after for."`
	Restart   string        `key:"restart" is:"word" doc:"A server: it is ended and started again."`
	Run, Undo *Command
}

// Sort returns the fault's key in files.
func (f *Fault) Sort() string {
	switch {
	case f.Pause != "":
		return "pause"
	case f.Kill != "":
		return "kill"
	case f.Restart != "":
		return "restart"
	}
	return "run"
}

// Server returns the server of the fault, or "" for a command.
func (f *Fault) Server() string { return f.Pause + f.Kill + f.Restart }
