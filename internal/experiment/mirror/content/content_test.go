package content

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func encode(t testing.TB, coding string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, err = flate.NewWriter(&b, 5)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	}
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecode(t *testing.T) {
	text := []byte(strings.Repeat(`{"a":1}`, 1000))
	f := func(encoding string, body []byte, limit int, want error) {
		t.Helper()
		got, err := Decode(encoding, body, limit)
		if !errors.Is(err, want) || (err == nil && !bytes.Equal(got, text)) {
			t.Errorf("%s: %d bytes, %v; want %v", encoding, len(got), err, want)
		}
	}
	f("", text, 7000, nil)
	f("identity", text, 7000, nil)
	f("", text, 6999, ErrTooLong)
	f("GZIP", encode(t, "gzip", text), 7000, nil)
	f("x-gzip", encode(t, "gzip", text), 7000, nil)
	f("deflate", encode(t, "deflate", text), 7000, nil)
	f("deflate", encode(t, "raw deflate", text), 7000, nil)
	f("zstd", encode(t, "zstd", text), 7000, nil)
	f("gzip, zstd", encode(t, "zstd", encode(t, "gzip", text)), 7000, nil)
	f("gzip", encode(t, "gzip", text), 6999, ErrTooLong)
	f("br", text, 7000, ErrUnknown)
	f("gzip,gzip,gzip,gzip,gzip", text, 7000, ErrUnknown)
	f("gzip", encode(t, "gzip", text)[:20], 7000, io.ErrUnexpectedEOF)
	if _, err := Decode("gzip", text, 7000); err == nil {
		t.Error("what is no gzip was decoded")
	}
}

// A bomb is given up at the limit.
func TestBomb(t *testing.T) {
	bomb := encode(t, "gzip", make([]byte, 8<<20))
	if _, err := Decode("gzip", bomb, 1<<20); !errors.Is(err, ErrTooLong) {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		f.Add(coding, encode(f, coding, []byte("text")))
	}
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		if out, err := Decode(encoding, body, 1000); err == nil && len(out) > 1000 {
			t.Fatal(len(out))
		}
	})
}
