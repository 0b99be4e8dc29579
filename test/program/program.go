// Package program builds and runs real programs: Tailscope itself and its peers
// (benchmarks/peers), each a process of its own, so that a benchmark or a test sees
// what an operator would see.
//
// A Process is ready for requests when it is started. While it lives and after it
// ended it reports its CPU time and peak memory, as the kernel counts them.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is the cost of a process so far.
type Usage struct {
	User, System time.Duration // CPU time of all its threads
	PeakBytes    int64         // high-water mark of resident memory
	ResidentNow  int64         // resident memory when asked; 0 once it ended
	FilesNow     int64         // what of ResidentNow are pages of files, the program's own among them
}

// CPU is user and system time together.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Process is a running program. Its methods are safe for concurrent use.
type Process struct {
	Name string
	Pid  int

	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed once the process ended and was waited for
	err  error         // of Wait; read after done

	mu   sync.Mutex
	peak int64
}

// Start runs a program whose output, both streams, goes to the file logPath.
// env is added to this process's own environment.
func Start(logPath string, env []string, path string, args ...string) (*Process, error) {
	f, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = f, f
	// Whoever started it may be killed; it must not outlive them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startOnLivingThread(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), f.Close())
	}
	p := &Process{Name: cmd.Path, Pid: cmd.Process.Pid, cmd: cmd, log: f, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// wait reaps the process and, until then, remembers its peak memory: once it is gone
// the kernel only reports a figure that the parent's own size distorts.
func (p *Process) wait() {
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			p.sample()
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	p.err = p.cmd.Wait()
	close(stop)
	<-watched
	_ = p.log.Close()
	close(p.done)
}

// sample reads the process's memory from the kernel.
func (p *Process) sample() (now, files int64) {
	process, err := procfs.NewProc(p.Pid)
	if err != nil {
		return 0, 0
	}
	s, err := process.NewStatus()
	if err != nil {
		return 0, 0
	}
	p.mu.Lock()
	p.peak = max(p.peak, int64(s.VmHWM))
	p.mu.Unlock()
	return int64(s.VmRSS), int64(s.RssFile)
}

// Usage returns the cost of the process until now, or in all once it ended.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return Usage{User: p.cmd.ProcessState.UserTime(), System: p.cmd.ProcessState.SystemTime(), PeakBytes: p.peak}, nil
	default:
	}
	process, err := procfs.NewProc(p.Pid)
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", p.Name, err)
	}
	s, err := process.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", p.Name, err)
	}
	const tick = time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
	u := Usage{User: time.Duration(s.UTime) * tick, System: time.Duration(s.STime) * tick}
	u.ResidentNow, u.FilesNow = p.sample()
	p.mu.Lock()
	u.PeakBytes = p.peak
	p.mu.Unlock()
	return u, nil
}

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end (SIGTERM), waits for it, and returns what it
// cost in all. When ctx is done first the process is killed and that is an
// error; so is an exit code other than 0.
func (p *Process) Stop(ctx context.Context) (Usage, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Usage{}, fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
		return Usage{}, fmt.Errorf("stop %s: %w", p.Name, ctx.Err())
	}
	u, err := p.Usage()
	if err == nil && p.err != nil {
		err = fmt.Errorf("%s ended: %w", p.Name, p.err)
	}
	return u, err
}

// Kill ends the process as a crash would (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Log returns what the process has written so far.
func (p *Process) Log() string {
	b, _ := os.ReadFile(p.log.Name())
	return string(b)
}
