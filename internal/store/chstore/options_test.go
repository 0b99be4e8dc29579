package chstore

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"clickhouse://a/ts":                                       "[a:8123] ts  false false  ",
		"clickhouse://a:80/ts":                                    "[a:80] ts  false false  ",
		"clickhouse://a/ts?tls=true":                              "[a:8443] ts  false true  ",
		"clickhouse://u:p%40ss@a,b:9,[::1]:7/ts?cluster=main":     "[a:8123 b:9 [::1]:7] ts main false false u p@ss",
		"clickhouse://u@a/ts?cluster=c1&replicated=true&tls=true": "[a:8443] ts c1 true true u ",
		"http://a/ts":                                             "error: not an address of ClickHouse",
		"clickhouse://a":                                          `error: "" is not the name of a database`,
		"clickhouse://a/t-s":                                      `error: "t-s" is not the name of a database`,
		"clickhouse://a,b/ts":                                     "error: add ?cluster=NAME",
		"clickhouse://a,/ts?cluster=c":                            "error: a host is empty",
		"clickhouse://a/ts?cluster=a'b":                           "error: is not the name of a cluster",
		"clickhouse://a/ts?replicated=true":                       "error: add cluster=NAME",
		"clickhouse://a/ts?shards=3":                              `error: "shards" is not a setting`,
		"clickhouse://a/ts?tls=yes":                               "error: want true or false",
		"clickhouse://u:secret@a/ts?tls=yes":                      "error: clickhouse://u@a/ts",
		"clickhouse://u:secret@a:b:c/ts?x=%zz1":                   "error: ",
		"clickhouse://u:pa/secret@a/ts":                           "error: clickhouse://u@a/ts: /, ? or # stands before the @",
		"clickhouse://u:pa?secret@a/ts":                           "error: clickhouse://u@a/ts: /, ? or # stands before the @",
		"u:secret@a/ts":                                           "error: u@a/ts is not an address",
	} {
		a, err := parseAddress(in)
		got := fmt.Sprint(a.hosts, " ", a.database, " ", a.cluster, " ", a.replicated, " ", a.tls, " ", a.user, " ", a.password)
		words, wrong := strings.CutPrefix(want, "error: ")
		switch {
		case wrong && (err == nil || !strings.Contains(err.Error(), words)):
			t.Errorf("%s: got error %v, want %q", in, err, words)
		case !wrong && (err != nil || got != want):
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the password is in %q", err)
		}
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"clickhouse://u:secret@h/ts":           "clickhouse://u@h/ts",
		"clickhouse://u:pa/ss@h/ts?cluster=c":  "clickhouse://u@h/ts?cluster=c",
		"clickhouse://u:p@ss@a,b/ts":           "clickhouse://u@a,b/ts",
		"clickhouse://u:pa?ss@h/ts":            "clickhouse://u@h/ts",
		"clickhouse://u:pass@h/ts?cluster=a@b": "clickhouse://u@h/ts?cluster=a@b",
		"clickhouse://u@h/ts":                  "clickhouse://u@h/ts",
		"clickhouse://h:8123/ts?cluster=c":     "clickhouse://h:8123/ts?cluster=c",
		"http://u:secret@h/ts":                 "http://u@h/ts",
		"u:pa/ss@h":                            "u@h",
		"u:secret@h":                           "u@h",
		"u:a://b@h":                            "u@h",
		"/var/lib/tailscope":                   "/var/lib/tailscope",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestRetentionOptions(t *testing.T) {
	o := Options{}
	if err := o.ensureDefaults(); err != nil || o.Retention[3] != 400*24*time.Hour {
		t.Errorf("got %v, %v", o.Retention, err)
	}
	for name, o := range map[string]Options{
		"short":   {Retention: [4]time.Duration{time.Minute}},
		"falling": {Retention: [4]time.Duration{48 * time.Hour, 24 * time.Hour}},
	} {
		if err := o.ensureDefaults(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
