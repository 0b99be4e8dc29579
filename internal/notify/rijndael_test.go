package notify

import (
	"bytes"
	"crypto/aes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// With blocks of 16 bytes it is AES.
func TestRijndaelIsAES(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		in := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "block")
		block, err := aes.NewCipher(key[:])
		if err != nil {
			t.Fatal(err)
		}
		want, got := make([]byte, 16), make([]byte, 16)
		block.Encrypt(want, in)
		newRijndael(key, 16).Encrypt(got, in)
		if !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

// Larger blocks, by the first of the known answers of Rijndael's
// reference (ecb_vk.txt): a key of one bit, then zeros. Debian's nsca, whose
// libmcrypt has them too, agrees in the tests with servers.
func TestRijndaelLargeBlocks(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  string
	}{
		{24, "06eb844dec23f29f029be85fdce578cec5c663ce0c70403c"},
		{32, "e62abce069837b65309be4eda2c0e149fe56c07b7082d3287f592c4a4927a277"},
	} {
		out := make([]byte, c.bytes)
		newRijndael([32]byte{0: 0x80}, c.bytes).Encrypt(out, out)
		if got := hex.EncodeToString(out); got != c.want {
			t.Errorf("%d bytes: got %s, want %s", c.bytes, got, c.want)
		}
	}
}
