package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// grpc-go itself makes no more attempts than this, whatever the policy says.
const mostAttempts = 5

// connecting may take this long. A loaded machine is slow.
const connectTimeout = 30 * time.Second

type clientOptions struct {
	addr     string
	calls    int
	service  string
	timeout  time.Duration
	metadata metadata.MD
	attempts int
	backoff  time.Duration
}

// answer is what became of one call.
type answer struct {
	Service   string        `json:"service"`
	Code      codes.Code    `json:"code"`
	Message   string        `json:"message"`
	Header    metadata.MD   `json:"header"`
	Trailer   metadata.MD   `json:"trailer"`
	LatencyMS float64       `json:"latency_ms"`
	Attempts  []attemptSeen `json:"attempts"`
}

// attemptSeen is one attempt that grpc-go made for a call.
type attemptSeen struct {
	// When it began, counted from the beginning of the call.
	AtMS float64 `json:"at_ms"`
	// The policy has no say in these: grpc-go makes them where the stream cannot have been processed.
	Transparent bool        `json:"transparent"`
	Trailer     metadata.MD `json:"trailer"`
}

func runClient(args []string) error {
	o := clientOptions{metadata: metadata.MD{}}
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "", "`host:port` to call")
	flags.IntVar(&o.calls, "calls", 1, "calls at once, each over a connection of its own")
	flags.StringVar(&o.service, "service", "", "`name` to ask for (default call-0, call-1, …)")
	flags.DurationVar(&o.timeout, "timeout", 0, "deadline of each call, its retries included (default none)")
	flags.Var(pairs(o.metadata), "metadata", "`name=value` to send, repeatable")
	flags.IntVar(&o.attempts, "attempts", 1, "maxAttempts of the client's own retry policy for UNAVAILABLE; 1: no policy")
	flags.DurationVar(&o.backoff, "backoff", 10*time.Millisecond, "wait before each retry of the policy")
	if err := parse(flags, args); err != nil {
		return err
	}
	if o.addr == "" || o.calls < 1 {
		return fmt.Errorf("client needs -addr and at least one call")
	}
	if o.attempts < 1 || o.attempts > mostAttempts {
		return fmt.Errorf("-attempts %d is not in 1 to %d", o.attempts, mostAttempts)
	}
	answers, err := o.storm()
	if err != nil {
		return err
	}
	return emit(answers)
}

// storm makes all calls at once. Every one has its own connection, so that each of a proxy's workers
// gets some, and all are connected beforehand, so that latencies are those of the calls.
func (o *clientOptions) storm() ([]answer, error) {
	var connections []*grpc.ClientConn
	for range o.calls {
		connection, err := o.connect()
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		connections = append(connections, connection)
	}
	answers := make([]answer, o.calls)
	var running sync.WaitGroup
	for i, connection := range connections {
		service := o.service
		if service == "" {
			service = fmt.Sprintf("call-%d", i)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			answers[i] = o.call(connection, service)
		}()
	}
	running.Wait()
	return answers, nil
}

func (o *clientOptions) connect() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// What is called is what -addr says, whatever the environment has.
		grpc.WithNoProxy(),
		grpc.WithStatsHandler(watcher{}),
	}
	if o.attempts > 1 {
		policy, err := o.serviceConfig()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithDefaultServiceConfig(policy))
	}
	connection, err := grpc.NewClient("passthrough:///"+o.addr, options...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	connection.Connect()
	for state := connection.GetState(); state != connectivity.Ready; state = connection.GetState() {
		if !connection.WaitForStateChange(ctx, state) {
			connection.Close()
			return nil, fmt.Errorf("no connection to %s within %v: %v", o.addr, connectTimeout, state)
		}
	}
	return connection, nil
}

// serviceConfig is what a service's owner publishes, or a client sets, to have failed calls retried.
func (o *clientOptions) serviceConfig() (string, error) {
	backoff := fmt.Sprintf("%fs", o.backoff.Seconds())
	document, err := json.Marshal(map[string]any{
		"methodConfig": []any{map[string]any{
			"name": []any{map[string]any{"service": grpc_health_v1.Health_ServiceDesc.ServiceName}},
			"retryPolicy": map[string]any{
				"maxAttempts":          o.attempts,
				"initialBackoff":       backoff,
				"maxBackoff":           backoff,
				"backoffMultiplier":    1,
				"retryableStatusCodes": []string{"UNAVAILABLE"},
			},
		}},
	})
	return string(document), err
}

func (o *clientOptions) call(connection *grpc.ClientConn, service string) answer {
	watched := &call{begin: time.Now()}
	ctx := context.WithValue(context.Background(), callKey{}, watched)
	ctx = metadata.NewOutgoingContext(ctx, o.metadata)
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	seen := answer{Service: service}
	request := &grpc_health_v1.HealthCheckRequest{Service: service}
	_, err := grpc_health_v1.NewHealthClient(connection).Check(
		ctx, request, grpc.Header(&seen.Header), grpc.Trailer(&seen.Trailer))
	seen.LatencyMS = milliseconds(time.Since(watched.begin))
	seen.Code, seen.Message = status.Code(err), status.Convert(err).Message()
	seen.Attempts = watched.result()
	return seen
}

// call gathers the attempts of one call.
type call struct {
	begin    time.Time
	mutex    sync.Mutex
	attempts []*attemptSeen
}

func (c *call) result() []attemptSeen {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	attempts := []attemptSeen{}
	for _, attempt := range c.attempts {
		attempts = append(attempts, *attempt)
	}
	return attempts
}

type (
	callKey    struct{}
	attemptKey struct{}
)

// watcher is told by grpc-go of every attempt, which a call's result does not show.
type watcher struct{}

func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	watched, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return ctx
	}
	attempt := &attemptSeen{AtMS: milliseconds(time.Since(watched.begin))}
	watched.mutex.Lock()
	defer watched.mutex.Unlock()
	watched.attempts = append(watched.attempts, attempt)
	return context.WithValue(ctx, attemptKey{}, attempt)
}

func (watcher) HandleRPC(ctx context.Context, event stats.RPCStats) {
	attempt, ok := ctx.Value(attemptKey{}).(*attemptSeen)
	if !ok {
		return
	}
	watched := ctx.Value(callKey{}).(*call)
	watched.mutex.Lock()
	defer watched.mutex.Unlock()
	switch event := event.(type) {
	case *stats.Begin:
		attempt.Transparent = event.IsTransparentRetryAttempt
	case *stats.End:
		attempt.Trailer = event.Trailer
	}
}

func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (watcher) HandleConn(context.Context, stats.ConnStats) {}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
