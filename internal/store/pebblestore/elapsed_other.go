//go:build !linux

package pebblestore

import (
	"errors"
	"time"
)

func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
