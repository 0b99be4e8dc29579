package config

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestMirrorFile(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"misspelt", "mirror:\n  listen: :8080\n  candidat: x\n", "f.yaml:3:3: unknown key mirror.candidat: did you mean mirror.candidate?"},
		{"misspelt section", "miror:\n  listen: :8080\n", "f.yaml:1:1: unknown key miror in the file: did you mean mirror?"},
		{"dashes", "mirror:\n  set-header: [a]\n", "f.yaml:2:3: unknown key mirror.set-header: did you mean mirror.set_header?"},
		{"not yes or no", "mirror:\n  unsafe: maybe\n", "f.yaml:2:11: mirror.unsafe: \"maybe\" is neither true nor false"},
		{"not a number", "mirror:\n  share: half\n", "f.yaml:2:10: mirror.share: \"half\" is not a number: write one such as 0.5"},
		{"infinite", "mirror:\n  amplify: .inf\n", "f.yaml:2:12: mirror.amplify: \".inf\" is not a number: write one such as 0.5"},
		{"mapping in a list", "mirror:\n  candidate:\n    - new: http://b\n", "f.yaml:3:7: mirror.candidate is more than one text: write one text"},
		{"nothing", "mirror:\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			got := ""
			if err := errors.Join(c.File("f.yaml", []byte(tc.file))...); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

const mirrorFile = `mirror:
  listen: :8080
  primary: http://10.0.0.5:8081
  candidate:
    - http://10.0.0.6:8082,http://10.0.0.7:8082
    - next=http://10.0.0.8:8082
  control: http://10.0.0.9:8081
  service: shop
  share: 0.25
  by: header:X-User
  method: [GET, HEAD]
  header: ["X-Plan: ^(a|b),c$"]
  operation: ['^GET /a,b/[0-9]+=GET /a']
  set_header: "X-Mirror: yes"
  amplify: 2.5
  spread: 500ms
  buffer: 16MiB
  timeout: 5s
  compare: [status, json]
  record_bodies: true
  for: 1h
`

func TestMirrorIsReadAndPrinted(t *testing.T) {
	c := Default()
	if errs := c.File("f.yaml", []byte(mirrorFile)); errs != nil {
		t.Fatal(errs)
	}
	want := Default().Mirror
	want.Listen, want.Primary, want.Control, want.Service = ":8080", "http://10.0.0.5:8081", "http://10.0.0.9:8081", "shop"
	want.Candidates = []string{"http://10.0.0.6:8082,http://10.0.0.7:8082", "next=http://10.0.0.8:8082"}
	want.Share, want.By, want.Methods, want.Headers = 0.25, "header:X-User", []string{"GET", "HEAD"}, []string{"X-Plan: ^(a|b),c$"}
	want.Operations, want.SetHeader = []string{"^GET /a,b/[0-9]+=GET /a"}, []string{"X-Mirror: yes"}
	want.Amplify, want.Spread, want.Buffer, want.Timeout = 2.5, 500*time.Millisecond, 16<<20, 5*time.Second
	want.Compare, want.RecordBodies, want.For = []string{"status", "json"}, true, time.Hour
	if !reflect.DeepEqual(c.Mirror, want) {
		t.Fatalf("got  %+v\nwant %+v", c.Mirror, want)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	back := Default()
	if errs := back.File("printed", []byte(c.YAML())); errs != nil {
		t.Fatal(errs, c.YAML())
	}
	if back.YAML() != c.YAML() || !reflect.DeepEqual(back.Mirror.Candidates, want.Candidates) {
		t.Errorf("printed and read again: %+v\n%s", back.Mirror, c.YAML())
	}
}

// What was printed of a server without a mirror is one without a mirror.
func TestNoMirrorIsPrintedAsNone(t *testing.T) {
	c, back := Default(), Default()
	if errs := back.File("printed", []byte(c.YAML())); errs != nil || back.Mirror.Wanted() {
		t.Errorf("%v: %+v", errs, back.Mirror)
	}
}

func TestMirrorEnvironment(t *testing.T) {
	c := Default()
	errs := c.Environ([]string{
		"TAILSCOPE_MIRROR_PRIMARY=http://a:1", "TAILSCOPE_MIRROR_CANDIDATE=http://b:2,http://c:3\nnext=http://d:4", "TAILSCOPE_MIRROR_UNSAFE=true",
		"TAILSCOPE_MIRROR_SET_HEADER=X-A: 1",
	})
	if errs != nil {
		t.Fatal(errs)
	}
	m := c.Mirror
	if m.Primary != "http://a:1" || !reflect.DeepEqual(m.Candidates, []string{"http://b:2,http://c:3", "next=http://d:4"}) || !m.Unsafe || m.SetHeader[0] != "X-A: 1" {
		t.Errorf("got %+v", m)
	}
}

func TestMirrorValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		with func(*Mirror)
		want string
	}{
		{"nothing", func(*Mirror) {}, ""},
		{"address of the page", func(m *Mirror) { m.Listen = "127.0.0.1:7099" }, "mirror.listen: 127.0.0.1:7099 is already the address of listen"},
		{"half of a server", func(m *Mirror) { m.ToOTLP = "http://x:4318" }, "mirror.to_otlp: needs mirror.to, the URL of the same server's page and API"},
		{"no URL", func(m *Mirror) { m.To, m.ToOTLP = "localhost:7099", "x:4318" },
			"mirror.to: \"localhost:7099\" is not a URL: write one such as http://127.0.0.1:7099\nmirror.to_otlp: \"x:4318\" is not a URL: write one such as http://127.0.0.1:7099"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			tc.with(&c.Mirror)
			got := ""
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if c.Mirror.Wanted() != (tc.name != "nothing") {
				t.Errorf("wanted is %v", c.Mirror.Wanted())
			}
		})
	}
}
