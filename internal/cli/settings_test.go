package cli

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostFlags bounds the flags of a command beside --help and --server. What is not written
// daily is a setting.
const mostFlags = 20

func TestNoCommandHasTooManyFlags(t *testing.T) {
	commands := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		commands++
		n := 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "server" {
				n++
			}
		})
		if n > mostFlags {
			t.Errorf("%s has %d flags, want at most %d: make those that are not written daily settings (settings.register)", cmd.CommandPath(), n, mostFlags)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(streams{nil, io.Discard, io.Discard}))
	if commands < 40 {
		t.Errorf("%d commands seen: the test looks in the wrong place", commands)
	}
}

// Help is read in terminals.
func TestHelpIsNotTooWide(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		help, _, code := run(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if code != exitOK {
			t.Errorf("%s --help: code %d", cmd.CommandPath(), code)
		}
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(line) - 1; n > helpWidth {
				t.Errorf("%s --help: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(streams{nil, io.Discard, io.Discard}))
}

// A flag that is a setting now is answered by what to write in its place, and that
// is taken.
func TestFormerFlagsNameTheirSetting(t *testing.T) {
	f := func(command, flag, value, want string) {
		t.Helper()
		args := strings.Fields(command)
		_, stderr, code := run(t, append(args, flag, value)...)
		wantCode := exitUsage
		if command == "compare" {
			wantCode = exitNoAnswer
		}
		if line := "tailscope: " + flag + " is not a flag of " + command + "; use --set " + want + "\n"; code != wantCode || !strings.HasPrefix(stderr, line) {
			t.Errorf("%s %s: code %d, %q; want %d, %q", command, flag, code, stderr, wantCode, line)
		}
		key := strings.TrimSuffix(want, "=…")
		if key != want {
			key += "=" + value
		}
		root := newRoot(streams{nil, io.Discard, io.Discard})
		cmd, _, err := root.Find(args)
		if err == nil {
			err = cmd.ParseFlags([]string{"--set", key})
		}
		if err != nil {
			t.Errorf("%s --set %s: %v", command, key, err)
		}
	}
	f("serve", "--mirror-listen", ":8080", "mirror.listen=…")
	f("serve", "--retention-10s", "4d", "retention.10s=…")
	f("serve", "--mirror-set-header", "A: b", "mirror.set_header=…")
	f("mirror", "--set-header", "A: b", "mirror.set_header=…")
	f("mirror", "--body-limit", "2MiB", "mirror.body_limit=…")
	f("mirror", "--otlp-grpc", ":0", "otlp.grpc=…")
	f("mirror", "--log-level", "debug", "log.level=…")
	f("capacity mirror", "--share", "0.5", "mirror.share=…")
	f("capacity mirror", "--watch-port", "8080,8081", "watch_port=…")
	f("capacity", "--start", "100", "start=…")
	f("capacity", "--connections", "64", "connections=…")
	f("capacity", "-c", "64", "connections=…")
	f("capacity", "--watch-pid", "7,8", "watch_pid=…")
	f("bench", "--warm-up", "5s", "warm_up=…")
	f("bench", "--tls.ca", "ca.pem", "tls.ca=…")
	f("bench", "--http2", "", "protocol=HTTP/2")
	f("bench", "--no-keepalive", "", "keep_alive=false")
	f("bench", "--insecure", "", "tls.insecure=true")
	f("bench", "-k", "", "tls.insecure=true")
	f("bench", "--cacert", "ca.pem", "tls.ca=…")
	f("compare", "--level", "99%", "level=…")
	f("compare", "--tz", "UTC", "tz=…")
	f("simulate", "--measured-at", "4", "leaves.shards=…")
	f("simulate", "--price", "0.2", "layout.price=…")
}

// What --set cannot take is named by its key.
func TestSettingsSayWhatIsWrong(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		_, stderr, code := run(t, args...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: code %d, %q; want %d and %q", args, code, stderr, exitUsage, want)
		}
	}
	f(`timeout: "soon" is not a duration: write one such as 500ms`, "bench", "http://127.0.0.1:1/", "--set", "timeout=soon")
	f("unknown key timout: did you mean timeout?", "bench", "http://127.0.0.1:1/", "--set", "timout=5s")
	f(`"timeout" has no value: write key=value`, "bench", "http://127.0.0.1:1/", "--set", "timeout")
	f(`protocol: "HTTP/3" is not known`, "bench", "http://127.0.0.1:1/", "--set", "protocol=HTTP/3")
	f("--set timeout 0s: write a time such as 5s", "bench", "http://127.0.0.1:1/", "--set", "timeout=0s")
	f("unknown key retention.10s", "capacity", "mirror", "--set", "retention.10s=4d")
	f("unknown key blau: --help lists the keys", "bench", "http://127.0.0.1:1/", "--set", "blau=5")
	f(`"=5" has no key: write key=value`, "bench", "http://127.0.0.1:1/", "--set", "=5")
	f(`"=5" has no key: write key=value`, "serve", "--set", "=5")
	f(`keep_alive: "maybe" is neither true nor false`, "bench", "http://127.0.0.1:1/", "--set", "keep_alive=maybe")
	f(`waiting: "x" is not a whole number: write one such as 8`, "bench", "http://127.0.0.1:1/", "--set", "waiting=x")
	f(`speed: "x" is not a number: write one such as 0.5`, "bench", "http://127.0.0.1:1/", "--set", "speed=x")
	f(`--seed: "x" is not a whole number of 0 or more: write one such as 8`, "bench", "http://127.0.0.1:1/", "--seed", "x")
	f(`for: "x" is not a duration`, "bench", "http://127.0.0.1:1/", "--set", "for=x")
	f(`--for: "x" is not a duration`, "bench", "http://127.0.0.1:1/", "--for", "x")
	f("unknown key mirror.shar: did you mean mirror.share?", "mirror", "--set", "mirror.shar=1")
}

// A flag that there is goes before a key that says the same.
func TestFormerFlagsNameTheirFlag(t *testing.T) {
	for _, c := range [][3]string{
		{"mirror", "--mirror-listen", "--listen"}, {"mirror", "--mirror-share", "--share"}, {"capacity mirror", "--mirror-primary", "--primary"},
		{"bench", "--access_log", "--access-log"},
	} {
		_, stderr, code := run(t, append(strings.Fields(c[0]), c[1], "x")...)
		if want := "tailscope: " + c[1] + " is not a flag of " + c[0] + "; use " + c[2] + "\n"; code != exitUsage || !strings.HasPrefix(stderr, want) {
			t.Errorf("%s %s: code %d, %q; want %q", c[0], c[1], code, stderr, want)
		}
	}
}

// A setting that has a flag is taken by --set as well, as files have it, and counts as
// given.
func TestSetTakesFlags(t *testing.T) {
	f := func(command, text, flag, want string) {
		t.Helper()
		root := newRoot(streams{nil, io.Discard, io.Discard})
		cmd, _, err := root.Find(strings.Fields(command))
		if err == nil {
			err = cmd.ParseFlags([]string{"--set", text})
		}
		if err != nil {
			t.Fatalf("%s --set %s: %v", command, text, err)
		}
		set := cmd.Flags().Lookup("set").Value.(*settings)
		if fl := cmd.Flags().Lookup(flag); fl.Value.String() != want || !set.given(flag) || len(set.texts) > 0 {
			t.Errorf("%s --set %s: --%s is %s, given %v, said again by --set %q; want %s", command, text, flag, fl.Value, set.given(flag), set.texts, want)
		}
	}
	f("bench", "rate=5", "rate", "5")
	f("bench", "for=2d", "for", "48h0m0s")
	f("bench", "access_log=x", "access-log", "x")
	f("compare", "within=5%", "within", "5%")
	f("compare", "curve=yes", "curve", "true")
	f("capacity", "objective=p99 < 1s", "objective", "p99 < 1s")
	f("capacity mirror", "listen=:80", "listen", ":80")
	f("simulate", "nodes=4", "nodes", "4")
}
