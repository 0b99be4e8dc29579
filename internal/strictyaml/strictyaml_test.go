package strictyaml

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	known := []string{"run", "ready", "restart", "warm_up", "phases", "web", "port"}
	for word, want := range map[string]string{"rn": "run", "wbe": "web", "phasse": "phases", "WarmUp": "warm_up", "prot": "port", "restrat": "restart", "zzz": "", "": ""} {
		got, ok := Nearest(word, known)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v; want %s", word, got, ok, want)
		}
	}
	if got := Suggest("zzz", known[:2]); got != "write one of run, ready" {
		t.Error(got)
	}
	if got := Suggest("zzz", nil); got != "" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abc", "acb", 1}} {
		if got, back := Distance(tc.a, tc.b), Distance(tc.b, tc.a); got != tc.want || back != tc.want {
			t.Errorf("%s and %s: %d and %d, want %d", tc.a, tc.b, got, back, tc.want)
		}
	}
}

type outer struct {
	Name  string           `key:"name" is:"word" need:"yes" doc:"Its name."`
	Wait  time.Duration    `key:"wait" default:"1m" doc:"How long."`
	Words []string         `key:"words" is:"a|b" doc:"Some."`
	In    *inner           `key:"in" doc:"One."`
	Many  []inner          `key:"many" doc:"More."`
	By    map[string]inner `key:"by" doc:"By name."`
	Count *int             `key:"count" is:"1..9" doc:"How many."`
	Sect  section          `key:"sect" doc:"Further ones."`
}

type inner struct {
	Size int64 `key:"size" is:"size" default:"4KiB" doc:"Bytes."`
}

type section struct {
	Share Share `key:"share" default:"50%" doc:"A part."`
}

// Everything wrong is found at once, where it is.
func TestDecode(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"name: x\nwait: 5s\nwords: a\nin: {size: 1KiB}\nmany: [{size: 2}, ~]\nby: {k: {size: 3}}\n", ""},
		{"nme: x\nwait: 5\nwords: [a, c]\nin: 3\nmany: {}\nby: {k: {sze: 1}}\n", `f:1:1: unknown key nme in the file: did you mean name?
f:1:1: the file needs name: Its name.
f:2:7: wait: "5" is not a duration: a duration needs a unit: write 5ms, 5s or 5m
f:3:12: words: "c" is not known: write one of a, b
f:4:5: in is not a mapping: write key: value below it
f:5:7: many is not a list: write a list
f:6:10: unknown key sze in by k: did you mean size?`},
		{"name: x\nshare: 1\ncount: 12\nsect: {share: 2}\n", `f:2:1: unknown key share in the file: did you mean sect.share?
f:3:8: count: "12" is out of range: write a number from 1 to 9
f:4:15: share: "2" is out of range: write one such as 50% or 0.5`},
		{"name: {{x}}\n", `f:1:8: could not find flow map content: write what holds {{name}} in quotes: "{{name}}"`},
	} {
		var p Problems
		var v outer
		if n := Parse("f", []byte(tc.text), &p, ""); n != nil {
			(&Decoder{Problems: &p, Leaves: WithLeaves(nil)}).Decode("the file", n, &v)
		}
		got := ""
		if err := Error(p.Sorted()); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("got\n%s\nwant\n%s", got, tc.want)
		}
		if tc.want == "" && (v.Wait.Seconds() != 5 || v.In.Size != 1024 || len(v.Many) != 2 || v.By["k"].Size != 3 || v.Many[1].Size != 4096 || v.Sect.Share != 0.5) {
			t.Errorf("%+v", v)
		}
	}
	for _, wrong := range Undescribed(reflect.TypeFor[outer](), WithLeaves(nil)) {
		t.Error(wrong)
	}
}

// Fields know where they were written, and whether they were right.
func TestWritten(t *testing.T) {
	var p Problems
	var v outer
	d := &Decoder{Problems: &p}
	d.Decode("the file", Parse("f", []byte("name: x\nwait: soon\nwords: [a, b]\nin:\n  size: 1\ncount: 3\n"), &p, ""), &v)
	if !d.OK(&v.Name) || d.OK(&v.Wait) || !d.Given(&v.Wait) || d.S(&v.Wait) != "soon" || d.Given(&v.Sect.Share) || v.Wait != time.Minute {
		t.Errorf("%+v", v)
	}
	if at := d.Node(&v.Words[1]).At; at.Line != 3 || at.Column != 12 {
		t.Errorf("the second word is at %d:%d", at.Line, at.Column)
	}
	if n := d.Node(v.In); n == nil || n.Get("size").At.Line != 5 || d.Node(&v.In.Size).At.Line != 5 || *v.Count != 3 || !d.OK(&v.Count) {
		t.Errorf("%+v", n)
	}
	if n := d.Count(&v.Name, &v.Wait, &v.Many); n != 2 {
		t.Errorf("%d fields are given, want 2", n)
	}
}

// What a leaf writes it reads as the same.
func TestLeaves(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"0", "0s"}, {"90m", "1h30m"}, {"1.5h", "1h30m"}, {"1y", "365d"}, {"4w", "28d"}, {"250us", "0.25ms"}, {"1d12h", "1d12h"},
		{"5", ""}, {"", ""}, {"-1h", ""}, {"5H", ""}, {"h", ""}, {"1x", ""}, {"200y", ""},
	} {
		var d Duration
		err := d.ReadText(tc.text)
		if (err == nil) != (tc.want != "") || err == nil && d.String() != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.text, d, err, tc.want)
		}
	}
	for text, want := range map[string]int64{"64KiB": 65536, "1.5GB": 1500000000, "4096": 4096, "1 MiB": 1 << 20, "0": -1, "-1": -1, "1PB": -1, "x": -1} {
		var n Size
		if err := n.ReadText(text); (err == nil) != (want > 0) || err == nil && int64(n) != want {
			t.Errorf("%s: %d, %v; want %d", text, n, err, want)
		}
	}
}

// Places of bytes are those that were written, whatever was replaced.
func TestReplace(t *testing.T) {
	n := Parse("f", []byte("a: \"é{{b}}c\"\n"), &Problems{}, "")
	s := n.Get("a").Transform(nil, func(_ []string, s *Node) { s.Replace(2, 5, "longer") })
	if s.Text != "élongerc" || s.Within(8).Column != 11 || s.Within(3).Column != 6 || n.Get("a").Text != "é{{b}}c" {
		t.Errorf("%q, %+v, %+v", s.Text, s.Within(8), s.Within(3))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: x\nmany: [{size: 1}]\n")
	f.Add("a: |\n  x\n")
	f.Add("? {a}: b\n<<: *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var p Problems
		n := Parse("f", []byte(text), &p, "")
		if n == nil && p.Len() == 0 {
			t.Fatal("neither a tree nor a problem")
		}
		if n != nil {
			var v outer
			(&Decoder{Problems: &p, Leaves: WithLeaves(nil)}).Decode("the file", n, &v)
			n.Transform(nil, func(_ []string, s *Node) { _ = s.Within(len(s.Text)) })
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") // YAML 1.2, 5.4: each ends a line
		for _, x := range p.Sorted() {
			if x.Message == "" || x.Line > lines+2 {
				t.Fatalf("%+v", x)
			}
		}
	})
}
