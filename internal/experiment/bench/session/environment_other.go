//go:build !linux

package session

import "tailscope/api"

func machine(*api.Environment) {}
