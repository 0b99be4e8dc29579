//go:build campaign

package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// helm is the program that is run by go run, which builds it once.
const helm = "helm.sh/helm/v3/cmd/helm@v3.18.6"

func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", helm}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), nil
}

// manifests returns the documents of a rendered chart by kind and name.
func manifests(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		m := parse[map[string]any](t, "a manifest", doc)
		if m == nil {
			continue
		}
		out[fmt.Sprint(m["kind"], " ", m["metadata"].(map[string]any)["name"])] = m
	}
	return out
}

// Helm finds nothing in the chart, and renders it as the other tests do.
func TestHelm(t *testing.T) {
	const chart = "../../deploy/helm/tailscope"
	if _, err := runHelm(t, "template", "shop", chart); err == nil || !strings.Contains(err.Error(), "clickhouse.hosts") {
		t.Errorf("without hosts: got %v", err)
	}
	for name, text := range map[string]string{
		"one node": "clickhouse: {hosts: [ch1]}",
		"everything": `
replicas: 5
clickhouse: {hosts: ["ch1:8123", "ch2:8123"], cluster: main, replicated: true, tls: true, secret: ch}
env: {TAILSCOPE_LIMITS_TENANTS: 2000000, TAILSCOPE_SLO: 0.001, TAILSCOPE_ON: true, TAILSCOPE_LIST: [a, b], TAILSCOPE_TEXT: 'a "b" \n'}
storage: {class: fast}
resources: {limits: {memory: 4Gi}}`,
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := runHelm(t, "lint", "--strict", chart, "-f", file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := runHelm(t, "template", "shop", chart, "-f", file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		values := parse[map[string]any](t, "values.yaml", read(t, "helm/tailscope/values.yaml"))
		merge(values, parse[map[string]any](t, "the values", text))
		var ours []string
		for _, template := range []string{"services.yaml", "servers.yaml"} {
			text, err := render(t, template, values)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			ours = append(ours, text)
		}
		is, want := manifests(t, got), manifests(t, strings.Join(ours, "\n---\n"))
		if len(is) != 3 || !reflect.DeepEqual(is, want) {
			t.Errorf("%s: Helm renders %v:\n%v\nthe tests %v:\n%v", name, slices.Sorted(maps.Keys(is)), is, slices.Sorted(maps.Keys(want)), want)
		}
	}
}

// merge sets what over has in values, as Helm does.
func merge(values, over map[string]any) {
	for k, v := range over {
		if below, ok := values[k].(map[string]any); ok {
			merge(below, v.(map[string]any))
		} else {
			values[k] = v
		}
	}
}
