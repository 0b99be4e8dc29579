// Package scenario runs load against something that has to be there first: set-up
// commands, servers that are started and waited for, data that is loaded, a
// warm-up that goes on until latency no longer drifts, then phases of load with
// faults and readings of the processes under test on one time line. Whatever
// happens, everything that was started is ended and everything that was done to
// a process is undone.
//
// Load reads a file and says everything that is wrong with it; Open brings the
// stage up; Measure sends load, as often as asked; Close takes the stage down.
package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"time"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

// Scenario is a file that was read, with its variables filled in. It is not
// changed after Load, but by Judge.
type Scenario struct {
	Name, Description string
	Service           string
	File              string // its path
	Dir               string // which relative names are relative to
	Target            *url.URL
	Vars              map[string]string // all there are
	Env               map[string]string

	Setup, Teardown []Command
	Servers         []Server
	Loads           []DataLoad
	WarmUp          *WarmUp // nil: none

	Requests   requests.Spec
	Plan       bench.Plan
	Duration   time.Duration
	HTTP       load.Options // Protocol, Connections, Timeout, NoKeepAlive
	TLS        TLS
	Faults     []Fault
	Thresholds []threshold.Threshold
	Limits     tally.Limits      // of the generator's own error; zero fields: the usual
	Versions   map[string]string // commands by name
	Configs    []string          // files

	tree *strictyaml.Node // of the file, with {{name}} as written
}

// TLS says whom to trust.
type TLS struct {
	CA         string `key:"ca" doc:"File of certificates to trust."`
	ServerName string `key:"server_name" doc:"Name that the certificate must be of; the target's host unless given."`
	Insecure   bool   `key:"insecure" doc:"Trust any certificate."`
}

// Config is the client's configuration; nil if the target speaks plainly.
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
	Name    string
	Args    []string // the program and its arguments; one is a line for /bin/sh if Shell
	Shell   bool
	Dir     string
	Env     map[string]string
	Timeout time.Duration
}

// Server is a process under test: started here if it has a Command, else found
// by exactly one of PID, PIDFile, Port.
type Server struct {
	Name    string
	Command *Command
	Ready   Ready
	Stop    string // signal, without SIG
	Grace   time.Duration
	PID     int
	PIDFile string
	Port    int
	Metrics []Metrics
}

// Ready says when a server counts as started; the zero value when it runs.
type Ready struct {
	HTTP   string        `key:"http" is:"url" doc:"Answers below 400."`
	TCP    string        `key:"tcp" is:"address" doc:"Takes connections."`
	Log    string        `key:"log" is:"regexp" doc:"A line of its output matches."`
	Within time.Duration `key:"within" default:"1m" doc:"How long that may take."`
}

// Metrics are a server's own figures.
type Metrics struct {
	Prometheus string   `key:"prometheus" is:"url" doc:"Address of metrics in Prometheus' text format."`
	Families   []string `key:"families" doc:"Which of them, such as jvm_gc_pause_seconds_sum or go_gc_duration_seconds_sum{area=\"x\"}; series of one name are added up."`
	JSON       string   `key:"json" is:"url" doc:"Or the address of a JSON document."`
	Path       string   `key:"path" doc:"Where in it the number stands: metrics.jvm.gc.time"`
	Name       string   `key:"name" is:"word" doc:"Of the number; the last part of path unless given."`
	Unit       string   `key:"unit" is:"word" doc:"Of the number, such as s or B."`
	Adds       *bool    `key:"adds" doc:"It is a total that only grows; true for names that end in _total, _sum or _count unless given."`
	Scale      float64  `key:"scale" is:"positive" default:"1" doc:"Each value is multiplied by this: 0.001 makes seconds of milliseconds."`
}

// DataLoad is data that is loaded before.
type DataLoad struct {
	Name                  string
	File                  string
	Command               *Command // or what prints it
	Format                string   // jsonl, csv, tsv, lines
	Method, URL           string
	Header                []load.Field
	As                    string // ndjson, json, bulk, lines, single
	Action                string
	Batch, Parallel       int
	AtMost                uint64
	Check                 *requests.Check
	Errors                float64
	Timeout               time.Duration
	FinalMethod, FinalURL string
	FinalBody             string
}

// WarmUp is load until its latency no longer drifts.
type WarmUp struct {
	Steady  float64       `key:"steady" is:"share" default:"3%" doc:"How much p50, p99 and mean may drift over the stretch that is judged."`
	AtLeast time.Duration `key:"at_least" default:"3s" doc:"How long in any case."`
	AtMost  time.Duration `key:"at_most" default:"1m" doc:"When to stop waiting."`
	Slot    time.Duration `key:"slot" doc:"How long one figure is measured; by the rate unless given."`
	Need    bool          `key:"need" doc:"Whether not becoming steady is an error; false unless given."`
}

// Fault is something that goes wrong: exactly one of Pause, Kill, Restart (names
// of servers) and Run.
type Fault struct {
	Name                 string
	At, For, Every       time.Duration
	Pause, Kill, Restart string
	Run, Undo            *Command
}

// Sort is the fault's word in files.
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

// Server is whom it happens to, empty of commands.
func (f *Fault) Server() string { return f.Pause + f.Kill + f.Restart }
