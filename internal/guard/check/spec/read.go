package spec

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tailscope/internal/strictyaml"
)

// Options of Read. The zero value works; what is not given is not looked at.
type Options struct {
	// ReadFile reads a file; default os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// Schedule says what is wrong with a cron line, or how long it usually takes
	// from one run to the next.
	Schedule func(Schedule) (time.Duration, error)
	// Profile says what is wrong with a profile whose parts are well: lines,
	// messages and hints. c is its calendar.
	Profile func(name string, p Profile, c Calendar) []Problem
	// Receiver says what is wrong with one whose parts are well, such as a template
	// that asks for what no event has.
	Receiver func(Receiver) error
}

// Read reads files and patterns of files as one set of definitions. With any
// problem the file is nil; problems are all there are, in the order of lines.
func Read(paths []string, o Options) (*File, []Problem) {
	r := &reader{o: o, out: &File{
		Calendars: map[string]Calendar{}, Profiles: map[string]Profile{}, Receivers: map[string]Receiver{},
	}}
	if r.o.ReadFile == nil {
		r.o.ReadFile = os.ReadFile
	}
	for _, name := range r.files(paths) {
		content, err := r.o.ReadFile(name)
		if err != nil {
			r.problems.Put(Problem{File: name, Message: err.Error()})
			continue
		}
		r.out.Files = append(r.out.Files, name)
		r.one(name, content)
	}
	r.resolve()
	if r.problems.Len() > 0 {
		return nil, r.problems.Sorted()
	}
	return r.out, nil
}

// reader collects what the files hold.
type reader struct {
	o        Options
	out      *File
	problems strictyaml.Problems

	d         *strictyaml.Decoder
	page      place
	calendars map[string]defined[Calendar]
	profiles  map[string]defined[rawProfile]
	receivers map[string]defined[rawReceiver]
	templates map[string]defined[rawCheck]
	checks    map[string]defined[rawCheck]
	windows   []defined[rawWindow]
}

// defined is a definition, where it is, and the zone of its file.
type defined[T any] struct {
	raw  *T
	at   place
	node *node
	zone string
}

func (r *reader) files(paths []string) []string {
	var out []string
	for _, p := range paths {
		found, err := filepath.Glob(p)
		switch {
		case err != nil:
			r.problems.Put(Problem{File: p, Message: "this is not a pattern of files"})
		case len(found) == 0:
			r.problems.Put(Problem{File: p, Message: "there is no such file"})
		}
		slices.Sort(found)
		for _, f := range found {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// one takes in a file.
func (r *reader) one(name string, content []byte) {
	root := strictyaml.Parse(name, content, &r.problems, "what several checks share goes into a template")
	if root == nil {
		return
	}
	var raw rawFile
	r.decode(true, "the file", root, &raw)
	zone := raw.Zone
	if !r.d.OK(&raw.Zone) {
		zone = "UTC"
	}
	if r.d.Given(&raw.Page) {
		if r.page.File != nil && r.out.Page != raw.Page {
			r.d.Wrong(&raw.Page, "", "page is given in %s already", r.page.File.Name)
		}
		r.page, r.out.Page = r.d.Node(&raw.Page).At, raw.Page
	}
	// These have no templates, so that what they lack is known here.
	take(r, "calendar", root.Get("calendars"), zone, &r.calendars, false)
	take(r, "profile", root.Get("profiles"), zone, &r.profiles, false)
	take(r, "receiver", root.Get("receivers"), zone, &r.receivers, false)
	take(r, "template", root.Get("templates"), zone, &r.templates, true)
	take(r, "check", root.Get("checks"), zone, &r.checks, true)
	if n := root.Get("maintenance"); n != nil {
		for i, item := range n.Items {
			w := defined[rawWindow]{raw: new(rawWindow), at: item.At, node: item, zone: zone}
			r.decode(false, fmt.Sprintf("maintenance[%d]", i), item, w.raw)
			r.windows = append(r.windows, w)
		}
	}
}

// take keeps the definitions of one sort, whose names no other file may have.
func take[T any](r *reader, what string, n *node, zone string, into *map[string]defined[T], partial bool) {
	if n == nil || n.Kind != strictyaml.Mapping {
		return
	}
	if *into == nil {
		*into = map[string]defined[T]{}
	}
	for _, f := range n.Fields {
		if first, ok := (*into)[f.Key]; ok {
			r.problem(f.At, "give one of them another name", "%s %s is defined in %s:%d already", what, f.Key, first.at.File.Name, first.at.Line)
			continue
		}
		if !strictyaml.IsName(f.Key) || len(f.Key) > 200 {
			r.problem(f.At, "write a name without quotes, brackets, braces, commas and $", "%q is not a name of a %s", f.Key, what)
		}
		def := defined[T]{raw: new(T), at: f.At, node: f.Value, zone: zone}
		r.decode(partial, what+" "+f.Key, f.Value, def.raw)
		(*into)[f.Key] = def
	}
}

// resolve puts everything together.
func (r *reader) resolve() {
	for _, name := range names(r.calendars) {
		r.calendar(name, r.calendars[name])
	}
	for _, name := range names(r.profiles) {
		r.profile(name, r.profiles[name])
	}
	for _, name := range names(r.receivers) {
		r.receiver(name, r.receivers[name])
	}
	for _, name := range names(r.templates) { // those that no check uses, too
		r.lineage(new([]string), fields(r.templates[name].raw.Template), []string{name})
	}
	raws := map[string]*rawCheck{}
	for _, name := range names(r.checks) {
		def := r.checks[name]
		p := r.plan(name, def)
		if p == nil {
			continue
		}
		c, raw := r.check(p, nil)
		raws[name] = raw
		r.out.Checks = append(r.out.Checks, c)
	}
	r.references(raws)
	r.gaps(raws)
	slices.SortFunc(r.out.Checks, func(a, b Check) int {
		return cmp.Or(cmp.Compare(a.File, b.File), a.Line-b.Line, cmp.Compare(a.Name, b.Name))
	})
	for _, w := range r.windows {
		r.window(w)
	}
}

func names[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

// fields are pointers to the items of a list.
func fields(list []string) []*string {
	out := make([]*string, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// named checks that each of texts is the name of something.
func named[T any](r *reader, what string, texts []*string, of map[string]T) []string {
	var out []string
	for _, t := range texts {
		if _, ok := of[*t]; !ok {
			hint := strictyaml.Suggest(*t, names(of))
			if len(of) == 0 {
				hint = "none is defined"
			}
			r.d.Wrong(t, hint, "unknown %s %s", what, *t)
			continue
		}
		if slices.Contains(out, *t) {
			r.d.Wrong(t, "", "%s is named twice", *t)
			continue
		}
		out = append(out, *t)
	}
	return out
}

// references finds checks that wait for each other.
func (r *reader) references(raws map[string]*rawCheck) {
	r.cycles(raws, "after", func(c *rawCheck) []*string {
		if r.d.Given(&c.After) {
			return []*string{&c.After}
		}
		return nil
	})
	r.cycles(raws, "depends_on", func(c *rawCheck) []*string { return fields(c.DependsOn) })
}

// cycles walks depth first; a check that is met while it is open closes a cycle.
func (r *reader) cycles(raws map[string]*rawCheck, key string, next func(*rawCheck) []*string) {
	const open, done = 1, 2
	state := map[string]int{}
	var path []string
	var walk func(name string)
	walk = func(name string) {
		state[name] = open
		path = append(path, name)
		for _, t := range next(raws[name]) {
			switch state[*t] {
			case open:
				circle := append(slices.Clone(path[slices.Index(path, *t):]), *t)
				r.d.Wrong(t, "leave one of them out", "%s goes in a circle: %s", key, join(circle))
			case 0:
				if _, ok := raws[*t]; ok {
					walk(*t)
				}
			}
		}
		path = path[:len(path)-1]
		state[name] = done
	}
	for _, name := range names(raws) {
		if state[name] == 0 {
			walk(name)
		}
	}
}

func join(circle []string) string {
	s := circle[0]
	for _, c := range circle[1:] {
		s += " → " + c
	}
	return s
}

// gaps fills in what goes by how often a check runs, its own way or after others.
func (r *reader) gaps(raws map[string]*rawCheck) {
	byName := map[string]*Check{}
	for i := range r.out.Checks {
		byName[r.out.Checks[i].Name] = &r.out.Checks[i]
	}
	var gap func(c *Check, depth int) time.Duration
	gap = func(c *Check, depth int) time.Duration {
		switch {
		case c == nil || depth > len(byName):
			return 0
		case c.Schedule.After != "":
			return gap(byName[c.Schedule.After], depth+1)
		case c.Schedule.Cron != "" && r.o.Schedule != nil:
			g, err := r.o.Schedule(c.Schedule)
			if t := &raws[c.Name].Cron; err != nil && r.d.Given(t) {
				r.d.Wrong(t, "", "%v", err)
			}
			return g
		}
		return c.Schedule.Interval
	}
	for i := range r.out.Checks {
		c := &r.out.Checks[i]
		g := gap(c, 0)
		if c.Tolerance == 0 {
			c.Tolerance = max(time.Minute, 2*g)
		}
		c.plan.gap = g
	}
}
