package chstore

import (
	"testing"

	"go.uber.org/goleak"
)

// lasting are goroutines that outlive the tests.
var lasting []goleak.Option

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, lasting...) }
