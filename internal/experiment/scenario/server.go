package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tailscope/internal/proc"
)

// server is a Server that runs.
type server struct {
	Server
	text string     // its definition, to see whether it changed
	mu   sync.Mutex // of what follows, which faults change while readings go on

	proc *process // nil if it was not started here
	pid  int      // its first process
	who  uint64   // when that began: a process id may be somebody else's later
	// spent is the CPU time of processes before a restart, current that of the
	// running one.
	spent, current float64
	paused         bool
}

// launch starts a server, or finds it, and waits until it is ready. It sets v.proc as
// soon as there is a process to end.
func (v *server) launch(ctx context.Context, env []string, log string) error {
	if v.Command != nil {
		p, err := start(v.Command, env, log)
		if err != nil {
			return fmt.Errorf("server %s: %w", v.Name, err)
		}
		if err := p.guard.guardGroup(p.pid); err != nil {
			return errors.Join(fmt.Errorf("server %s: what ends it with this program: %w", v.Name, err), p.stop(ctx, syscall.SIGKILL, 0))
		}
		v.setProcess(p, p.pid)
	} else {
		pid, err := v.find()
		if err != nil {
			return fmt.Errorf("server %s: %w; start it first, or write run: to have it started", v.Name, err)
		}
		v.setProcess(nil, pid)
	}
	return v.wait(ctx)
}

// setProcess sets the server's process.
func (v *server) setProcess(p *process, pid int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spent, v.current = v.spent+v.current, 0
	v.proc, v.pid, v.who, v.paused = p, pid, 0, false
	if u, err := read(pid); err == nil {
		v.who = u.started
	}
}

// running returns the process, or nil if it was not started here or has ended.
func (v *server) running() *process {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.proc
}

// find finds a process that was not started here.
func (v *server) find() (int, error) {
	pid, err := v.PID, error(nil)
	switch {
	case v.PIDFile != "":
		b, err := os.ReadFile(v.PIDFile)
		if err != nil {
			return 0, err
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil || pid <= 0 {
			return 0, fmt.Errorf("%s holds no process id", v.PIDFile)
		}
	case v.Port != 0:
		if pid, err = listener(v.Port); err != nil {
			return 0, err
		}
	}
	switch err := proc.Signal(pid, 0); {
	case errors.Is(err, proc.ErrNotUnix):
		return 0, err
	case err != nil && !errors.Is(err, syscall.EPERM):
		return 0, fmt.Errorf("there is no process %d", pid)
	}
	return pid, nil
}

// wait waits until the server is ready, or has ended, or time is up.
func (v *server) wait(ctx context.Context) error {
	probe, err := v.probe()
	if err != nil {
		return err
	}
	if probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.Ready.Within, errNotReady)
	defer cancel()
	var ended chan struct{}
	proc := v.running()
	if proc != nil {
		ended = proc.done
	}
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 500*time.Millisecond) {
		// Checked first: a server of an earlier run may answer in its place.
		if proc != nil && proc.ended() {
			return fmt.Errorf("server %w", proc.failed(proc.how()+" before it was ready"))
		}
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // its error at the end of the time says nothing
			last = err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errNotReady) {
				return context.Cause(ctx)
			}
			what := fmt.Sprintf("is not ready after %s: %v", v.Ready.Within, last)
			if proc == nil {
				return fmt.Errorf("server %s %s", v.Name, what)
			}
			return fmt.Errorf("server %w", proc.failed(what))
		case <-time.After(pause):
		}
	}
}

var errNotReady = errors.New("not ready in time")

// probe returns the check that is repeated, or nil.
func (v *server) probe() (func(context.Context) error, error) {
	switch r := v.Ready; {
	case r.HTTP != "":
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		return func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.HTTP, nil)
			if err != nil {
				return err
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode >= 400 {
				return fmt.Errorf("%s answers %s", r.HTTP, res.Status)
			}
			return nil
		}, nil
	case r.TCP != "":
		return func(ctx context.Context) error {
			conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", r.TCP)
			if err == nil {
				conn.Close()
			}
			return err
		}, nil
	case r.Log != "":
		re, err := regexp.Compile(r.Log)
		if err != nil {
			return nil, err
		}
		return func(context.Context) error {
			for line := range strings.Lines(string(v.running().output(16 << 20))) {
				if re.MatchString(strings.TrimRight(line, "\r\n")) {
					return nil
				}
			}
			return fmt.Errorf("no line of its output matches %s", r.Log)
		}, nil
	}
	return nil, nil
}

// same reports whether the process is the one that was found.
func (v *server) same(u usage) bool { return u.pid == v.pid && (v.who == 0 || u.started == v.who) }

// tree returns the server's processes: its first one, those below it, and those of
// its group.
func (v *server) tree(all map[int]usage) []usage {
	root, ok := all[v.pid]
	alive := ok && v.same(root)
	var out []usage
	for pid, u := range all {
		if v.proc != nil && u.group == v.proc.pid && u.state != 'Z' {
			out = append(out, u)
			continue
		}
		for at, depth := u, 0; alive && depth < 100; depth++ {
			if at.pid == v.pid {
				out = append(out, u)
				break
			}
			if at, ok = all[at.parent]; !ok || at.pid == pid {
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b usage) int { return a.pid - b.pid })
	return out
}

// signal sends a signal to all of the server's processes.
func (v *server) signal(s syscall.Signal) error {
	all, err := table()
	if err != nil {
		return err
	}
	tree := v.tree(all)
	if len(tree) == 0 {
		return fmt.Errorf("server %s does not run any more", v.Name)
	}
	for _, u := range tree {
		if err := proc.Signal(u.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %s to process %d of %s: %w", s, u.pid, v.Name, err)
		}
	}
	return nil
}

// pause suspends the server, resume continues it. Both may be repeated.
func (v *server) pause() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paused = true // even if it fails for a part of the processes
	return v.signal(proc.Suspend)
}

func (v *server) resume() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.paused {
		return nil
	}
	v.paused = false
	return v.signal(proc.Resume)
}

// end ends a server that was started here by a signal. Another may be started then.
// Its grace ends with ctx.
func (v *server) end(ctx context.Context, s syscall.Signal) error {
	if v.Command == nil {
		return v.resume()
	}
	v.mu.Lock()
	proc := v.proc
	v.proc, v.paused = nil, false
	v.mu.Unlock()
	if proc == nil {
		return nil
	}
	return proc.stop(ctx, s, v.Grace)
}

// usage adds up the server's processes; ok is false if none runs. CPU time includes
// processes before a restart.
func (v *server) usage(all map[int]usage) (sum usage, files int, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, u := range v.tree(all) {
		sum.cpu += u.cpu
		sum.resident += u.resident
		sum.threads += u.threads
		if n := openFiles(u.pid); n < 0 {
			files = -1
		} else if files >= 0 {
			files += n
		}
		ok = true
	}
	// A child that nobody waited for takes its time with it: a total does not fall.
	v.current = max(v.current, sum.cpu)
	sum.cpu = v.spent + v.current
	return sum, files, ok
}
