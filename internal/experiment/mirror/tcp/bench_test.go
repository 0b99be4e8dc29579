package tcp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"tailscope/internal/experiment/mirror/pair"
)

// BenchmarkTurn measures one connection with a client that never thinks. The servers
// and the client are in this process too, so compare cpu-us/turn with that of
// shadows=direct, which has neither proxy nor shadows.
func BenchmarkTurn(b *testing.B) {
	for _, shadows := range []int{-1, 0, 1, 2} {
		name := fmt.Sprintf("shadows=%d", shadows)
		if shadows < 0 {
			name = "shadows=direct"
		}
		b.Run(name, func(b *testing.B) {
			addr := serve(b, lines("primary")).addr()
			if shadows >= 0 {
				o := Options{Primary: addr, ConnBuffer: 256 << 20, Buffer: 256 << 20}
				for i := range shadows {
					o.Shadows = append(o.Shadows, Shadow{Name: fmt.Sprint(i), Role: pair.Candidate, Servers: []string{serve(b, lines("another")).addr()}})
				}
				addr = start(b, o).addr
			}
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			r := bufio.NewReader(c)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				io.WriteString(c, "get something\n")
				if _, err := r.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/turn")
		})
	}
}

// cpu returns the CPU time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
