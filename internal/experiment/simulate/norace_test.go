//go:build !race

package simulate

// raceEnabled says that tests run with the race detector, which makes time pass.
const raceEnabled = false
