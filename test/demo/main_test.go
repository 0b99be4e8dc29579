//go:build campaign

package demo_test

import (
	"flag"
	"os"
	"testing"

	"tailscope/test/program"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Both judgements at once, even on one processor.
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	program.Precede(-15)
	os.Exit(m.Run())
}
