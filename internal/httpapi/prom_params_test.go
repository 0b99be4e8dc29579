package httpapi

import "testing"

// Who sends milliseconds is told that they are no time, rather than that the server failed.
func TestPromTimeIsBounded(t *testing.T) {
	for text, ok := range map[string]bool{"1764000000": true, "1764000000.5": true, "-62135596800": true, "253402300799": true, "1764000000000": false, "-1764000000000": false, "1e13": false, "NaN": false} {
		if _, err := promTime(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
