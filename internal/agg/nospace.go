package agg

import (
	"errors"
	"fmt"
	"syscall"

	"tailscope/internal/store"
)

// noSpace marks an error that says that the disk is full.
func noSpace(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w (%w)", store.ErrFull, err)
	}
	return err
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
