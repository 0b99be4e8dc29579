// Package capacity searches for the capacity of real servers as anybody would, only
// shorter: live clients, a mirror, a pool of servers with few workers each.
//
//	go test -tags servers ./test/capacity
package capacity
