//go:build !unix

package agg

// restrict does nothing: a file has the access list of its directory, and no mode.
func restrict(uintptr) error { return nil }
