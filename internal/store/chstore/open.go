package chstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/internal/store"
)

// Store is a store.Store in ClickHouse.
type Store struct {
	opts    Options
	address address
	client  *client
	http    *http.Transport // nil if another was given

	shards []*shard // in the cluster's order; one without a cluster
	absent absentHosts

	closed atomic.Bool
	users  sync.WaitGroup // calls in progress; Close waits for them
	userMu sync.RWMutex

	logs logs

	meta  metaCache
	lists listings
	mu    sync.Mutex // guards putters
	puts  map[string]*putter
	known knownSeries

	maintain    sync.Mutex // keeps Maintain from running twice at once
	maintenance maintenance

	versions atomic.Uint64 // of traces, the last given
	copying  bool          // see OpenCopy
	stats    statCounters

	eraWrites      uint64 // tests lower them
	foldFrom       int
	foldEpochsFrom int
	packedForms    int
	mostFew        int
	joinEvery      time.Duration
}

var errClosed = errors.New("store is closed")

// settingsWanted are set where a server knows them.
var settingsWanted = map[string]string{
	"max_query_size": "67108864",
	// A question that nobody waits for is not answered to the end.
	"cancel_http_readonly_queries_on_client_close": "1",
	// Merging equal keys of one insertion costs more than it saves: there are none.
	"optimize_on_insert": "0",
	// An import writes to many partitions at once.
	"max_partitions_per_insert_block": "0",
	// A retried statement must not be left out for being like another.
	"insert_deduplicate":                 "0",
	"max_bytes_before_external_group_by": "1000000000",
	// Newer ones want a name for each query that is joined.
	"joined_subquery_requires_alias": "0",
	// Rows that are acknowledged are there, whatever the user's profile says.
	"async_insert":          "0",
	"wait_for_async_insert": "1",
	// A limit of the profile is an error, never a smaller answer.
	"read_overflow_mode":     "throw",
	"result_overflow_mode":   "throw",
	"group_by_overflow_mode": "throw",
	// What a join does not find is empty, not NULL.
	"join_use_nulls": "0",
}

// Open connects to the servers of o.Address, and creates or migrates the tables. Errors
// wrap store.ErrVersion if the tables are of a newer program.
func Open(ctx context.Context, o Options) (*Store, error) {
	return openWith(ctx, o, (*Store).ensureSchema, (*Store).refuseCopy)
}

// OpenExisting is Open, but creates and migrates nothing: errors wrap store.ErrVersion if the
// tables are not those of this program.
func OpenExisting(ctx context.Context, o Options) (*Store, error) {
	return openWith(ctx, o, (*Store).checkSchema, (*Store).refuseCopy)
}

// openWith connects to the servers, and closes the store again if one of the checks, in this
// order, returns an error.
func openWith(ctx context.Context, o Options, checks ...func(*Store, context.Context) error) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	return s.connect(ctx, checks...)
}

func (s *Store) connect(ctx context.Context, checks ...func(*Store, context.Context) error) (*Store, error) {
	for _, check := range append([]func(*Store, context.Context) error{(*Store).placeHosts}, checks...) {
		if err := check(s, ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", Redact(s.opts.Address), err), s.Close())
		}
	}
	s.startJoining()
	return s, nil
}

// FirstHost returns the host and port of the node that is named first.
func (s *Store) FirstHost() string { return s.address.hosts[0] }

// newStore returns a store of an address. It is not connected to anything.
func newStore(o Options) (*Store, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	a, err := parseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, address: a, puts: map[string]*putter{}, eraWrites: defaultEraWrites, foldFrom: defaultFoldFrom, foldEpochsFrom: defaultFoldEpochs, packedForms: defaultPackedForms, mostFew: defaultMostFew, joinEvery: defaultJoinEvery}
	transport := o.Transport
	if transport == nil {
		s.http = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 16,
			// Servers close idle connections after 3 s by default: before that no request may
			// be sent into one that is being closed.
			IdleConnTimeout:    2 * time.Second,
			DisableCompression: true,
		}
		transport = s.http
	}
	s.client = &client{http: httpClient(transport), scheme: "http", user: a.user, password: a.password, timeout: o.Timeout, answerBytes: o.AnswerBytes}
	if a.tls {
		s.client.scheme = "https"
	}
	return s, nil
}

// shardOf returns the shard of what has an identity, as the Distributed tables have it.
func (s *Store) shardOf(id [16]byte) int {
	var n uint64
	for i := range 8 {
		n |= uint64(id[i]) << (8 * i)
	}
	return int(n % uint64(len(s.shards)))
}

// eachShard calls f for every shard at the same time, with the node to ask. The error of
// one names the shard; it is that of the answer: what a shard holds is never left out.
func (s *Store) eachShard(ctx context.Context, f func(ctx context.Context, shard int, n *node) error) error {
	return s.allShards(ctx, func(ctx context.Context, shard int) error { return s.askReplicas(ctx, shard, f) })
}

// eachShardOnce is eachShard for what must not be done twice: it asks the first replica
// alone.
func (s *Store) eachShardOnce(ctx context.Context, f func(ctx context.Context, n *node) error) error {
	return s.allShards(ctx, func(ctx context.Context, shard int) error { return f(ctx, s.replicas(shard)[0]) })
}

func (s *Store) allShards(ctx context.Context, f func(ctx context.Context, shard int) error) error {
	if len(s.shards) == 1 {
		return f(ctx, 0)
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range s.shards {
		g.Go(func() error {
			if err := f(ctx, i); err != nil {
				return fmt.Errorf("shard %d: %w", i+1, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// askReplicas calls f with a replica of the shard, and the next one if that cannot be
// reached.
func (s *Store) askReplicas(ctx context.Context, shard int, f func(ctx context.Context, shard int, n *node) error) error {
	var err error
	for _, n := range s.replicas(shard) {
		if err = f(ctx, shard, n); err == nil || !passing(ctx, err) {
			return err
		}
	}
	return err
}

func (s *Store) enter(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.userMu.RLock()
	defer s.userMu.RUnlock()
	if s.closed.Load() {
		return nil, errClosed
	}
	s.users.Add(1)
	return s.users.Done, nil
}

// Close waits for the calls in progress and closes the connections. Later calls fail.
func (s *Store) Close() error {
	s.userMu.Lock()
	was := s.closed.Swap(true)
	s.userMu.Unlock()
	if was {
		return nil
	}
	s.stopJoining()
	s.users.Wait()
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	return nil
}

var _ store.Store = (*Store)(nil)
