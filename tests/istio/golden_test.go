package istio

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"istio.io/istio/pilot/pkg/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

const service = "orders.shop.svc.cluster.local"

// golden is a rendering, reduced to what a request to the service passes.
type golden struct {
	// Where the filter stands in all that was rendered, whether it is kept here or not.
	Placements []string `json:"placements"`
	rendering
}

// A golden file: how a proxy is configured with some of the shipped manifests.
type renderingCase struct {
	name      string
	of        workload
	manifests []string
	// What is kept of it.
	listener, chain, cluster string
	placements               []string
}

const (
	outbound   = "outbound|8080||" + service
	inboundVIP = "inbound-vip|8080|http|" + service
	anyChain   = ""
)

var cases = []renderingCase{
	{
		name: "sidecar", of: caller, manifests: []string{"envoyfilter.yaml"},
		listener: "0.0.0.0_8080", cluster: outbound,
		placements: twice("listener 0.0.0.0_8080"),
	},
	{
		name: "sidecar-oci", of: caller, manifests: []string{"envoyfilter-oci.yaml"},
		listener: "0.0.0.0_8080", cluster: outbound, placements: twice("listener 0.0.0.0_8080"),
	},
	{
		name: "sidecar-cluster", of: caller, manifests: []string{"envoyfilter-cluster.yaml"},
		listener: "0.0.0.0_8080", cluster: outbound, placements: []string{"cluster " + outbound + ": attempt"},
	},
	{
		name: "sidecar-wait", of: caller, manifests: []string{"envoyfilter.yaml", "rate-limited-backoff.yaml"},
		listener: "0.0.0.0_8080", cluster: outbound, placements: twice("listener 0.0.0.0_8080"),
	},
	{
		name: "gateway", of: gateway, manifests: []string{"envoyfilter.yaml"},
		listener: "0.0.0.0_80", cluster: outbound, placements: twice("listener 0.0.0.0_80"),
	},
	{
		name: "gateway-oci", of: gateway, manifests: []string{"envoyfilter-oci.yaml"},
		listener: "0.0.0.0_80", cluster: outbound, placements: twice("listener 0.0.0.0_80"),
	},
	{
		name: "waypoint", of: waypoint, manifests: []string{"waypoint.yaml"},
		listener: "main_internal", chain: inboundVIP, cluster: inboundVIP,
		// The last is for requests to a pod's own address, past the service: there the filter is a callee.
		placements: twice("listener main_internal, chain "+inboundVIP, "listener main_internal, chain direct-http"),
	},
	{
		name: "callee-wasmplugin", of: callee, manifests: []string{"wasmplugin.yaml"},
		listener: "virtualInbound", chain: "0.0.0.0_8080", cluster: "inbound|8080||",
		placements: inbound,
	},
	{
		name: "callee-trafficextension", of: callee, manifests: []string{"trafficextension.yaml"},
		listener: "virtualInbound", chain: "0.0.0.0_8080", cluster: "inbound|8080||",
		placements: inbound,
	},
}

// inbound: with and without TLS, the service's port and those that no service has.
var inbound = []string{
	"listener virtualInbound, chain virtualInbound-catchall-http: request",
	"listener virtualInbound, chain virtualInbound-catchall-http: request",
	"listener virtualInbound, chain 0.0.0.0_8080: request",
	"listener virtualInbound, chain 0.0.0.0_8080: request",
}

// twice: both placements there.
func twice(where ...string) []string {
	var list []string
	for _, place := range where {
		list = append(list, place+": request", place+": attempt")
	}
	return list
}

// rendered is what pilot makes of a case, with the service's retries and limits in force.
func (c renderingCase) rendered(t *testing.T, manifests ...string) rendering {
	t.Helper()
	texts := []string{retries(t, c.of), shipped(t, "destinationrule.yaml")}
	for _, name := range manifests {
		texts = append(texts, shipped(t, name))
	}
	return render(t, c.of, texts...)
}

// retries is the shipped VirtualService; for a gateway bound to it, as every route of a gateway must be.
func retries(t *testing.T, of workload) string {
	text := shipped(t, "virtualservice.yaml")
	if of.kind != model.Router {
		return text
	}
	return strings.Replace(text, "  hosts:\n  - "+service, "  gateways: [istio-ingress/shop]\n  hosts:\n  - \"*\"", 1)
}

// golden keeps of a rendering what a request to the service passes.
func (c renderingCase) golden(t *testing.T, whole rendering) golden {
	t.Helper()
	kept := golden{whole.placements(), rendering{
		Listeners: named(whole.Listeners, c.listener), Clusters: named(whole.Clusters, c.cluster), Extensions: whole.Extensions,
	}}
	if len(kept.Listeners) != 1 || len(kept.Clusters) != 1 {
		t.Fatalf("%s: no listener %s or no cluster %s", c.name, c.listener, c.cluster)
	}
	listener := kept.Listeners[0].(map[string]any)
	if c.chain != anyChain {
		// The one without TLS, where there are two.
		plain := slices.DeleteFunc(listener["filter_chains"].([]any), func(chain any) bool {
			return chain.(map[string]any)["transport_socket"] != nil
		})
		listener["filter_chains"] = named(plain, c.chain)
		delete(listener, "default_filter_chain")
	}
	walk(kept.Extensions, func(object map[string]any) {
		if version := "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"; object[version] != nil {
			object[version] = "1" // the store of this test takes the time
		}
	})
	names := map[string]bool{}
	walk(kept.Listeners, func(object map[string]any) {
		if rds, ok := object["rds"].(map[string]any); ok {
			names[rds["route_config_name"].(string)] = true
		}
	})
	kept.Routes = named(whole.Routes, sorted(names)...)
	for _, routes := range kept.Routes {
		// Hosts that are not there for the service.
		config := routes.(map[string]any)
		config["virtual_hosts"] = slices.DeleteFunc(config["virtual_hosts"].([]any), func(host any) bool {
			text, _ := json.Marshal(host)
			return !bytes.Contains(text, []byte(`"`+c.cluster+`"`))
		})
	}
	return kept
}

func TestRenderingsAreTheGoldenFiles(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			kept := c.golden(t, c.rendered(t, c.manifests...))
			if !reflect.DeepEqual(kept.Placements, c.placements) {
				t.Errorf("the filter stands at %q, should be at %q", kept.Placements, c.placements)
			}
			compare(t, c.name+".json", kept)
		})
	}
}

// Taking the filter out of the golden file again, as the live test does for its controls, must give what pilot
// renders without the manifest: the manifest changes nothing else.
func TestManifestsChangeNothingElse(t *testing.T) {
	for _, c := range cases {
		if c.name == "sidecar-cluster" || c.name == "sidecar-wait" {
			continue // the one replaces options, the other changes routes
		}
		t.Run(c.name, func(t *testing.T) {
			with, bare := c.rendered(t, c.manifests...), c.rendered(t)
			if got := bare.placements(); len(got) != 0 {
				t.Fatalf("the filter stands at %q without a manifest", got)
			}
			for what, pair := range map[string][2][]any{
				"listeners": {with.Listeners, bare.Listeners},
				"routes":    {with.Routes, bare.Routes},
				"clusters":  {with.Clusters, bare.Clusters},
			} {
				if !reflect.DeepEqual(without(pair[0]), any(pair[1])) {
					t.Errorf("the manifest also changes %s", what)
				}
			}
		})
	}
}

// compare tells where a golden file differs, or writes it anew.
func compare(t *testing.T, name string, value any) {
	t.Helper()
	file := filepath.Join("golden", name)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	known, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: `make istio-golden` writes it", err)
	}
	if bytes.Equal(known, text.Bytes()) {
		return
	}
	before, after := strings.Split(string(known), "\n"), strings.Split(text.String(), "\n")
	for i := range min(len(before), len(after)) {
		if before[i] != after[i] {
			t.Fatalf("%s, line %d: pilot renders %q, the file has %q. If that is meant: `make istio-golden`",
				file, i+1, strings.TrimSpace(after[i]), strings.TrimSpace(before[i]))
		}
	}
	t.Fatalf("%s has %d lines, pilot renders %d. If that is meant: `make istio-golden`", file, len(before), len(after))
}
