package report

import (
	"os"
	"testing"
	"time"
)

// Output that is compared has times of UTC. It is said here, before anything
// runs: servers of other tests read the clock until after they have closed.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
