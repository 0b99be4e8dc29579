package strictyaml

import (
	"reflect"
	"strings"
	"testing"
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
	Node  *Node
	Name  Text             `key:"name" is:"word" need:"yes" doc:"Its name."`
	Wait  Text             `key:"wait" is:"duration" doc:"How long."`
	Words []Text           `key:"words" is:"a|b" doc:"Some."`
	In    *inner           `key:"in" doc:"One."`
	Many  []inner          `key:"many" doc:"More."`
	By    map[string]inner `key:"by" doc:"By name."`
}

type inner struct {
	Node *Node
	Size Text `key:"size" is:"size" doc:"Bytes."`
}

// Everything wrong is found at once, where it is.
func TestDecode(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"name: x\nwait: 5s\nwords: a\nin: {size: 1KiB}\nmany: [{size: 2}, ~]\nby: {k: {size: 3}}\n", ""},
		{"nme: x\nwait: 5\nwords: [a, c]\nin: 3\nmany: {}\nby: {k: {sze: 1}}\n", `f:1:1: unknown key nme in the file: did you mean name?
f:1:1: the file needs name: Its name.
f:2:7: wait: "5" is not a duration: a duration needs a unit: write 5s or 5m
f:3:12: words: "c" is not known: write one of a, b
f:4:5: in is not a mapping: write key: value below it
f:5:7: many is not a list: write a list
f:6:10: unknown key sze in by k: did you mean size?`},
		{"name: {{x}}\n", `f:1:8: could not find flow map content: write what holds {{name}} in quotes: "{{name}}"`},
	} {
		var p Problems
		var v outer
		if n := Parse("f", []byte(tc.text), &p, ""); n != nil {
			(&Decoder{Problems: &p, Kinds: With(nil)}).Decode("the file", n, &v)
		}
		got := ""
		if err := Error(p.Sorted()); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("got\n%s\nwant\n%s", got, tc.want)
		}
		if tc.want == "" && (v.Wait.Duration.Seconds() != 5 || v.In.Size.Int != 1024 || len(v.Many) != 2 || v.By["k"].Size.Int != 3) {
			t.Errorf("%+v", v)
		}
	}
	for _, wrong := range Undescribed(reflect.TypeFor[outer](), WithLeaves(nil), With(nil)) {
		t.Error(wrong)
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
			(&Decoder{Problems: &p, Kinds: With(nil)}).Decode("the file", n, &v)
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
