package mirror

import (
	"strings"
	"testing"
	"time"
)

func valid() Options {
	o := Default()
	o.Listen = "127.0.0.1:0"
	o.Primary = "http://a:8081"
	o.Candidates = []Pool{{Servers: []string{"http://b:8082"}}}
	return o
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*Options)
		want []string // every one is in the error; none: there is no error
	}{
		{"as it should be", func(o *Options) {}, nil},
		{"https, a pool and a control", func(o *Options) {
			o.Primary = "https://a"
			o.Candidates = []Pool{{"new", []string{"https://b", "https://c"}}, {"", []string{"h2c://d:1"}}}
			o.Control = []string{"http://[::1]:8080/"}
			o.Using = 1
		}, nil},
		{"only a control", func(o *Options) { o.Candidates, o.Control = nil, []string{"http://c"} }, nil},
		{"tcp", func(o *Options) {
			o.TCP, o.Primary = true, "tcp://a:6379"
			o.Candidates = []Pool{{"", []string{"b:6379"}}}
		}, nil},

		{"no primary", func(o *Options) { o.Primary = "" }, []string{"primary: ", "--primary http://HOST:PORT"}},
		{"no candidate", func(o *Options) { o.Candidates = nil }, []string{"candidate: ", "--candidate http://HOST:PORT"}},
		{"no scheme", func(o *Options) { o.Primary = "a:8081" }, []string{`primary: "a:8081" has no scheme`, "http://a:8081"}},
		{"unknown scheme", func(o *Options) { o.Primary = "ftp://a" }, []string{"primary: ", "scheme ftp", "h2c"}},
		{"path", func(o *Options) { o.Candidates[0].Servers[0] = "http://b:8082/v2" }, []string{"candidate: ", "has a path", "write http://b:8082", "'^/=/v2/'"}},
		{"query", func(o *Options) { o.Primary = "http://a?x=1" }, []string{"has a query", "write http://a"}},
		{"fragment", func(o *Options) { o.Primary = "http://a#x" }, []string{"has a fragment"}},
		{"user", func(o *Options) { o.Primary = "http://me:secret@a" }, []string{"user's name", "write http://a"}},
		{"port", func(o *Options) { o.Primary = "http://a:99999" }, []string{`the port "99999"`, "1 to 65535"}},
		{"port zero", func(o *Options) { o.Primary = "http://a:0" }, []string{`the port "0"`}},
		{"not a URL", func(o *Options) { o.Primary = "http://a b" }, []string{"is not a URL", "http://HOST:PORT"}},
		{"no host", func(o *Options) { o.Primary = "http://:80" }, []string{"names no host", "127.0.0.1:80"}},
		{"two of a name", func(o *Options) {
			o.Candidates = []Pool{{"x", []string{"http://b"}}, {"x", []string{"http://c"}}}
		}, []string{`two of the name "x"`, "x2=http://c"}},
		{"the primary's name", func(o *Options) { o.Candidates[0].Name = "primary" }, []string{`name "primary" is taken`}},
		{"a bad name", func(o *Options) { o.Candidates[0].Name = "my candidate" }, []string{`"my candidate" is not a name`}},
		{"a pool of none", func(o *Options) { o.Candidates[0].Servers = nil }, []string{"candidate has no server"}},
		{"twice in a pool", func(o *Options) { o.Candidates[0].Servers = []string{"http://b", "http://b:80/"} }, []string{"named twice"}},
		{"more than there are", func(o *Options) { o.Using = 2 }, []string{"using: 2 are more than the 1 of candidate"}},
		{"listen", func(o *Options) { o.Listen = "8080" }, []string{"listen: ", ":8080"}},
		{"share", func(o *Options) { o.Share = -0.1 }, []string{"share: -0.1 is not from 0 to 1", "0.1"}},
		{"share in percent", func(o *Options) { o.Share = 50 }, []string{"share: 50"}},
		{"amplify", func(o *Options) { o.Amplify = -1 }, []string{"amplify: -1"}},
		{"queue", func(o *Options) { o.Queue = 0 }, []string{"queue: 0 is not from 1"}},
		{"timeout", func(o *Options) { o.Timeout = time.Microsecond }, []string{"timeout: 1µs"}},
		{"unsafe method", func(o *Options) { o.Methods = []string{"POST"} }, []string{"method: POST may change something", "--unsafe"}},
		{"no method", func(o *Options) { o.Methods = []string{"GE T"} }, []string{`method: "GE T"`}},
		{"path of no meaning", func(o *Options) { o.Path = "(" }, []string{`path: "("`}},
		{"by what", func(o *Options) { o.By = "moon" }, []string{"moon", "header:NAME"}},
		{"rewrite", func(o *Options) { o.Rewrites = []string{"x"} }, []string{`rewrite: "x"`}},
		{"tenant", func(o *Options) { o.Tenant = "x" }, []string{"tenant"}},
		{"compare", func(o *Options) { o.Compare = []string{"xml"} }, []string{`compare: "xml"`, "status, headers, and body or json"}},
		{"allow, no size", func(o *Options) { o.Allow = []string{"worse:much"} }, []string{`allow: "much" is not the size of a change`, "write one such as worse:3%"}},
		{"allow, no measure", func(o *Options) { o.Allow = []string{"3%", "p98=3%"} }, []string{`allow: there is no measure "p98"`}},
		{"ignore", func(o *Options) { o.Ignore = []string{"header date"} }, []string{"ignore: nothing is compared", "--compare"}},
		{"record", func(o *Options) { o.RecordBodies = true }, []string{"record-bodies: nothing is recorded", "--record FILE"}},
		{"half a certificate", func(o *Options) { o.TLSCert = "x.pem" }, []string{"tls-cert: ", "mirror.tls_key"}},
		{"id", func(o *Options) { o.ID = "a/b" }, []string{`id: "a/b"`}},
		{"service", func(o *Options) { o.Service = "" }, []string{"service: "}},
		{"tcp with a path", func(o *Options) {
			o.TCP, o.Primary, o.Path = true, "a:1", "^/x"
			o.Candidates = []Pool{{"", []string{"b:1"}}}
		}, []string{"path: in tcp mode", "leave out mirror.tcp"}},
		{"tcp with a URL", func(o *Options) { o.TCP = true }, []string{"primary: ", "in tcp mode servers are HOST:PORT"}},
		{"all at once", func(o *Options) { o.Primary, o.Share, o.Listen = "", 2, "x" }, []string{"primary: ", "share: ", "listen: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := valid()
			c.with(&o)
			err := o.Validate()
			if len(c.want) == 0 {
				if err != nil {
					t.Fatalf("got %v, want no error", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("got no error, want one with %q", c.want)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows a password", err)
			}
		})
	}
}

// Every complaint begins with the name of its option, which command line and file
// share, and each is made once.
func TestComplaintsNameTheirOption(t *testing.T) {
	o := valid()
	o.Share, o.Queue, o.Buffer = 2, 0, 1
	o.By, o.Tenant, o.Methods, o.Path, o.Host = "x", "x", []string{"G T"}, "(", "a b"
	o.Headers, o.Operations, o.Rewrites = []string{"X: ("}, []string{"x"}, []string{"x"}
	o.SetHeaders, o.DropHeaders, o.Redact = []string{"TE: a", "x"}, []string{"Host", "a b"}, []string{"value:("}
	err := o.Validate()
	if err == nil {
		t.Fatal("no complaint")
	}
	options := map[string]int{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		option, what, _ := strings.Cut(line, ": ")
		if strings.Contains(option, " ") || what == "" || strings.Contains(what, "e+") {
			t.Errorf("%q does not begin with its option, or is not plain", line)
		}
		options[option]++
	}
	for option, want := range map[string]int{
		"share": 1, "queue": 1, "buffer": 1, "by": 1, "tenant": 1, "method": 1, "path": 1, "host": 1, "header": 1,
		"operation": 1, "rewrite": 1, "set-header": 2, "drop-header": 2, "redact": 1,
	} {
		if options[option] != want {
			t.Errorf("%d complaints of %s, want %d, in\n%v", options[option], option, want, err)
		}
	}
}
