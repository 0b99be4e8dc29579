package spec

import (
	"reflect"
	"strings"

	"tailscope/internal/strictyaml"
)

// file is one file. What it defines by name is gathered from all files, and becomes
// part of a File once names are resolved and templates merged in.
type file struct {
	Checks      section[Check]    `key:"checks" doc:"What is guarded, by name."`
	Templates   section[Check]    `key:"templates" doc:"What several checks share, by name. A check that names templates gets them merged in their order, and then what it says itself: mappings merge, lists and values replace."`
	Calendars   section[Calendar] `key:"calendars" doc:"Holidays, time zone and weeks, for profiles."`
	Profiles    section[Profile]  `key:"profiles" doc:"Thresholds by the clock and the calendar, or learned from history."`
	Receivers   section[Receiver] `key:"receivers" doc:"Who is notified, by name."`
	Maintenance []window          `key:"maintenance" doc:"Times in which nobody is notified."`
	Page        string            `key:"page" is:"url" doc:"Address under which people reach the page, for links in notifications."`
	Zone        string            `key:"zone" is:"zone" doc:"Time zone of cron, calendars and maintenance that name none; default UTC."`
}

// window is a Window whose moments are texts, until the zone that they are of is known.
type window struct {
	Window
	Start string `key:"start" is:"moment" doc:"2026-12-01 22:00, once."`
	End   string `key:"end" is:"moment" doc:"2026-12-02 04:00"`
}

// section holds the definitions of one kind, by name.
type section[T any] struct{ of map[string]defined[T] }

// defined is a definition and where it is.
type defined[T any] struct {
	it   *T
	at   place
	node *node
}

// ReadNode adds the definitions of a file, whose names no other file may have. A
// definition in parts may lack what another part has, and its texts with a $label or
// a $$MACRO$$ are read once that is replaced.
func (s *section[T]) ReadNode(d *strictyaml.Decoder, what, _ string, n *node) {
	if n.Kind != strictyaml.Mapping {
		if n.Kind != strictyaml.Null {
			d.Problems.Add(n.At, "write name: value below it", "%s is not a mapping", what)
		}
		return
	}
	if inParts(reflect.TypeFor[T]()) {
		d.Partial, d.Later = true, func(s string) bool { return strings.Contains(s, "$") }
		defer func() { d.Partial, d.Later = false, nil }()
	}
	what = strings.TrimSuffix(what, "s")
	for _, f := range n.Fields {
		def := defined[T]{new(T), f.At, f.Value}
		d.Decode(what+" "+f.Key, f.Value, def.it)
		if first, ok := s.of[f.Key]; ok {
			d.Problems.Add(f.At, "give one of them another name", "%s %s is defined in %s:%d already", what, f.Key, first.at.File.Name, first.at.Line)
			continue
		}
		if !strictyaml.IsName(f.Key) || len(f.Key) > 200 {
			d.Problems.Add(f.At, "write a name without quotes, brackets, braces, commas and $", "%q is not a name of a %s", f.Key, what)
		}
		s.of[f.Key] = def
	}
}

// SchemaOf describes a mapping of names to definitions.
func (*section[T]) SchemaOf(s *strictyaml.Schemas, _ m) m {
	return s.Of(reflect.TypeFor[map[string]T](), "", false)
}
