package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// simpleFlags say a simulation of one class of leaves without a file. Of nodes, shards,
// threads, cores, replicas, rate and speed one may have several values.
type simpleFlags struct {
	leaves, since, every, measuredAt, together, waits, fixed string
	values                                                   map[string]*string
	set                                                      *settings
}

// simpleKeys are the keys of a layout that can be said without a file, in their order,
// and the names they are said by.
var simpleKeys = []struct{ key, name, usage string }{
	{"nodes", "nodes", "that serve leaves: a `number`, a range such as 1..32, or a list such as 4,6,8"},
	{"shards", "shards", "`number` that the data is in and a query asks, or several"},
	{"split", "split", "into how many the data can be divided: as given, binary, arbitrary, or several of these: each is a curve"},
	{"threads", "threads", "of a node, each with one leaf at a time: a `number`, or several; as many as there are leaves unless given"},
	{"cores", "cores", "of a node: a `number`, or several; a core for each thread unless given"},
	{"replicas", "replicas", "nodes that hold each shard: a `number`, or several"},
	{"rate", "rate", "`queries` a second, such as 50 or 3000/m, or several"},
	{"speed", "speed", "of a core against those leaves were measured on, such as `150%`, or several"},
	{"price", "layout.price", "of a node and hour"},
}

func (f *simpleFlags) register(fs *pflag.FlagSet) {
	f.values = map[string]*string{}
	fs.StringVar(&f.leaves, "leaves", "", "what leaves take: `service` or service/operation out of the store, a file, or a duration such as 5ms")
	fs.StringVar(&f.since, "since", "", "how far `back` leaves of a store are read; 1h unless given")
	fs.StringVar(&f.every, "leaves.every", "", "`length` of a slot of a store; the shortest that has observations enough unless given")
	fs.StringVar(&f.measuredAt, "leaves.shards", "", "`number` of shards that the data was in when leaves were measured; that of the layout unless given")
	fs.StringVar(&f.fixed, "leaves.fixed", "", "`time` of a leaf that does not shrink with its shard")
	fs.StringVar(&f.together, "leaves.together", "", "how alike leaves of one query are, a `correlation` from 0 to 1; out of kept traces unless given")
	fs.StringVar(&f.waits, "leaves.waits", "", "`share` of a leaf's time in which no core is busy with it")
	for _, k := range simpleKeys {
		f.values[k.key] = fs.String(k.name, "", k.usage)
	}
}

// given are the names of the settings that were written.
func (f *simpleFlags) given() (out []string) {
	names := map[string]bool{"leaves": true, "since": true, "leaves.every": true, "leaves.shards": true, "leaves.together": true, "leaves.waits": true, "leaves.fixed": true}
	for _, k := range simpleKeys {
		names[k.name] = true
	}
	f.set.visit(func(name string) {
		if names[name] {
			out = append(out, name)
		}
	})
	return out
}

// yaml is the file that says the same.
func (f *simpleFlags) yaml() ([]byte, error) {
	if f.leaves == "" {
		return nil, usage{withHint(fmt.Errorf("what leaves take is missing"), "write --leaves solr, --leaves 'solr/GET /select', --leaves leaves.json or --leaves 5ms")}
	}
	var b strings.Builder
	name, from := f.source()
	fmt.Fprintf(&b, "simulate: %s\nleaves:\n  - from: {%s}\n", name, strings.Join(from, ", "))
	for _, o := range [][2]string{{"fixed", f.fixed}, {"together", f.together}, {"waits", f.waits}} {
		if o[1] != "" {
			fmt.Fprintf(&b, "    %s: %s\n", o[0], o[1])
		}
	}
	var layout []string
	vary, layouts := "", ""
	for _, k := range simpleKeys {
		v := *f.values[k.key]
		several := strings.Contains(v, "..") || strings.Contains(v, ",")
		switch {
		case v == "":
		case !several:
			layout = append(layout, k.key+": "+v)
		case k.key == "split":
			var curves []string
			for _, s := range splitList(v) {
				curves = append(curves, fmt.Sprintf("  - {name: %s, split: %s}\n", s, s))
			}
			layouts = "layouts:\n" + strings.Join(curves, "")
		case vary != "":
			return nil, usage{withHint(fmt.Errorf("%s has several values, and so has another flag", f.set.called(k.name)), "vary one of them; a file can have layouts that differ in any")}
		case strings.Contains(v, ".."):
			vary = fmt.Sprintf("vary: {%s: %s}\n", k.key, v)
		default:
			vary = fmt.Sprintf("vary: {%s: [%s]}\n", k.key, strings.Join(splitList(v), ", "))
		}
	}
	fmt.Fprintf(&b, "layout: {%s}\n%s%s", strings.Join(layout, ", "), layouts, vary)
	return []byte(b.String()), nil
}

// source is where leaves are from: a duration, a file that there is, or a service.
func (f *simpleFlags) source() (name string, from []string) {
	if _, err := time.ParseDuration(f.leaves); err == nil {
		name, from = "leaves of "+f.leaves, []string{"takes: " + f.leaves}
	} else if info, err := os.Stat(f.leaves); err == nil && !info.IsDir() {
		name, from = "leaves of a file", []string{"file: " + quoted(f.leaves)}
	} else {
		service, operation, _ := strings.Cut(f.leaves, "/")
		name, from = service, []string{"service: " + quoted(service)}
		if operation != "" {
			from = append(from, "operation: "+quoted(operation))
		}
	}
	for _, o := range [][2]string{{"since", f.since}, {"every", f.every}, {"shards", f.measuredAt}} {
		if o[1] != "" {
			from = append(from, o[0]+": "+o[1])
		}
	}
	return name, from
}

// quoted is a text of YAML in quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
