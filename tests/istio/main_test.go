// Package istio holds the manifests in istio/ against Istio's own code: the definitions by which an API server
// judges them, istiod's validation, the configurations that pilot makes of them, and the agent that fetches the
// module. What pilot renders is kept in golden/, which a stock Envoy runs in tests/istio_live.
package istio

import (
	"os"
	"testing"

	"istio.io/istio/pkg/log"
)

func TestMain(m *testing.M) {
	// Pilot logs thousands of lines per rendering.
	for _, scope := range log.Scopes() {
		scope.SetOutputLevel(log.NoneLevel)
	}
	os.Exit(m.Run())
}
