//go:build unix

package scenario

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A process that runs already is looked at until that is ended.
func TestWatch(t *testing.T) {
	w, err := StartWatch([]Server{{Name: "self", PID: os.Getpid()}}, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for time.Since(began) < 300*time.Millisecond { // some work
	}
	w.Close() // reads once more
	// What grew is of the second before a reading.
	cores, means := w.Usage(began.Add(-readEvery), time.Now())
	if !(cores > 0) || !(means["self resident_bytes"] > 1e6) {
		t.Errorf("%v cores, %v", cores, means)
	}
}

func TestWatchNobody(t *testing.T) {
	for want, s := range map[string]Server{
		"nothing listens on port 1 (hint: start it first": {Port: 1},
		"there is no process 2147483646 (hint: ":          {PID: 1<<31 - 2},
	} {
		w, err := StartWatch([]Server{s}, nil)
		if err == nil {
			w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
