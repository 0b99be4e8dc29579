package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostFlags is how many flags a command may have beside --help. What is not written
// daily is a setting.
const mostFlags = 20

func TestNoCommandHasTooManyFlags(t *testing.T) {
	commands := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		commands++
		n := 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
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
	f(`timeout: time: invalid duration "soon"`, "bench", "http://127.0.0.1:1/", "--set", "timeout=soon")
	f("unknown key timout: did you mean timeout?", "bench", "http://127.0.0.1:1/", "--set", "timout=5s")
	f(`"timeout" has no value: write key=value`, "bench", "http://127.0.0.1:1/", "--set", "timeout")
	f(`protocol: "HTTP/3" is not known`, "bench", "http://127.0.0.1:1/", "--set", "protocol=HTTP/3")
	f("--set timeout 0s: write a time such as 5s", "bench", "http://127.0.0.1:1/", "--set", "timeout=0s")
	f("unknown key retention.10s", "capacity", "mirror", "--set", "retention.10s=4d")
	f("unknown key mirror.shar: did you mean mirror.share?", "mirror", "--set", "mirror.shar=1")
}
