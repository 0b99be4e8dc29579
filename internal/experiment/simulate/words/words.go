// Package words reads the file of a simulation: where leaves' durations are from, what
// they run on, and what is varied.
//
// What is wrong in it is said with line, column and the nearest word, all at once,
// before anything is read or simulated. A layout says only what differs from the one
// that all share; a key that is varied is set as if it had been written there.
package words

import (
	"reflect"
	"time"

	"tailscope/internal/strictyaml"
)

// The words of files; the JSON Schema is made of them too.

type node = strictyaml.Node

type rawFile struct {
	Simulate string      `key:"simulate" is:"word" need:"yes" doc:"Its name."`
	Leaves   []rawLeaf   `key:"leaves" need:"yes" doc:"What a leaf takes: one entry for each class of queries, or for a service or a file of which each operation is one."`
	Layout   rawShared   `key:"layout" doc:"What leaves run on, as far as all layouts share it."`
	Layouts  []rawShared `key:"layouts" doc:"Layouts by what differs in them from layout: [{name: four, nodes: 4}, {name: six, nodes: 6}]. The first is what others are measured against."`
	Vary     rawVary     `key:"vary" doc:"One key of layouts and its values: {nodes: [1, 2, 4, 8]}, {nodes: 1..32}, {hedge.after: [20ms, 50ms]}. Every layout is a curve then."`
	Asks     float64     `key:"asks" is:"quantile" default:"p99" doc:"The quantile of whole queries that the answer is about, for which there must be observations enough."`
	Moments  string      `key:"moments" is:"all|leaves|none" default:"all" doc:"What changes from slot to slot as it was measured: leaves' durations and the rate of queries (all), durations, or nothing."`
	Queries  uint64      `key:"queries" is:"queries" default:"100k" doc:"How many are simulated for each layout, such as 500k."`
	Seed     uint64      `key:"seed" is:"0.." default:"1" doc:"Of all that is drawn."`
	Currency string      `key:"currency" doc:"Of prices, such as €; nothing is said unless given."`
}

type rawLeaf struct {
	Name     string   `key:"name" is:"word" doc:"Of the class; that of the operation or the file unless given."`
	Weight   float64  `key:"weight" is:"amount" doc:"Share of queries against other classes' weights, such as 80%; as they were counted unless given."`
	From     rawFroms `key:"from" need:"yes" doc:"Where the durations are from: {service: solr}, {file: leaf.json} or {takes: 5ms}; a list if they were measured at several numbers of shards."`
	Fixed    float64  `key:"fixed" is:"seconds of" doc:"What of a leaf's time does not shrink with its shard, where it was measured at one number of shards; 0 unless given."`
	Together float64  `key:"together" is:"share" doc:"How alike leaves of one query are beyond class and moment, a correlation from 0 to 1; out of kept traces where there are some, else 0, unless given."`
	Waits    float64  `key:"waits" is:"share" doc:"Share of a leaf's time in which no core is busy with it, as it waits for a disc or another service; 0 unless given."`
	Before   *rawCost `key:"before" doc:"What the aggregator does before leaves are asked, for this class."`
	After    *rawCost `key:"after" doc:"What it does when the last one has answered, for this class."`
}

type rawFrom struct {
	Service   string        `key:"service" doc:"Whose requests leaves are, out of the server's store."`
	Operation string        `key:"operation" doc:"Only this one; each operation is a class unless given."`
	Match     string        `key:"match" doc:"Further matchers, such as '{instance=\"solr-1\"}'."`
	Since     time.Duration `key:"since" doc:"How far back from end; default 1h."`
	Start     string        `key:"start" doc:"Beginning instead of since: RFC 3339, Unix seconds, or now-6h."`
	End       string        `key:"end" doc:"End; now unless given."`
	Every     time.Duration `key:"every" doc:"Length of a slot; the shortest of 10s, 1m, 10m and 1h that has observations enough unless given."`
	File      string        `key:"file" doc:"Result of tailscope bench, leaves that tailscope simulate leaves wrote, or a text with a duration in each line; from the directory of this file."`
	Query     string        `key:"query" doc:"Only this one of the file; each is a class unless given."`
	Takes     *rawTakes     `key:"takes" doc:"The distribution itself: 5ms, {exponential: 5ms}, {lognormal: {median: 4ms, p99: 30ms}}, {quantiles: {min: 1ms, p50: 4ms, p99: 30ms, max: 90ms}}"`
	Shards    int           `key:"shards" is:"1..100000" doc:"In how many shards the data was when it was measured; as the first layout has unless given."`
}

// rawFroms is one source, or several with their shards.
type rawFroms struct {
	All []*rawFrom
}

// ReadNode reads either.
func (r *rawFroms) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	items := []*node{n}
	if n.Kind == strictyaml.List {
		items = n.Items
	}
	for _, item := range items {
		f := new(rawFrom)
		d.Read(what, "", item, f)
		if item.Kind == strictyaml.Mapping {
			r.All = append(r.All, f)
		}
	}
}

// SchemaOf says so.
func (*rawFroms) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	one := s.Of(reflect.TypeFor[rawFrom](), "", false)
	return strictyaml.M{"anyOf": []any{one, strictyaml.M{"type": "array", "items": one}}}
}

// rawTakes is a distribution that is written down.
type rawTakes struct {
	Constant    float64            `key:"constant" is:"seconds of" doc:"Always this."`
	Exponential float64            `key:"exponential" is:"seconds of" doc:"Its mean."`
	Lognormal   *rawLognormal      `key:"lognormal" doc:"By median and p99."`
	Quantiles   map[string]float64 `key:"quantiles" is:"seconds of" doc:"Durations by quantile, straight lines between them: min and max are needed."`
}

type rawLognormal struct {
	Median float64 `key:"median" is:"seconds of" need:"yes" doc:"Half take less."`
	P99    float64 `key:"p99" is:"seconds of" need:"yes" doc:"One of 100 takes more."`
}

// ReadScalar takes a duration.
func (r *rawTakes) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	d.Read(what, "seconds of", n, &r.Constant)
	return d.OK(&r.Constant)
}

// SchemaOf says so.
func (*rawTakes) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

type rawCost struct {
	Query float64 `key:"query" is:"seconds of" doc:"Of a core, for each query."`
	Leaf  float64 `key:"leaf" is:"seconds of" doc:"Of a core, for each leaf of a query."`
}

type rawLayout struct {
	Name       string         `key:"name" is:"word" doc:"Of the layout, or of the curve if something is varied."`
	Nodes      int            `key:"nodes" is:"nodes" need:"yes" doc:"How many serve leaves."`
	Shards     int            `key:"shards" is:"1..100000" need:"yes" doc:"In how many the data is; a query asks all of them."`
	Split      string         `key:"split" is:"as given|binary|arbitrary" doc:"Into how many the data can be divided: as given, the next power of two, or arbitrary: as many as make every node's share come out even."`
	Replicas   int            `key:"replicas" is:"1..100000" doc:"Nodes that hold each shard; default 1."`
	Pick       string         `key:"pick" is:"random|rotate|least" doc:"Which of them is asked: any, in turn, or the one with the fewest leaves under way; default random."`
	Threads    int            `key:"threads" is:"1..100000" doc:"Of a node, each with one leaf at a time; as many as there are leaves unless given."`
	Cores      float64        `key:"cores" is:"amount" doc:"Of a node, shared by the leaves that run; a core for each thread unless given."`
	Speed      float64        `key:"speed" is:"amount" doc:"Of a core against those that leaves were measured on, such as 150%."`
	Neighbours float64        `key:"neighbours" is:"number" doc:"How much longer work takes when all other cores of its node are busy, such as 30%."`
	Overhead   float64        `key:"overhead" is:"seconds of" doc:"Of a core, added to each leaf whatever its size."`
	Network    float64        `key:"network" is:"seconds of" doc:"There and back, added to each leaf, nobody busy with it."`
	Rate       float64        `key:"rate" is:"rate" doc:"Queries a second, such as 50 or 3000/m."`
	Arrivals   string         `key:"arrivals" is:"poisson|even|closed" doc:"How they come; closed is by users who wait for their answers; default poisson."`
	Users      int            `key:"users" is:"1..100000" doc:"Of closed arrivals."`
	Think      float64        `key:"think" is:"seconds of" doc:"Mean time between an answer and the user's next query."`
	Slow       *rawSlow       `key:"slow" doc:"Nodes that take longer than others: {nodes: 1, times: 3}"`
	Pause      *rawPause      `key:"pause" doc:"Stops a node now and then, as a garbage collector does: {every: 30s, lasts: 200ms}"`
	Hedge      *rawHedge      `key:"hedge" doc:"Asks another replica when a leaf is late: {quantile: p95, cancel: yes}"`
	Cache      *rawCache      `key:"cache" doc:"Answers without the work: {queries: 30%, leaves: 10%}"`
	Aggregator *rawAggregator `key:"aggregator" doc:"Work of who asks leaves and merges their answers: {after: {query: 1ms, leaf: 50us}, nodes: 2, cores: 8}"`
	Price      float64        `key:"price" is:"number" doc:"Of a node and hour."`
}

type rawSlow struct {
	Nodes int     `key:"nodes" is:"0..100000" need:"yes" doc:"How many."`
	Times float64 `key:"times" is:"amount" need:"yes" doc:"As long, such as 3."`
}

type rawPause struct {
	Every   float64   `key:"every" is:"seconds of" need:"yes" doc:"Mean time from the end of one to the next."`
	Lasts   *rawTakes `key:"lasts" need:"yes" doc:"How long: 200ms, or a distribution as takes has."`
	Regular bool      `key:"regular" doc:"Exactly so far apart; at random unless given."`
}

type rawHedge struct {
	After    float64 `key:"after" is:"seconds of" doc:"When a leaf has not answered for so long."`
	Quantile float64 `key:"quantile" is:"quantile" doc:"Or for as long as this share of leaves takes on an idle node, such as p95."`
	Cancel   bool    `key:"cancel" doc:"The slower one is stopped, or leaves its queue; no unless given."`
	Alike    float64 `key:"alike" is:"share" doc:"How much the second answer's time follows the first's, from 0 to 1; 0 unless given."`
}

type rawCache struct {
	Queries float64 `key:"queries" is:"below one" doc:"Share of queries that ask no leaf."`
	Leaves  float64 `key:"leaves" is:"below one" doc:"Share of leaves that are found ready."`
	Takes   float64 `key:"takes" is:"seconds of" doc:"How long such an answer takes; of a leaf, of a core."`
}

type rawAggregator struct {
	Before *rawCost `key:"before" doc:"Before leaves are asked: {query: 1ms}"`
	After  *rawCost `key:"after" doc:"When the last leaf has answered: {query: 1ms, leaf: 50us}"`
	Nodes  int      `key:"nodes" is:"0..100000" doc:"Machines of their own; with 0 the work is done on the leaves' nodes, and cores. 0 unless given."`
	Cores  float64  `key:"cores" is:"amount" doc:"Of such a machine; default 1."`
	Speed  float64  `key:"speed" is:"amount" doc:"Of its cores."`
	Price  float64  `key:"price" is:"number" doc:"Of such a machine and hour."`
}

// rawShared is a layout, or a part of one: its keys are read when it is whole.
type rawShared struct{ Node *node }

// ReadNode finds what is wrong already.
func (r *rawShared) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	r.Node = n
	part := *d
	part.Partial = true
	part.Decode(what, n, &rawLayout{})
}

// SchemaOf has all keys, none of which must be there.
func (*rawShared) SchemaOf(s *strictyaml.Schemas, _ strictyaml.M) strictyaml.M {
	return s.Of(reflect.TypeFor[rawLayout](), "", true)
}

// rawVary is a key of layouts and its values.
type rawVary struct{ Node *node }

// ReadNode keeps it for when layouts are known.
func (r *rawVary) ReadNode(_ *strictyaml.Decoder, _, _ string, n *node) { r.Node = n }

// SchemaOf says that there is one key.
func (*rawVary) SchemaOf(*strictyaml.Schemas, strictyaml.M) strictyaml.M {
	values := strictyaml.M{"anyOf": []any{strictyaml.M{"type": "array"}, strictyaml.Pattern(`^[0-9]+\.\.[0-9]+$`)}}
	return strictyaml.M{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": values}
}

// Schema is the JSON Schema of files, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[rawFile](), strictyaml.SchemaOptions{Title: "tailscope simulate", Leaves: leaves})
}
