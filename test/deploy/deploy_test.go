// Package deploy holds the tests of what is in deploy, which is not run here: its parts name
// each other, and the chart renders. The campaign has Helm lint and render it; test/e2e runs
// the balancer.
package deploy

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse[T any](t *testing.T, what, text string) (out T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, text)
	}
	return out
}

type composeFile struct {
	Services map[string]struct {
		Image       string
		Hostname    string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		ExtraHosts  []string `yaml:"extra_hosts"`
		Networks    map[string]struct {
			Address string `yaml:"ipv4_address"`
		}
		Healthcheck struct{ Test []string }
	}
	Volumes map[string]any
}

// The servers of the Compose file name the nodes that are there, by the cluster that these
// know, and the balancer names the servers.
func TestCompose(t *testing.T) {
	c := parse[composeFile](t, "compose.yaml", read(t, "compose/compose.yaml"))
	var cluster struct {
		Servers struct {
			Tailscope struct {
				Shards []struct {
					Host string `xml:"replica>host"`
				} `xml:"shard"`
			} `xml:"tailscope"`
		} `xml:"remote_servers"`
	}
	if err := xml.Unmarshal([]byte(read(t, "compose/cluster.xml")), &cluster); err != nil {
		t.Fatal(err)
	}
	var shards, servers, mounted []string
	for _, s := range cluster.Servers.Tailscope.Shards {
		shards = append(shards, s.Host)
		if n := c.Services[s.Host]; n.Hostname != s.Host || len(n.Healthcheck.Test) == 0 {
			t.Errorf("shard %s is not a service of that host name with a health check: %+v", s.Host, n)
		}
	}
	store := "clickhouse://tailscope:${CLICKHOUSE_PASSWORD:?letters and digits}@" + strings.Join(shards, ":8123,") + ":8123/tailscope?cluster=tailscope"
	for name, s := range c.Services {
		if s.Image == "" {
			t.Errorf("service %s has no image", name)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, "./") {
				mounted = append(mounted, from)
			} else if _, err := os.Stat(filepath.Join("../../deploy/compose", from)); err != nil {
				t.Errorf("service %s mounts %s: %v", name, from, err)
			}
		}
		if got, is := s.Environment["TAILSCOPE_STORE"]; is {
			servers = append(servers, name)
			if got != store {
				t.Errorf("server %s has the store %s, want %s", name, got, store)
			}
		}
	}
	slices.Sort(servers)
	slices.Sort(mounted)
	if len(servers) != 3 || len(shards) != 3 {
		t.Errorf("servers %v on shards %v, want three of each", servers, shards)
	}
	if len(slices.Compact(slices.Clone(mounted))) != len(mounted) || len(mounted) != len(c.Volumes) {
		t.Errorf("volumes %v are mounted, want each of %v once", mounted, c.Volumes)
	}
	balancer := read(t, "compose/balancer.conf")
	for upstream, port := range map[string]string{"page": "7099", "grpc": "4317", "otlp": "4318", "agents": "4318"} {
		m := regexp.MustCompile(`(?m)^upstream ` + upstream + ` \{(.*)\}$`).FindStringSubmatch(balancer)
		if m == nil {
			t.Errorf("no upstream %s", upstream)
			continue
		}
		var got, want []string
		for _, s := range regexp.MustCompile(`server (\S+);`).FindAllStringSubmatch(m[1], -1) {
			got = append(got, s[1])
		}
		for _, s := range servers {
			want = append(want, s+":"+port)
		}
		if !slices.Equal(got, want) {
			t.Errorf("upstream %s has %v, want %v", upstream, got, want)
		}
	}
	// nginx does not start while a name is unknown, as that of a stopped container is.
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s+":"+c.Services[s].Networks["default"].Address)
	}
	if got := c.Services["balancer"].ExtraHosts; !slices.Equal(got, hosts) || strings.Contains(strings.Join(hosts, " ")+" ", ": ") {
		t.Errorf("the balancer knows the addresses %v, want those of the servers, %v", got, hosts)
	}
	for _, p := range c.Services["balancer"].Ports {
		if port := p[strings.LastIndexByte(p, ':')+1:]; !strings.Contains(balancer, "listen "+port) {
			t.Errorf("the balancer does not listen on port %s", port)
		}
	}
}

// render renders a template of the chart as Helm does, with the functions that it uses. Helm's
// values went through JSON, so that numbers are float64.
func render(t *testing.T, name string, values map[string]any) (string, error) {
	t.Helper()
	tmpl, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"quote":  func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"fail":   func(s string) (string, error) { return "", errors.New(s) },
		"kindIs": func(kind string, v any) bool { return reflect.ValueOf(v).Kind().String() == kind },
		"join": func(sep string, v []any) string {
			texts := make([]string, len(v))
			for i := range v {
				texts[i] = fmt.Sprint(v[i])
			}
			return strings.Join(texts, sep)
		},
		"toJson": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
	}).Parse(read(t, "helm/tailscope/templates/"+name))
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var held any
	if err := json.Unmarshal(asJSON, &held); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = tmpl.Execute(&b, map[string]any{"Values": held, "Release": map[string]any{"Name": "shop"}})
	return b.String(), err
}

func TestChart(t *testing.T) {
	values := parse[map[string]any](t, "values.yaml", read(t, "helm/tailscope/values.yaml"))
	if _, err := render(t, "servers.yaml", values); err == nil || !strings.Contains(err.Error(), "clickhouse.hosts") {
		t.Errorf("without hosts: got %v", err)
	}
	ch := values["clickhouse"].(map[string]any)
	ch["hosts"] = "ch1:8123"
	if _, err := render(t, "servers.yaml", values); err == nil || !strings.Contains(err.Error(), "is the list of the nodes") {
		t.Errorf("with hosts that are not a list: got %v", err)
	}
	ch["hosts"] = []any{"ch1:8123", "ch2:8123"}
	settings := values["env"].(map[string]any)
	settings["TAILSCOPE_LIMITS_TENANTS"], settings["TAILSCOPE_SLO"], settings["TAILSCOPE_ON"] = 2000000, 0.001, true
	settings["TAILSCOPE_TEXT"], settings["TAILSCOPE_LIST"] = "2e6 \"a\"", []any{"a", "b"}
	for _, c := range []struct {
		cluster, secret, want string
	}{
		{"", "", "clickhouse://ch1:8123,ch2:8123/tailscope?replicated=false&tls=false"},
		{"main", "ch", "clickhouse://$(CLICKHOUSE_USER):$(CLICKHOUSE_PASSWORD)@ch1:8123,ch2:8123/tailscope?replicated=false&tls=false&cluster=main"},
	} {
		ch["cluster"], ch["secret"] = c.cluster, c.secret
		text, err := render(t, "servers.yaml", values)
		if err != nil {
			t.Fatal(err)
		}
		set := parse[struct {
			Kind string
			Spec struct {
				Replicas int
				Template struct {
					Spec struct {
						Containers []struct {
							Args  []string
							Ports []struct{ Name string }
							Env   []struct{ Name, Value string }
						}
					}
				}
			}
		}](t, "servers.yaml", text)
		k := set.Spec.Template.Spec.Containers
		if set.Kind != "StatefulSet" || set.Spec.Replicas != 3 || len(k) != 1 || !slices.Equal(k[0].Args, []string{"serve"}) || len(k[0].Ports) != 3 {
			t.Errorf("servers: %+v", set)
		}
		env := map[string]string{}
		for _, e := range k[0].Env {
			env[e.Name] = e.Value
		}
		_, user := env["CLICKHOUSE_USER"]
		if env["TAILSCOPE_STORE"] != c.want || user != (c.secret != "") || env["TAILSCOPE_ALLOWED_HOSTS"] != "*" {
			t.Errorf("cluster %q, secret %q: environment %v, want the store %s", c.cluster, c.secret, env, c.want)
		}
		for name, want := range map[string]string{"LIMITS_TENANTS": "2000000", "SLO": "0.001", "ON": "true", "TEXT": `2e6 "a"`, "LIST": "a,b"} {
			if got := env["TAILSCOPE_"+name]; got != want {
				t.Errorf("TAILSCOPE_%s is %q, want %q", name, got, want)
			}
		}
	}
	text, err := render(t, "services.yaml", values)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for doc := range strings.SplitSeq(text, "\n---\n") {
		s := parse[struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Ports []struct{ Port int } }
		}](t, "services.yaml", doc)
		names = append(names, fmt.Sprint(s.Kind, " ", s.Metadata.Name, " ", s.Spec.Ports))
	}
	if want := []string{"Service shop [{7099} {4318}]", "Service shop-servers [{4317} {7099}]"}; !slices.Equal(names, want) {
		t.Errorf("services %q, want %q", names, want)
	}
}
