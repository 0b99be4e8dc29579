package cluster

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// First returns which of n servers, in order of their names, rendezvous hashing puts first: the
// one whose hash with what is to be placed is the greatest, and of equals the first; -1 of none.
func First(n int, hash func(server int) uint64) int {
	best, most := -1, uint64(0)
	for i := range n {
		if h := hash(i); best < 0 || h > most {
			best, most = i, h
		}
	}
	return best
}

// first returns the server to whom a piece of work belongs, "" of none. It sorts servers.
func first(servers []string, work string) string {
	slices.Sort(servers)
	i := First(len(servers), func(i int) uint64 { return xxhash.Sum64String(servers[i] + "\x00" + work) })
	if i < 0 {
		return ""
	}
	return servers[i]
}
