package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// A kind of ours, and something small of it.
type ownKind struct {
	resource schema.GroupVersionResource
	kind     string
	// Empty for kinds of the whole cluster.
	namespace string
	// Everything beside metadata.
	content map[string]any
	// What is merged into the status; nil for kinds without.
	status map[string]any
}

// On all that the checks make, so that they find what is theirs.
const mark = "go-clients.example.com/check"

var managedClusters = schema.GroupVersionResource{
	Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters",
}

func condition() map[string]any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": "GoClients", "status": "True", "reason": "Tried", "message": "a Go client was here",
		"lastTransitionTime": "2026-01-02T03:04:05Z",
	}}}
}

// Every kind and version that a hub serves, those of a cluster and of upstream's operator included: they are only definitions.
func ownKinds() []ownKind {
	own := func(group, version, resource, kind, namespace string, content, status map[string]any) ownKind {
		return ownKind{
			resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
			kind:     kind, namespace: namespace, content: content, status: status,
		}
	}
	type fields = map[string]any
	spec := func(it fields) fields { return fields{"spec": it} }
	const (
		cluster  = "cluster.open-cluster-management.io"
		work     = "work.open-cluster-management.io"
		addon    = "addon.open-cluster-management.io"
		operator = "operator.open-cluster-management.io"
	)
	manifest := fields{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": "one", "namespace": "default"},
		"data": fields{"a": "b"},
	}
	workload := fields{"workload": fields{"manifests": []any{manifest}}}
	kinds := []ownKind{
		own(cluster, "v1", "managedclusters", "ManagedCluster", "",
			spec(fields{"hubAcceptsClient": false, "leaseDurationSeconds": int64(90)}), condition()),
		own(cluster, "v1beta2", "managedclustersets", "ManagedClusterSet", "",
			spec(fields{"clusterSelector": fields{"selectorType": "LabelSelector", "labelSelector": fields{
				"matchLabels": fields{"nobody": "has"}}}}), condition()),
		own(cluster, "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding", namespace, nil, condition()),
		own(cluster, "v1beta1", "placements", "Placement", namespace,
			spec(fields{"numberOfClusters": int64(2), "tolerations": []any{fields{"key": "a", "operator": "Exists"}}}),
			condition()),
		own(cluster, "v1beta1", "placementdecisions", "PlacementDecision", namespace, nil,
			fields{"decisions": []any{fields{"clusterName": clusterName, "reason": "Tried"}}}),
		own(cluster, "v1alpha1", "addonplacementscores", "AddOnPlacementScore", clusterName, nil,
			fields{"scores": []any{fields{"name": "cpu", "value": int64(-7)}}, "validUntil": "2036-01-02T03:04:05Z"}),
		own(work, "v1", "manifestworks", "ManifestWork", clusterName, spec(workload), condition()),
		own(work, "v1alpha1", "manifestworkreplicasets", "ManifestWorkReplicaSet", namespace, spec(fields{
			"cascadeDeletionPolicy": "Background",
			"manifestWorkTemplate":  workload, "placementRefs": []any{fields{"name": "nowhere"}}}), condition()),
		own("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile", namespace,
			spec(fields{"displayName": "one", "clusterManager": fields{"name": "somebody"}}), condition()),
		own(cluster, "v1alpha1", "clusterclaims", "ClusterClaim", "", spec(fields{"value": "one"}), nil),
		own("about.k8s.io", "v1alpha1", "clusterproperties", "ClusterProperty", "", spec(fields{"value": "one"}), nil),
		own(work, "v1", "appliedmanifestworks", "AppliedManifestWork", "",
			spec(fields{"hubHash": "one", "agentID": "one", "manifestWorkName": "one"}),
			fields{"appliedResources": []any{fields{"version": "v1", "resource": "configmaps", "name": "one", "namespace": "a", "uid": "1"}}}),
		own(operator, "v1", "clustermanagers", "ClusterManager", "",
			spec(fields{"registrationImagePullSpec": "example.com/registration"}), condition()),
		own(operator, "v1", "klusterlets", "Klusterlet", "", spec(fields{"clusterName": clusterName}), condition()),
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		registration := fields{"signerName": "kubernetes.io/kube-apiserver-client", "subject": fields{"user": "one"}}
		if version == "v1beta1" {
			registration = fields{"type": "kubeClient", "kubeClient": fields{"subject": fields{"user": "one"}}}
		}
		kinds = append(kinds,
			own(addon, version, "managedclusteraddons", "ManagedClusterAddOn", clusterName, spec(fields{}),
				fields{"registrations": []any{registration}, "conditions": condition()["conditions"]}),
			// Somebody else looks after it, so nobody of the hub does.
			own(addon, version, "clustermanagementaddons", "ClusterManagementAddOn", "",
				spec(fields{"addOnMeta": fields{"displayName": "one"}, "installStrategy": fields{"type": "Manual"}}),
				fields{"installProgressions": []any{}}),
			own(addon, version, "addondeploymentconfigs", "AddOnDeploymentConfig", namespace,
				spec(fields{"customizedVariables": []any{fields{"name": "A", "value": "b"}}}), nil),
			own(addon, version, "addontemplates", "AddOnTemplate", "",
				spec(fields{"addonName": "one", "agentSpec": workload}), nil),
		)
	}
	return kinds
}

func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	it := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	it.SetName(name)
	it.SetNamespace(namespace)
	if spec != nil {
		it.Object["spec"] = spec
	}
	return it
}

func (k ownKind) named(name, label string) *unstructured.Unstructured {
	it := object(k.resource.GroupVersion().String(), k.kind, k.namespace, name, nil)
	it.SetLabels(map[string]string{mark: label})
	for field, value := range k.content {
		it.Object[field] = value
	}
	// What is shared is not to be changed by a client.
	return it.DeepCopy()
}

func ownKindChecks() []check {
	var checks []check
	for _, it := range ownKinds() {
		name := fmt.Sprintf("%s %s.%s: dynamic client, informers and metadata", it.kind, it.resource.Version, it.resource.Group)
		checks = append(checks, check{name, it.check})
	}
	return checks
}

// What an informer was told, by what happened.
type told struct {
	sync.Mutex
	events []string
}

func (t *told) add(event string, it any) {
	if gone, ok := it.(cache.DeletedFinalStateUnknown); ok {
		it = gone.Obj
	}
	t.Lock()
	defer t.Unlock()
	t.events = append(t.events, event+" "+it.(metav1.Object).GetName())
}

func (t *told) has(event string) bool {
	t.Lock()
	defer t.Unlock()
	return slices.Contains(t.events, event)
}

func (t *told) follow(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(it any) { t.add("added", it) },
		UpdateFunc: func(_, it any) { t.add("updated", it) },
		DeleteFunc: func(it any) { t.add("deleted", it) },
	})
	return err
}

func (k ownKind) check(ctx context.Context, w *world) error {
	var client dynamic.ResourceInterface = w.dynamic.Resource(k.resource)
	if k.namespace != "" {
		client = w.dynamic.Resource(k.resource).Namespace(k.namespace)
	}
	label := fmt.Sprintf("%s-%s", k.resource.Resource, k.resource.Version)
	selector := mark + "=" + label
	ours := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	name := "gc-" + label
	if k.kind == "ManagedClusterSetBinding" {
		// It is of the set whose name it has.
		k.content = map[string]any{"spec": map[string]any{"clusterSet": name}}
	}

	// One cache of whole objects and one of their metadata (which comes as protobuf), both of what is marked.
	whole, partial := &told{}, &told{}
	objects := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, k.namespace, ours)
	metadatas := metadatainformer.NewFilteredSharedInformerFactory(w.metadata, 0, k.namespace, ours)
	informer, metadataInformer := objects.ForResource(k.resource).Informer(), metadatas.ForResource(k.resource).Informer()
	if err := errors.Join(whole.follow(informer), partial.follow(metadataInformer)); err != nil {
		return err
	}
	stop := make(chan struct{})
	objects.Start(stop)
	metadatas.Start(stop)
	defer func() { close(stop); objects.Shutdown(); metadatas.Shutdown() }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, metadataInformer.HasSynced) {
		return errors.New("the informers never had their first list")
	}

	// What is only tried is not there.
	if _, err := client.Create(ctx, k.named(name, label), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	if _, err := client.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("after a dry run: %w", err)
	}
	made, err := client.Create(ctx, k.named(name, label), metav1.CreateOptions{FieldManager: "go-clients"})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := client.Create(ctx, k.named(name, label), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a second create: %w", err)
	}
	if err := until(ctx, "the informers are told of the create", func() (bool, error) {
		return whole.has("added "+name) && partial.has("added "+name), nil
	}); err != nil {
		return err
	}
	if err := k.changes(ctx, client, made); err != nil {
		return err
	}
	if err := until(ctx, "the informers have what the last writer wrote", func() (bool, error) {
		key := name
		if k.namespace != "" {
			key = k.namespace + "/" + name
		}
		for _, indexer := range []cache.Indexer{informer.GetIndexer(), metadataInformer.GetIndexer()} {
			it, there, err := indexer.GetByKey(key)
			if err != nil || !there || it.(metav1.Object).GetAnnotations()["updated"] != "yes" {
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	return k.goes(ctx, client, name, label, whole, partial)
}

// Every way of changing, each seen by a watch that began at the create.
func (k ownKind) changes(ctx context.Context, client dynamic.ResourceInterface, made *unstructured.Unstructured) error {
	name := made.GetName()
	watching, err := client.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: made.GetResourceVersion(), AllowWatchBookmarks: true,
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watching.Stop()
	annotated := func(key string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, key) }
	if _, err := client.Patch(ctx, name, types.MergePatchType, []byte(annotated("merged")), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("merge patch: %w", err)
	}
	steps := `[{"op":"test","path":"/metadata/annotations/merged","value":"yes"},{"op":"add","path":"/metadata/annotations/pointed","value":"yes"}]`
	if _, err := client.Patch(ctx, name, types.JSONPatchType, []byte(steps), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("JSON patch: %w", err)
	}
	applied := object(k.resource.GroupVersion().String(), k.kind, k.namespace, name, nil)
	applied.SetAnnotations(map[string]string{"applied": "yes"})
	if _, err := client.Apply(ctx, name, applied, metav1.ApplyOptions{FieldManager: "go-applier"}); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	stale := made.DeepCopy()
	if _, err := client.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an update of an old state: %w", err)
	}
	if k.status != nil {
		status, err := json.Marshal(map[string]any{"status": k.status})
		if err != nil {
			return err
		}
		if _, err := client.Patch(ctx, name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("patch of the status: %w", err)
		}
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			it, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = client.UpdateStatus(ctx, it, metav1.UpdateOptions{})
			return err
		}); err != nil {
			return fmt.Errorf("update of the status: %w", err)
		}
	}
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		it, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := it.GetAnnotations()
		for _, key := range []string{"merged", "pointed", "applied"} {
			if annotations[key] != "yes" {
				return fmt.Errorf("%s is not annotated: %v", key, annotations)
			}
		}
		annotations["updated"] = "yes"
		it.SetAnnotations(annotations)
		_, err = client.Update(ctx, it, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	for {
		select {
		case event, open := <-watching.ResultChan():
			if !open {
				return errors.New("the watch ended")
			}
			if event.Type == watch.Error {
				return fmt.Errorf("the watch: %w", apierrors.FromObject(event.Object))
			}
			if event.Type == watch.Modified && event.Object.(metav1.Object).GetAnnotations()["updated"] == "yes" {
				return nil
			}
		case <-ctx.Done():
			return errors.New("the watch never told of the update")
		}
	}
}

// Deleted by name and by selector; the informers are told.
func (k ownKind) goes(
	ctx context.Context, client dynamic.ResourceInterface, name, label string, whole, partial *told,
) error {
	it, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	other, uid := types.UID("other"), it.GetUID()
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}
	if err := client.Delete(ctx, name, wrong); !apierrors.IsConflict(err) {
		return fmt.Errorf("delete of another object of the name: %w", err)
	}
	foreground := metav1.DeletePropagationForeground
	right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &foreground}
	if err := client.Delete(ctx, name, right); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := until(ctx, "the informers are told of the delete", func() (bool, error) {
		return whole.has("deleted "+name) && partial.has("deleted "+name), nil
	}); err != nil {
		return err
	}
	if k.kind == "ManagedClusterSetBinding" {
		return nil // a name of its own for each
	}
	for _, suffix := range []string{"-a", "-b"} {
		if _, err := client.Create(ctx, k.named(name+suffix, label), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	selected := metav1.ListOptions{LabelSelector: mark + "=" + label}
	page, err := client.List(ctx, metav1.ListOptions{LabelSelector: selected.LabelSelector, Limit: 1})
	if err != nil || len(page.Items) != 1 || page.GetContinue() == "" {
		return fmt.Errorf("the first of two pages has %d and goes on at %q: %w", len(page.Items), page.GetContinue(), err)
	}
	if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return fmt.Errorf("delete of all: %w", err)
	}
	return until(ctx, "all are gone", func() (bool, error) {
		list, err := client.List(ctx, selected)
		return err == nil && len(list.Items) == 0, err
	})
}
