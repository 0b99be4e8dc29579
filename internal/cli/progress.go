package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"tailscope/internal/figure"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
)

// progress shows how much of a file has been read: on a terminal by a bar, elsewhere by
// a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	name     string
	size     int64 // on disk; 0 is not known
	file     *logFile
	now      func() time.Time
	mu       sync.Mutex
	begin    time.Time
	last     time.Time
	lines    int64
	bytes    int64
	drawn    bool
}

func newProgress(w io.Writer, name string, size int64, now func() time.Time) *progress {
	t := now()
	return &progress{w: w, terminal: liveview.IsTerminal(w) && os.Getenv("TERM") != "dumb", name: name, size: size, now: now, begin: t, last: t}
}

// watch returns a reader of f that counts for p.
func (p *progress) watch(f *logFile) io.Reader {
	p.file = f
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += int64(bytes.Count(b[:n], []byte{'\n'}))
	p.bytes += int64(n)
	every := liveview.SayEvery
	if p.terminal {
		every = liveview.DrawEvery
	}
	if t := p.now(); t.Sub(p.last) >= every {
		p.last = t
		p.draw(t)
	}
	return n, err
}

func (p *progress) draw(t time.Time) {
	p.drawn = true
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", p.text(t))
	} else {
		fmt.Fprintln(p.w, p.text(t))
	}
}

const progressWidth = 24

// text returns access.log [======>     ]  41 %  812 MB  310,000 lines/s  12s left.
func (p *progress) text(t time.Time) string {
	elapsed := t.Sub(p.begin).Seconds()
	var b strings.Builder
	b.WriteString(p.name)
	share := 0.0
	if p.size > 0 {
		share = min(float64(p.file.onDisk.n)/float64(p.size), 1)
		full := int(share * progressWidth)
		if p.terminal {
			fmt.Fprintf(&b, " [%s%s]", strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full))
		}
		fmt.Fprintf(&b, " %3.0f %%", 100*share)
	}
	fmt.Fprintf(&b, "  %s  %s lines", report.Bytes(p.bytes), figure.Thousands(uint64(p.lines)))
	if elapsed > 0 {
		fmt.Fprintf(&b, "  %s lines/s", figure.Thousands(uint64(float64(p.lines)/elapsed)))
	}
	if share > 0 && elapsed > 0 {
		left := time.Duration(elapsed * (1 - share) / share * float64(time.Second))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}

// done removes the bar.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
