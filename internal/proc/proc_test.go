//go:build unix

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A signal to a group reaches its leader's children too: the shell's sleep holds the pipe
// open that Wait waits for.
func TestGroup(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 60; :")
	OwnGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Signal(-cmd.Process.Pid, 0); err != nil {
		t.Errorf("signal 0 to a running group: %v", err)
	}
	if err := Signal(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v: want the end of the output", n, err)
	}
	_ = cmd.Wait() // killed
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	if err := Lock(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := Lock(files[1]); err != syscall.EWOULDBLOCK {
		t.Errorf("lock a locked file: got %v, want %v", err, syscall.EWOULDBLOCK)
	}
	files[0].Close()
	if err := Lock(files[1]); err != nil {
		t.Errorf("lock a file whose holder has closed it: %v", err)
	}
}

func TestCPU(t *testing.T) {
	before := CPU()
	for i := 0; CPU() == before; i++ {
		if i == 1<<24 {
			t.Fatalf("the CPU time stands at %s", before)
		}
	}
}
