// Package contact has clients of others meet the server as they are installed: with their
// defaults, and nothing set but where the server is. Each must be understood at once, and
// warn of nothing.
package contact
