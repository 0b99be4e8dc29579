// Package spec reads the file of a simulation: the source of leaves' durations, the
// hardware, and what is varied.
//
// It reports all mistakes at once, with line, column and the nearest word, before
// anything is read or simulated. A layout holds only its difference from the one that
// all share; a key that is varied is set as if it had been written there.
package spec

import (
	"reflect"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

// The types of files; the JSON Schema is made of them too.

type node = strictyaml.Node

// file is a Spec with the source of its layouts.
type file struct {
	Spec
	Leaves  []leaf   `key:"leaves" need:"yes" doc:"What a leaf takes: one entry for each class of queries, or for a service or a file of which each operation is one."`
	Layout  shared   `key:"layout" doc:"What leaves run on, as far as all layouts share it."`
	Layouts []shared `key:"layouts" doc:"Layouts by what differs in them from layout: [{name: four, nodes: 4}, {name: six, nodes: 6}]. The first is what others are measured against."`
	Vary    vary     `key:"vary" doc:"One key of layouts and its values: {nodes: [1, 2, 4, 8]}, {nodes: 1..32}, {hedge.after: [20ms, 50ms]}. Every layout is a curve then."`
}

// leaf is a Leaf with its sources as they are written.
type leaf struct {
	Leaf
	From froms `key:"from" need:"yes" doc:"Where the durations are from: {service: solr}, {file: leaf.json} or {takes: 5ms}; a list if they were measured at several numbers of shards."`
}

// from is a From with its distribution as it is written.
type from struct {
	From
	Takes *takes `key:"takes" doc:"The distribution itself: 5ms, {exponential: 5ms}, {lognormal: {median: 4ms, p99: 30ms}}, {quantiles: {min: 1ms, p50: 4ms, p99: 30ms, max: 90ms}}"`
}

// froms is one source, or several with their shards.
type froms struct {
	All []*from
}

// ReadNode reads either form.
func (r *froms) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	items := []*node{n}
	if n.Kind == strictyaml.List {
		items = n.Items
	}
	for _, item := range items {
		f := new(from)
		d.Read(what, "", item, f)
		if item.Kind == strictyaml.Mapping {
			r.All = append(r.All, f)
		}
	}
}

// SchemaOf returns the schema of either form.
func (*froms) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	one := s.Of(reflect.TypeFor[from](), "", false)
	return strictyaml.M{"anyOf": []any{one, strictyaml.M{"type": "array", "items": one}}}
}

// takes is a distribution that is written down.
type takes struct {
	Constant    float64            `key:"constant" is:"seconds of" doc:"Always this."`
	Exponential float64            `key:"exponential" is:"seconds of" doc:"Its mean."`
	Lognormal   *lognormal         `key:"lognormal" doc:"By median and p99."`
	Quantiles   map[string]float64 `key:"quantiles" is:"seconds of" doc:"Durations by quantile, straight lines between them: min and max are needed."`
}

type lognormal struct {
	Median float64 `key:"median" is:"seconds of" need:"yes" doc:"Half take less."`
	P99    float64 `key:"p99" is:"seconds of" need:"yes" doc:"One of 100 takes more."`
}

// ReadScalar reads a duration.
func (r *takes) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "seconds of", n, &r.Constant)
	return d.OK(&r.Constant)
}

// SchemaOf returns the schema of a duration or a distribution.
func (*takes) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

// layout is one layout of a file: what is simulated, with pauses as they are written.
type layout struct {
	simulate.Layout
	Pause *pause `key:"pause" doc:"Stops a node now and then, as a garbage collector does: {every: 30s, lasts: 200ms}"`
}

type pause struct {
	simulate.Pause
	Lasts *takes `key:"lasts" need:"yes" doc:"How long: 200ms, or a distribution as takes has."`
}

// shared is a layout, or a part of one, whose keys are decoded when it is merged.
type shared struct{ Node *node }

// ReadNode reports the mistakes that show before merging.
func (r *shared) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	r.Node = n
	part := *d
	part.Partial = true
	part.Decode(what, n, &layout{})
}

// SchemaOf returns the schema of all keys, none of which is required.
func (*shared) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	return s.Of(reflect.TypeFor[layout](), "", true)
}

// vary is a key of layouts and its values.
type vary struct{ Node *node }

// ReadNode keeps the node until layouts are known.
func (r *vary) ReadNode(_ *strictyaml.Decoder, _, _ string, n *node) { r.Node = n }

// SchemaOf returns the schema of a mapping with one key.
func (*vary) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	values := strictyaml.M{"anyOf": []any{strictyaml.M{"type": "array"}, strictyaml.Pattern(`^[0-9]+\.\.[0-9]+$`)}}
	return strictyaml.M{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": values}
}

// Schema returns the JSON Schema of files, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[file](), strictyaml.SchemaOptions{Title: "tailscope simulate", Leaves: leaves})
}
