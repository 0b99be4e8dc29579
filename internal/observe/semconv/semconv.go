// Package semconv derives the operation of a span, and the component in which its time
// is spent, from its OpenTelemetry attributes, by their old and new names.
//
// A span has many attributes and few of them matter. Which ones depends on the others:
// with http.route the name does not matter, with a collection and a verb the statement
// does not. Select returns those that matter, so that a decoder can recognise a span it
// has seen before by these alone; Operation then reads nothing else.
package semconv

import (
	"strings"
	"unicode/utf8"

	"tailscope/internal/observe/sqltext"
	"tailscope/internal/route"
)

// Kind is the span's kind as OTLP numbers it.
type Kind uint8

const (
	Unspecified Kind = iota
	Internal
	Server
	Client
	Producer
	Consumer
)

// String returns the value of the label kind. An unspecified kind is internal.
func (k Kind) String() string {
	switch k {
	case Server:
		return "server"
	case Client:
		return "client"
	case Producer:
		return "producer"
	case Consumer:
		return "consumer"
	}
	return "internal"
}

// The components.
const (
	App       = "app"
	DB        = "db"
	Cache     = "cache"
	External  = "external"
	Messaging = "messaging"
	Queue     = "queue"
)

// Attrs holds the values found. V[s] is valid only if Mask has s.
type Attrs struct {
	Mask Mask
	V    [NumSlots]string
}

// Get returns the value of s, or "" if it is absent.
func (a *Attrs) Get(s Slot) string {
	if a.Mask.Has(s) {
		return a.V[s]
	}
	return ""
}

// MaxValue bounds a label's value, in bytes.
const MaxValue = 256

// Always holds the slots that are labels themselves.
var Always = maskOf(Tenant, Variant) | places | (1<<NumSlots-1)&^(1<<Extra-1)

// Resource holds the slots of a sender that become labels.
var Resource = Always | maskOf(Service, Version, Instance)

// Systems holds the slots that name the system a call went to.
var Systems = maskOf(DBSystem, MessagingSystem)

// System returns the system that a call went to: mysql, redis, kafka. a.Mask must be the
// result of Select.
func (a *Attrs) System() string {
	if v := a.Get(DBSystem); v != "" {
		return v
	}
	return a.Get(MessagingSystem)
}

var (
	maskHTTP      = maskOf(HTTPMethod, Name) | paths
	maskHTTPFull  = maskOf(HTTPMethod, HTTPRoute)
	maskRPC       = maskOf(RPCSystem, RPCService, RPCMethod)
	maskDBFull    = maskOf(DBSystem, DBOperation, DBCollection)
	maskDBSummary = maskOf(DBSystem, DBSummary)
	maskDB        = maskOf(DBSystem, DBOperation, DBCollection, DBText, Name)
	maskDBNoName  = maskOf(DBSystem, DBOperation, DBCollection, DBText)
	maskCache     = maskOf(DBSystem, DBOperation)
	maskMessaging = maskOf(MessagingSystem, MessagingOperation, MessagingDestination, MessagingAnonymous)
	maskTask      = maskOf(MessagingSystem, Task, TaskAction, MessagingOperation)
	maskGraphQL   = maskOf(GraphQLType, GraphQLName)
)

// paths holds the slots that a server's path is in.
const paths Mask = 1<<URLPath | 1<<URL

// Select returns the slots among present on which the labels of a span of this kind
// depend.
func Select(k Kind, present Mask) Mask {
	m := Always
	switch {
	case k != Server && present.Has(DBSystem):
		switch {
		case present.Has(DBOperation) && present.Has(DBCollection):
			m |= maskDBFull
		case present.Has(DBSummary):
			m |= maskDBSummary
		case present.Has(DBText):
			m |= maskDBNoName
			if !present.Has(DBOperation) {
				m |= 1 << Name
			}
		case present.Has(DBOperation):
			m |= maskCache
		default:
			m |= maskDB
		}
	case present.Has(Task):
		m |= maskTask
	case k == Server && present.Has(GraphQLName):
		m |= maskGraphQL
	case present.Has(RPCSystem) || present.Has(RPCMethod):
		m |= maskRPC
		if !present.Has(RPCMethod) {
			m |= 1 << Name
		}
	case present.Has(MessagingSystem) || present.Has(MessagingDestination):
		m |= maskMessaging
		if !present.Has(MessagingDestination) {
			m |= 1 << Name
		}
	case k == Server && present.Has(HTTPMethod):
		if present.Has(HTTPRoute) {
			m |= maskHTTPFull
		} else {
			m |= maskHTTP
		}
	case present.Has(HTTPMethod) && (k == Client || k <= Internal && (present.Has(URL) || present.Has(ServerAddress) || present.Has(PeerService))):
		m |= maskOf(HTTPMethod, URLTemplate)
		switch {
		case present.Has(PeerService):
			m |= maskOf(PeerService)
		case present.Has(ServerAddress):
			m |= maskOf(ServerAddress)
		case present.Has(URL):
			m |= maskOf(URL)
		default:
			m |= maskOf(Name)
		}
	case k == Client && present.Has(FaasName):
		m |= maskOf(FaasName, FaasTrigger)
	case k == Server && present.Has(FaasTrigger) && present.Has(FaasName):
		m |= maskOf(FaasName, FaasTrigger)
	case k == Client:
		m |= maskOf(Name, PeerService)
	default:
		m |= maskOf(Name)
	}
	return m & present
}

// Volatile reports whether the values of the selected slots may differ between spans of one
// operation (a statement with literals in it), so that they are a poor cache key. So are those
// with a name for which VolatileName is true.
func (m Mask) Volatile() bool { return m&(1<<DBText|1<<URL) != 0 }

// VolatileName reports whether a span's name may be that of one call (it has a number).
func VolatileName(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; '0' <= c && c <= '9' || c == '\'' || c == '"' || c == '?' {
			return true
		}
	}
	return false
}

// Callee returns the slots among present that say what a call went to.
func Callee(present Mask) Mask {
	if present.Has(ServerAddress) {
		return present & (1<<ServerAddress | 1<<ServerPort)
	}
	return present & (1 << PeerService)
}

// Operation appends the span's operation to dst and returns its component. a.Mask must
// be the result of Select. It allocates nothing beyond dst, except for statements whose
// table's name is composed.
func Operation(dst []byte, k Kind, a *Attrs) ([]byte, string) {
	start := len(dst)
	component := App
	switch {
	case k != Server && a.Mask.Has(DBSystem):
		dst, component = appendDatabase(dst, a)
	case a.Mask.Has(Task):
		dst, component = appendTask(dst, k, a)
	case k == Server && a.Mask.Has(GraphQLName):
		dst = join(dst, a.Get(GraphQLType), ' ', a.V[GraphQLName])
	case a.Mask.Has(RPCSystem) || a.Mask.Has(RPCMethod):
		if k == Client || k == Producer {
			component = External
		}
		dst = appendRemote(dst, a)
	case a.Mask.Has(MessagingSystem) || a.Mask.Has(MessagingDestination):
		dst, component = appendMessaging(dst, k, a)
	case k == Server && a.Mask.Has(HTTPMethod):
		dst = appendServed(dst, a)
	case a.Mask.Has(HTTPMethod):
		component = External
		dst = appendCalled(dst, a)
	case k == Client && a.Mask.Has(FaasName):
		component = External
		dst = append(dst, a.V[FaasName]...)
	case a.Mask.Has(FaasTrigger) && a.Mask.Has(FaasName):
		dst = append(dst, a.V[FaasName]...)
	case k == Client:
		component = External
		dst = appendSpanName(dst, a.Get(Name))
		if peer := a.Get(PeerService); peer != "" {
			dst = join(dst, "", ' ', peer)
		}
	default:
		if k == Producer {
			component = Messaging
		}
		dst = appendSpanName(dst, a.Get(Name))
	}
	if len(dst) == start {
		dst = append(dst, "unnamed"...)
	}
	return cut(dst, start), component
}

// cut truncates what was appended since start, at the boundary of a character.
func cut(dst []byte, start int) []byte {
	if len(dst)-start <= MaxValue {
		return dst
	}
	end := start + MaxValue
	for end > start+MaxValue-utf8.UTFMax && !utf8.RuneStart(dst[end]) {
		end--
	}
	return dst[:end]
}

// join appends a, sep and b; sep only between two that are not empty. With an empty a it
// joins b to a dst that is not empty.
func join(dst []byte, a string, sep byte, b string) []byte {
	dst = append(dst, a...)
	if b != "" {
		if len(dst) > 0 {
			dst = append(dst, sep)
		}
		dst = append(dst, b...)
	}
	return dst
}

var caches = [...]string{"redis", "memcached", "valkey", "keydb", "dragonfly", "hazelcast", "ehcache", "infinispan", "aerospike.cache", "coherence", "pymemcache"}

// IsCache reports whether a database system is a cache.
func IsCache(system string) bool {
	for _, c := range caches {
		if strings.EqualFold(c, system) {
			return true
		}
	}
	return false
}

func appendDatabase(dst []byte, a *Attrs) ([]byte, string) {
	component := DB
	system := a.V[DBSystem]
	verb, table := a.Get(DBOperation), a.Get(DBCollection)
	if IsCache(system) {
		component = Cache
		if verb == "" {
			verb = cacheCommand(a.Get(DBText))
		}
		if verb == "" {
			verb = cacheCommand(a.Get(DBSummary))
		}
		if verb == "" {
			verb = cacheCommand(a.Get(Name))
		}
		if verb == "" {
			verb = "call"
		}
		return appendUpper(dst, verb), component
	}
	if strings.IndexByte(verb, ' ') > 0 { // some put the statement, or verb and table, here
		v, t := sqltext.Summary(verb)
		if v == "" {
			v, _, _ = strings.Cut(verb, " ")
		}
		if verb = v; table == "" {
			table = t
		}
	}
	if verb == "" || table == "" {
		if summary := a.Get(DBSummary); summary != "" {
			return route.Template(dst, summary), component
		}
		if text := a.Get(DBText); text != "" {
			v, t := sqltext.Summary(text)
			if verb == "" {
				verb = v
			}
			if table == "" && strings.EqualFold(verb, v) {
				table = t
			}
		}
	}
	if verb == "" && table == "" {
		return appendSpanName(dst, a.Get(Name)), component
	}
	if v := sqltext.Verb(verb); v != "" {
		verb = v
	}
	if len(verb) > 64 {
		verb = verb[:64]
	}
	return join(append(dst, verb...), "", ' ', table), component
}

// cacheCommand returns the first word of a cache's command if it has the form of one: the
// rest, or a word of another form, is a key.
func cacheCommand(s string) string {
	s = strings.TrimLeft(s, " \t\r\n")
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', c == '_', c == '.' && i > 0:
			if i == 24 {
				return ""
			}
		case c == ' ', c == '\n', c == '\t':
			return s[:i]
		default:
			return ""
		}
	}
	if len(s) > 24 {
		return ""
	}
	return s
}

func appendUpper(dst []byte, s string) []byte {
	s = s[:min(len(s), MaxValue)]
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// appendRemote appends the name of a remote procedure: service/method. The newer conventions
// put both into rpc.method.
func appendRemote(dst []byte, a *Attrs) []byte {
	service, m := a.Get(RPCService), a.Get(RPCMethod)
	m = strings.TrimPrefix(m, "/")
	switch {
	case m == "" && service == "":
		return appendSpanName(dst, a.Get(Name))
	case m == "":
		return append(dst, service...)
	case strings.IndexByte(m, '/') > 0:
		return append(dst, m...)
	}
	return join(dst, service, '/', m)
}

// Systems whose messages are tasks waiting for a worker.
var queues = [...]string{"celery", "sidekiq", "resque", "delayed_job", "rq", "bull", "bullmq", "hangfire", "aws_sqs", "AmazonSQS", "AWS SQS", "gcp_cloud_tasks", "active_job", "que", "faktory", "laravel"}

func messagingComponent(k Kind, system, operation string) string {
	if k == Consumer && operation != "receive" && operation != "poll" && operation != "settle" || k == Server {
		return App // the work itself, like a server's
	}
	for _, q := range queues {
		if strings.EqualFold(q, system) {
			return Queue
		}
	}
	return Messaging
}

func appendMessaging(dst []byte, k Kind, a *Attrs) ([]byte, string) {
	operation := a.Get(MessagingOperation)
	component := messagingComponent(k, a.Get(MessagingSystem), operation)
	if operation == "" {
		switch k {
		case Producer:
			operation = "publish"
		case Consumer:
			operation = "process"
		}
	}
	destination := a.Get(MessagingDestination)
	switch {
	case a.Get(MessagingAnonymous) == "true":
		dst = join(dst, operation, ' ', "(temporary)")
	case destination != "":
		dst = append(dst, operation...)
		if operation != "" {
			dst = append(dst, ' ')
		}
		dst = route.Template(dst, destination)
	case a.Mask.Has(Name):
		dst = appendSpanName(dst, a.V[Name])
	default:
		dst = append(dst, operation...)
	}
	return dst, component
}

func appendTask(dst []byte, k Kind, a *Attrs) ([]byte, string) {
	action := a.Get(TaskAction)
	if action == "" {
		action = a.Get(MessagingOperation)
	}
	if action == "" && k == Consumer {
		action = "process"
	}
	system := a.Get(MessagingSystem)
	component := Queue
	if system != "" || k == Consumer {
		component = messagingComponent(k, system, a.Get(MessagingOperation))
		if component == Messaging {
			component = Queue
		}
	}
	return join(append(dst, action...), "", ' ', a.V[Task]), component
}

// method returns the index of an HTTP method in route.Methods.
func method(s string) int {
	for i, m := range route.Methods {
		if len(m) == len(s) && strings.EqualFold(m, s) {
			return i
		}
	}
	return route.NumMethods - 1
}

// normalizeMethod returns the HTTP method in upper case, or _OTHER if it is unknown.
func normalizeMethod(s string) string { return route.Methods[method(s)] }

// HasPath reports whether the route of a span of this kind may have to be learned; see
// TakePath. m must be the result of Select.
func (m Mask) HasPath(k Kind) bool { return k == Server && m&paths != 0 }

// TakePath returns the path of a request whose route is to be learned, with the index of
// its method in route.Methods: the span has no http.route, and its name is the method, the
// path, or both. It removes from the mask what the route stands for. The path is empty,
// and only those of paths are removed, if the span has an operation of its own. HasPath
// must be true.
func (a *Attrs) TakePath() (m int, path string) {
	path = a.Get(URLPath)
	if path == "" {
		path = a.V[URL]
	}
	path = route.PathOf(path)
	a.Mask &^= paths
	m = method(a.V[HTTPMethod])
	name := strings.TrimPrefix(a.Get(Name), "HTTP")
	name = strings.TrimPrefix(name, " ")
	if n := len(route.Methods[m]); len(name) >= n && strings.EqualFold(name[:n], route.Methods[m]) {
		name = strings.TrimPrefix(name[n:], " ")
	}
	if name != "" && route.PathOf(name) != path {
		return 0, ""
	}
	a.Mask &^= maskHTTP
	return m, path
}

// appendServed appends the name of an incoming request: method and route. Without a route it
// uses the span's name. See TakePath for those whose route is learned.
func appendServed(dst []byte, a *Attrs) []byte {
	m := normalizeMethod(a.V[HTTPMethod])
	if route := a.Get(HTTPRoute); route != "" {
		if rest, ok := strings.CutPrefix(route, m+" "); ok { // Go's ServeMux patterns
			route = rest
		}
		dst = append(dst, m...)
		dst = append(dst, ' ')
		return append(dst, route...)
	}
	name := a.Get(Name)
	if name == "" || strings.EqualFold(name, m) || strings.EqualFold(name, "HTTP "+m) || strings.EqualFold(name, "HTTP") {
		return append(dst, m...)
	}
	if name[0] == '/' || strings.Contains(name, "://") {
		dst = append(dst, m...)
		dst = append(dst, ' ')
		return appendPath(dst, name)
	}
	if rest, ok := strings.CutPrefix(name, "HTTP "); ok {
		name = rest
	}
	return appendSpanName(dst, name)
}

// appendCalled appends the name of an outgoing request: method and peer, and the template of
// the path if there is one.
func appendCalled(dst []byte, a *Attrs) []byte {
	m := normalizeMethod(a.V[HTTPMethod])
	dst = append(dst, m...)
	peer := a.Get(PeerService)
	if peer == "" {
		peer = a.Get(ServerAddress)
	}
	if peer == "" {
		peer = host(a.Get(URL))
	}
	if peer != "" {
		dst = append(dst, ' ')
		dst = append(dst, peer...)
	} else if name := a.Get(Name); name != "" && !a.Mask.Has(URLTemplate) {
		word, rest, _ := strings.Cut(strings.TrimPrefix(name, "HTTP "), " ")
		if !strings.EqualFold(word, m) {
			rest = name
		}
		if rest != "" {
			dst = append(dst, ' ')
			dst = appendSpanName(dst, rest)
		}
	}
	if t := a.Get(URLTemplate); t != "" {
		if peer == "" || t[0] != '/' {
			dst = append(dst, ' ')
		}
		dst = append(dst, t...)
	}
	return dst
}

// host returns the host of a URL, without user and port.
func host(url string) string {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if i := strings.IndexByte(rest, ']'); i >= 0 { // IPv6
		return rest[:i+1]
	}
	if i := strings.IndexByte(rest, ':'); i >= 0 {
		rest = rest[:i]
	}
	return rest
}
