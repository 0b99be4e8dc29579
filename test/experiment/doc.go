// Package experiment runs the experiments of docs/examples as anybody would, only
// shorter: the program, their files, real servers, and what it prints.
//
//	go test -tags servers ./test/experiment
package experiment
