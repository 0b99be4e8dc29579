package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/logbook"
)

// What the log book tells of is done by the program itself, with the commands that anybody
// would write, so that they can be repeated by hand: each is printed.

// command is the program with other arguments. It is interrupted when ctx is done, and has
// a while to end in order.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, d.Program, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 15 * time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TAILSCOPE_") { // settings of the demo's user are of the demo
			c.Env = append(c.Env, v)
		}
	}
	c.Dir = d.dir
	c.Stdout = &bytes.Buffer{}
	c.Stderr = c.Stdout
	d.say("$ tailscope %s", commandLine(args))
	return c
}

// commandLine is args as a shell reads them.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if strings.ContainsAny(a, " '\"{}<>?&*$;|()") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words[i] = a
	}
	return strings.Join(words, " ")
}

// run runs a command to its end. What it printed last is the error of one that failed. Codes
// are those of answers that are less than was asked for, which the log book tells of.
func run(c *exec.Cmd, codes ...int) error {
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &exit) && slices.Contains(codes, exit.ExitCode()):
		return nil
	case !errors.As(err, &exit):
		return err
	}
	lines := strings.Split(strings.TrimSpace(c.Stdout.(*bytes.Buffer).String()), "\n")
	return fmt.Errorf("%s: %s", exit, strings.Join(lines[max(0, len(lines)-2):], "; "))
}

func (d *demo) page() string { return "http://" + d.srv.Addr() }

// mirror sends the shoppers through a mirror for a while.
func (d *demo) mirror(ctx context.Context) (err error) {
	t, err := d.startTwins(ctx, nil, func(s *shop) { s.kept = &sync.Map{} })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	address, err := freeAddress()
	if err != nil {
		return err
	}
	own := "http://" + d.door.Addr().String()
	running, stop := context.WithCancel(ctx)
	c := d.command(running, "mirror", "--name", "products kept in memory", "--service", "shop", "--listen", address,
		"--primary", own, "--control", t.addresses[0], "--candidate", "kept="+t.addresses[1],
		"--tenant", "header:"+tenantHeader, "--server", d.page(), "--for", (mirrorFor + time.Minute).String())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- run(c)
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if !reached(ctx, address, ended) {
		return nil // ended says why
	}
	d.setMark(ctx, api.Mark{Name: "mirror put before the shop", Service: "shoppers"})
	d.people.moveTo("http://" + address)
	select {
	case <-time.After(mirrorFor):
	case err = <-ended:
		err = errors.Join(errors.New("the mirror ended too soon"), err)
	case <-ctx.Done():
	}
	d.people.moveTo(own)
	d.setMark(ctx, api.Mark{Name: "mirror taken away", Service: "shoppers"})
	return err
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// reached waits until somebody listens at an address, and reports false if ended or ctx came
// first.
func reached(ctx context.Context, address string, ended <-chan error) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close() == nil
		}
		select {
		case <-tick.C:
			if len(ended) > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// experiment has both ways to read a cart measured.
func (d *demo) experiment(ctx context.Context) (err error) {
	t, err := d.startTwins(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	dir, err := os.MkdirTemp(d.dir, "experiment-")
	if err != nil {
		return err
	}
	if err := writeExperiment(dir, t.addresses[0], d.tenants[0].name); err != nil {
		return err
	}
	return run(d.command(ctx, "experiment", "run", filepath.Join(dir, "cart.yaml"), "--server", d.page()))
}

// writeExperiment writes the experiment's file, and that of its scenario, for a shop and the
// tenant whose carts are read.
func writeExperiment(dir, shop, tenant string) error {
	scenario := strings.NewReplacer("SHOP", shop, "TENANT", tenant).Replace(cartScenario)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(scenario), 0o600),
		os.WriteFile(filepath.Join(dir, "cart.yaml"), []byte(cartExperiment), 0o600))
}

const cartExperiment = `experiment: a cart by one query
hypothesis: The shop asks for each product of a cart by itself; one query for all of them is faster.
scenario: shop.yaml
variable: cart
control: {cart: each}
variants: [{cart: joined}]
rounds: 8
measures: [p50, p95]
`

const cartScenario = `scenario: carts of the shop
target: SHOP
service: shop
vars: {cart: each}
header: {X-Shop-Tenant: TENANT, X-Shop-Cart: "{{cart}}"}
check: {status: [200]}
queries:
  - {name: cart, request: "GET /cart?customer={{random 100}}"}
phases: [{name: load, rate: 60, for: 5s}]
connections: 16
limits: {late: 50%, cpu: 100%}        # the shop, its load and the server share the machine
`

// The bounds of the search for capacity.
const (
	capacityWithin  = 90 * time.Second
	capacityHighest = 300 // checkouts a second
)

// fillCartsOnce puts one product into the carts of a tenant's customers, from the first on.
const fillCartsOnce = `WITH RECURSIVE customers(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM customers WHERE id < ?2)
	INSERT OR IGNORE INTO cart_lines (tenant, customer, product, quantity) SELECT ?1, id, ?3, 1 FROM customers`

// capacity has the most checkouts searched for that a shop bears. Each is of another customer,
// for a checkout empties the cart.
func (d *demo) capacity(ctx context.Context) (err error) {
	of := &d.tenants[0]
	var unfilled error
	t, err := d.startTwins(ctx, func(s *shop) {
		s.cashier.transport.MaxConnsPerHost = 2
		_, unfilled = s.db.ExecContext(ctx, fillCartsOnce, of.id, capacityHighest*int(capacityWithin/time.Second), productID(of, 0))
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if unfilled != nil {
		return fmt.Errorf("fill the carts: %w", unfilled)
	}
	begun := time.Now()
	err = run(d.command(ctx, "capacity", t.addresses[0]+"/orders?customer={{seq}}", "--set", "method=POST",
		"--header", tenantHeader+": "+of.name, "--set", "name=checkouts with two connections to the payments", "--set", "service=shop",
		"--objective", "p95 < 150ms and errors < 1%", "--lowest", "5", "--highest", strconv.Itoa(capacityHighest), "--within", capacityWithin.String(), "--server", d.page()), 3) // not certain yet
	if kept, _ := d.session(ctx, logbook.KindCapacity, begun); kept != nil {
		return nil // broken at the lowest rate is an answer, too
	}
	return err
}

// simulate plays what lists of products took through layouts.
func (d *demo) simulate(ctx context.Context) error {
	return run(d.command(ctx, "simulate", "--leaves", "shop/GET /products", "--since", "15m", "--set", "leaves.shards=4", "--shards", "4",
		"--nodes", "1,2,4,8", "--threads", "4", "--cores", "2", "--rate", "5", "--asks", "p90", "--server", d.page(), "--keep"))
}
