package experiment

import (
	"reflect"
	"strings"

	"tailscope/internal/judge"
	"tailscope/internal/strictyaml"
)

// The types of files; the JSON Schema is made of them too.

type node = strictyaml.Node

// file is an Experiment with the source of its settings.
type file struct {
	Experiment
	Control  map[string]string `key:"control" need:"yes" doc:"Value of every variable in the control: {workers: 8, keepalive: 100}"`
	Variants []variant         `key:"variants" doc:"What the settings change: [{workers: 1}, {workers: 24}]"`
	Sweep    sweep             `key:"sweep" doc:"Or many values of the variable: [1, 2, 4, 8], or {from: 1, to: 64, steps: 7, scale: geometric}"`
	Factors  map[string]set    `key:"factors" doc:"Of a factorial design: values beside the control's, {workers: [1, 24], keepalive: [0]}"`
}

// variant holds the changes of one setting.
type variant struct {
	values []pair
}

type pair struct {
	name, value string
	at          strictyaml.Place
}

// ReadNode reads a mapping of names to values.
func (r *variant) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
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

// SchemaOf returns the schema of a mapping of names to scalars.
func (r *variant) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"type": "object", "additionalProperties": scalarSchema}
}

var scalarSchema = strictyaml.M{"type": []string{"string", "number", "boolean"}}

// set is a list of values, or one.
type set struct {
	values []value
}

type value struct {
	text string
	at   strictyaml.Place
}

func (r *set) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
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

func (r *set) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "array", "items": scalarSchema}, scalarSchema}}
}

// sweep is a list of values, or a range.
type sweep struct {
	list *set
	of   *span
}

func (r *sweep) ReadNode(d *strictyaml.Decoder, what, is string, n *node) {
	if n.Kind == strictyaml.Mapping {
		r.of = &span{}
		d.Decode(what, n, r.of)
		return
	}
	r.list = &set{}
	r.list.ReadNode(d, what, is, n)
}

func (r *sweep) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{(&set{}).SchemaOf(s, nil), s.Of(reflect.TypeFor[span](), "", false)}}
}

type span struct {
	From  float64 `key:"from" is:"any number" need:"yes" doc:"The least value."`
	To    float64 `key:"to" is:"any number" need:"yes" doc:"The greatest."`
	Steps int     `key:"steps" is:"2..100" need:"yes" doc:"How many values, from and to among them."`
	Scale string  `key:"scale" is:"linear|geometric" default:"linear" doc:"Equal differences, or equal ratios."`
	Whole bool    `key:"whole" doc:"Values are rounded to whole numbers; default true if from and to are whole."`
}

// ReadScalar reads a line for the shell.
func (r *Command) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "", n, &r.Args)
	return true
}

func (r *Command) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

// ReadScalar reads a number of rounds.
func (r *Rounds) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "1..1000", n, &r.AtLeast)
	return true
}

func (r *Rounds) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "integer", "minimum": 1, "maximum": 1000}, ref}}
}

var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"any number": new(anyNumber),
	"gate": strictyaml.Checked(func(s string) error {
		if _, err := judge.ParseGate(s); err != nil {
			return strictyaml.Wrong("write one such as worse:3% or p99=increase:5%", "%v", err)
		}
		return nil
	}, strictyaml.M{"type": "string"}),
	"measure": strictyaml.Checked(func(s string) error {
		if s == "p99.9" {
			return strictyaml.Wrong("write p999", "p99.9 is not known")
		}
		if !strictyaml.IsName(s) || strings.Contains(s, " ") {
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

// Schema returns the JSON Schema of experiment files, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[file](), strictyaml.SchemaOptions{Title: "tailscope experiment", Leaves: leaves})
}
