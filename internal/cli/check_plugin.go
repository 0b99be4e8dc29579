package cli

// exitCode returns the code that a plugin ends with.
func exitCode(level string) int {
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
