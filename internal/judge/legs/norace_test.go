//go:build !race

package legs

const raceEnabled = false
