package istio

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// changed is a shipped manifest with replacements, in pairs of what is there and what is put there.
func changed(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text := shipped(t, name)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s has no %q", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// names lists the entries of a filter list, in order.
func names(list any) []string {
	var found []string
	for _, entry := range list.([]any) {
		found = append(found, entry.(map[string]any)["name"].(string))
	}
	return found
}

// Two EnvoyFilters with the filter reach one workload: each list has everything twice, and the codec is no longer
// at the end alone. The live test shows that Envoy refuses the listener.
func TestAppliedTwiceTheListsAreAppended(t *testing.T) {
	again := changed(t, "envoyfilter.yaml", "namespace: istio-system", "namespace: shop")
	c := renderingCase{name: "sidecar-twice", of: caller, listener: "0.0.0.0_8080", cluster: outbound}
	kept := c.golden(t, render(t, caller, retries(t, caller), shipped(t, "envoyfilter.yaml"), again))
	want := []string{"retry_budget", "envoy.filters.http.upstream_codec", "retry_budget", "envoy.filters.http.upstream_codec"}
	walk(kept.Listeners, func(object map[string]any) {
		if list, ok := object["upstream_http_filters"]; ok && !slices.Equal(names(list), want) {
			t.Errorf("the upstream chain is %q", names(list))
		}
	})
	compare(t, "sidecar-twice.json", kept)
}

func TestWhomTheManifestsReach(t *testing.T) {
	unlabelled := caller
	unlabelled.labels = map[string]string{"app": "checkout"}
	another := unlabelled
	another.namespace, another.id = "stock", "stock-0.stock"
	bothHere := twice("listener 0.0.0.0_8080")
	bothWaypoint := twice("listener main_internal, chain "+inboundVIP, "listener main_internal, chain direct-http")
	for _, at := range []struct {
		what string
		of   workload
		text string
		want []string
	}{
		{"a pod without the label", unlabelled, shipped(t, "envoyfilter.yaml"), nil},
		{"a gateway without the label", workload{
			kind: gateway.kind, id: gateway.id, namespace: gateway.namespace, ip: gateway.ip, labels: map[string]string{"istio": "ingress"},
		}, shipped(t, "envoyfilter.yaml"), nil},
		{"any pod", another, shipped(t, "envoyfilter-oci.yaml"), bothHere},
		{"any pod of the namespace", unlabelled, changed(t, "envoyfilter-oci.yaml", "istio-system", "shop"), bothHere},
		{"a pod of another namespace", another, changed(t, "envoyfilter-oci.yaml", "istio-system", "shop"), nil},
		{"a sidecar by the waypoint's manifest", caller, shipped(t, "waypoint.yaml"), nil},
		{"a waypoint by a manifest without targetRefs", waypoint, shipped(t, "envoyfilter-oci.yaml"), nil},
		{"a waypoint by context WAYPOINT", waypoint, changed(t, "waypoint.yaml", "SIDECAR_INBOUND", "WAYPOINT"), nil},
		{"a waypoint by context GATEWAY", waypoint, changed(t, "waypoint.yaml", "SIDECAR_INBOUND", "GATEWAY"), nil},
		{"a waypoint by its class", waypoint, changed(t, "waypoint.yaml",
			"namespace: shop", "namespace: istio-system", "kind: Gateway", "kind: GatewayClass", "name: waypoint", "name: istio-waypoint"), bothWaypoint},
		{"another pod by the callee's WasmPlugin", caller, shipped(t, "wasmplugin.yaml"), nil},
		{"another pod by the callee's TrafficExtension", caller, shipped(t, "trafficextension.yaml"), nil},
	} {
		if got := render(t, at.of, at.text).placements(); !slices.Equal(got, at.want) {
			t.Errorf("%s: the filter stands at %q, should be at %q", at.what, got, at.want)
		}
	}
}

func TestWithoutAListenersNameAWaypointTakesTunnelsForRequests(t *testing.T) {
	everywhere := changed(t, "waypoint.yaml", "        name: main_internal\n", "")
	got := render(t, waypoint, everywhere).placements()
	connects := func(at string) bool { return strings.Contains(at, "connect_terminate") }
	if !slices.ContainsFunc(got, connects) {
		t.Errorf("the filter stands at %q", got)
	}
	if got := render(t, waypoint, shipped(t, "waypoint.yaml")).placements(); slices.ContainsFunc(got, connects) {
		t.Errorf("the filter stands at %q", got)
	}
}

// An extension's context is not heeded: two of them are two resources of one name.
func TestAnExtensionIsSentOnce(t *testing.T) {
	for name, of := range map[string]workload{"envoyfilter-oci.yaml": caller, "waypoint.yaml": waypoint} {
		if sent := render(t, of, shipped(t, name)).Extensions; len(sent) != 1 {
			t.Errorf("%s: %d extensions", name, len(sent))
		}
	}
	patch := "  - applyTo: EXTENSION_CONFIG\n    patch:"
	inContext := "  - applyTo: EXTENSION_CONFIG\n    match:\n      context: GATEWAY\n    patch:"
	if sent := render(t, caller, changed(t, "envoyfilter-oci.yaml", patch, inContext)).Extensions; len(sent) != 1 {
		t.Errorf("a sidecar gets %d extensions of context GATEWAY", len(sent))
	}
}

// What rate-limited-backoff.yaml says of waypoints.
func TestABackoffForWaypoints(t *testing.T) {
	patched := func(text string) bool {
		found := false
		walk(render(t, waypoint, retries(t, waypoint), text).Listeners, func(object map[string]any) {
			found = found || object["rate_limited_retry_back_off"] != nil
		})
		return found
	}
	if patched(shipped(t, "rate-limited-backoff.yaml")) {
		t.Error("it reaches a waypoint as it is")
	}
	if !patched(changed(t, "rate-limited-backoff.yaml",
		"SIDECAR_OUTBOUND", "SIDECAR_INBOUND", "istio-system", "shop", "spec:\n", "spec:\n"+targetRefs)) {
		t.Error("it does not reach a waypoint with targetRefs")
	}
}

// protocol is what Istio has set for HTTP towards the service.
func protocol(t *testing.T, whole rendering) map[string]any {
	t.Helper()
	clusters := named(whole.Clusters, outbound)
	options, _ := clusters[0].(map[string]any)["typed_extension_protocol_options"].(map[string]any)
	for _, key := range sorted(options) {
		return options[key].(map[string]any)
	}
	return nil
}

func TestTheClusterVariantReplacesProtocolOptions(t *testing.T) {
	if bare := protocol(t, render(t, caller)); bare != nil {
		t.Errorf("a plain HTTP cluster has options: %v", bare)
	}
	for what, policy := range map[string]string{
		"HTTP/2":  "connectionPool: {http: {h2UpgradePolicy: UPGRADE}}",
		"either":  "connectionPool: {http: {useClientProtocol: true}}",
		"a limit": "connectionPool: {http: {maxRequestsPerConnection: 7}}",
		"a pause": "connectionPool: {http: {idleTimeout: 7s}}",
		"SNI":     "tls: {mode: SIMPLE}",
	} {
		rule := `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: orders, namespace: shop}
spec:
  host: ` + service + `
  trafficPolicy:
    ` + policy + "\n"
		before, after := protocol(t, render(t, caller, rule)), protocol(t, render(t, caller, rule, shipped(t, "envoyfilter-cluster.yaml")))
		if before == nil {
			t.Errorf("%s: there are no options to lose", what)
		}
		delete(after, "http_filters")
		plain := map[string]any{"@type": after["@type"], "explicit_http_config": map[string]any{"http_protocol_options": map[string]any{}}}
		if !reflect.DeepEqual(after, plain) {
			t.Errorf("%s: the options are %v now", what, after)
		}
	}
}

func TestPortsOfGRPCHaveProtocolOptionsToLose(t *testing.T) {
	for _, port := range []string{"grpc", "http2"} {
		entry := `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: stock, namespace: shop}
spec:
  hosts: [stock.example.com]
  resolution: STATIC
  ports: [{name: ` + port + `, number: 8080, protocol: ` + strings.ToUpper(port) + `}]
  endpoints: [{address: 10.1.0.7}]
`
		clusters := named(render(t, caller, entry).Clusters, "outbound|8080||stock.example.com")
		if len(clusters) != 1 || clusters[0].(map[string]any)["typed_extension_protocol_options"] == nil {
			t.Errorf("%s: %v", port, clusters)
		}
	}
}

// Envoy's own limits on retries, as pilot sets them.
func TestLimitsOnRetries(t *testing.T) {
	thresholds := func(manifests ...string) map[string]any {
		cluster := named(render(t, caller, manifests...).Clusters, outbound)[0].(map[string]any)
		return cluster["circuit_breakers"].(map[string]any)["thresholds"].([]any)[0].(map[string]any)
	}
	rule := shipped(t, "destinationrule.yaml")
	limits := func(thresholds map[string]any) [2]any {
		return [2]any{thresholds["max_retries"], thresholds["retry_budget"]}
	}
	if got := limits(thresholds()); got != [2]any{float64(4294967295), nil} {
		t.Errorf("by default: %v", got)
	}
	if got := limits(thresholds(rule)); got != [2]any{float64(2147483647), nil} {
		t.Errorf("with destinationrule.yaml: %v", got)
	}
	native := strings.Replace(rule, "  trafficPolicy:\n", "  trafficPolicy:\n    retryBudget: {percent: 20, minRetryConcurrency: 3}\n", 1)
	if got := thresholds(native)["retry_budget"]; got == nil {
		t.Error("DestinationRule retryBudget is not rendered")
	}
}

// A rule that limits something else leaves retries alone.
func TestARuleAboutConnectionsLimitsNoRetries(t *testing.T) {
	rule := changed(t, "destinationrule.yaml", "maxRetries: 2147483647", "http2MaxRequests: 100")
	cluster := named(render(t, caller, rule).Clusters, outbound)[0].(map[string]any)
	found := false
	walk(cluster["circuit_breakers"], func(object map[string]any) {
		if object["max_requests"] != nil {
			found = true
			if object["max_retries"] != float64(4294967295) {
				t.Errorf("retries at a time: %v", object["max_retries"])
			}
		}
	})
	if !found {
		t.Error("no limits")
	}
}
