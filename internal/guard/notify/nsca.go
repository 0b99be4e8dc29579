package notify

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// NSCA's wire, all numbers big-endian. The server begins with 128 random bytes and
// its time; then the client sends packets as long as it likes:
//
//	version int16 = 3 | 2 unused | crc32 (IEEE) of the packet with 0 here | time u32 |
//	return code int16 | host [64] | service [128] | output [4096] | 2 unused
//
// Strings end in a zero byte. Servers before 2.9 have outputs of 512 bytes. With
// encryption each byte of every packet passes the cipher in 8-bit feedback mode,
// which goes on from packet to packet of a connection.
const (
	nscaIV      = 128
	nscaHost    = 64
	nscaService = 128
	nscaHeader  = 14
	nscaOutput  = 4096
	nscaOld     = 512
)

// nsca sends a batch of results over one connection.
type nsca struct {
	spec   spec.NSCA
	method func(password string, iv []byte) func(b []byte)
	output int // bytes
	batch  int
	now    func() time.Time
	dial   net.Dialer
	buf    []byte
}

func newNSCA(s spec.NSCA, now func() time.Time) (*nsca, error) {
	n := &nsca{spec: s, output: nscaOutput, now: now}
	if s.Short {
		n.output = nscaOld
	}
	switch s.Encryption {
	case "", "none":
		n.method = func(string, []byte) func([]byte) { return func([]byte) {} }
	case "xor":
		n.method = xorNSCA
	case "3des":
		n.method = feedback(24, des.NewTripleDESCipher)
	case "aes128":
		// nsca names the size of the block. The key has 256 bits.
		n.method = feedback(32, aes.NewCipher)
	default:
		return nil, fmt.Errorf("nsca: encryption %q does not exist: use none, xor, 3des or aes128", s.Encryption)
	}
	ciphered := s.Encryption != "" && s.Encryption != "none" && s.Encryption != "xor"
	if s.Password == nil && ciphered {
		return nil, fmt.Errorf("nsca: encryption %s needs a password", s.Encryption)
	}
	// So that a batch ends long before its deadline.
	if n.batch = 1000; ciphered {
		n.batch = 200
	}
	return n, nil
}

func (n *nsca) capabilities() capabilities {
	return capabilities{kind: "nsca", to: n.spec.Address, results: true, batch: n.batch, pause: n.pause()}
}

// pause returns the time for which results gather for one connection.
func (n *nsca) pause() time.Duration { return time.Second * time.Duration(n.batch) / 1000 }

func (n *nsca) close() {}

func (n *nsca) send(ctx context.Context, messages []message, report func(int, error)) error {
	password, err := readSecret("password", n.spec.Password)
	if err != nil {
		return err
	}
	c, done, err := connect(ctx, &n.dial, n.spec.Address)
	if err != nil {
		return err
	}
	defer done()
	var hello [nscaIV + 4]byte
	if _, err := io.ReadFull(c, hello[:]); err != nil {
		return explain(ctx, "the server's greeting", err)
	}
	// The server's own clock, or it takes the packets for stale.
	at := binary.BigEndian.Uint32(hello[nscaIV:])
	encrypt := n.method(password, hello[:nscaIV])
	b := n.buf[:0]
	for i := range messages {
		from := len(b)
		b = n.packet(b, messages[i].result, at)
		encrypt(b[from:])
		if len(b) > 256<<10 || i == len(messages)-1 {
			if _, err := c.Write(b); err != nil {
				return explain(ctx, "write", err)
			}
			b = b[:0]
		}
	}
	n.buf = b
	if err := drain(ctx, c); err != nil {
		return err
	}
	for i := range messages {
		report(i, nil)
	}
	return nil
}

// packet appends a result's packet to b.
func (n *nsca) packet(b []byte, r *event.Result, at uint32) []byte {
	from := len(b)
	size := nscaHeader + nscaHost + nscaService + n.output + 2
	b = append(b, make([]byte, size)...)
	p := b[from:]
	binary.BigEndian.PutUint16(p, 3)
	binary.BigEndian.PutUint32(p[8:], at)
	binary.BigEndian.PutUint16(p[12:], uint16(r.Level))
	// What follows the strings is random, so that less of the text is known.
	rest := p[nscaHeader:]
	rest = fill(rest, nscaHost, clean(r.Host, ";"))
	rest = fill(rest, nscaService, clean(r.Service, ";"))
	late := time.Duration(0)
	if !r.Time.IsZero() {
		late = n.now().Sub(r.Time)
	}
	fill(rest, n.output, pluginOutput(r, n.output-1, late))
	binary.BigEndian.PutUint32(p[4:], crc32.ChecksumIEEE(p))
	return b
}

// fill writes a zero-terminated string into the first size bytes of b, and returns
// the bytes behind them.
func fill(b []byte, size int, s string) []byte {
	s = truncate(s, size-1)
	k := copy(b, s)
	b[k] = 0
	// A counter of a fast generator: this hides nothing but repetition.
	for k++; k+8 <= size; k += 8 {
		binary.LittleEndian.PutUint64(b[k:], rand.Uint64())
	}
	return b[size:]
}

// xorNSCA is nsca's method 1: each packet anew with the greeting and the password.
func xorNSCA(password string, iv []byte) func([]byte) {
	const packet = nscaHeader + nscaHost + nscaService + nscaOutput + 2
	mask := make([]byte, packet)
	for i := range mask {
		mask[i] = iv[i%len(iv)]
		if password != "" {
			mask[i] ^= password[i%len(password)]
		}
	}
	return func(b []byte) { subtle.XORBytes(b, b, mask) }
}

// feedback is 8-bit cipher feedback (NIST SP 800-38A, section 6.3, s = 8) as
// libmcrypt has it: the key is the password, cut or filled with zeros, and the
// vector the first block of the greeting.
func feedback(keyBytes int, newCipher func(key []byte) (cipher.Block, error)) func(string, []byte) func([]byte) {
	return func(password string, iv []byte) func([]byte) {
		key := make([]byte, keyBytes)
		copy(key, password)
		block, err := newCipher(key)
		if err != nil {
			panic(err) // the key has the right size
		}
		register := bytes.Clone(iv[:block.BlockSize()])
		out := make([]byte, block.BlockSize())
		return func(b []byte) {
			for i := range b {
				block.Encrypt(out, register)
				b[i] ^= out[0]
				copy(register, register[1:])
				register[len(register)-1] = b[i]
			}
		}
	}
}

// connect opens a TCP connection that ends when ctx does.
func connect(ctx context.Context, d *net.Dialer, address string) (*net.TCPConn, func(), error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, explain(ctx, "connect", err)
	}
	c := conn.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, func() { stop(); _ = c.Close() }, nil
}

// drain closes the writing side, and waits until the other end has read everything
// and closes, too. Protocols without an acknowledgement give no other sign of life: a server that died with unread data resets the
// connection, one that hangs leaves it open.
func drain(ctx context.Context, c *net.TCPConn) error {
	if err := c.CloseWrite(); err != nil {
		return explain(ctx, "end the connection", err)
	}
	_, err := io.Copy(io.Discard, io.LimitReader(c, 1<<20))
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("connected, but the server has not read everything before the deadline: does it hang?")
		}
		return explain(ctx, "wait until the server has read everything", err)
	}
	return nil
}

// explain adds the cause of ctx's end if that is the reason for err.
func explain(ctx context.Context, doing string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w", doing, err)
}
