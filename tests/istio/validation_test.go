package istio

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	schema "istio.io/istio/pkg/config/crd"
	"istio.io/istio/pkg/config/schema/collections"
)

// manifests is where the shipped files are.
const manifests = "../../istio"

// notManifests are files for kubectl patch and for helm: no objects of their own.
var notManifests = []string{"pod-template.yaml", "mesh-config.yaml"}

// apiVersions are the releases whose custom resource definitions judge the manifests, each with the checksum
// of the module that brings them.
var apiVersions = []struct{ release, version, sum string }{
	{"1.28", "v1.28.2", "h1:1DWf3M4+glutseG0WqwDuAqE99l+ce8zyqseBX5vK7k="},
	{"1.30", "v1.30.8", "h1:/weRNO9YbJsKqFibiGCjXG1i+UwNhJb3vts6ChGR554="},
	{"1.31", "v1.31.4", "h1:AcnncYrlDj1PJkym7h88Gggkef4MAra8QpGaXRMsr+E="},
	{"1.32", "v1.32.0", "h1:37mJvg9I0biYZAEQF+MATs4FNeCpXEIVO3LFpVb6iNM="},
}

// missingKinds are those that a release does not have yet: the API server refuses the file as a whole.
var missingKinds = map[string][]string{
	"1.28": {"TrafficExtension"},
}

// apiServer judges as an API server with the definitions of this release does.
var apiServer = func() func(t *testing.T, release string) *schema.Validator {
	var lock sync.Mutex
	known := map[string]*schema.Validator{}
	return func(t *testing.T, release string) *schema.Validator {
		t.Helper()
		lock.Lock()
		defer lock.Unlock()
		if known[release] == nil {
			file := filepath.Join(apiModule(t, release), "kubernetes/customresourcedefinitions.gen.yaml")
			validator, err := schema.NewValidatorFromFilesWithOptions([]string{file}, schema.WithoutCRDValidation())
			if err != nil {
				t.Fatal(err)
			}
			known[release] = validator
		}
		return known[release]
	}
}()

// apiModule is the folder of Istio's API module of this release, fetched where it is not there yet.
func apiModule(t *testing.T, release string) string {
	t.Helper()
	for _, api := range apiVersions {
		if api.release != release {
			continue
		}
		command := exec.Command("go", "mod", "download", "-json", "istio.io/api@"+api.version)
		output, err := command.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, output)
		}
		var module struct{ Dir, Sum string }
		if err := json.Unmarshal(output, &module); err != nil {
			t.Fatal(err)
		}
		if module.Sum != api.sum {
			t.Fatalf("istio.io/api@%s is %s, not %s", api.version, module.Sum, api.sum)
		}
		return module.Dir
	}
	t.Fatalf("no module for release %s", release)
	return ""
}

// shipped is the text of a shipped file.
func shipped(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func shippedManifests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var names []string
	for _, file := range files {
		if name := filepath.Base(file); !slices.Contains(notManifests, name) {
			names = append(names, name)
		}
	}
	return names
}

func kindOf(t *testing.T, text string) string {
	t.Helper()
	var object struct{ Kind string }
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object.Kind
}

func TestEveryManifestIsOneObject(t *testing.T) {
	for _, name := range shippedManifests(t) {
		if text := shipped(t, name); strings.Contains(text, "\n---") || kindOf(t, text) == "" {
			t.Errorf("%s is not one object", name)
		}
	}
}

func TestTheAPIServerOfEachReleaseAcceptsEveryManifest(t *testing.T) {
	for _, api := range apiVersions {
		for _, name := range shippedManifests(t) {
			text := shipped(t, name)
			err := apiServer(t, api.release).ValidateCustomResourceYAML(text, nil)
			if slices.Contains(missingKinds[api.release], kindOf(t, text)) {
				refused(t, api.release+" "+name, err, "no validator found")
			} else if err != nil {
				t.Errorf("%s refuses %s: %v", api.release, name, err)
			}
		}
	}
}

func TestIstiodAcceptsEveryManifest(t *testing.T) {
	for _, name := range shippedManifests(t) {
		if err := istiod(shipped(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// istiod judges as its webhook does. Its warnings, which kubectl shows, count here.
func istiod(text string) error {
	configs, others, err := crd.ParseInputs(text)
	if err != nil {
		return err
	}
	if len(others) != 0 || len(configs) != 1 {
		return fmt.Errorf("%d objects, %d unknown ones", len(configs), len(others))
	}
	definition, _ := collections.PilotGatewayAPI().FindByGroupVersionAliasesKind(configs[0].GroupVersionKind)
	warning, err := definition.ValidateConfig(configs[0])
	if warning != nil && strings.HasPrefix(warning.Error(), "EnvoyFilter exposes internal implementation details") {
		warning = nil // said of every EnvoyFilter
	}
	return errors.Join(err, warning)
}

// A mistake in a manifest and who finds it.
type mistake struct {
	what, file, old, new string
	// What the API server says, and istiod; empty where it accepts the mistake. (Fields that it does not know
	// istiod leaves to the API server.)
	server, istiod string
}

var mistakes = []mistake{
	{
		what: "a misspelled field", file: "wasmplugin.yaml", old: "pluginName:", new: "pluginname:",
		server: "unknown fields [spec.pluginname]",
	},
	{
		what: "a misspelled field", file: "trafficextension.yaml", old: "failStrategy:", new: "failstrategy:",
		server: "unknown fields [spec.wasm.failstrategy]",
	},
	{
		what: "a misspelled field", file: "envoyfilter.yaml", old: "workloadSelector:", new: "workloadselector:",
		server: "unknown fields [spec.workloadselector]",
	},
	{
		what: "an unknown mode", file: "wasmplugin.yaml", old: "mode: SERVER", new: "mode: CALLEE",
		server: `Unsupported value: "CALLEE"`, istiod: `unknown value "\"CALLEE\""`,
	},
	{
		what: "an unknown mode", file: "trafficextension.yaml", old: "mode: SERVER", new: "mode: CALLEE",
		server: `Unsupported value: "CALLEE"`, istiod: `unknown value "\"CALLEE\""`,
	},
	{
		what: "an unknown context", file: "envoyfilter.yaml", old: "context: GATEWAY", new: "context: GATEWAYS",
		server: `Unsupported value: "GATEWAYS"`, istiod: `unknown value "\"GATEWAYS\""`,
	},
	{
		what: "a short sha256", file: "wasmplugin.yaml", old: zeros, new: zeros[1:],
		server: "spec.sha256 in body should match", istiod: "sha256 field must be 64 characters long",
	},
	{
		what: "a short sha256", file: "trafficextension.yaml", old: zeros, new: zeros[1:],
		server: "spec.wasm.sha256 in body should match", istiod: "sha256 field must be 64 characters long",
	},
	{
		what: "selector and targetRefs", file: "wasmplugin.yaml", old: "  match:\n", new: targetRefs + "  match:\n",
		server: "only one of targetRefs or selector can be set", istiod: "only one of targetRefs or workloadSelector can be set",
	},
	{
		what: "selector and targetRefs", file: "trafficextension.yaml", old: "  match:\n", new: targetRefs + "  match:\n",
		server: "only one of targetRefs or selector can be set", istiod: "only one of targetRefs or workloadSelector can be set",
	},
	{
		what: "selector and targetRefs", file: "envoyfilter.yaml", old: "  configPatches:\n", new: targetRefs + "  configPatches:\n",
		server: "only one of targetRefs or workloadSelector can be set",
	},
	{
		what: "a misspelled retry condition", file: "virtualservice.yaml", old: "5xx,", new: "5xxs,",
		istiod: `"5xxs" is not a valid retryOn policy`,
	},
	{
		what: "a misspelled field of Envoy's", file: "envoyfilter.yaml", old: "failure_policy:", new: "failurepolicy:",
		istiod: "failurepolicy",
	},
	// Nobody but the proxy itself looks into the policy.
	{what: "a misspelled key of the policy", file: "wasmplugin.yaml", old: "max_tokens:", new: "maxtokens:"},
	{what: "a misspelled key of the policy", file: "trafficextension.yaml", old: "max_tokens:", new: "maxtokens:"},
	{what: "a misspelled key of the policy", file: "envoyfilter.yaml", old: "max_tokens", new: "maxtokens"},
}

const targetRefs = `  targetRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: waypoint
`

var zeros = strings.Repeat("0", 64)

func TestMistakesAreRefusedWithTheReason(t *testing.T) {
	for _, mistake := range mistakes {
		text := shipped(t, mistake.file)
		if !strings.Contains(text, mistake.old) {
			t.Fatalf("%s has no %q", mistake.file, mistake.old)
		}
		text = strings.Replace(text, mistake.old, mistake.new, 1)
		what := mistake.file + ", " + mistake.what
		for _, api := range apiVersions {
			if slices.Contains(missingKinds[api.release], kindOf(t, text)) {
				continue
			}
			refused(t, api.release+": "+what, apiServer(t, api.release).ValidateCustomResourceYAML(text, nil), mistake.server)
		}
		refused(t, "istiod: "+what, istiod(text), mistake.istiod)
	}
}

// refused tells whether err gives this reason; none at all is due where the reason is empty.
func refused(t *testing.T, what string, err error, reason string) {
	t.Helper()
	switch {
	case reason == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case reason != "" && err == nil:
		t.Errorf("%s: accepted, should be refused: %s", what, reason)
	case reason != "" && !strings.Contains(err.Error(), reason):
		t.Errorf("%s: should be refused because of %q: %v", what, reason, err)
	}
}
