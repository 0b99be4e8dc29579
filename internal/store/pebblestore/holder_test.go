package pebblestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// holdEnv names the directory that TestHoldsADirectory opens in a child.
const holdEnv = "TAILSCOPE_TEST_HOLD"

func TestHoldsADirectory(t *testing.T) {
	dir := os.Getenv(holdEnv)
	if dir == "" {
		t.Skip("is of TestInUse")
	}
	s, err := Open(context.Background(), Options{Dir: dir, MinFreeBytes: -1})
	check(t, err)
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	check(t, errors.Join(err, s.Close()))
}

// The refusal of a store names the process that has it.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoldsADirectory$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Errorf("the child says %q", lines.Text())
	}
	_, err = Examine(context.Background(), Options{Dir: dir})
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != cmd.Process.Pid {
		t.Errorf("got %v, want the process %d", err, cmd.Process.Pid)
	}
	check(t, in.Close())
	for lines.Scan() { // to its end
	}
	check(t, cmd.Wait())
}
