package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Door is an address with a check, named door, that is CRITICAL while the address is shut, and
// with a receiver. It is open at first.
type Door struct {
	Address string // host:port
	Checks  string // path of the file of checks
	events  string // path of what the receiver has got; none if it is a webhook
	l       net.Listener
}

// NewDoor writes the file of checks into dir. The receiver is a webhook at a URL, or, if that
// is empty, a file in dir.
func NewDoor(dir, webhook string) (*Door, error) {
	d := &Door{Address: "127.0.0.1:0", Checks: filepath.Join(dir, "checks.yaml"), events: filepath.Join(dir, "events.jsonl")}
	if err := d.Open(); err != nil {
		return nil, err
	}
	d.Address = d.l.Addr().String()
	receiver := fmt.Sprintf("webhook: {url: %q}", webhook)
	if webhook == "" {
		receiver = fmt.Sprintf("file: {path: %q}", d.events)
	}
	text := fmt.Sprintf("receivers:\n  told: {%s}\nchecks:\n  door: {value: {tcp: {address: %q}}, every: 1s, soft: 1 of 1, receivers: [told]}\n", receiver, d.Address)
	if err := os.WriteFile(d.Checks, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, d.Shut())
	}
	return d, nil
}

// Open has the address accept connections.
func (d *Door) Open() (err error) {
	d.l, err = net.Listen("tcp", d.Address)
	return err
}

// Shut has the address refuse connections. Its error is net.ErrClosed if it does already.
func (d *Door) Shut() error { return d.l.Close() }

// Told returns the events that are in the receiver's file, as kind/number.
func (d *Door) Told() (string, error) {
	b, err := os.ReadFile(d.events)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		var e struct {
			Kind string
			Seq  int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s/%d", e.Kind, e.Seq))
	}
	return strings.Join(out, " "), nil
}
