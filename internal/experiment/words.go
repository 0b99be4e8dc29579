package experiment

import (
	"reflect"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// The words of files; the JSON Schema is made of them too.

type node = strictyaml.Node

type rawFile struct {
	Experiment string `key:"experiment" is:"word" need:"yes" doc:"Its name."`
	Hypothesis string `key:"hypothesis" doc:"What is expected, and why: kept with the result."`
	Scenario   string `key:"scenario" doc:"File of the scenario that each round runs. {{names}} in it stand for the setting's values."`
	Design     string `key:"design" is:"one variable|factorial" doc:"one variable unless given. factorial, asked for by name, measures every combination of the factors."`

	Variable string            `key:"variable" doc:"The one variable that settings differ in."`
	Unit     string            `key:"unit" doc:"Of the variable, for the response curve."`
	Control  map[string]string `key:"control" need:"yes" doc:"Value of every variable in the control: {workers: 8, keepalive: 100}"`
	Variants []rawSetting      `key:"variants" doc:"What the settings change: [{workers: 1}, {workers: 24}]"`
	Sweep    rawSweep          `key:"sweep" doc:"Or many values of the variable: [1, 2, 4, 8], or {from: 1, to: 64, steps: 7, scale: geometric}"`
	Factors  map[string]rawSet `key:"factors" doc:"Of a factorial design: values beside the control's, {workers: [1, 24], keepalive: [0]}"`

	Apply    []rawCommand  `key:"apply" doc:"Commands that make a setting hold, with {{names}} of its values, before it is measured."`
	Settle   time.Duration `key:"settle" doc:"How long to wait after that; not at all unless given."`
	Restore  []rawCommand  `key:"restore" doc:"Commands that make the control hold again at the end; those of apply with the control's values unless given."`
	Between  []rawCommand  `key:"between" doc:"Commands before each round, such as emptying a cache. If one fails the experiment ends, in order."`
	Rounds   *rawRounds    `key:"rounds" doc:"How many, and when to stop; 8 unless given."`
	Measures []string      `key:"measures" is:"measure" doc:"Judge only these: p50, p75, p90, p95, p99, p999, mean, errors, rate, and resources such as cpu_per_request. All unless given; the more there are, the more it takes to believe one."`
	Within   float64       `key:"within" is:"share" default:"5%" doc:"Ratios within this are the same."`
	Level    float64       `key:"level" is:"share" default:"95%" doc:"Confidence of intervals."`
	Seed     uint64        `key:"seed" is:"1.." doc:"Of the order within rounds and of arrivals; drawn and recorded unless given."`

	Record        map[string]string `key:"record" doc:"Commands whose first line of output is recorded with the environment: {nginx: nginx -v}"`
	Configuration []string          `key:"configuration" doc:"Files whose hash and text are recorded."`
	Gate          *rawGate          `key:"gate" doc:"What a pipeline asks: exit code 1 if something became worse."`
	Live          *rawLive          `key:"live" doc:"Instead of a scenario: live traffic, through a mirror session that runs."`
}

// rawSetting is what one setting changes.
type rawSetting struct {
	values []pair
}

type pair struct {
	name, value string
	at          strictyaml.Place
}

// ReadNode takes a mapping of names to values.
func (r *rawSetting) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	if n.Kind != strictyaml.Mapping {
		d.Problems.Add(n.At, "write {NAME: VALUE}", "%s is not a mapping", what)
		return
	}
	for _, f := range n.Fields {
		p := pair{name: f.Key, at: f.At}
		d.Read(what+"."+f.Key, "", f.Value, &p.value)
		r.values = append(r.values, p)
	}
}

// SchemaOf is the schema of a mapping of names to scalars.
func (r *rawSetting) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"type": "object", "additionalProperties": scalarSchema}
}

var scalarSchema = strictyaml.M{"type": []string{"string", "number", "boolean"}}

// rawSet is a list of values, or one.
type rawSet struct {
	values []value
}

type value struct {
	text string
	at   strictyaml.Place
}

func (r *rawSet) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	items := n.Items
	if n.Kind == strictyaml.Scalar {
		items = []*node{n}
	} else if n.Kind != strictyaml.List {
		d.Problems.Add(n.At, "write a list of values: [1, 2, 4]", "%s is not a list", what)
		return
	}
	for _, item := range items {
		v := value{at: item.At}
		d.Read(what, "", item, &v.text)
		r.values = append(r.values, v)
	}
}

func (r *rawSet) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "array", "items": scalarSchema}, scalarSchema}}
}

// rawSweep is a list of values, or a range.
type rawSweep struct {
	list *rawSet
	of   *rawRange
}

func (r *rawSweep) ReadNode(d *strictyaml.Decoder, what, is string, n *node) {
	if n.Kind == strictyaml.Mapping {
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
	From  float64 `key:"from" is:"any number" need:"yes" doc:"The least value."`
	To    float64 `key:"to" is:"any number" need:"yes" doc:"The greatest."`
	Steps int     `key:"steps" is:"2..100" need:"yes" doc:"How many values, from and to among them."`
	Scale string  `key:"scale" is:"linear|geometric" default:"linear" doc:"Equal differences, or equal ratios."`
	Whole bool    `key:"whole" doc:"Values are rounded to whole numbers; true if from and to are whole unless given."`
}

type rawCommand struct {
	Run     []string      `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    string        `key:"name" doc:"For people; its first word unless given."`
	Dir     string        `key:"dir" doc:"Where it runs; the directory of the file unless given."`
	Timeout time.Duration `key:"timeout" doc:"5m unless given."`
}

// ReadScalar takes a line for the shell.
func (r *rawCommand) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "", n, &r.Run)
	return true
}

func (r *rawCommand) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

type rawRounds struct {
	AtLeast   int     `key:"at_least" is:"1..1000" doc:"The first stage of precision, and the earliest decision; of these default 6."`
	AtMost    int     `key:"at_most" is:"1..1000" doc:"However undecided; 30 with precision or early, else at_least."`
	Precision float64 `key:"precision" is:"share" doc:"As many rounds as make the interval this narrow to either side, such as 3%."`
	Early     bool    `key:"early" doc:"Stop as soon as every setting is decided, by intervals that hold at every look."`
	Measure   string  `key:"measure" is:"measure" doc:"That decides, and is read first; p99, or of the measures that are named the one that says most, unless given."`
}

// ReadScalar takes a number of rounds.
func (r *rawRounds) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "1..1000", n, &r.AtLeast)
	return true
}

func (r *rawRounds) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "integer", "minimum": 1, "maximum": 1000}, ref}}
}

type rawGate struct {
	Baseline string   `key:"baseline" doc:"File that --save-baseline wrote, or the id of an experiment at the server; without one, the settings are held against the control of the same experiment."`
	Allowed  float64  `key:"allowed" is:"share" default:"5%" doc:"By how much a measure may be worse."`
	Compare  string   `key:"compare" is:"ratio|absolute" doc:"ratio, of a setting to its control, which another machine hardly changes, unless given; absolute compares figures themselves."`
	Measures []string `key:"measures" is:"measure" doc:"That may fail it; p50, p95, p99, mean and errors unless given."`
}

type rawLive struct {
	Session   string        `key:"session" need:"yes" doc:"Id of the mirror session, as tailscope session list shows it."`
	To        string        `key:"to" is:"url" doc:"Server that has it; --server unless given."`
	For       time.Duration `key:"for" default:"30m" doc:"How long each setting is measured in a round."`
	Candidate string        `key:"candidate" default:"candidate" doc:"Name of the candidate."`
}

var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"any number": new(anyNumber),
	"measure": strictyaml.Checked(func(s string) error {
		if s == "p99.9" {
			return strictyaml.Wrong("write p999", "p99.9 is not known")
		}
		if !strictyaml.IsWord(s) || strings.Contains(s, " ") {
			return strictyaml.Wrong("write one such as p99, mean, errors or cpu_per_request", "%q is not a measure", s)
		}
		return nil
	}, strictyaml.M{"type": "string"}),
})

// anyNumber is a value of a variable that is a number.
type anyNumber strictyaml.Number

func (v *anyNumber) ReadText(s string) error {
	if (*strictyaml.Number)(v).ReadText(s) != nil {
		return strictyaml.Wrong("list the values instead: sweep: [64MiB, 128MiB]", "%q is not a number", s)
	}
	return nil
}

func (anyNumber) Schema() strictyaml.M { return strictyaml.Number(0).Schema() }

// Schema is the JSON Schema of experiment files, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[rawFile](), strictyaml.SchemaOptions{Title: "tailscope experiment", Leaves: leaves})
}
