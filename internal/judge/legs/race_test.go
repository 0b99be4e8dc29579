//go:build race

package legs

// raceEnabled says that tests run with it: it makes time pass.
const raceEnabled = true
