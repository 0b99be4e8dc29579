package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// letters writes a number as a word without digits.
func letters(i int) string {
	s := ""
	for ; i > 0; i /= 26 {
		s += string(rune('a' + i%26))
	}
	return "u" + s
}

// Whatever is asked for, the tree stays within its bounds, the numbers of its
// nodes are right, and a variable stays one.
func TestTreeIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewTree[int]()
		seed := rapid.Uint64().Draw(t, "seed")
		shape := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 6).Draw(t, "distinct values by depth")
		rng := rand.New(rand.NewPCG(seed, 0))
		var known []string
		for i := range 3000 {
			var path strings.Builder
			for _, n := range shape {
				path.WriteString("/" + letters(rng.IntN(n)))
			}
			n := r.Place([]byte(path.String()), true)
			if i%100 == 0 {
				known = append(known, path.String())
			}
			if n == nil || n.Path == "" {
				t.Fatal("a path without a route")
			}
		}
		if got := size(r.root); got != r.nodes {
			t.Fatalf("%d nodes are counted, %d are there", r.nodes, got)
		}
		if r.nodes > maxNodes+MaxSegments*2 {
			t.Fatalf("%d nodes", r.nodes)
		}
		// Nothing was learned since: each path has one name.
		before := make([]*Node[int], len(known))
		for i, p := range known {
			before[i] = r.Place([]byte(p), false)
		}
		for i, p := range known {
			if got := r.Place([]byte(p), false); got != before[i] {
				t.Fatalf("%s: got %v, then %v", p, before[i], got)
			}
		}
		for _, v := range r.Variables() {
			n := r.root
			for _, s := range v.Path {
				n = r.child(n, s)
			}
			if n.vars == nil {
				t.Fatalf("%v is a variable no more", v.Path)
			}
		}
	})
}

func TestTreeDoesNotGrowWithoutEnd(t *testing.T) {
	r := NewTree[int]()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		// Words that come three times, so that they look like routes for long.
		r.Place([]byte("/"+letters(rng.IntN(150))+"/"+letters(rng.IntN(150))+"/"+letters(rng.IntN(150))), true)
	}
	if r.nodes > maxNodes+100 {
		t.Errorf("%d nodes, want at most about %d", r.nodes, maxNodes)
	}
}

// With requests that are sampled, seldom names alone make no variable, many do;
// what came often keeps its name.
func TestSampledTree(t *testing.T) {
	r := NewTree[int]()
	r.Sampled = true
	for i := range 150 {
		r.Place([]byte("/"+letters(i)), true)
		r.Place([]byte("/login"), true)
	}
	if n := r.Place([]byte("/other"), true); n.Path != "/other" || r.Changed {
		t.Errorf("after 150 names another is %s", n.Path)
	}
	for i := range 100 {
		r.Place([]byte("/"+letters(1000+i)+"/x"), true)
	}
	for path, want := range map[string]string{"/login": "/login", "/new": "/{name}", "/new/x": "/{name}/x", "/7": "/{id}", "/{id}": "/{id}"} {
		if n := r.Place([]byte(path), true); n.Path != want {
			t.Errorf("%s is %s, want %s", path, n.Path, want)
		}
	}
	nodes := 0
	r.All(func(*Node[int]) { nodes++ })
	if nodes != r.nodes {
		t.Errorf("%d nodes are yielded, %d are there", nodes, r.nodes)
	}
}

func TestAppendPath(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(AppendPath([]byte("GET "), []byte(in))); got != "GET "+want {
			t.Errorf("path %q is %q, want %q", in, got, want)
		}
	}
	f("", "/")
	f("//", "/")
	f("/cart/8123/items/", "/cart/{id}/items")
	f("/o/550e8400-e29b-41d4-a716-446655440000", "/o/{id}")
	f("/d/2024-01-31/report", "/d/{id}/report")
	f("/t/eyJhbGciOiJIUzI1NiIsInR5cCI6", "/t/{id}")
	f("/job_123456_done", "/job_{id}_done")
	f("/j_12_done-with-it", "/j_{id}_done-with-it")
	f("/f(x=1234;about)", "/f(x={id};about)")
	f("/{id}/{name}", "/{id}/{name}")
	f("/oauth2/v2/token", "/oauth2/v2/token")
	f(strings.Repeat("/a", 12), strings.Repeat("/a", MaxSegments))
}

func TestRule(t *testing.T) {
	f := func(rule, in, want string, matches bool) {
		t.Helper()
		r, err := ParseRule(rule, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := r.Append([]byte("> "), []byte(in)); string(got) != "> "+want || ok != matches {
			t.Errorf("%s of %s is %q, %v, want %q", rule, in, got, ok, want)
		}
	}
	f("^/shop/([a-z]+)=/shop/$1", "/shop/de/x", "/shop/de", true)
	f("^/shop/([a-z]+)=/shop/$1", "/x", "", false)
	f("^/a=b/=/x", "/a=b/c", "/x", true)
	f("^/a=/$1", "/a", "/$1", true) // without groups a name is as it stands
	f("^/a=/x", "/b", "", false)
	for _, bad := range []string{"", "=x", "x=", "x", "(=x"} {
		if _, err := ParseRule(bad, "^/a=b"); err == nil {
			t.Errorf("rule %q: no error", bad)
		}
	}
}

func FuzzAppendPath(f *testing.F) {
	for _, s := range []string{"/cart/8123", "//a//", "/{id}/job_12_x", "/%40/a@b", "", "/\xff/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		in := []byte(path)
		got := string(AppendPath(nil, in))
		if string(in) != path || got != string(AppendPath(nil, in)) {
			t.Fatalf("%q changes", path)
		}
		if got == "" || got[0] != '/' || strings.Count(got, "/") > MaxSegments || strings.Contains(got, "//") {
			t.Fatalf("%q of %q is not a path", got, path)
		}
		if utf8.ValidString(path) && !utf8.ValidString(got) {
			t.Fatalf("%q of %q is not UTF-8", got, path)
		}
		Template(nil, path)
	})
}

// The tree stays whole whatever is asked for.
func FuzzTree(f *testing.F) {
	f.Add("/cart/1\n/cart/2\n/a//b\n/%40\n/{id}/{name}")
	f.Fuzz(func(t *testing.T, paths string) {
		r := NewTree[int]()
		for path := range strings.SplitSeq(paths, "\n") {
			if n := r.Place([]byte(path), true); n == nil || !utf8.ValidString(n.Path) {
				t.Errorf("%q has no route", path)
			}
		}
		if got := size(r.root); got != r.nodes {
			t.Errorf("%d nodes are counted, %d are there", r.nodes, got)
		}
		NewTree[int]().Restore(r.Variables())
	})
}

// Trees that learned apart name every path alike once each has what the other learned, whoever is
// first, and stay that way.
func TestRestoredTreesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trees [2]*Tree[int]
		shape := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 4).Draw(t, "distinct values by depth")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var asked []string
		learn := func(n int) {
			for range n {
				var path strings.Builder
				for _, n := range shape {
					path.WriteString("/" + letters(rng.IntN(n)))
				}
				if rng.IntN(3) == 0 {
					path.WriteString("/4711/x")
				}
				trees[rng.IntN(2)].Place([]byte(path.String()), true)
				asked = append(asked, path.String())
			}
		}
		for i := range trees {
			trees[i] = NewTree[int]()
		}
		learn(rapid.IntRange(0, 1500).Draw(t, "paths"))
		var recorded []Variable
		turn := rapid.IntRange(0, 1).Draw(t, "first")
		for round := 0; ; round++ { // each goes by what is recorded, and adds what it has
			for i := range trees {
				r := trees[(turn+i)%2]
				r.Restore(recorded)
				recorded = r.Variables()
			}
			if a, b := trees[0].Variables(), trees[1].Variables(); fmt.Sprint(a) == fmt.Sprint(b) {
				break
			}
			if round == 5 {
				t.Fatalf("the trees still differ: %v and %v", trees[0].Variables(), trees[1].Variables())
			}
		}
		for i, r := range trees {
			if got := size(r.root); got != r.nodes {
				t.Fatalf("tree %d: %d nodes are counted, %d are there", i, r.nodes, got)
			}
		}
		for _, path := range asked {
			var names [2]string
			for i, r := range trees {
				r.Changed, r.Sampled = false, true
				names[i] = r.Place([]byte(path), true).Path
				if r.Changed { // one learns more, which is for the next round
					return
				}
			}
			if names[0] != names[1] {
				t.Fatalf("%s is %s and %s", path, names[0], names[1])
			}
		}
	})
}

// A tree whose place is a variable goes by the names that another tree keeps there, and takes in
// what that learned of places below names that it does not keep.
func TestRestoreKeepsOthersNames(t *testing.T) {
	r := NewTree[int]()
	for range 50 {
		for _, path := range []string{"/u/me", "/u/bob/photo", "/u/ann", "/shop"} {
			r.Place([]byte(path), true)
		}
	}
	r.Restore([]Variable{{Path: []string{"u"}, Keep: []string{"ann", "new"}}, {Path: []string{"u", "bob", "album"}}, {Path: []string{"u", "{name}", "list"}, Keep: []string{"all"}}})
	for path, want := range map[string]string{
		"/u/me": "/u/{name}", "/u/bob/photo": "/u/{name}/photo", "/u/ann": "/u/ann", "/u/new": "/u/new", "/shop": "/shop",
		"/u/x/album/7": "/u/{name}/album/{id}", "/u/x/album/y": "/u/{name}/album/{name}", "/u/x/list/all": "/u/{name}/list/all", "/u/x/list/y": "/u/{name}/list/{name}",
	} {
		if got := r.Place([]byte(path), true).Path; got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := size(r.root); got != r.nodes {
		t.Errorf("%d nodes are counted, %d are there", r.nodes, got)
	}
}
