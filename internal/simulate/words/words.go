// Package words reads the file of a simulation: where leaves' durations are from, what
// they run on, and what is varied.
//
// What is wrong in it is said with line, column and the nearest word, all at once,
// before anything is read or simulated. A layout says only what differs from the one
// that all share; a key that is varied is set as if it had been written there.
package words

import (
	"reflect"

	"tailscope/internal/strictyaml"
)

// The words of files; the JSON Schema is made of them too.

type (
	text = strictyaml.Text
	node = strictyaml.Node
)

type rawFile struct {
	Node     *node
	Simulate text        `key:"simulate" is:"word" need:"yes" doc:"Its name."`
	Leaves   []rawLeaf   `key:"leaves" need:"yes" doc:"What a leaf takes: one entry for each class of queries, or for a service or a file of which each operation is one."`
	Layout   rawShared   `key:"layout" doc:"What leaves run on, as far as all layouts share it."`
	Layouts  []rawShared `key:"layouts" doc:"Layouts by what differs in them from layout: [{name: four, nodes: 4}, {name: six, nodes: 6}]. The first is what others are measured against."`
	Vary     rawVary     `key:"vary" doc:"One key of layouts and its values: {nodes: [1, 2, 4, 8]}, {nodes: 1..32}, {hedge.after: [20ms, 50ms]}. Every layout is a curve then."`
	Asks     text        `key:"asks" is:"quantile" doc:"The quantile of whole queries that the answer is about, for which there must be observations enough; p99 unless given."`
	Moments  text        `key:"moments" is:"all|leaves|none" doc:"What changes from slot to slot as it was measured: leaves' durations and the rate of queries (all, unless given), durations, or nothing."`
	Queries  text        `key:"queries" is:"queries" doc:"How many are simulated for each layout, such as 500k; 100k unless given."`
	Seed     text        `key:"seed" is:"seed" doc:"Of all that is drawn; 1 unless given."`
	Currency text        `key:"currency" doc:"Of prices, such as €; nothing is said unless given."`
}

type rawLeaf struct {
	Node     *node
	Name     text     `key:"name" is:"word" doc:"Of the class; that of the operation or the file unless given."`
	Weight   text     `key:"weight" is:"positive" doc:"Share of queries against other classes' weights, such as 80%; as they were counted unless given."`
	From     rawFroms `key:"from" need:"yes" doc:"Where the durations are from: {service: solr}, {file: leaf.json} or {takes: 5ms}; a list if they were measured at several numbers of shards."`
	Fixed    text     `key:"fixed" is:"span" doc:"What of a leaf's time does not shrink with its shard, where it was measured at one number of shards; 0 unless given."`
	Together text     `key:"together" is:"share" doc:"How alike leaves of one query are beyond class and moment, a correlation from 0 to 1; out of kept traces where there are some, else 0, unless given."`
	Waits    text     `key:"waits" is:"share" doc:"Share of a leaf's time in which no core is busy with it, as it waits for a disc or another service; 0 unless given."`
	Before   *rawCost `key:"before" doc:"What the aggregator does before leaves are asked, for this class."`
	After    *rawCost `key:"after" doc:"What it does when the last one has answered, for this class."`
}

type rawFrom struct {
	Node      *node
	Service   text      `key:"service" doc:"Whose requests leaves are, out of the server's store."`
	Operation text      `key:"operation" doc:"Only this one; each operation is a class unless given."`
	Match     text      `key:"match" doc:"Further matchers, such as '{instance=\"solr-1\"}'."`
	Since     text      `key:"since" is:"back" doc:"How far back from end; 1h unless given."`
	Start     text      `key:"start" doc:"Beginning instead of since: RFC 3339, Unix seconds, or now-6h."`
	End       text      `key:"end" doc:"End; now unless given."`
	Every     text      `key:"every" is:"back" doc:"Length of a slot; the shortest of 10s, 1m, 10m and 1h that has observations enough unless given."`
	File      text      `key:"file" doc:"Result of tailscope bench, leaves that tailscope simulate leaves wrote, or a text with a duration in each line; from the directory of this file."`
	Query     text      `key:"query" doc:"Only this one of the file; each is a class unless given."`
	Takes     *rawTakes `key:"takes" doc:"The distribution itself: 5ms, {exponential: 5ms}, {lognormal: {median: 4ms, p99: 30ms}}, {quantiles: {min: 1ms, p50: 4ms, p99: 30ms, max: 90ms}}"`
	Shards    text      `key:"shards" is:"whole" doc:"In how many shards the data was when it was measured; as the first layout has unless given."`
}

// rawFroms is one source, or several with their shards.
type rawFroms struct {
	Node *node
	All  []rawFrom
}

// ReadNode reads either.
func (r *rawFroms) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	items := []*node{n}
	if r.Node = n; n.Kind == strictyaml.List {
		items = n.Items
	}
	for _, item := range items {
		var f rawFrom
		d.Decode(what, item, &f)
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
	Node        *node
	Constant    text            `key:"constant" is:"span" doc:"Always this."`
	Exponential text            `key:"exponential" is:"span" doc:"Its mean."`
	Lognormal   *rawLognormal   `key:"lognormal" doc:"By median and p99."`
	Quantiles   map[string]text `key:"quantiles" is:"span" doc:"Durations by quantile, straight lines between them: min and max are needed."`
}

type rawLognormal struct {
	Node   *node
	Median text `key:"median" is:"span" need:"yes" doc:"Half take less."`
	P99    text `key:"p99" is:"span" need:"yes" doc:"One of 100 takes more."`
}

// ReadScalar takes a duration.
func (r *rawTakes) ReadScalar(d *strictyaml.Decoder, what string, n *node) bool {
	r.Node, r.Constant = n, d.Text(what, "span", n)
	return r.Constant.OK
}

// SchemaOf says so.
func (*rawTakes) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"type": "string"}, ref}}
}

type rawCost struct {
	Node  *node
	Query text `key:"query" is:"span" doc:"Of a core, for each query."`
	Leaf  text `key:"leaf" is:"span" doc:"Of a core, for each leaf of a query."`
}

type rawLayout struct {
	Node       *node
	Name       text           `key:"name" is:"word" doc:"Of the layout, or of the curve if something is varied."`
	Nodes      text           `key:"nodes" is:"nodes" need:"yes" doc:"How many serve leaves."`
	Shards     text           `key:"shards" is:"whole" need:"yes" doc:"In how many the data is; a query asks all of them."`
	Split      text           `key:"split" is:"as given|binary|arbitrary" doc:"Into how many the data can be divided: as given, the next power of two, or arbitrary: as many as make every node's share come out even."`
	Replicas   text           `key:"replicas" is:"whole" doc:"Nodes that hold each shard; 1 unless given."`
	Pick       text           `key:"pick" is:"random|rotate|least" doc:"Which of them is asked: any, in turn, or the one with the fewest leaves under way; random unless given."`
	Threads    text           `key:"threads" is:"whole" doc:"Of a node, each with one leaf at a time; as many as there are leaves unless given."`
	Cores      text           `key:"cores" is:"positive" doc:"Of a node, shared by the leaves that run; a core for each thread unless given."`
	Speed      text           `key:"speed" is:"positive" doc:"Of a core against those that leaves were measured on, such as 150%."`
	Neighbours text           `key:"neighbours" is:"number" doc:"How much longer work takes when all other cores of its node are busy, such as 30%."`
	Overhead   text           `key:"overhead" is:"span" doc:"Of a core, added to each leaf whatever its size."`
	Network    text           `key:"network" is:"span" doc:"There and back, added to each leaf, nobody busy with it."`
	Rate       text           `key:"rate" is:"rate" doc:"Queries a second, such as 50 or 3000/m."`
	Arrivals   text           `key:"arrivals" is:"poisson|even|closed" doc:"How they come; closed is by users who wait for their answers. poisson unless given."`
	Users      text           `key:"users" is:"users" doc:"Of closed arrivals."`
	Think      text           `key:"think" is:"span" doc:"Mean time between an answer and the user's next query."`
	Slow       *rawSlow       `key:"slow" doc:"Nodes that take longer than others: {nodes: 1, times: 3}"`
	Pause      *rawPause      `key:"pause" doc:"Stops a node now and then, as a garbage collector does: {every: 30s, lasts: 200ms}"`
	Hedge      *rawHedge      `key:"hedge" doc:"Asks another replica when a leaf is late: {quantile: p95, cancel: yes}"`
	Cache      *rawCache      `key:"cache" doc:"Answers without the work: {queries: 30%, leaves: 10%}"`
	Aggregator *rawAggregator `key:"aggregator" doc:"Work of who asks leaves and merges their answers: {after: {query: 1ms, leaf: 50us}, nodes: 2, cores: 8}"`
	Price      text           `key:"price" is:"number" doc:"Of a node and hour."`
}

type rawSlow struct {
	Node  *node
	Nodes text `key:"nodes" is:"some" need:"yes" doc:"How many."`
	Times text `key:"times" is:"positive" need:"yes" doc:"As long, such as 3."`
}

type rawPause struct {
	Node    *node
	Every   text      `key:"every" is:"span" need:"yes" doc:"Mean time from the end of one to the next."`
	Lasts   *rawTakes `key:"lasts" need:"yes" doc:"How long: 200ms, or a distribution as takes has."`
	Regular text      `key:"regular" is:"bool" doc:"Exactly so far apart; at random unless given."`
}

type rawHedge struct {
	Node     *node
	After    text `key:"after" is:"span" doc:"When a leaf has not answered for so long."`
	Quantile text `key:"quantile" is:"quantile" doc:"Or for as long as this share of leaves takes on an idle node, such as p95."`
	Cancel   text `key:"cancel" is:"bool" doc:"The slower one is stopped, or leaves its queue; no unless given."`
	Alike    text `key:"alike" is:"share" doc:"How much the second answer's time follows the first's, from 0 to 1; 0 unless given."`
}

type rawCache struct {
	Node    *node
	Queries text `key:"queries" is:"below one" doc:"Share of queries that ask no leaf."`
	Leaves  text `key:"leaves" is:"below one" doc:"Share of leaves that are found ready."`
	Takes   text `key:"takes" is:"span" doc:"How long such an answer takes; of a leaf, of a core."`
}

type rawAggregator struct {
	Node   *node
	Before *rawCost `key:"before" doc:"Before leaves are asked: {query: 1ms}"`
	After  *rawCost `key:"after" doc:"When the last leaf has answered: {query: 1ms, leaf: 50us}"`
	Nodes  text     `key:"nodes" is:"some" doc:"Machines of their own; with 0 the work is done on the leaves' nodes, and cores. 0 unless given."`
	Cores  text     `key:"cores" is:"positive" doc:"Of such a machine; 1 unless given."`
	Speed  text     `key:"speed" is:"positive" doc:"Of its cores."`
	Price  text     `key:"price" is:"number" doc:"Of such a machine and hour."`
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
	return strictyaml.Schema(reflect.TypeFor[rawFile](), strictyaml.SchemaOptions{Title: "tailscope simulate", Kinds: kinds})
}
