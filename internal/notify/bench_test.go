package notify

import (
	"testing"
	"time"

	"tailscope/internal/check/spec"
)

// What one result costs on its way to NSCA, by encryption.
func BenchmarkNSCAPacket(b *testing.B) {
	r := someResult("orders", 42, time.Now())
	iv := make([]byte, nscaIV)
	for _, method := range []string{"none", "xor", "3des", "aes128", "aes192", "aes256"} {
		b.Run("encryption="+method, func(b *testing.B) {
			n, err := newNSCA(spec.NSCA{Encryption: method, Password: &spec.Secret{Env: "X"}})
			if err != nil {
				b.Fatal(err)
			}
			encrypt := n.method("s3cret", iv)
			buf := make([]byte, 0, 8192)
			b.ReportAllocs()
			for b.Loop() {
				buf = n.packet(buf[:0], &r, 1)
				encrypt(buf)
			}
		})
	}
}

func BenchmarkGraphiteLines(b *testing.B) {
	r := someResult("orders", 42, time.Now())
	buf := make([]byte, 0, 8192)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendGraphite(buf[:0], "tailscope", &r)
	}
}
