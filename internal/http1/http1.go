// Package http1 parses and writes the framing of HTTP/1.1 messages: heads, and where
// bodies end. It does no I/O, has no goroutines, and allocates nothing per message once
// its slices have grown.
//
// A [Head] is parsed in place over the caller's buffer and points into it. A [Body] is
// fed the bytes that were read and reports which of them belong to the message. A
// request that two parsers could read as different messages is refused (RFC 9112 section
// 11.2), since the server behind us parses it again: lengths that disagree, a length
// beside chunks, folded lines, space before a colon, bare CR, chunk sizes that are not
// plain numbers. Answers come from a trusted server: only what makes their end
// unknowable is refused, and the rest is corrected as RFC 9112 asks of a proxy. A client
// that forwards nothing skims answers ([Head.Skim], [Body.ResetLax]): that is quicker,
// and tolerates what browsers tolerate.
package http1

// Known is the number of a field name with a meaning to proxies, or Other.
type Known uint8

const (
	Other Known = iota
	Connection
	ProxyConnection
	KeepAlive
	TE
	TransferEncoding
	Upgrade
	ContentLength
	Host
	Expect
	Trailer
	XForwardedFor
	XForwardedHost
	XForwardedProto
	Mark   // Tailscope-Mirror, carried by copies
	Passed // Tailscope-Passed, carried by requests to the primary
	numKnown
)

// names holds the field names in lower case.
var names = [numKnown]string{
	Connection: "connection", ProxyConnection: "proxy-connection", KeepAlive: "keep-alive",
	TE: "te", TransferEncoding: "transfer-encoding", Upgrade: "upgrade",
	ContentLength: "content-length", Host: "host", Expect: "expect", Trailer: "trailer",
	XForwardedFor: "x-forwarded-for", XForwardedHost: "x-forwarded-host",
	XForwardedProto: "x-forwarded-proto", Mark: "tailscope-mirror", Passed: "tailscope-passed",
}

// Mask is a set of known names.
type Mask uint32

// Of returns the set of the known names.
func Of(known ...Known) Mask {
	var m Mask
	for _, k := range known {
		m |= 1 << k
	}
	return m
}

// Has reports whether k is in m. Other is in no set.
func (m Mask) Has(k Known) bool { return m&(1<<k)&^1 != 0 }

// HopByHop holds the fields that concern one connection (RFC 9110 section 7.6.1). The
// fields that a message's Connection field names are hop-by-hop too; see [Field.Named].
const HopByHop Mask = 1<<Connection | 1<<ProxyConnection | 1<<KeepAlive | 1<<TE |
	1<<TransferEncoding | 1<<Upgrade

// Field is one field line. Its slices point into the buffer that was parsed.
type Field struct {
	Name  []byte // as received
	Value []byte // without white space around it
	// The line lies in the head's buffer at [start, end), its line end included.
	start, end uint32
	Known      Known
	// Named reports whether the message's Connection field names this one, so that it
	// must not be forwarded.
	Named bool
	// odd lines are rewritten when forwarded: they ended in a bare LF, or had space
	// after their name.
	odd bool
}

// Framing is how the end of a body is found (RFC 9112 section 6.3).
type Framing uint8

const (
	None       Framing = iota // no body
	Length                    // Head.Length bytes, which may be 0
	Chunked                   // chunked
	UntilClose                // until the connection ends; only in answers
	Tunnel                    // the connection stops being HTTP: 101, or CONNECT's 2xx
)

// Head is a message's head. Its zero value is ready to use; parsing again reuses the
// slice of fields. All slices point into the buffer that was parsed.
type Head struct {
	Method, Target []byte // of a request
	Status         int    // of an answer, 100..999
	Reason         []byte // may be empty
	Minor          int    // HTTP/1.Minor: 0 or 1
	Fields         []Field
	Framing        Framing
	Length         int64 // of the body, if Framing is Length
	// Host is the Host field's value, or the authority of a target in absolute
	// form (RFC 9112 section 3.2.2). It may be empty.
	Host []byte
	// Close reports whether the sender ends the connection after this message.
	Close bool
	// Upgrade is the value of the field if Connection names it, else nil. It is nil in
	// requests that offer h2c alone.
	Upgrade  []byte
	Expect   bool // 100-continue
	Trailers bool // TE: trailers
	Has      Mask // the known names among Fields

	buf   []byte
	named bool // some field is Named
	lax   bool // the head was skimmed
}

// Error is a fault of a message. Status is the status of the answer to a request with
// that fault.
type Error struct {
	Status int
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func bad(reason string) *Error { return &Error{400, reason} }

var (
	errRequestLine = bad("malformed request line")
	errMethod      = bad("malformed method in the request line")
	errTarget      = bad("malformed target in the request line")
	errVersion     = &Error{505, "version of HTTP not supported, use HTTP/1.1"}
	errStatusLine  = bad("malformed status line")
	errFieldName   = bad("malformed field name")
	errFieldValue  = bad("control character in a field value")
	errFold        = bad("folded field line")
	errBareCR      = bad("carriage return without line feed")
	errLength      = bad("malformed Content-Length")
	errLengths     = bad("Content-Length given twice")
	errLengthTE    = bad("both Transfer-Encoding and Content-Length")
	errCoding      = &Error{501, "transfer coding not supported, use chunked"}
	errCoding10    = bad("Transfer-Encoding in HTTP/1.0")
	errHost        = bad("an HTTP/1.1 request needs one Host field")
	errHostValue   = bad("malformed Host")
	errChunkSize   = bad("malformed size of a chunk")
	errChunkEnd    = bad("chunk without line end")
	errChunkLine   = bad("extensions of a chunk are too long")
	errTrailer     = bad("malformed trailer field")
	errTrailerLong = &Error{431, "trailer fields are too long"}
)
