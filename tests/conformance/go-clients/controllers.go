package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// ManagedCluster as a Go program has it that wrote only down what it needs. Encoded by Go it sends what nobody means: a
// null creationTimestamp, an empty status, empty lists as null.
type ManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		HubAcceptsClient     bool           `json:"hubAcceptsClient"`
		LeaseDurationSeconds int32          `json:"leaseDurationSeconds,omitempty"`
		Taints               []corev1.Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition  `json:"conditions"`
		Capacity   corev1.ResourceList `json:"capacity,omitempty"`
	} `json:"status"`
}

type ManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ManagedCluster `json:"items"`
}

func copied[T any](it *T) *T {
	bytes, err := json.Marshal(it)
	if err != nil {
		panic(err)
	}
	other := new(T)
	if err := json.Unmarshal(bytes, other); err != nil {
		panic(err)
	}
	return other
}

func (it *ManagedCluster) DeepCopyObject() runtime.Object     { return copied(it) }
func (it *ManagedClusterList) DeepCopyObject() runtime.Object { return copied(it) }

var clusterGroup = schema.GroupVersion{Group: managedClusters.Group, Version: managedClusters.Version}

func ownScheme() *runtime.Scheme {
	own := runtime.NewScheme()
	if err := scheme.AddToScheme(own); err != nil {
		panic(err)
	}
	own.AddKnownTypes(clusterGroup, &ManagedCluster{}, &ManagedClusterList{})
	metav1.AddToGroupVersion(own, clusterGroup)
	return own
}

func controllerChecks() []check {
	return []check{
		{"controller-runtime: typed and untyped clients of our kinds", runtimeClient},
		{"controller-runtime: a manager with a cache, an index, leader election and a controller", runtimeManager},
	}
}

func runtimeClient(ctx context.Context, w *world) error {
	it, err := client.New(w.config, client.Options{Scheme: ownScheme()})
	if err != nil {
		return err
	}
	cluster := &ManagedCluster{ObjectMeta: named("go-typed")}
	cluster.Spec.LeaseDurationSeconds = 45
	if err := it.Create(ctx, cluster); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if cluster.Generation != 1 || cluster.UID == "" {
		return fmt.Errorf("made as %+v", cluster.ObjectMeta)
	}
	// The hub writes it, too.
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		done, err := controllerutil.CreateOrUpdate(ctx, it, cluster, func() error {
			cluster.Spec.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSelect"}}
			return nil
		})
		if err == nil && done != controllerutil.OperationResultUpdated {
			return fmt.Errorf("it did %s", done)
		}
		return err
	}); err != nil {
		return fmt.Errorf("CreateOrUpdate: %w", err)
	}
	before := client.MergeFrom(copied(cluster))
	cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
		Type: "GoClients", Status: metav1.ConditionTrue, Reason: "Tried", LastTransitionTime: metav1.Now()})
	if err := it.Status().Patch(ctx, cluster, before); err != nil {
		return fmt.Errorf("patch of the status: %w", err)
	}
	locked := client.MergeFromWithOptions(copied(cluster), client.MergeFromWithOptimisticLock{})
	cluster.Labels = map[string]string{"go": "typed"}
	if err := it.Patch(ctx, cluster, locked); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("patch: %w", err)
	}
	var list ManagedClusterList
	if err := it.List(ctx, &list, client.MatchingFields{"metadata.name": "go-typed"}); err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d in the list: %w", len(list.Items), err)
	}
	kind := clusterGroup.WithKind("ManagedCluster")
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(kind)
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(kind)
	for _, other := range []client.Object{untyped, partial} {
		if err := it.Get(ctx, client.ObjectKeyFromObject(cluster), other); err != nil || other.GetUID() != cluster.UID {
			return fmt.Errorf("as %T: %w", other, err)
		}
	}
	if err := it.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return until(ctx, "the cluster is gone", func() (bool, error) {
		return apierrors.IsNotFound(it.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)), nil
	})
}

// A controller as its users write them: a finalizer, a label, an object of its own.
type labeller struct{ client.Client }

const finalizer = "go-clients.example.com/finalizer"

func (l labeller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &ManagedCluster{}
	if err := l.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cluster.Labels["go"] != "managed" {
		return ctrl.Result{}, nil
	}
	if !cluster.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(cluster, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(l.Update(ctx, cluster))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(cluster, finalizer) {
		if err := l.Update(ctx, cluster); err != nil {
			return ctrl.Result{}, err
		}
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-" + cluster.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, l.Client, owned, func() error {
		owned.Data = map[string]string{"cluster": cluster.Name}
		return controllerutil.SetControllerReference(cluster, owned, l.Scheme())
	})
	return ctrl.Result{}, err
}

func runtimeManager(ctx context.Context, w *world) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	manager, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: ownScheme(), LeaderElection: true, LeaderElectionID: "go-clients", LeaderElectionNamespace: namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
		Cache: cache.Options{SyncPeriod: pointer(time.Second), ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{namespace: {}}}}},
	})
	if err != nil {
		return err
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, &ManagedCluster{}, "spec.lease", func(it client.Object) []string {
		return []string{fmt.Sprint(it.(*ManagedCluster).Spec.LeaseDurationSeconds)}
	}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).Named("labeller").For(&ManagedCluster{}).Owns(&corev1.ConfigMap{}).
		Complete(labeller{manager.GetClient()}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	cluster := &ManagedCluster{ObjectMeta: named("go-managed")}
	cluster.Labels = map[string]string{"go": "managed"}
	cluster.Spec.LeaseDurationSeconds = 77
	if err := manager.GetClient().Create(ctx, cluster); err != nil {
		return err
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-go-managed"}}
	appears := func(what string) error {
		return until(ctx, what, func() (bool, error) {
			return owned.UID == "" && manager.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(owned), owned) == nil, nil
		})
	}
	if err := appears("the controller makes what is the cluster's"); err != nil {
		return err
	}
	if err := until(ctx, "the cache has the cluster by its index", func() (bool, error) {
		var list ManagedClusterList
		err := manager.GetClient().List(ctx, &list, client.MatchingFields{"spec.lease": "77"})
		return err == nil && len(list.Items) == 1, err
	}); err != nil {
		return err
	}
	if err := manager.GetClient().Delete(ctx, owned); err != nil {
		return err
	}
	owned = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-go-managed"}}
	if err := appears("the controller makes it again"); err != nil {
		return err
	}
	if err := manager.GetClient().Delete(ctx, cluster); err != nil {
		return err
	}
	if err := until(ctx, "the cluster is gone, and what was its own with it", func() (bool, error) {
		gone := manager.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(cluster), &ManagedCluster{})
		with := manager.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(owned), &corev1.ConfigMap{})
		return apierrors.IsNotFound(gone) && apierrors.IsNotFound(with), nil
	}); err != nil {
		return err
	}
	stop()
	return <-ended
}
