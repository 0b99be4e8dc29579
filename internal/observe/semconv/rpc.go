package semconv

import "strconv"

// grpcCodes are the names of gRPC's status codes, by number.
var grpcCodes = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// RPCCode reads a gRPC status code, by number or by name; -1 is none of them.
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

// RPCFailed says whether a span without a status of its own failed, by its
// gRPC status code: for the caller whatever is not OK, for the server what is
// its own fault.
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
