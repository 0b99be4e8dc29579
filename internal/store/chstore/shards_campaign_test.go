//go:build servers && campaign

package chstore

import (
	"testing"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// The whole suite, on three shards.
func TestStoreOfThreeShards(t *testing.T) {
	fewer(t, "15")
	c := nodes(t, 3)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, on(t, c)) })
}

// The whole suite, on two replicas.
func TestStoreOnReplicas(t *testing.T) {
	fewer(t, "3")
	c := replicas(t, 1, 2)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, on(t, c)) })
}
