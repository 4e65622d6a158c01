package istio

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"istio.io/istio/pkg/wasm"
)

// Two variables say what is fetched. RETRY_BUDGET_WASM is the module, a relative path counts from the top of the
// checkout; without it, what `make build` has built. RETRY_BUDGET_OCI_LAYOUT is a folder with an image of it in the
// OCI layout; without it the test packs one.
const (
	moduleVariable = "RETRY_BUDGET_WASM"
	layoutVariable = "RETRY_BUDGET_OCI_LAYOUT"
	imageName      = "retry-budget:0.1.0"
	placeholder    = "registry.example.com/" + imageName
)

func builtModule(t *testing.T) []byte {
	t.Helper()
	file := os.Getenv(moduleVariable)
	if file == "" {
		target := os.Getenv("CARGO_TARGET_DIR")
		if target == "" {
			target = "target"
		}
		file = filepath.Join(target, "wasm32-unknown-unknown/release/retry_budget.wasm")
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join("../..", file)
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: `make build` makes it, or name it in %s", err, moduleVariable)
	}
	return module
}

// image is the one of the OCI layout, or one as Istio asks for: a single layer with plugin.wasm.
func image(t *testing.T, module []byte) v1.Image {
	t.Helper()
	if folder := os.Getenv(layoutVariable); folder != "" {
		return imageIn(t, folder)
	}
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	header := tar.Header{Name: "plugin.wasm", Mode: 0o644, Size: int64(len(module))}
	if err := archive.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(module); err != nil {
		t.Fatal(err)
	}
	if archive.Close() != nil || zipped.Close() != nil {
		t.Fatal("the layer cannot be packed")
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func imageIn(t *testing.T, folder string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%s should have one image: %v", folder, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// publish starts a registry with the image in it: the image's name there and its digest.
func publish(t *testing.T, image v1.Image) (string, string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	url := strings.TrimPrefix(server.URL, "http://") + "/" + imageName
	reference, err := name.ParseReference(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return url, digest.Hex
}

// extension is what pilot sends for the filter where this manifest, changed so, is in force.
func extension(t *testing.T, manifest string, replace ...string) map[string]any {
	t.Helper()
	for _, c := range cases {
		if !reflect.DeepEqual(c.manifests, []string{manifest}) {
			continue
		}
		whole := render(t, c.of, retries(t, c.of), changed(t, manifest, replace...))
		if len(whole.Extensions) != 1 {
			t.Fatalf("%s gives %d extensions", manifest, len(whole.Extensions))
		}
		return whole.Extensions[0].(map[string]any)
	}
	t.Fatalf("no rendering of %s alone", manifest)
	return nil
}

// fetched is the extension after the agent was at it.
func fetched(t *testing.T, sent map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var config core.TypedExtensionConfig
	if err := protojson.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	resource, err := anypb.New(&config)
	if err != nil {
		t.Fatal(err)
	}
	resources := []*anypb.Any{resource}
	if err := wasm.MaybeConvertWasmExtensionConfig(resources, wasm.NewLocalFileCache(t.TempDir(), wasm.Options{})); err != nil {
		t.Fatal(err)
	}
	config.Reset()
	if err := resources[0].UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	return jsonOf(t, []*core.TypedExtensionConfig{&config})[0].(map[string]any)
}

// takeCode removes and returns the module's origin from an extension.
func takeCode(t *testing.T, extension map[string]any) map[string]any {
	t.Helper()
	var code map[string]any
	walk(extension, func(object map[string]any) {
		if object["runtime"] != nil {
			code, _ = object["code"].(map[string]any)
			delete(object, "code")
			// Notes of pilot for the agent.
			delete(object, "environment_variables")
		}
	})
	if code == nil {
		t.Fatalf("no module in %v", extension)
	}
	return code
}

var fetching = []string{"envoyfilter-oci.yaml", "waypoint.yaml", "wasmplugin.yaml", "trafficextension.yaml"}

func TestTheAgentFetchesTheModule(t *testing.T) {
	module := builtModule(t)
	url, digest := publish(t, image(t, module))
	for _, manifest := range fetching {
		t.Run(manifest, func(t *testing.T) {
			sent := extension(t, manifest, placeholder, url, zeros, digest)
			got := fetched(t, sent)
			code := takeCode(t, got)
			local, _ := code["local"].(map[string]any)
			file, _ := local["filename"].(string)
			bytesThere, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(bytesThere, module) {
				t.Fatalf("the agent hands over %v (%d bytes), the module has %d: %v", code, len(bytesThere), len(module), err)
			}
			// Nothing but the origin differs: the live test puts a file in its place in the same way.
			takeCode(t, sent)
			if !reflect.DeepEqual(sent, got) {
				t.Errorf("the agent makes %v of %v", got, sent)
			}
		})
	}
}

func TestWhatCannotBeFetchedIsReplaced(t *testing.T) {
	url, _ := publish(t, image(t, builtModule(t)))
	gone := httptest.NewServer(nil)
	nowhere := strings.TrimPrefix(gone.URL, "http://") + "/" + imageName
	gone.Close()
	for _, manifest := range fetching {
		for what, at := range map[string]string{"a wrong sha256": url, "no registry": nowhere} {
			t.Run(manifest+", "+what, func(t *testing.T) {
				// What the shipped manifest says, then the other.
				for policy, golden := range map[string]string{"FAIL_OPEN": "agent-open.json", "FAIL_RELOAD": "agent-closed.json"} {
					replace := []string{placeholder, at}
					for _, other := range []string{"FAIL_OPEN", "FAIL_RELOAD"} {
						if strings.Contains(shipped(t, manifest), other) {
							replace = append(replace, other, policy)
						}
					}
					compare(t, golden, unnamed(fetched(t, extension(t, manifest, replace...))))
				}
			})
		}
	}
}

// unnamed: the same for all manifests.
func unnamed(extension map[string]any) map[string]any {
	extension["name"] = "retry_budget"
	return extension
}
