package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tailscope/internal/strictyaml"
)

// simpleFlags describes a simulation of one class of leaves without a file. One of nodes,
// shards, threads, cores, replicas, rate and speed may have several values.
type simpleFlags struct {
	leaves, since, every, measuredAt, together, waits, fixed string
	values                                                   map[string]*string
	set                                                      *settings
}

// simpleKeys lists the keys of a layout that have a flag or a setting, in their order, with
// its name.
var simpleKeys = []struct{ key, name, usage string }{
	{"nodes", "nodes", "that serve leaves: a `number`, a range such as 1..32, or a list such as 4,6,8"},
	{"shards", "shards", "`number` that the data is in and a query asks, or several"},
	{"split", "split", "into how many the data can be divided: as given, binary, arbitrary, or several of these: each is a curve"},
	{"threads", "threads", "of a node, each with one leaf at a time: a `number`, or several; default 4 if there are no cores given"},
	{"cores", "cores", "of a node: a `number`, or several; default a core for each thread"},
	{"replicas", "replicas", "nodes that hold each shard: a `number`, or several"},
	{"rate", "rate", "`queries` a second, such as 50 or 3000/m, or several"},
	{"speed", "speed", "of a core against those leaves were measured on, such as `150%`, or several"},
	{"price", "layout.price", "of a node and hour"},
}

// simpleThreads is the default number of threads of a node, where flags do not name cores either.
const simpleThreads = "4"

func (f *simpleFlags) register(fs *pflag.FlagSet) {
	f.values = map[string]*string{}
	fs.StringVar(&f.leaves, "leaves", "", "what leaves take: `service` or service/operation out of the store, a file, or a duration such as 5ms")
	fs.StringVar(&f.since, "since", "", "how far `back` leaves of a store are read; default 1h")
	fs.StringVar(&f.every, "leaves.every", "", "`length` of a slot of a store; default the shortest that has observations enough")
	fs.StringVar(&f.measuredAt, "leaves.shards", "", "`number` of shards that the data was in when leaves were measured; default that of the layout")
	fs.StringVar(&f.fixed, "leaves.fixed", "", "`time` of a leaf that does not shrink with its shard")
	fs.StringVar(&f.together, "leaves.together", "", "how alike leaves of one query are, a `correlation` from 0 to 1; default out of kept traces")
	fs.StringVar(&f.waits, "leaves.waits", "", "`share` of a leaf's time in which no core is busy with it")
	for _, k := range simpleKeys {
		f.values[k.key] = fs.String(k.name, "", k.usage)
	}
}

// given returns the names of the settings that were written.
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

// saidFile is the file of a simulation made from settings: each is a line of its own.
type saidFile struct {
	text  strings.Builder
	names []string // of the setting of each line, empty for lines without one
}

func (f *saidFile) add(name, line string) {
	f.text.WriteString(line + "\n")
	f.names = append(f.names, name)
}

// called returns a problem as one of a setting, without the place in a file that
// nobody wrote.
func (f *saidFile) called(p strictyaml.Problem, called func(string) string) string {
	text := p.Message
	if i := p.Line - 1; i >= 0 && i < len(f.names) && f.names[i] != "" {
		name := f.names[i]
		key := name[strings.LastIndex(name, ".")+1:]
		text = called(name) + ": " + strings.TrimPrefix(text, key+": ")
	}
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	return text
}

// file returns the file that describes the same simulation.
func (f *simpleFlags) file() (*saidFile, error) {
	if f.leaves == "" {
		return nil, usage{withHint(fmt.Errorf("what leaves take is missing"), "write --leaves solr, --leaves 'solr/GET /select', --leaves leaves.json or --leaves 5ms")}
	}
	out := &saidFile{}
	name, from := f.source()
	out.add("", "simulate: "+name)
	out.add("", "leaves:")
	out.add("", "  - from:")
	for _, line := range from {
		out.add("leaves", "      "+line)
	}
	for _, o := range [][3]string{
		{"  since", f.since, "since"}, {"  every", f.every, "leaves.every"}, {"  shards", f.measuredAt, "leaves.shards"},
		{"fixed", f.fixed, "leaves.fixed"}, {"together", f.together, "leaves.together"}, {"waits", f.waits, "leaves.waits"},
	} {
		if o[1] != "" {
			out.add(o[2], "    "+o[0]+": "+o[1])
		}
	}
	if *f.values["threads"] == "" && *f.values["cores"] == "" {
		*f.values["threads"] = simpleThreads // or no leaf would ever wait
	}
	var several [][2]string
	out.add("", "layout:")
	for _, k := range simpleKeys {
		switch v := *f.values[k.key]; {
		case v == "":
		case strings.Contains(v, "..") || strings.Contains(v, ","):
			several = append(several, [2]string{k.key, k.name})
		default:
			out.add(k.name, "  "+k.key+": "+v)
		}
	}
	if out.names[len(out.names)-1] == "" {
		out.add("", "  {}")
	}
	varied := ""
	for _, k := range several {
		switch v := *f.values[k[0]]; {
		case k[0] == "split":
			out.add("", "layouts:")
			for _, s := range splitList(v) {
				out.add(k[1], fmt.Sprintf("  - {name: %s, split: %s}", s, s))
			}
		case varied != "":
			return nil, usage{withHint(fmt.Errorf("%s has several values, and so has %s", f.set.called(k[1]), f.set.called(varied)), "vary one of them; a file can have layouts that differ in any")}
		default:
			if varied = k[1]; !strings.Contains(v, "..") {
				v = "[" + strings.Join(splitList(v), ", ") + "]"
			}
			out.add(k[1], fmt.Sprintf("vary: {%s: %s}", k[0], v))
		}
	}
	return out, nil
}

// source returns the source of leaves: a duration, an existing file, or a service.
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
	return name, from
}

// quoted returns a text of YAML in quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
