package probe

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver named sqlite
)

const (
	driverPostgres = "postgres"
	driverMySQL    = "mysql"
	driverSQLite   = "sqlite"

	// maxConnections bounds those to one database, whatever number of checks ask it.
	maxConnections = 4
)

// source names a database; the DSN may hold a secret.
type source struct{ driver, dsn string }

// pool are the connections to one database.
type pool struct {
	db       *sql.DB
	driver   string
	readOnly bool     // transactions are asked to be; else connections are
	hide     []string // passwords within the DSN
	users    int      // guarded by Prober.mu, as is used
	used     time.Time
}

// pool returns that of a database, to be released. Those that were not used for
// long, such as after a password was changed, are closed on the way.
func (p *Prober) pool(of source, hide *secrets) (*pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the server stops; ask again when it has started")
	}
	now := p.o.Now()
	for at, o := range p.pools {
		if at != of && o.users == 0 && now.Sub(o.used) > p.o.Idle {
			delete(p.pools, at)
			o.db.Close() //nolint:errcheck // nobody is interested any more
		}
	}
	o := p.pools[of]
	if o == nil {
		var err error
		if o, err = open(of); err != nil {
			return nil, err
		}
		o.db.SetMaxOpenConns(maxConnections)
		o.db.SetMaxIdleConns(1)
		o.db.SetConnMaxIdleTime(p.o.Idle)
		o.db.SetConnMaxLifetime(time.Hour)
		p.pools[of] = o
	}
	for _, password := range o.hide {
		hide.hide(password)
	}
	o.users++
	o.used = now
	return o, nil
}

func (p *Prober) release(o *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.users--
	o.used = p.o.Now()
}

// open prepares connections; none is made yet. Its errors never repeat the DSN.
func open(of source) (*pool, error) {
	o := &pool{driver: of.driver, readOnly: true}
	switch of.driver {
	case driverPostgres:
		config, err := pgx.ParseConfig(of.dsn)
		if err != nil {
			return nil, errors.New("the dsn cannot be read; write postgres://user@host:5432/database, or host=… user=… dbname=…")
		}
		// One statement, neither prepared nor remembered: it works through poolers.
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		if config.RuntimeParams["application_name"] == "" {
			config.RuntimeParams["application_name"] = "tailscope"
		}
		o.hide = findPasswords(config.Password)
		o.db = stdlib.OpenDB(*config)
	case driverMySQL:
		config, err := mysqlConfig(of.dsn)
		if err != nil {
			return nil, errors.New("the dsn cannot be read; write mysql://user@host:3306/database, or user@tcp(host:3306)/database")
		}
		config.MultiStatements = false
		config.AllowAllFiles = false
		config.Logger = silent{}
		o.hide = findPasswords(config.Passwd)
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, errors.New("the dsn cannot be used; look at its parameters")
		}
		o.db = sql.OpenDB(connector)
	case driverSQLite:
		// SQLite has no transactions that only read, but connections.
		o.readOnly = false
		dsn, err := sqliteDSN(of.dsn)
		if err != nil {
			return nil, err
		}
		if o.db, err = sql.Open("sqlite", dsn); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("there is no driver %q; write postgres, mysql or sqlite", of.driver)
	}
	return o, nil
}

func findPasswords(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// mysqlConfig reads the driver's own notation, and mysql:// as others have it.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	if !strings.HasPrefix(dsn, "mysql://") {
		return mysql.ParseDSN(dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	config, err := mysql.ParseDSN("tcp(" + host + ")/" + strings.TrimPrefix(u.EscapedPath(), "/") + "?" + u.RawQuery)
	if err != nil {
		return nil, err
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return config, nil
}

// sqliteDSN opens a file for reading only, without making it.
func sqliteDSN(dsn string) (string, error) {
	path, query, _ := strings.Cut(dsn, "?")
	params, err := url.ParseQuery(query)
	if err != nil || path == "" {
		return "", errors.New("the dsn cannot be read; write the path of the database's file")
	}
	if rest, ok := strings.CutPrefix(path, "file:"); ok {
		path = strings.ReplaceAll(rest, "#", "%23") // what follows it would be nobody's, mode=ro too
	} else {
		path = (&url.URL{Path: path}).EscapedPath()
	}
	params.Set("mode", "ro")
	params.Add("_pragma", "query_only(1)")
	params.Add("_pragma", "busy_timeout(5000)")
	return "file:" + path + "?" + params.Encode(), nil
}

// silent is a log of a driver that writes to stderr by itself otherwise.
type silent struct{}

func (silent) Print(...any) {}
