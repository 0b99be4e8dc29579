package cli

// exitOf is the code that a plugin ends with.
func exitOf(level string) int {
	switch level {
	case "OK":
		return 0
	case "WARNING":
		return 1
	case "CRITICAL":
		return 2
	}
	return 3
}
