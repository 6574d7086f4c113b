package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/restmapper"
)

func discoveryChecks() []check {
	return []check{
		{"discovery names every kind, its verbs and its short names", discoveryNamesKinds},
		{"the REST mapper finds kinds by group and by short name", mapperFinds},
		{"OpenAPI v3 has a schema for each of our groups", openAPI},
		{"the server says its version", serverVersion},
	}
}

func discoveryNamesKinds(_ context.Context, w *world) error {
	var wrong complaints
	for _, legacy := range []bool{false, true} {
		client := discovery.NewDiscoveryClientForConfigOrDie(w.protobuf)
		// Without the aggregated form, as clients of old ask.
		client.UseLegacyDiscovery = legacy
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		found := map[schema.GroupVersionResource]metav1.APIResource{}
		for _, list := range lists {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return err
			}
			for _, it := range list.APIResources {
				found[version.WithResource(it.Name)] = it
			}
		}
		for _, kind := range ownKinds() {
			it, known := found[kind.resource]
			wrong.check(known, "legacy=%v: %v is not named", legacy, kind.resource)
			if !known {
				continue
			}
			wrong.check(it.Kind == kind.kind, "%v has the kind %s", kind.resource, it.Kind)
			wrong.check(it.Namespaced == (kind.namespace != ""), "%v: namespaced is %v", kind.resource, it.Namespaced)
			verbs := strings.Join(it.Verbs, ",")
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
				wrong.check(strings.Contains(verbs, verb), "%v cannot %s: %s", kind.resource, verb, verbs)
			}
		}
	}
	return wrong.err()
}

func mapperFinds(_ context.Context, w *world) error {
	client := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(w.protobuf))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(client)
	var wrong complaints
	for _, kind := range ownKinds() {
		it, err := mapper.RESTMapping(schema.GroupKind{Group: kind.resource.Group, Kind: kind.kind}, kind.resource.Version)
		if err != nil {
			return err
		}
		wrong.check(it.Resource == kind.resource, "%s is %v", kind.kind, it.Resource)
		scope := meta.RESTScopeNameRoot
		if kind.namespace != "" {
			scope = meta.RESTScopeNameNamespace
		}
		wrong.check(it.Scope.Name() == scope, "%s has the scope %s", kind.kind, it.Scope.Name())
	}
	short := restmapper.NewShortcutExpander(mapper, client, nil)
	for name, resource := range map[string]string{
		"mcl": "managedclusters", "mca": "managedclusteraddons", "cma": "clustermanagementaddons", "deploy": "deployments",
		"cm": "configmaps", "csr": "certificatesigningrequests",
	} {
		it, err := short.ResourceFor(schema.GroupVersionResource{Resource: name})
		wrong.check(err == nil && it.Resource == resource, "%s is %v: %v", name, it, err)
	}
	return wrong.err()
}

// A kind that is new is served a moment before it is in OpenAPI.
func openAPI(ctx context.Context, w *world) error {
	pathOf := func(kind ownKind) string {
		return fmt.Sprintf("apis/%s/%s", kind.resource.Group, kind.resource.Version)
	}
	var paths map[string]openapi.GroupVersion
	err := until(ctx, "all groups are in OpenAPI", func() (bool, error) {
		var err error
		if paths, err = w.kube.Discovery().OpenAPIV3().Paths(); err != nil {
			return false, err
		}
		for _, kind := range ownKinds() {
			if _, known := paths[pathOf(kind)]; !known {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	var wrong complaints
	seen := map[string]bool{}
	for _, kind := range ownKinds() {
		path := pathOf(kind)
		if seen[path] {
			continue
		}
		seen[path] = true
		document, err := paths[path].Schema("application/json")
		if err != nil {
			return err
		}
		wrong.check(strings.Contains(string(document), `"x-kubernetes-group-version-kind"`), "%s names no kinds", path)
	}
	return wrong.err()
}

func serverVersion(_ context.Context, w *world) error {
	it, err := w.kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	if it.Major != "1" || it.Minor == "" || !strings.HasPrefix(it.GitVersion, "v1.") {
		return fmt.Errorf("%+v", it)
	}
	return nil
}
