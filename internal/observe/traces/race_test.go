//go:build race

package traces

// raceEnabled says that tests run with it: it makes pools forget and time pass.
const raceEnabled = true
