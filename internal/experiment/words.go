package experiment

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// The words of files; the JSON Schema is made of them too.

type (
	text = strictyaml.Text
	node = strictyaml.Node
)

type rawFile struct {
	Node       *node
	Experiment text `key:"experiment" is:"word" need:"yes" doc:"Its name."`
	Hypothesis text `key:"hypothesis" doc:"What is expected, and why: kept with the result."`
	Scenario   text `key:"scenario" doc:"File of the scenario that each round runs. {{names}} in it stand for the setting's values."`
	Design     text `key:"design" is:"one variable|factorial" doc:"one variable unless given. factorial, asked for by name, measures every combination of the factors."`

	Variable text              `key:"variable" doc:"The one variable that settings differ in."`
	Unit     text              `key:"unit" doc:"Of the variable, for the response curve."`
	Control  map[string]text   `key:"control" need:"yes" doc:"Value of every variable in the control: {workers: 8, keepalive: 100}"`
	Variants []rawSetting      `key:"variants" doc:"What the settings change: [{workers: 1}, {workers: 24}]"`
	Sweep    rawSweep          `key:"sweep" doc:"Or many values of the variable: [1, 2, 4, 8], or {from: 1, to: 64, steps: 7, scale: geometric}"`
	Factors  map[string]rawSet `key:"factors" doc:"Of a factorial design: values beside the control's, {workers: [1, 24], keepalive: [0]}"`

	Apply    []rawCommand `key:"apply" doc:"Commands that make a setting hold, with {{names}} of its values, before it is measured."`
	Settle   text         `key:"settle" is:"span" doc:"How long to wait after that; not at all unless given."`
	Restore  []rawCommand `key:"restore" doc:"Commands that make the control hold again at the end; those of apply with the control's values unless given."`
	Between  []rawCommand `key:"between" doc:"Commands before each round, such as emptying a cache. If one fails the experiment ends, in order."`
	Rounds   *rawRounds   `key:"rounds" doc:"How many, and when to stop; 8 unless given."`
	Measures []text       `key:"measures" is:"measure" doc:"Judge only these: p50, p75, p90, p95, p99, p999, mean, errors, rate, and resources such as cpu_per_request. All unless given; the more there are, the more it takes to believe one."`
	Within   text         `key:"within" is:"share" doc:"Ratios within this are the same; 5% unless given."`
	Level    text         `key:"level" is:"share" doc:"Confidence of intervals; 95% unless given."`
	Seed     text         `key:"seed" is:"seed" doc:"Of the order within rounds and of arrivals; drawn and recorded unless given."`

	Record        map[string]text `key:"record" doc:"Commands whose first line of output is recorded with the environment: {nginx: nginx -v}"`
	Configuration []text          `key:"configuration" doc:"Files whose hash and text are recorded."`
	Gate          *rawGate        `key:"gate" doc:"What a pipeline asks: exit code 1 if something became worse."`
	Live          *rawLive        `key:"live" doc:"Instead of a scenario: live traffic, through a mirror session that runs."`
}

// rawSetting is what one setting changes.
type rawSetting struct {
	Node   *node
	values []pair
}

type pair struct {
	name, value string
	at          strictyaml.Place
}

// ReadNode takes a mapping of names to values.
func (r *rawSetting) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	r.Node = n
	if n.Kind != strictyaml.Mapping {
		d.Problems.Add(n.At, "write {NAME: VALUE}", "%s is not a mapping", what)
		return
	}
	for _, f := range n.Fields {
		t := d.Text(what+"."+f.Key, "", f.Value)
		r.values = append(r.values, pair{f.Key, t.S(), f.At})
	}
}

// SchemaOf is the schema of a mapping of names to scalars.
func (r *rawSetting) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"type": "object", "additionalProperties": scalarSchema}
}

var scalarSchema = strictyaml.M{"type": []string{"string", "number", "boolean"}}

// rawSet is a list of values, or one.
type rawSet struct {
	Node   *node
	values []text
}

func (r *rawSet) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	r.Node = n
	items := n.Items
	if n.Kind == strictyaml.Scalar {
		items = []*node{n}
	} else if n.Kind != strictyaml.List {
		d.Problems.Add(n.At, "write a list of values: [1, 2, 4]", "%s is not a list", what)
		return
	}
	for _, item := range items {
		r.values = append(r.values, d.Text(what, "", item))
	}
}

func (r *rawSet) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "array", "items": scalarSchema}, scalarSchema}}
}

// rawSweep is a list of values, or a range.
type rawSweep struct {
	Node *node
	list *rawSet
	of   *rawRange
}

func (r *rawSweep) ReadNode(d *strictyaml.Decoder, what, is string, n *node) {
	if r.Node = n; n.Kind == strictyaml.Mapping {
		r.of = &rawRange{}
		d.Decode(what, n, r.of)
		return
	}
	r.list = &rawSet{}
	r.list.ReadNode(d, what, is, n)
}

func (r *rawSweep) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{(&rawSet{}).SchemaOf(s, nil), s.Of(reflect.TypeFor[rawRange](), "", false)}}
}

type rawRange struct {
	Node  *node
	From  text `key:"from" is:"any number" need:"yes" doc:"The least value."`
	To    text `key:"to" is:"any number" need:"yes" doc:"The greatest."`
	Steps text `key:"steps" is:"steps" need:"yes" doc:"How many values, from and to among them."`
	Scale text `key:"scale" is:"linear|geometric" doc:"Equal differences, or equal ratios; linear unless given."`
	Whole text `key:"whole" is:"bool" doc:"Values are rounded to whole numbers; true if from and to are whole unless given."`
}

type rawCommand struct {
	Node    *node
	Run     []text `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    text   `key:"name" doc:"For people; its first word unless given."`
	Dir     text   `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Timeout text   `key:"timeout" is:"span" doc:"5m unless given."`
}

// ReadScalar takes a line for the shell.
func (r *rawCommand) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	r.Node, r.Run = n, []text{d.Text(what, "", n)}
	return true
}

func (r *rawCommand) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

type rawRounds struct {
	Node      *node
	AtLeast   text `key:"at_least" is:"rounds" doc:"The first stage of precision, and the earliest decision; 6 unless given."`
	AtMost    text `key:"at_most" is:"rounds" doc:"However undecided; 30 with precision or early, else at_least."`
	Precision text `key:"precision" is:"share" doc:"As many rounds as make the interval this narrow to either side, such as 3%."`
	Early     text `key:"early" is:"bool" doc:"Stop as soon as every setting is decided, by intervals that hold at every look."`
	Measure   text `key:"measure" is:"measure" doc:"That decides, and is read first; p99, or of the measures that are named the one that says most, unless given."`
}

// ReadScalar takes a number of rounds.
func (r *rawRounds) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	r.Node, r.AtLeast = n, d.Text(what, "rounds", n)
	return true
}

func (r *rawRounds) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "integer"}, ref}}
}

type rawGate struct {
	Node     *node
	Baseline text   `key:"baseline" doc:"File that --save-baseline wrote, or the id of an experiment at the server; without one, the settings are held against the control of the same experiment."`
	Allowed  text   `key:"allowed" is:"share" doc:"By how much a measure may be worse; 5% unless given."`
	Compare  text   `key:"compare" is:"ratio|absolute" doc:"ratio, of a setting to its control, which another machine hardly changes, unless given; absolute compares figures themselves."`
	Measures []text `key:"measures" is:"measure" doc:"That may fail it; p50, p95, p99, mean and errors unless given."`
}

type rawLive struct {
	Node      *node
	Session   text `key:"session" need:"yes" doc:"Id of the mirror session, as tailscope experiment list shows it."`
	To        text `key:"to" is:"url" doc:"Server that has it; --server unless given."`
	For       text `key:"for" is:"span" doc:"How long each setting is measured in a round; 30m unless given."`
	Candidate text `key:"candidate" doc:"Name of the candidate; candidate unless given."`
}

var kinds = strictyaml.With(strictyaml.Kinds{
	"span": {Read: func(t *text, s string) (string, string) {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return fmt.Sprintf("%q is not a duration", s), "write one such as 500ms, 10s or 30m"
		}
		t.Duration = d
		return "", ""
	}, Schema: strictyaml.Either(`^(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$`)},
	"rounds": strictyaml.Whole(1, 1000, "write a number up to 1000; 6 or more can tell something"),
	"steps":  strictyaml.Whole(2, 100, "write a number from 2 to 100"),
	"any number": {Read: func(t *text, s string) (string, string) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Sprintf("%q is not a number", s), "list the values instead: sweep: [64MiB, 128MiB]"
		}
		t.Number = f
		return "", ""
	}, Schema: strictyaml.M{"type": []string{"number", "string"}}},
	"seed": {Read: func(_ *text, s string) (string, string) {
		if n, err := strconv.ParseUint(s, 10, 64); err != nil || n == 0 {
			return fmt.Sprintf("%q is not a seed", s), "write a whole number from 1 on"
		}
		return "", ""
	}, Schema: strictyaml.Either(`^[0-9]+$`)},
	"measure": {Read: func(_ *text, s string) (string, string) {
		if s == "p99.9" {
			return "p99.9 is not known", "write p999"
		}
		if !strictyaml.IsWord(s) || strings.Contains(s, " ") {
			return fmt.Sprintf("%q is not a measure", s), "write one such as p99, mean, errors or cpu_per_request"
		}
		return "", ""
	}, Schema: strictyaml.M{"type": "string"}},
})

// Schema is the JSON Schema of experiment files, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[rawFile](), strictyaml.SchemaOptions{Title: "tailscope experiment", Kinds: kinds})
}
