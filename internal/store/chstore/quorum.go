package chstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"tailscope/internal/backoff"
)

// settingsOfReplicas returns what is set, where a server knows it, so that a shard of so many
// replicas answers with all that was acknowledged: an insertion waits for most of them, and a
// replica that lacks any of it refuses to be read, so that the next is asked.
func settingsOfReplicas(replicas int) map[string]string {
	return map[string]string{
		"insert_quorum":         strconv.Itoa(replicas/2 + 1),
		"insert_quorum_timeout": strconv.Itoa(int(quorumTimeout / time.Millisecond)),
		// Newer ones let insertions into a table wait side by side, and know no order of them then.
		"insert_quorum_parallel":        "0",
		"select_sequential_consistency": "1",
	}
}

// quorumTimeout bounds how long an insertion waits for other replicas.
const quorumTimeout = 10 * time.Second

const (
	// quorumPause is how long an insertion waits for that of another process to be there.
	quorumPause = 25 * time.Millisecond
	// quorumWait bounds its pauses.
	quorumWait = 15 * time.Second
)

// quorum orders the insertions into the tables of a shard with replicas: one is there on most
// of them before the next is taken. A nil one orders nothing.
type quorum struct {
	mu     sync.Mutex
	tables map[string]chan struct{} // has one element while an insertion is on its way
}

func (q *quorum) of(table string) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tables == nil {
		q.tables = map[string]chan struct{}{}
	}
	if q.tables[table] == nil {
		q.tables[table] = make(chan struct{}, 1)
	}
	return q.tables[table]
}

// insert calls do, which inserts into a table, when this process inserts nothing else into it.
// While another process does, it fails: some of its rows may have been inserted, as those of
// each partition are by themselves.
func (q *quorum) insert(ctx context.Context, table string, do func() error) error {
	if q == nil {
		return do()
	}
	turn := q.of(table)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-turn }()
	return do()
}

// waitForQuorum calls do, and again while it fails since another process inserts into the same
// table, with a pause before.
func waitForQuorum(ctx context.Context, do func() error) error {
	for waited := time.Duration(0); ; waited += quorumPause {
		err := do()
		var e *databaseError
		if !errors.As(err, &e) || e.code != codeQuorumBefore || waited >= quorumWait {
			return err
		}
		if serr := backoff.Sleep(ctx, quorumPause); serr != nil {
			return errors.Join(err, serr)
		}
	}
}
