package load

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const starvedChild = "TAILSCOPE_STARVED_CHILD"

// A loop that shares its core with others knows for how long it was ready to run and did
// not. A process of its own has one core for a target, a loop and threads that never rest.
func TestWaitForACore(t *testing.T) {
	if os.Getenv(starvedChild) != "" {
		starve(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWaitForACore$", "-test.v")
	cmd.Env = append(os.Environ(), starvedChild+"=1")
	out, err := onOneCore(cmd)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var busiest, starved float64
	for line := range strings.Lines(out) {
		if _, after, ok := strings.Cut(line, "account "); ok {
			if _, err := fmt.Sscanf(after, "%g %g", &busiest, &starved); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("busiest %.3f, of it without a core %.3f", busiest, starved)
	if starved < 0.2 || busiest < starved {
		t.Errorf("busiest %.3f, of it without a core %.3f\n%s", busiest, starved, out)
	}
}

// onOneCore runs a command whose threads may use one core alone: those of a child are
// its parent thread's.
func onOneCore(cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var may, one unix.CPUSet
		err := unix.SchedGetaffinity(0, &may)
		for cpu := 0; err == nil && one.Count() == 0; cpu++ {
			if may.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		if err == nil {
			err = unix.SchedSetaffinity(0, &one)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

func starve(t *testing.T) {
	runtime.GOMAXPROCS(8)
	var stop atomic.Bool
	defer stop.Store(true)
	for range 5 {
		go func() {
			runtime.LockOSThread()
			for !stop.Load() {
			}
		}()
	}
	e := &counted{wire: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}
	a, err := Run(t.Context(), Options{Address: quick(t), Connections: 16, Loops: 1, Duration: time.Second,
		Pacer:  func(loop, loops int) (Pacer, error) { return every(20*time.Microsecond, 1<<30)(loop, loops) },
		Source: func(int, int) (Source, error) { return e, nil }, Recorder: func(int, int) Recorder { return e }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("account %g %g", a.Busiest, a.Starved)
}
