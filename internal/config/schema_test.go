package config

import (
	"reflect"
	"testing"

	"tailscope/internal/strictyaml"
	"tailscope/internal/strictyaml/schematest"
)

// What the schema takes is read, and what it refuses is refused.
func TestSchema(t *testing.T) {
	schema := schematest.Compile(t, Schema())
	printed := Default()
	for text, good := range map[string]bool{
		printed.YAML(): true,
		mirrorFile:     true,
		"access_logs: [{path: /a, service: x, start: beginning, routes: ['a=b']}]": true,
		"otlp: {http: , grpc: }\nretention:\nlabels: {tenant: , extra: a}":         true,
		"limits: {memory: auto, tenants: 5_000}":                                   true,
		"limits: {memory: lots}":                                                   false,
		"limits: {tenants: few}":                                                   false,
		"ingest: {flush: 10 apples}":                                               false,
		"ingest: {flush: }":                                                        false,
		"lisen: x":                                                                 false,
		"otlp: 4317":                                                               false,
		"otlp: {gprc: x}":                                                          false,
		"data: {dir: x}":                                                           false,
		"mirror: {unsafe: maybe}":                                                  false,
		"mirror: {share: half}":                                                    false,
		"mirror: {candidate: [{a: b}]}":                                            false,
		"access_logs: [{path: /a, start: now}]":                                    false,
		"access_logs: /var/log/x":                                                  false,
	} {
		c := Default()
		if err, errs := schema.Validate(schematest.Document(t, []byte(text))), c.File("f", []byte(text)); (err == nil) != good || (errs == nil) != good {
			t.Errorf("%s\nby the schema %v, by the decoder %v, want right is %v", text, err, errs, good)
		}
	}
}

func TestSettingsAreDescribed(t *testing.T) {
	for _, wrong := range strictyaml.Undescribed(reflect.TypeFor[Config](), leaves) {
		t.Error(wrong)
	}
}
