package config

import (
	"errors"
	"reflect"
	"testing"
)

func TestAccessLogs(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "access_logs:\n  - path: /a\n    sevice: x\n", "f.yaml:3:5: unknown key access_logs[0].sevice: did you mean access_logs[0].service?"},
		{"not a list", "access_logs: /var/log/x\n", "f.yaml:1:14: access_logs is not a list: write a list"},
		{"not a mapping", "access_logs:\n  - /var/log/x\n", "f.yaml:2:5: access_logs[0] is not a mapping: write key: value below it"},
		{"start", "access_logs:\n  - path: /a\n    start: now\n", "f.yaml:3:12: access_logs[0].start: \"now\" is neither beginning nor end"},
		{"misspelt", "acess_logs: []\n", "f.yaml:1:1: unknown key acess_logs in the file: did you mean access_logs?"},
		{"null", "access_logs:\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			got := ""
			if err := errors.Join(c.File("f.yaml", []byte(tc.file))...); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAccessLogsAreReadAndPrinted(t *testing.T) {
	c := Default()
	errs := c.File("f.yaml", []byte(`access_logs:
  - path: /var/log/nginx/*.log
    service: shop
    format: '$remote_addr "$request" $status $msec $request_time "$host"'
    tenant: 'host:^([a-z]+)\.'
    routes: ['^/a,b/([0-9]+)=/a/$1', '^/x: y=/x']
    version: http_x_version
    start: beginning
  - path: /var/log/other.log
    service: other
`))
	if errs != nil {
		t.Fatal(errs)
	}
	want := []AccessLog{
		{Path: "/var/log/nginx/*.log", Service: "shop", Format: `$remote_addr "$request" $status $msec $request_time "$host"`,
			Tenant: `host:^([a-z]+)\.`, Routes: []string{`^/a,b/([0-9]+)=/a/$1`, `^/x: y=/x`}, Version: "http_x_version", Whole: true},
		{Path: "/var/log/other.log", Service: "other"},
	}
	if !reflect.DeepEqual(c.AccessLogs, want) {
		t.Fatalf("got  %+v\nwant %+v", c.AccessLogs, want)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var back Config
	if errs := back.File("printed", []byte(c.YAML())); errs != nil {
		t.Fatal(errs, c.YAML())
	}
	if !reflect.DeepEqual(back.AccessLogs, want) {
		t.Errorf("printed and read again: %+v\n%s", back.AccessLogs, c.YAML())
	}
}

func TestAccessLogsValidate(t *testing.T) {
	c := Default()
	c.AccessLogs = []AccessLog{{Path: "/a", Service: "x"}, {Path: "/a"}, {Service: "y"}}
	want := `access_logs[1].service: needs a name, such as shop
access_logs[1].path: /a is already followed by access_logs[0]
access_logs[2].path: needs a file, such as /var/log/nginx/access.log`
	if got := c.Validate(); got == nil || got.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
}
