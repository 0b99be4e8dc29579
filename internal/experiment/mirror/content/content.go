// Package content undoes the content codings of a body (RFC 9110, section 8.4)
// within a bound, for looking into bodies that were kept.
package content

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

var (
	// ErrTooLong reports that the decoded body is longer than the limit.
	ErrTooLong = errors.New("longer than the limit once decoded")
	// ErrUnknown reports an unknown coding: br, dcb and compress are not supported.
	ErrUnknown = errors.New("unknown content coding")
)

// Decode returns the body without the codings that the Content-Encoding field lists,
// in the order in which they were applied. Without any it returns body itself. It
// returns ErrTooLong if a step yields more than limit bytes, and an error if the body
// is not in its coding.
func Decode(encoding string, body []byte, limit int) ([]byte, error) {
	var codings []string
	for name := range strings.SplitSeq(encoding, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
			codings = append(codings, name)
		}
	}
	if len(codings) > 4 {
		return nil, fmt.Errorf("%d content codings: %w", len(codings), ErrUnknown)
	}
	for i := len(codings) - 1; i >= 0; i-- {
		var err error
		if body, err = decode(codings[i], body, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", codings[i], err)
		}
	}
	if len(body) > limit {
		return nil, ErrTooLong
	}
	return body, nil
}

func decode(coding string, body []byte, limit int) ([]byte, error) {
	in := bytes.NewReader(body)
	var r io.Reader
	switch coding {
	case "gzip", "x-gzip":
		gz, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		r = gz
	case "deflate":
		// The coding is zlib's format, but some servers leave out its head.
		if z, err := zlib.NewReader(in); err == nil {
			r = z
		} else {
			in.Reset(body)
			r = flate.NewReader(in)
		}
	case "zstd":
		// Windows above 8 MB are not to be sent (RFC 9659).
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, ErrUnknown
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(out) > limit {
		return nil, ErrTooLong
	}
	return out, nil
}
