//go:build race

package experiments

// raceEnabled says that tests run with it: it makes time pass.
const raceEnabled = true
