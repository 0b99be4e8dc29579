package semconv

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"tailscope/internal/series"
)

// Slot is the index of one meaning in Attrs. Several attribute names, old and new, may
// carry the same meaning.
type Slot uint8

const (
	Name Slot = iota // the span's name; no attribute
	HTTPMethod
	HTTPRoute
	URLTemplate
	URL // only its host is used
	RPCSystem
	RPCService
	RPCMethod
	DBSystem
	DBOperation
	DBCollection
	DBSummary
	DBText
	MessagingSystem
	MessagingOperation
	MessagingDestination
	MessagingAnonymous
	Task
	TaskAction
	FaasTrigger
	FaasName
	GraphQLType
	GraphQLName
	PeerService
	ServerAddress
	Tenant
	Variant
	HTTPStatus // used for the span's status, never part of its identity; likewise to Queued
	RPCStatus
	URLPath
	ServerPort
	Queued
	Service // of resources, from here to Instance
	Version
	Instance
	Environment
	Namespace
	K8sNamespace
	Workload
	Extra // the first configured extra label

	// MaxExtra bounds the number of extra labels.
	MaxExtra = 16
	NumSlots = int(Extra) + MaxExtra
)

// Mask is a set of slots.
type Mask uint64

func (m Mask) Has(s Slot) bool { return m>>s&1 != 0 }

func maskOf(slots ...Slot) (m Mask) {
	for _, s := range slots {
		m |= 1 << s
	}
	return m
}

// names lists the attributes of each slot, the preferred first. The new names are those
// of the semantic conventions 1.37, the old ones go back to 1.0.
var names = [Extra][]string{
	HTTPMethod:           {"http.request.method", "http.method"},
	HTTPRoute:            {"http.route"},
	URLTemplate:          {"url.template"},
	URL:                  {"url.full", "http.url"},
	RPCSystem:            {"rpc.system.name", "rpc.system"},
	RPCService:           {"rpc.service"},
	RPCMethod:            {"rpc.method"},
	DBSystem:             {"db.system.name", "db.system"},
	DBOperation:          {"db.operation.name", "db.operation"},
	DBCollection:         {"db.collection.name", "db.sql.table", "db.mongodb.collection", "db.cassandra.table", "db.cosmosdb.container", "aws.dynamodb.table_names"},
	DBSummary:            {"db.query.summary"},
	DBText:               {"db.query.text", "db.statement"},
	MessagingSystem:      {"messaging.system"},
	MessagingOperation:   {"messaging.operation.name", "messaging.operation.type", "messaging.operation"},
	MessagingDestination: {"messaging.destination.template", "messaging.destination.name", "messaging.destination"},
	MessagingAnonymous:   {"messaging.destination.temporary", "messaging.destination.anonymous", "messaging.temp_destination"},
	Task:                 {"celery.task_name", "messaging.sidekiq.job_class", "messaging.message.job_class"},
	TaskAction:           {"celery.action"},
	FaasTrigger:          {"faas.trigger"},
	FaasName:             {"faas.invoked_name", "faas.name"},
	GraphQLType:          {"graphql.operation.type"},
	GraphQLName:          {"graphql.operation.name"},
	PeerService:          {"service.peer.name", "peer.service"},
	ServerAddress:        {"server.address", "net.peer.name", "http.host", "net.peer.ip"},
	Variant:              {"variant", "deployment.variant"},
	HTTPStatus:           {"http.response.status_code", "http.status_code"},
	RPCStatus:            {"rpc.response.status_code", "rpc.grpc.status_code"},
	URLPath:              {"url.path", "http.target"},
	ServerPort:           {"server.port", "net.peer.port"},
	Queued: {
		"http.request.header.x-request-start", "http.request.header.x_request_start", "x-request-start", "x_request_start",
		"http.request.header.x-queue-start", "http.request.header.x_queue_start", "x-queue-start", "x_queue_start",
	},
	Service:  {"service.name"},
	Version:  {"service.version"},
	Instance: {"service.instance.id", "k8s.pod.name", "host.name", "host.id"},

	Environment:  {"deployment.environment.name", "deployment.environment"},
	Namespace:    {"service.namespace"},
	K8sNamespace: {"k8s.namespace.name"},
	Workload:     {"k8s.deployment.name", "k8s.statefulset.name", "k8s.daemonset.name", "k8s.cronjob.name", "k8s.job.name"},
}

// lookedAt holds the slots of attributes that affect no label and no count.
var lookedAt = maskOf(RPCStatus, URLPath, ServerPort, Queued)

// places holds the slots that say where a service runs.
var places = maskOf(Environment, Namespace, K8sNamespace, Workload)

// DefaultTenantKeys are the default attributes that name the tenant.
var DefaultTenantKeys = []string{"tenant.id", "tenant", "customer.id", "org.id"}

// Keys maps attribute names to slots. It is immutable.
type Keys struct {
	table  [tableSize]entry
	Extras []string // label names of the slots from Extra on
	alias  [Extra][]Slot
}

// defaults maps labels that an extra label may replace to the slot of their attributes;
// a backend's labels have several.
var defaults = map[string]Slot{
	series.LabelEnvironment: Environment, series.LabelNamespace: Namespace, series.LabelK8s: K8sNamespace, series.LabelWorkload: Workload,
	series.LabelSystem: DBSystem, series.LabelPeer: ServerAddress,
}

// Aliases returns the extra slots that a label of slot s is read from if s is empty: an
// operator's label may have its name, or be of one of its attributes.
func (k *Keys) Aliases(s Slot) []Slot { return k.alias[s] }

const (
	tableBits = 9
	tableSize = 1 << tableBits
)

type entry struct {
	key  string
	slot Slot
	rank uint8 // 1 is the preferred name
}

// NewKeys builds the table. tenant lists the attributes that name the tenant, the
// preferred first; default DefaultTenantKeys. Each extra is `attribute` or
// `attribute=label`.
func NewKeys(tenant, extra []string) (*Keys, error) {
	k := &Keys{}
	if tenant == nil {
		tenant = DefaultTenantKeys
	}
	if len(extra) > MaxExtra {
		return nil, fmt.Errorf("%d extra labels: at most %d can be kept", len(extra), MaxExtra)
	}
	if len(tenant) > 64 {
		return nil, fmt.Errorf("%d tenant attributes: at most 64 can be looked for", len(tenant))
	}
	for s, list := range names {
		for i, key := range list {
			k.add(key, Slot(s), i)
		}
	}
	for i, key := range tenant {
		if err := k.add(key, Tenant, i); err != nil {
			return nil, fmt.Errorf("tenant attribute %q: %w", key, err)
		}
	}
	for i, e := range extra {
		key, label, found := strings.Cut(e, "=")
		if !found {
			label = LabelName(key)
		}
		if label == "" || label != LabelName(label) {
			return nil, fmt.Errorf("extra label %q: %q cannot be a label's name; write attribute=name with letters, digits and _", e, label)
		}
		slot := Extra + Slot(i)
		if s, ok := defaults[label]; ok {
			k.alias[s] = append(k.alias[s], slot)
		} else if label == "le" || label == "quantile" || slices.Contains(series.SpanLabels, label) {
			return nil, fmt.Errorf("extra label %q: %q is taken; write attribute=name with another name", e, label)
		}
		if s, rank := k.Find(key); rank != 0 && places.Has(s) {
			k.alias[s] = append(k.alias[s], slot)
		}
		if err := k.add(key, slot, 0); err != nil {
			return nil, fmt.Errorf("extra label %q: %w", e, err)
		}
		k.Extras = append(k.Extras, label)
	}
	return k, nil
}

func (k *Keys) add(key string, s Slot, rank int) error {
	if key == "" {
		return fmt.Errorf("the attribute's name is empty")
	}
	i := hashEnds(key)
	for ; k.table[i].key != ""; i = (i + 1) % tableSize {
		if old := k.table[i].slot; k.table[i].key == key {
			if old == s || !(lookedAt | places).Has(old) {
				return fmt.Errorf("the attribute already has a use of its own")
			}
			break // an operator's use comes before the default one
		}
	}
	k.table[i] = entry{key, s, uint8(rank + 1)}
	return nil
}

// hashEnds hashes the key's ends, where attributes differ.
func hashEnds(key string) uint32 {
	n := len(key)
	x := uint64(n)
	if n >= 8 {
		x += load(key[:8]) ^ bits.RotateLeft64(load(key[n-8:]), 23)
	} else {
		for i := range n {
			x = x<<8 | uint64(key[i])
		}
	}
	return uint32(x * 0x9E3779B97F4A7C15 >> (64 - tableBits))
}

func load(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// Find returns the slot of an attribute and the rank of this name of it, 1 being
// preferred. Rank 0 means that no slot has the attribute.
func (k *Keys) Find(key string) (Slot, uint8) {
	if key == "" {
		return 0, 0
	}
	for i := hashEnds(key); ; i = (i + 1) % tableSize {
		e := &k.table[i]
		if e.key == key {
			return e.slot, e.rank
		}
		if e.key == "" {
			return 0, 0
		}
	}
}

// LabelName returns an attribute's name as a valid label name: anything but a letter,
// digit or _ becomes _, and a leading digit gets the prefix key_, as in OpenTelemetry's
// translation to Prometheus.
func LabelName(attribute string) string {
	b := make([]byte, 0, len(attribute)+4)
	for i := 0; i < len(attribute); i++ {
		c := attribute[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
			b = append(b, c)
		case '0' <= c && c <= '9':
			if len(b) == 0 {
				b = append(b, "key_"...)
			}
			b = append(b, c)
		default:
			if c < 0x80 || c >= 0xC0 { // one _ for a character of several bytes
				b = append(b, '_')
			}
		}
	}
	return string(b)
}
