//go:build unix

package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"tailscope/internal/guard/check/spec"
)

func TestCommand(t *testing.T) {
	p := prober(t, Options{})
	t.Setenv("PROBE_SERVER_ONLY", "1")
	t.Setenv("PROBE_KEY", "hunter2")
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plugin := script("plugin", `echo "DISK OK - free 12% | /=88%;80;90;0;100 '/var log'=3GB"
echo "long text | inodes=5;;"
echo "tmp=7"
exit 1`)
	for _, c := range []struct {
		name             string
		s                spec.Command
		value            *float64
		level, text, err string
	}{
		{"plugin", spec.Command{Args: []string{plugin}}, is(88), "WARNING", "DISK OK - free 12%", ""},
		{"label", spec.Command{Args: []string{plugin}, Label: "/var log"}, is(3), "WARNING", "DISK", ""},
		{"label of later lines", spec.Command{Args: []string{plugin}, Label: "tmp"}, is(7), "WARNING", "DISK", ""},
		{"no such label, but a level", spec.Command{Args: []string{plugin}, Label: "home"}, nil, "WARNING", "DISK", ""},
		{"no such label", spec.Command{Shell: plugin + " || true", Label: "home"}, nil, "OK", "DISK", `no label "home" among the performance data; it has /, /var log, inodes, tmp`},
		{"arguments are not split", spec.Command{Args: []string{"echo", "fine | a=$HOME", "b=2;3"}}, is(2), "OK", "fine", ""},
		{"no performance data", spec.Command{Args: []string{"echo", "fine"}}, nil, "OK", "fine", ""},
		{"no performance data, but a label", spec.Command{Args: []string{"echo", "fine"}, Label: "x"}, nil, "OK", "fine", "there is no performance data"},
		{"cannot be told", spec.Command{Args: []string{"echo", "fine | x=U"}}, nil, "OK", "fine", ""},
		{"shell", spec.Command{Shell: "echo $((40 + 2))", Output: "number"}, is(42), "", "42", ""},
		{"no shell", spec.Command{Args: []string{"echo", "$((40 + 2))"}, Output: "number"}, nil, "", "", "wrote no number"},
		{"number, but failed", spec.Command{Shell: "echo 3; echo disk gone >&2; exit 1", Output: "number"}, nil, "", "", "ended with status 1: disk gone"},
		{"critical and silent", spec.Command{Shell: "echo lost >&2; exit 2"}, nil, "CRITICAL", "lost", ""},
		{"unknown", spec.Command{Shell: "echo what; exit 3"}, nil, "UNKNOWN", "what", ""},
		{"no plugin", spec.Command{Shell: "exit 9"}, nil, "", "", "sh ended with status 9, which no plugin has: it wrote nothing; run it by hand"},
		{"not there", spec.Command{Shell: "no-such-program-here"}, nil, "", "", "look at whether what it runs exists"},
		{"not in the path", spec.Command{Args: []string{"no-such-program-here"}}, nil, "", "", "there is no program no-such-program-here in /usr/local/sbin"},
		{"not executable", spec.Command{Args: []string{"./command_test.go"}}, nil, "", "", "permission denied; make it executable"},
		{"empty", spec.Command{}, nil, "", "", "write the program and its arguments"},
		{"killed", spec.Command{Shell: "kill -SEGV $$"}, nil, "", "", "was killed by the signal segmentation fault"},
		{"environment", spec.Command{Shell: `echo "$A-${PROBE_SERVER_ONLY:-none}-$LC_ALL | x=$B"`, Env: map[string]spec.Text{"A": {Plain: "a"}, "B": {Plain: "5"}}}, is(5), "OK", "a-none-C.UTF-8", ""},
		{"path of its own", spec.Command{Args: []string{"plugin"}, Env: map[string]spec.Text{"PATH": {Plain: dir + ":/bin:/usr/bin"}}}, is(88), "WARNING", "", ""},
		{"directory", spec.Command{Args: []string{"./plugin"}, Dir: dir}, is(88), "WARNING", "", ""},
		{"secret", spec.Command{Shell: `echo "key $KEY | $KEY=1"; exit 1`, Env: map[string]spec.Text{"KEY": {Secret: &spec.Secret{Env: "PROBE_KEY"}}}}, is(1), "WARNING", "key [secret]", ""},
		{"secret of an error", spec.Command{Shell: `echo "key $KEY" >&2; exit 7`, Env: map[string]spec.Text{"KEY": {Secret: &spec.Secret{Env: "PROBE_KEY"}}}}, nil, "", "", "key [secret]"},
		{"no secret", spec.Command{Args: []string{"env"}, Env: map[string]spec.Text{"KEY": {Secret: &spec.Secret{Env: "PROBE_NONE"}}}}, nil, "", "", "env KEY: the environment variable PROBE_NONE is not set"},
		{"as much as allowed", spec.Command{Shell: "printf 1234567", Output: "number", MaxBytes: 7}, is(1234567), "", "", ""},
		{"too much", spec.Command{Shell: "printf 12345678", Output: "number", MaxBytes: 7}, nil, "", "", "wrote more than 7 bytes; raise max_bytes"},
		{"no terminal, no input", spec.Command{Shell: "wc -c", Output: "number"}, is(0), "", "", ""},
	} {
		want(t, c.name, measure(t, p, spec.Source{Command: &c.s}), c.value, c.level, c.text, c.err)
	}
}

// At the deadline everything in the process group dies, and output that something
// holds open is not waited for.
func TestCommandDeadline(t *testing.T) {
	p := prober(t, Options{Timeout: 3 * time.Second}) // in which both have begun
	pids := filepath.Join(t.TempDir(), "pids")
	begin := time.Now()
	r := p.Probe(t.Context(), &spec.Source{Command: &spec.Command{Shell: "sh -c 'trap \"\" TERM INT; echo $$ >>" + pids + "; sleep 60 & echo $! >>" + pids + "; wait' & wait"}})
	want(t, "sleeper", r, nil, "", "", "did not end within")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	gone(t, pids, 2)
}

// A command that has ended leaves nothing behind in its group.
func TestCommandLeavesNothing(t *testing.T) {
	p := prober(t, Options{})
	pids := filepath.Join(t.TempDir(), "pids")
	r := measure(t, p, spec.Source{Command: &spec.Command{Shell: "sleep 60 >/dev/null 2>&1 & echo $! >" + pids + "; echo 'OK | a=1'"}})
	want(t, "parent", r, is(1), "OK", "OK", "")
	gone(t, pids, 1)
}

// A daemon that leaves the group and keeps the output does not keep the run.
func TestCommandLeavesADaemon(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	p := prober(t, Options{})
	pids := filepath.Join(t.TempDir(), "pids")
	r := measure(t, p, spec.Source{Command: &spec.Command{Shell: "setsid sh -c 'echo $$ >" + pids + "; exec sleep 60' & until [ -s " + pids + " ]; do :; done; echo 'OK | a=1'"}})
	want(t, "parent", r, is(1), "OK", "OK", "")
	if r.Took > 20*time.Second {
		t.Errorf("took %s", r.Took)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("the daemon %s is gone: %v", text, err)
	}
}

func gone(t *testing.T, pids string, n int) {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(text))
	if len(all) != n {
		t.Fatalf("%d processes began, want %d", len(all), n)
	}
	for _, s := range all {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if dead(pid) {
				pid = 0
				break
			}
			time.Sleep(5 * time.Millisecond) // the kernel's own time, after SIGKILL
		}
		if pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("process %d lives on", pid)
		}
	}
}

// dead says whether a process is gone, or waits for an init that may not be there
// to bury it.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := p.Stat()
	return err == nil && stat.State == "Z"
}
