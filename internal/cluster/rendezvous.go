package cluster

import "github.com/cespare/xxhash/v2"

// first returns the server to whom a piece of work belongs: the one whose hash with it is
// greatest, and of equals the first by name; "" of none.
func first(servers []string, work string) string {
	best, most := "", uint64(0)
	for _, s := range servers {
		if h := xxhash.Sum64String(s + "\x00" + work); best == "" || h > most || h == most && s < best {
			best, most = s, h
		}
	}
	return best
}
