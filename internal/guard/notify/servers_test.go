//go:build servers

package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

// process is a server in a process group of its own, which goes as a whole.
type process struct {
	cmd  *exec.Cmd
	out  string // file of what it prints
	done chan struct{}
}

func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	bin, err := exec.LookPath(args[0])
	if err != nil { // as it is for users other than root
		bin, err = exec.LookPath("/usr/sbin/" + args[0])
	}
	if err != nil {
		t.Fatalf("%v: run scripts/install-servers", err)
	}
	out, err := os.CreateTemp(dir, filepath.Base(args[0])+"-*.out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(bin, args[1:]...), out: out.Name(), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			b, _ := os.ReadFile(p.out)
			t.Logf("%s printed:\n%s", args[0], truncate(string(b), 4000))
		}
	})
	return p
}

// kill is kill -9, of all its children too.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func listening(t *testing.T, address string) {
	t.Helper()
	eventually(t, "a listener at "+address, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 20 s", what)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// password is a secret in a file.
func password(t *testing.T, text string) *spec.Secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	write(t, path, text+"\n")
	return &spec.Secret{File: path}
}

// open is a notifier with one receiver, r.
func open(t *testing.T, dir string, r spec.Receiver) *Notifier {
	t.Helper()
	if r.Timeout == 0 {
		r.Timeout = 3 * time.Second
	}
	log := &logbook{}
	n, err := Open(t.Context(), Options{Dir: dir, Receivers: map[string]spec.Receiver{"r": r}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil && !errors.Is(err, errClosed) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%+v\n%s", n.States(), log.text())
		}
	})
	return n
}

// lines are those of a file that hold a word.
func lines(path, word string) []string {
	b, _ := os.ReadFile(path)
	var list []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, word) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// firsts are the numbers behind a word in lines, each where it comes first.
func firsts(t *testing.T, list []string, word string) []int {
	t.Helper()
	var order []int
	seen := map[int]bool{}
	for _, line := range list {
		_, rest, ok := strings.Cut(line, word)
		var n int
		if _, err := fmt.Sscanf(rest, "%d", &n); !ok || err != nil {
			t.Fatalf("no %s in %q", word, line)
		}
		if !seen[n] {
			seen[n] = true
			order = append(order, n)
		}
	}
	return order
}

func inOrder(t *testing.T, got []int, want int) {
	t.Helper()
	if len(got) != want {
		t.Errorf("%d arrived, want %d: %v", len(got), want, got)
	}
	for i := 1; i < len(got); i++ {
		if got[i] < got[i-1] {
			t.Fatalf("%d arrived before %d", got[i-1], got[i])
		}
	}
}

// copyDir is what a crash at this moment would leave.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// whoami is the user whom servers are to run as.
func whoami(t *testing.T) (name, group string) {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return u.Username, g.Name
}
