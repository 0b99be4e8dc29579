package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tailscope/internal/proc"
)

// ErrRunning is returned when an experiment of the same file runs already.
var ErrRunning = errors.New("an experiment of this file runs already")

// Left holds what a killed experiment left behind: a setting that is not the control,
// and the commands that end it.
type Left struct {
	Name    string            `json:"name"`
	Setting string            `json:"setting"`
	Since   time.Time         `json:"since"`
	PID     int               `json:"pid"`
	Control string            `json:"control"`
	Values  map[string]string `json:"values"` // of the control
	Restore []Command         `json:"restore"`
}

// journal is a file beside the experiment's that names the applied setting before it
// is applied. It is locked while the experiment runs, and removed once the control
// holds again.
type journal struct {
	f    *os.File
	path string
}

// JournalPath returns the path of the journal of an experiment's file.
func JournalPath(file string) string {
	return filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".journal")
}

// openJournal locks the journal; anything in it was left by a killed experiment.
func openJournal(file string) (*journal, *Left, error) {
	path := JournalPath(file)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("the journal that says what to restore: %w", err)
		}
		if err := proc.Lock(f); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, nil, fmt.Errorf("%w: %s is locked", ErrRunning, path)
			}
			return nil, nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Another may have removed it between opening and locking.
		if a, err := f.Stat(); err == nil {
			if b, err := os.Stat(path); err != nil || !os.SameFile(a, b) {
				f.Close()
				continue
			}
		}
		content, err := io.ReadAll(f)
		if err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("read %s: %w", path, err)
		}
		j := &journal{f, path}
		if len(content) == 0 {
			return j, nil, nil
		}
		var left Left
		if err := json.Unmarshal(content, &left); err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("%s is damaged: %w (hint: see that the control holds, then remove it)", path, err)
		}
		return j, &left, nil
	}
}

// write notes the setting that is about to be applied. It is on disk on return.
func (j *journal) write(l Left) error {
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err = j.f.WriteAt(content, 0); err == nil {
		if err = j.f.Truncate(int64(len(content))); err == nil {
			err = j.f.Sync()
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", j.path, err)
	}
	return nil
}

// done removes the journal: the control holds.
func (j *journal) done() error {
	return errors.Join(os.Remove(j.path), j.f.Close())
}

// keep leaves the journal for the next start.
func (j *journal) keep() error { return j.f.Close() }
