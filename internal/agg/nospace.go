package agg

import (
	"errors"
	"fmt"
	"syscall"

	"tailscope/internal/store"
)

// wrapNoSpace wraps err with store.ErrFull if it reports a full disk.
func wrapNoSpace(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w (%w)", store.ErrFull, err)
	}
	return err
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
