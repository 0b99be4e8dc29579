package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ownerOnly makes the data directory, and the server's own files in it, readable by
// their owner only. Other files in it keep their mode: the directory's mode protects
// them.
func ownerOnly(data string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	if err := removeOthersRights(data); err != nil {
		return err
	}
	for _, part := range []string{"store", "journal", "receivers", "spool", "damaged"} {
		err := filepath.WalkDir(filepath.Join(data, part), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !e.IsDir() && !e.Type().IsRegular() {
				return err
			}
			return removeOthersRights(path)
		})
		if err != nil {
			return fmt.Errorf("make the data directory readable by its owner only: %w", err)
		}
	}
	return nil
}

// removeOthersRights removes all rights of others than the owner.
func removeOthersRights(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(path, info.Mode().Perm()&0o700); err != nil {
		return fmt.Errorf("%w (the data directory must belong to the user that runs tailscope: chown it, or give another with --data)", err)
	}
	return nil
}
