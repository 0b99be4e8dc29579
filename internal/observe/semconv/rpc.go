package semconv

import "strconv"

// grpcCodes are the names of gRPC's status codes, by number.
var grpcCodes = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// RPCCode parses a gRPC status code, by number or by name. It returns -1 for anything
// else.
func RPCCode(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		if n < 0 || n >= len(grpcCodes) {
			return -1
		}
		return n
	}
	for i, name := range grpcCodes {
		if s == name {
			return i
		}
	}
	return -1
}

// RPCFailed reports whether a span without a status of its own failed, by its gRPC
// status code: for the caller every code but OK, for the server its own faults.
// https://opentelemetry.io/docs/specs/semconv/rpc/grpc/#grpc-status
func RPCFailed(k Kind, code int) bool {
	switch {
	case code <= 0:
		return false
	case k == Client:
		return true
	case k != Server:
		return false
	}
	switch code {
	case 2, 4, 12, 13, 14, 15:
		return true
	}
	return false
}
