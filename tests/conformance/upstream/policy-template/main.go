// The oracle of lang/policy-template: what go-template-utils itself makes of the corpus.
//
// The first line of its input is the objects of a cluster, in JSON. Each further line is a case in JSON; it writes the case
// with its answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/stolostron/go-template-utils/v7/pkg/templates"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	discovery "k8s.io/client-go/discovery/fake"
	dynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

type testCase struct {
	// Input is an object with templates, YAML a text with templates.
	Input json.RawMessage `json:"input,omitempty"`
	YAML  string          `json:"yaml,omitempty"`
	// Hub: with the hub's delimiters, indentation and restrictions. Everywhere: without the restrictions.
	Hub        bool     `json:"hub,omitempty"`
	Everywhere bool     `json:"everywhere,omitempty"`
	Denied     []string `json:"denied,omitempty"`
	Encrypt    bool     `json:"encrypt,omitempty"`
	Decrypt    bool     `json:"decrypt,omitempty"`
	Key        string   `json:"key,omitempty"`
	Previous   string   `json:"previous,omitempty"`
	IV         string   `json:"iv,omitempty"`
	Skip       bool     `json:"skip,omitempty"`
	// Of the object that a template is for.
	Object    json.RawMessage `json:"object,omitempty"`
	Name      string          `json:"name,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	// Loose: the words of the error are a YAML library's own, only that there is one counts.
	Loose bool `json:"loose,omitempty"`

	Output    json.RawMessage `json:"output,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
	Skipped   bool            `json:"skipped,omitempty"`
	Error     string          `json:"error,omitempty"`
}

type templateCtx struct {
	ManagedClusterName   string
	ManagedClusterLabels map[string]string
	PolicyMetadata       map[string]interface{}
}

var kinds = []metav1.APIResourceList{
	{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "nodes", Kind: "Node"},
	}},
	{GroupVersion: "cluster.open-cluster-management.io/v1", APIResources: []metav1.APIResource{
		{Name: "managedclusters", Kind: "ManagedCluster"},
	}},
	{GroupVersion: "cluster.open-cluster-management.io/v1alpha1", APIResources: []metav1.APIResource{
		{Name: "clusterclaims", Kind: "ClusterClaim"},
	}},
}

func contextOf(it *testCase) any {
	var object map[string]any
	if it.Object != nil {
		_ = kubejson.Unmarshal(it.Object, &object)
	}
	switch {
	case it.Hub:
		return templateCtx{
			ManagedClusterName:   "c1",
			ManagedClusterLabels: map[string]string{"env": "prod"},
			PolicyMetadata: map[string]interface{}{
				"annotations": map[string]string{"a": "b"}, "labels": map[string]string{}, "name": "p", "namespace": "ns",
			},
		}
	case it.Name != "" && it.Namespace != "":
		return struct {
			Object          map[string]any
			ObjectNamespace string
			ObjectName      string
		}{object, it.Namespace, it.Name}
	case it.Name != "":
		return struct {
			Object     map[string]any
			ObjectName string
		}{object, it.Name}
	case it.Namespace != "":
		return struct{ ObjectNamespace string }{it.Namespace}
	}
	return struct{}{}
}

func answer(objects []runtime.Object, it *testCase) error {
	lists := map[schema.GroupVersionResource]string{}
	var served []*metav1.APIResourceList
	for i := range kinds {
		version, _ := schema.ParseGroupVersion(kinds[i].GroupVersion)
		for j := range kinds[i].APIResources {
			resource := &kinds[i].APIResources[j]
			resource.Verbs = metav1.Verbs{"get", "list", "watch"}
			lists[version.WithResource(resource.Name)] = resource.Kind + "List"
		}
		served = append(served, &kinds[i])
	}
	config := templates.Config{}
	if it.Hub {
		config = templates.Config{StartDelim: "{{hub", StopDelim: "hub}}", AdditionalIndentation: 8}
	}
	resolver, err := templates.NewResolverWithClients(
		dynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...),
		&discovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: served}},
		config,
	)
	if err != nil {
		return err
	}
	options := &templates.ResolveOptions{DenylistFunctions: it.Denied, InputIsYAML: it.YAML != ""}
	if it.Hub && !it.Everywhere {
		options.LookupNamespace = "ns"
		options.ClusterScopedAllowList = []templates.ClusterScopedObjectIdentifier{
			{Group: "cluster.open-cluster-management.io", Kind: "ManagedCluster", Name: "c1"},
		}
	}
	bytes := func(text string) []byte {
		if text == "" {
			return nil
		}
		return []byte(text)
	}
	options.EncryptionConfig = templates.EncryptionConfig{
		EncryptionEnabled: it.Encrypt, DecryptionEnabled: it.Decrypt,
		AESKey: bytes(it.Key), AESKeyFallback: bytes(it.Previous), InitializationVector: bytes(it.IV),
	}
	if it.Skip {
		options.CustomFunctions = map[string]any{"skipObject": func(skips ...any) (string, error) {
			switch len(skips) {
			case 0:
				it.Skipped = true
			case 1:
				if it.Skipped {
					return "", nil
				}
				skip, ok := skips[0].(bool)
				if !ok {
					return "", fmt.Errorf("expected boolean but received '%v'", skips[0])
				}
				it.Skipped = skip
			default:
				return "", fmt.Errorf("expected one optional boolean argument but received %d arguments", len(skips))
			}
			return "", nil
		}}
	}
	text := []byte(it.YAML)
	if it.YAML == "" {
		var document any
		if err := json.Unmarshal(it.Input, &document); err != nil {
			return err
		}
		if text, err = json.Marshal(document); err != nil {
			return err
		}
	}
	made, err := resolver.ResolveTemplate(text, contextOf(it), options)
	if err != nil {
		return err
	}
	it.Output, it.Sensitive = made.ResolvedJSON, made.HasSensitiveData
	return nil
}

func run(objects []runtime.Object, it *testCase) {
	it.Output, it.Sensitive, it.Skipped, it.Error = nil, false, false, ""
	defer func() {
		if r := recover(); r != nil {
			it.Output, it.Error = nil, fmt.Sprintf("panic: %v", r)
		}
	}()
	if err := answer(objects, it); err != nil {
		// The type is the propagator's there.
		it.Error = strings.ReplaceAll(err.Error(), "main.templateCtx", "propagator.templateCtx")
	}
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var objects []runtime.Object
	for first := true; in.Scan(); first = false {
		if first {
			var documents []map[string]any
			// Whole numbers are int64, as in what a client reads.
			fail(kubejson.Unmarshal(in.Bytes(), &documents))
			for _, it := range documents {
				objects = append(objects, &unstructured.Unstructured{Object: it})
			}
			continue
		}
		var it testCase
		fail(json.Unmarshal(in.Bytes(), &it))
		run(objects, &it)
		fail(out.Encode(&it))
	}
}
