//go:build servers

package experiment_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/experiment"
)

// An experiment that is a process of its own, with real load at a real server,
// ended by signals and by kill -9.
func TestSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	defer target.Close()
	program := filepath.Join(t.TempDir(), "tailscope")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/tailscope").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		killed  bool
	}{
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}, false},
		{"SIGINT twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, false},
		{"SIGHUP", []syscall.Signal{syscall.SIGHUP}, false},
		{"SIGKILL", []syscall.Signal{syscall.SIGKILL}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("load.yaml", fmt.Sprintf("scenario: load\ntarget: %s\nqueries:\n  - {name: a, request: GET /}\nphases: [{rate: 20, for: 20s}]\n", target.URL))
			// The variant is measured for long; that is when the signal comes.
			write("x.yaml", "experiment: e\nscenario: load.yaml\nvariable: v\ncontrol: {v: control}\nvariants: [{v: other}]\nseed: 3\nrounds: 3\n"+
				"apply: echo {{v}} > applied; echo applied {{v}} >> log\nrestore: sleep 0.3; echo {{v}} > applied; echo restored >> log\n")
			file := filepath.Join(dir, "x.yaml")
			cmd := exec.Command(program, "experiment", "run", file)
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(said)
			var all []string
			for lines.Scan() {
				all = append(all, lines.Text())
				if strings.HasPrefix(lines.Text(), "measuring") || strings.HasPrefix(lines.Text(), "round 1 of 3") {
					break
				}
			}
			for i, s := range c.signals {
				time.Sleep(time.Duration(i+1) * 100 * time.Millisecond)
				_ = cmd.Process.Signal(s)
			}
			for lines.Scan() {
				all = append(all, lines.Text())
			}
			_ = cmd.Wait()
			read := func(name string) string {
				b, _ := os.ReadFile(filepath.Join(dir, name))
				return strings.TrimSpace(string(b))
			}
			if c.killed {
				if _, err := os.Stat(experiment.JournalPath(file)); err != nil {
					t.Fatal("nothing says what was left")
				}
				out, err := exec.Command(program, "experiment", "restore", file).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "was killed while v=") || !strings.Contains(string(out), "the control holds again") {
					t.Fatalf("restore: %v: %s", err, out)
				}
			} else if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("ended with %d: %s", code, strings.Join(all, "\n"))
			}
			if got := read("applied"); got != "control" || !strings.HasSuffix(read("log"), "restored") {
				t.Errorf("%q holds; log:\n%s\n%s", got, read("log"), strings.Join(all, "\n"))
			}
			if _, err := os.Stat(experiment.JournalPath(file)); err == nil {
				t.Error("the journal is still there")
			}
		})
	}
}
