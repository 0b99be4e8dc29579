package spec

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tailscope/internal/strictyaml"
)

// Problem is one mistake in a file.
type Problem = strictyaml.Problem

// Options configure Read. The zero value works; a check that is nil is left out.
type Options struct {
	// ReadFile reads a file; default os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// Schedule checks a cron line, and returns the usual time from one run to the next.
	Schedule func(Schedule) (time.Duration, error)
	// Profile checks a profile whose parts are right. c is its calendar.
	Profile func(name string, p Profile, c Calendar) []Problem
	// Receiver checks a receiver whose parts are right, such as a template with a field
	// that events lack.
	Receiver func(Receiver) error
}

// Read reads files and patterns of files as one set of definitions. It returns all
// problems, in the order of lines; with any the File is nil.
func Read(paths []string, o Options) (*File, []Problem) {
	r := newReader(o)
	r.all.Checks.of, r.all.Templates.of = map[string]defined[Check]{}, map[string]defined[Check]{}
	r.all.Calendars.of, r.all.Profiles.of, r.all.Receivers.of = map[string]defined[Calendar]{}, map[string]defined[Profile]{}, map[string]defined[Receiver]{}
	if r.o.ReadFile == nil {
		r.o.ReadFile = os.ReadFile
	}
	for _, name := range r.listFiles(paths) {
		content, err := r.o.ReadFile(name)
		if err != nil {
			r.problems.Put(Problem{File: name, Message: err.Error()})
			continue
		}
		r.out.Files = append(r.out.Files, name)
		r.read(name, content)
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

	d       *strictyaml.Decoder
	page    place
	zones   map[string]string // by name of the file
	all     file              // its sections have what all files define; none if an Instance is read
	windows []*window
}

func newReader(o Options) *reader {
	r := &reader{o: o, zones: map[string]string{}, out: &File{
		Calendars: map[string]Calendar{}, Profiles: map[string]Profile{}, Receivers: map[string]Receiver{},
	}}
	r.d = &strictyaml.Decoder{Problems: &r.problems, Leaves: leaves}
	return r
}

// problem notes a mistake.
func (r *reader) problem(at place, hint, format string, args ...any) {
	r.problems.Add(at, hint, format, args...)
}

// checkOne reports whether exactly one of the fields was given, and notes it if not.
func (r *reader) checkOne(at place, who, kind, hint string, fields ...any) bool {
	switch given := r.d.Count(fields...); {
	case given == 0:
		r.problem(at, hint, "%s no %s", who, kind)
	case given > 1:
		r.problem(at, hint, "%s several %ss", who, kind)
	default:
		return true
	}
	return false
}

func (r *reader) listFiles(paths []string) []string {
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

// read reads a file.
func (r *reader) read(name string, content []byte) {
	root := strictyaml.Parse(name, content, &r.problems, "what several checks share goes into a template")
	if root == nil {
		return
	}
	f := r.all
	r.d.Decode("the file", root, &f)
	if r.zones[name] = "UTC"; r.d.OK(&f.Zone) {
		r.zones[name] = f.Zone
	}
	if r.d.Given(&f.Page) {
		if r.page.File != nil && r.out.Page != f.Page {
			r.d.Wrong(&f.Page, "", "page is given in %s already", r.page.File.Name)
		}
		r.page, r.out.Page = r.d.Node(&f.Page).At, f.Page
	}
	for i := range f.Maintenance {
		r.windows = append(r.windows, &f.Maintenance[i])
	}
}

// resolve merges templates, decodes checks and resolves names.
func (r *reader) resolve() {
	for _, name := range names(r.all.Calendars.of) {
		r.addCalendar(name, r.all.Calendars.of[name])
	}
	for _, name := range names(r.all.Profiles.of) {
		r.addProfile(name, r.all.Profiles.of[name])
	}
	for _, name := range names(r.all.Receivers.of) {
		r.addReceiver(name, r.all.Receivers.of[name])
	}
	for _, name := range names(r.all.Templates.of) { // those that no check uses, too
		r.listTemplates(new([]string), pointers(r.all.Templates.of[name].it.Templates), []string{name})
	}
	checks := map[string]*Check{}
	for _, name := range names(r.all.Checks.of) {
		if p := r.makePlan(name, r.all.Checks.of[name]); p != nil {
			checks[name] = r.decodeCheck(p, nil)
		}
	}
	r.findCycles(checks, "after", func(c *Check) []*string {
		if r.d.Given(&c.After) {
			return []*string{&c.After}
		}
		return nil
	})
	r.findCycles(checks, "depends_on", func(c *Check) []*string { return pointers(c.DependsOn) })
	r.fillGaps(checks)
	for _, c := range checks {
		r.out.Checks = append(r.out.Checks, *c)
	}
	slices.SortFunc(r.out.Checks, func(a, b Check) int {
		return cmp.Or(cmp.Compare(a.File, b.File), a.Line-b.Line, cmp.Compare(a.Name, b.Name))
	})
	for _, w := range r.windows {
		r.addWindow(w)
	}
}

func names[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

// pointers returns pointers to the items of a list.
func pointers(list []string) []*string {
	out := make([]*string, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// checkNamed checks that each of texts is the name of something, and none is named twice.
func checkNamed[T any](r *reader, what string, texts []*string, of map[string]T) {
	seen := map[string]bool{}
	for _, t := range texts {
		if _, ok := of[*t]; !ok {
			hint := strictyaml.Suggest(*t, names(of))
			if len(of) == 0 {
				hint = "none is defined"
			}
			r.d.Wrong(t, hint, "unknown %s %s", what, *t)
		} else if seen[*t] {
			r.d.Wrong(t, "", "%s is named twice", *t)
		}
		seen[*t] = true
	}
}

// findCycles walks depth first; a check that is met while it is open closes a cycle.
func (r *reader) findCycles(checks map[string]*Check, key string, next func(*Check) []*string) {
	const open, done = 1, 2
	state := map[string]int{}
	var path []string
	var walk func(name string)
	walk = func(name string) {
		state[name] = open
		path = append(path, name)
		for _, t := range next(checks[name]) {
			switch state[*t] {
			case open:
				circle := append(slices.Clone(path[slices.Index(path, *t):]), *t)
				r.d.Wrong(t, "leave one of them out", "%s goes in a circle: %s", key, join(circle))
			case 0:
				if _, ok := checks[*t]; ok {
					walk(*t)
				}
			}
		}
		path = path[:len(path)-1]
		state[name] = done
	}
	for _, name := range names(checks) {
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

// fillGaps fills in what depends on the time between runs, of its own schedule or of the
// check that it runs after.
func (r *reader) fillGaps(checks map[string]*Check) {
	var gap func(c *Check, depth int) time.Duration
	gap = func(c *Check, depth int) time.Duration {
		switch {
		case c == nil || depth > len(checks):
			return 0
		case c.After != "":
			return gap(checks[c.After], depth+1)
		case c.Cron != "" && r.o.Schedule != nil:
			g, err := r.o.Schedule(c.Schedule)
			if err != nil && r.d.Given(&c.Cron) {
				r.d.Wrong(&c.Cron, "", "%v", err)
			}
			return g
		}
		return c.Interval
	}
	for _, c := range checks {
		g := gap(c, 0)
		if c.Tolerance == 0 {
			c.Tolerance = max(time.Minute, 2*g)
		}
		c.plan.gap = g
	}
}
