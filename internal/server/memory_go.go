//go:build !cgo

package server

// storeOutside reports that the store's cache and memtables are memory of C.
const storeOutside = false

// trimOutside does nothing: there is no memory of C.
func trimOutside() {}
