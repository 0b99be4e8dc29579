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
}

// simpleKeys are the keys of a layout that flags have, in their order.
var simpleKeys = []struct{ key, usage string }{
	{"nodes", "that serve leaves: a `number`, a range such as 1..32, or a list such as 4,6,8"},
	{"shards", "`number` that the data is in and a query asks, or several"},
	{"split", "into how many the data can be divided: as given, binary, arbitrary, or several of these: each is a curve"},
	{"threads", "of a node, each with one leaf at a time: a `number`, or several; as many as there are leaves unless given"},
	{"cores", "of a node: a `number`, or several; a core for each thread unless given"},
	{"replicas", "nodes that hold each shard: a `number`, or several"},
	{"rate", "`queries` a second, such as 50 or 3000/m, or several"},
	{"speed", "of a core against those leaves were measured on, such as `150%`, or several"},
	{"price", "of a node and hour"},
}

func (f *simpleFlags) register(fs *pflag.FlagSet) {
	f.values = map[string]*string{}
	fs.StringVar(&f.leaves, "leaves", "", "what leaves take: `service` or service/operation out of the store, a file, or a duration such as 5ms")
	fs.StringVar(&f.since, "since", "", "how far `back` leaves of a store are read; 1h unless given")
	fs.StringVar(&f.every, "every", "", "`length` of a slot of a store; the shortest that has observations enough unless given")
	fs.StringVar(&f.measuredAt, "measured-at", "", "`number` of shards that the data was in when leaves were measured; that of the layout unless given")
	fs.StringVar(&f.fixed, "fixed", "", "`time` of a leaf that does not shrink with its shard")
	fs.StringVar(&f.together, "together", "", "how alike leaves of one query are, a `correlation` from 0 to 1; out of kept traces unless given")
	fs.StringVar(&f.waits, "waits", "", "`share` of a leaf's time in which no core is busy with it")
	for _, k := range simpleKeys {
		f.values[k.key] = fs.String(k.key, "", k.usage)
	}
}

// given are the names of the flags that were written.
func (f *simpleFlags) given(fs *pflag.FlagSet) (out []string) {
	names := map[string]bool{"leaves": true, "since": true, "every": true, "measured-at": true, "together": true, "waits": true, "fixed": true}
	for _, k := range simpleKeys {
		names[k.key] = true
	}
	fs.Visit(func(flag *pflag.Flag) {
		if names[flag.Name] {
			out = append(out, flag.Name)
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
			return nil, usage{withHint(fmt.Errorf("--%s has several values, and so has another flag", k.key), "vary one of them; a file can have layouts that differ in any")}
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
