package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/record"
	"tailscope/internal/report/reporttest"
)

// Clients chose what stands in a recording: none of it drives the terminal. Of
// one that ends in the middle what there is is told, and that it does.
func TestMirrorShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.rec")
	w, err := record.Create(file, record.Options{Header: record.Header{ID: "x", Name: "cache"}})
	if err != nil {
		t.Fatal(err)
	}
	e := w.Begin()
	e.Method, e.Target, e.Operation, e.Status = "GET", "/", "GET /\x1b[2J", 200
	if !w.Offer(e) {
		t.Fatal("there is no room")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	show := func(code int) (string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := Run(t.Context(), []string{"mirror", "show", file}, nil, &out, &errs); got != code {
			t.Errorf("ends with %d, want %d: %s", got, code, errs.String())
		}
		return out.String(), errs.String()
	}
	out, _ := show(exitOK)
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `1 GET /\x1b[2J`) || !strings.Contains(out, "requests  1") {
		t.Errorf("got\n%s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.Truncate(file, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	if out, errs := show(exitFailed); !strings.Contains(out, "requests  1") || !strings.Contains(errs, "ends in the middle") {
		t.Errorf("got\n%s%s", out, errs)
	}
}

func TestOTLPAddress(t *testing.T) {
	for _, c := range []struct{ to, listen, want, wantErr string }{
		{"http://127.0.0.1:7099", "127.0.0.1:4318", "http://127.0.0.1:4318", ""},
		{"http://localhost:7099", "127.0.0.1:4318", "http://127.0.0.1:4318", ""},
		{"http://tailscope:7099", "0.0.0.0:4318", "http://tailscope:4318", ""},
		{"https://tailscope/", "[::]:4318", "http://tailscope:4318", ""},
		{"http://[::1]:7099", "[::]:4318", "http://[::1]:4318", ""},
		{"http://tailscope:7099", "10.0.0.5:4318", "http://10.0.0.5:4318", ""},
		{"127.0.0.1:7099", "[::]:4318", "http://127.0.0.1:4318", ""},
		{"http://tailscope:7099", "127.0.0.1:4318", "", "start it with --otlp-http :4318"},
		{"http://tailscope:7099", "", "", "takes no OTLP over HTTP: start it with --otlp-http"},
	} {
		got, err := otlpAddress(c.to, c.listen)
		if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s, %s: got %q, %v", c.to, c.listen, got, err)
		}
	}
}

// What is wrong is said by the name of its flag, all of it at once, and ends with
// the code of wrong use.
func TestMirrorUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("mirror:\n  primary: http://a\n  candidte: http://b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"--primary: ", "--candidate: ", "hint: "}},
		{[]string{"--primary", "a:1", "--candidate", "http://b", "--share", "50"}, []string{"--primary: \"a:1\" has no scheme", "--share: 50"}},
		{[]string{"--config", file}, []string{"f.yaml:3:3: unknown key mirror.candidte: did you mean mirror.candidate?"}},
		{[]string{"--primary", "http://a", "--candidate", "http://b", "--server", "tailscope:7099"}, []string{"mirror.to: \"tailscope:7099\" is not a URL"}},
		{[]string{"--share", "half"}, []string{`invalid argument "half" for "--share" flag`}},
		{[]string{"http://a"}, []string{"takes no arguments"}},
		{[]string{"--primary", "http://a", "--candidate", "http://b", "--set", "mirror.ignore=x"}, []string{"--ignore: nothing is compared: add --compare status,headers,json"}},
		{[]string{"show"}, []string{"needs a recording"}},
		{[]string{"set", "--pause", "--resume"}, []string{"write one of them"}},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"mirror"}, c.args...), nil, &out, &errs)
		for _, w := range c.want {
			if code != exitUsage || !strings.Contains(errs.String(), w) {
				t.Errorf("%q ends with %d:\n%s\nwant %q", c.args, code, errs.String(), w)
			}
		}
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"mirror", "show", filepath.Join(t.TempDir(), "none")}, nil, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "hint: tailscope mirror --record FILE writes one") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

// fakeSessions is a server with sessions, whose program makes every change at
// the second look.
type fakeSessions struct {
	*httptest.Server
	running []api.Session
	change  api.MirrorChange
	looks   int
}

func newFakeSessions(t *testing.T, ids ...string) *fakeSessions {
	s := &fakeSessions{}
	for _, id := range ids {
		state := reporttest.Session()
		s.running = append(s.running, api.Session{ID: id, Kind: "mirror", Name: "new cache", State: "running", Mirror: &state})
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any = api.SessionsResponse{Sessions: s.running}
		if id, ok := strings.CutPrefix(r.URL.Path, "/api/v1/sessions/"); ok {
			if id != ids[0] {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			x := &s.running[0]
			if r.Method == http.MethodPatch {
				if err := json.NewDecoder(r.Body).Decode(&s.change); err != nil {
					t.Error(err)
				}
				s.change.Number, s.looks = 7, 0
				body = s.change
			} else {
				if s.change.Stop { // it runs in the session's program, which has ended
					panic(http.ErrAbortHandler)
				}
				if s.looks++; s.looks == 2 && s.change.Number > 0 {
					x.Mirror.Applied = s.change.Number
					if s.change.Share != nil {
						x.Mirror.Settings.Share = *s.change.Share
					}
					x.Mirror.Settings.Paused = s.change.Paused != nil && *s.change.Paused
					for name, c := range s.change.Shadows {
						for i := range x.Mirror.Shadows {
							if x.Mirror.Shadows[i].Name == name {
								if c.Using != nil {
									x.Mirror.Shadows[i].Using = *c.Using
								}
								if c.Amplify != nil {
									x.Mirror.Shadows[i].Amplify = *c.Amplify
								}
							}
						}
					}
				}
				body = x
			}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestMirrorSet(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		sent string // the change, as JSON
		want string // in the output, or the error
	}{
		{"--share 0.5 --using candidate=3 --amplify 2", 0, `{"number":7,"share":0.5,"shadows":{"candidate":{"using":3,"amplify":2}}}`,
			"share 0.5; control uses 1 of 1 servers, 1 copies; candidate uses 3 of 3 servers, 2 copies"},
		{"one --pause", 0, `{"number":7,"paused":true}`, "share 1; paused; control"},
		{"one --resume --amplify control=3", 0, `{"number":7,"paused":false,"shadows":{"control":{"amplify":3}}}`, "control uses 1 of 1 servers, 3 copies"},
		{"one --stop", 0, `{"number":7,"stop":true}`, "ended, and with it the server"},
		{"one", 2, "", "nothing is to be changed"},
		{"one --using nobody=1", 2, "", `there is no shadow "nobody"; write one of control, candidate`},
		{"one --using 1.5", 2, "", `"1.5" is not allowed`},
		{"one --share 50", 2, "", "write a number from 0 to 1"},
	} {
		s := newFakeSessions(t, "one")
		var out, errs bytes.Buffer
		args := append([]string{"mirror", "set", "--server", s.URL}, strings.Fields(c.args)...)
		code := Run(t.Context(), args, nil, &out, &errs)
		sent := ""
		if s.change.Number > 0 {
			b, err := json.Marshal(s.change)
			if err != nil {
				t.Fatal(err)
			}
			sent = string(b)
		}
		if code != c.code || sent != c.sent || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%s: %d, sent %s\n%s%s\nwant %d, %s, %q", c.args, code, sent, out.String(), errs.String(), c.code, c.sent, c.want)
		}
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"mirror", "set", "--server", newFakeSessions(t, "one", "two").URL, "--pause"}, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "one (new cache), two (new cache)") {
		t.Errorf("%d: %s", code, errs.String())
	}
	errs.Reset()
	if code := Run(t.Context(), []string{"mirror", "set", "--server", newFakeSessions(t).URL, "--pause"}, nil, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "no mirror session runs") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

// What is to be written is named as the command takes it: serve and capacity mirror have
// few of the mirror's flags.
func TestMirrorHintsNameWhatThereIs(t *testing.T) {
	const mirrored = " --set mirror.primary=http://a:1 --set mirror.candidate=http://b:1"
	for command, want := range map[string]string{
		"serve --set mirror.candidate=http://b:1":                             "mirror.primary: no server answers the clients: give --set mirror.primary=http://HOST:PORT",
		"serve --set mirror.ignore=x" + mirrored:                              "mirror.ignore: nothing is compared: add --set mirror.compare=status,headers,json",
		"serve --set mirror.method=POST" + mirrored:                           "add --set mirror.unsafe=true if they can bear it",
		"serve --set mirror.by=tenant" + mirrored:                             "add mirror.tenant, such as header:X-Tenant",
		"capacity mirror --objective p99<1s --set mirror.candidate=http://b":  "--primary: no server answers the clients: give --primary http://HOST:PORT",
		"capacity mirror --objective p99<1s --set mirror.ignore=x" + mirrored: "mirror.ignore: nothing is compared: add --set mirror.compare=status,headers,json",
	} {
		if _, stderr, code := run(t, strings.Fields(command)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s\nwant %q", command, code, stderr, want)
		}
	}
}
