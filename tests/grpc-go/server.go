package main

import (
	"context"
	"flag"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// server is a health service that does as its flags say and keeps a book of its calls.
type server struct {
	grpc_health_v1.UnimplementedHealthServer

	code     code
	message  string
	metadata metadata.MD
	failures int
	delay    time.Duration

	begin time.Time
	mutex sync.Mutex
	calls []callSeen
	taken map[string]int
}

// callSeen is one call that the server took.
type callSeen struct {
	Service  string      `json:"service"`
	AtMS     float64     `json:"at_ms"`
	Metadata metadata.MD `json:"metadata"`
	// What is left of the call's deadline as the server understands it; absent where it has none.
	LeftMS *float64 `json:"left_ms,omitempty"`
}

func runServer(args []string) error {
	s := &server{
		code:     code(codes.Unavailable),
		metadata: metadata.MD{},
		begin:    time.Now(),
		calls:    []callSeen{},
		taken:    map[string]int{},
	}
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.Var(&s.code, "code", "`name` of the status of the calls that fail")
	flags.StringVar(&s.message, "message", "", "their message")
	flags.Var(pairs(s.metadata), "metadata", "`name=value` in the trailers of the calls that fail, repeatable")
	flags.IntVar(&s.failures, "failures", -1, "how many calls fail of each service name that is asked for; -1: all")
	flags.DurationVar(&s.delay, "delay", 0, "before each answer")
	if err := parse(flags, args); err != nil {
		return err
	}
	return s.serve()
}

// serve prints where it listens, serves until its standard input ends, then prints the book. So a
// server never outlives whoever started it, and its book is whole when it is read.
func (s *server) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := emit(map[string]string{"addr": listener.Addr().String()}); err != nil {
		return err
	}
	service := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(service, s)
	failed := make(chan error, 1)
	go func() { failed <- service.Serve(listener) }()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	select {
	case err := <-failed:
		return err
	case err := <-ended:
		if err != nil {
			return err
		}
	}
	service.Stop()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return emit(s.calls)
}

func (s *server) Check(
	ctx context.Context, request *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	nth := s.take(ctx, request.GetService())
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if s.failures >= 0 && nth > s.failures {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	}
	if err := grpc.SetTrailer(ctx, s.metadata); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.Code(s.code), s.message)
}

// take enters a call into the book and tells the how-manieth of its service name it is.
func (s *server) take(ctx context.Context, service string) int {
	now := time.Now()
	seen := callSeen{Service: service, AtMS: milliseconds(now.Sub(s.begin))}
	seen.Metadata, _ = metadata.FromIncomingContext(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		left := milliseconds(deadline.Sub(now))
		seen.LeftMS = &left
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.calls = append(s.calls, seen)
	s.taken[service]++
	return s.taken[service]
}
