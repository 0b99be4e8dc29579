package mirror

import (
	"math"

	"tailscope/api"
)

var nan = api.Float(math.NaN())

// extras are the parts that look at what was copied: they compare, and record.
type extras struct{}

func (e *extras) close() error { return nil }

func (e *extras) state(m *api.MirrorState) {}
