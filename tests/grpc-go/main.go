// The command grpc-go is a gRPC client or server of the tests: grpc-go as applications use it, doing
// as its flags say and telling what it saw as JSON.
//
//	grpc-go client -addr 127.0.0.1:10000 -calls 50 -attempts 4
//	grpc-go server -code UNAVAILABLE -message 'not now'
//
// Both speak the standard health service, so no generated code is needed. Exit status 1: it could not
// do what it was asked to; how the calls end is no matter of the exit status.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "grpc-go:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say client or server; -h after it lists its flags")
	}
	switch args[0] {
	case "client":
		return runClient(args[1:])
	case "server":
		return runServer(args[1:])
	default:
		return fmt.Errorf("%q is neither client nor server", args[0])
	}
}

// parse reads the flags and takes nothing beside them.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// emit writes one JSON document on a line of its own.
func emit(document any) error {
	return json.NewEncoder(os.Stdout).Encode(document)
}

// pairs is a flag that may be repeated: -metadata name=value.
type pairs metadata.MD

func (p pairs) String() string { return "" }

func (p pairs) Set(pair string) error {
	name, value, found := strings.Cut(pair, "=")
	if !found || name == "" {
		return fmt.Errorf("%q is not name=value", pair)
	}
	metadata.MD(p).Append(name, value)
	return nil
}

// code is a flag: the name of a gRPC status, as in UNAVAILABLE.
type code codes.Code

func (c code) String() string { return codes.Code(c).String() }

func (c *code) Set(name string) error {
	quoted, err := json.Marshal(name)
	if err != nil {
		return err
	}
	return (*codes.Code)(c).UnmarshalJSON(quoted)
}
