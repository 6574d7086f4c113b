package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// On every copy.
const copyLabel = "go-addon.example.com/copy"

// Copies the ConfigMaps of the cluster's namespace on the hub to the cluster, and says that it lives by its Lease.
type agent struct {
	hub, cluster         kubernetes.Interface
	clusterName, addOn   string
	namespace            string
	owner                metav1.OwnerReference
	originals            cache.Indexer
	subject, greeting    string
	queue                workqueue.TypedRateLimitingInterface[string]
	leaseDurationSeconds int32
}

// Runs the cluster's half until it is told to stop.
func addonAgent(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("addon-agent", flag.ContinueOnError)
	hubKubeconfig := flags.String("hub-kubeconfig", "", "where the agent's credential for the hub is")
	certificate := flags.String("certificate", "", "where the certificate of the add-on's own signer is")
	a := &agent{leaseDurationSeconds: 60, greeting: os.Getenv("GREETING")}
	flags.StringVar(&a.clusterName, "cluster-name", "", "the cluster's name on the hub")
	flags.StringVar(&a.namespace, "namespace", "", "where the agent is")
	flags.StringVar(&a.addOn, "addon-name", "", "the add-on's name")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	// The cluster that the pod is on: by its environment, as every program finds it.
	here, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	there, err := clientcmd.BuildConfigFromFlags("", *hubKubeconfig)
	if err != nil {
		return err
	}
	if a.cluster, err = kubernetes.NewForConfig(here); err != nil {
		return err
	}
	if a.hub, err = kubernetes.NewForConfig(there); err != nil {
		return err
	}
	if a.subject, err = subjectOf(*certificate); err != nil {
		return err
	}
	return a.run(ctx)
}

func subjectOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("there is no certificate in " + file)
	}
	it, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return it.Subject.String() + " by " + it.Issuer.CommonName, nil
}

func (a *agent) run(ctx context.Context) error {
	// What it makes goes with its Deployment.
	deployment, err := a.cluster.AppsV1().Deployments(a.namespace).Get(ctx, a.addOn+"-agent", metav1.GetOptions{})
	if err != nil {
		return err
	}
	a.owner = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name, UID: deployment.UID}
	a.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	go func() { <-ctx.Done(); a.queue.ShutDown() }()
	add := func(it any) {
		if gone, ok := it.(cache.DeletedFinalStateUnknown); ok {
			it = gone.Obj
		}
		a.queue.Add(it.(metav1.Object).GetName())
	}
	told := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, it any) { add(it) }, DeleteFunc: add}
	originals := informers.NewSharedInformerFactoryWithOptions(a.hub, 10*time.Minute, informers.WithNamespace(a.clusterName))
	copies := informers.NewSharedInformerFactoryWithOptions(a.cluster, 10*time.Minute, informers.WithNamespace(a.namespace),
		informers.WithTweakListOptions(func(it *metav1.ListOptions) { it.LabelSelector = copyLabel }))
	a.originals = originals.Core().V1().ConfigMaps().Informer().GetIndexer()
	lister := copies.Core().V1().ConfigMaps().Lister().ConfigMaps(a.namespace)
	for _, factory := range []informers.SharedInformerFactory{originals, copies} {
		informer := factory.Core().V1().ConfigMaps().Informer()
		if _, err := informer.AddEventHandler(told); err != nil {
			return err
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("the ConfigMaps were never listed")
		}
	}
	// What was deleted on the hub while nobody was here.
	old, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, it := range old {
		add(it)
	}
	go wait.UntilWithContext(ctx, a.beat, 10*time.Second)
	for {
		name, shutdown := a.queue.Get()
		if shutdown {
			return nil
		}
		if err := a.copy(ctx, name); err != nil {
			klog.ErrorS(err, "could not copy", "name", name)
			a.queue.AddRateLimited(name)
		} else {
			a.queue.Forget(name)
		}
		a.queue.Done(name)
	}
}

func (a *agent) copy(ctx context.Context, name string) error {
	// Each cluster has one of its own in every namespace.
	if name == "kube-root-ca.crt" {
		return nil
	}
	maps := a.cluster.CoreV1().ConfigMaps(a.namespace)
	it, there, err := a.originals.GetByKey(a.clusterName + "/" + name)
	if err != nil {
		return err
	}
	if !there {
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	original := it.(*corev1.ConfigMap)
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{copyLabel: ""}, OwnerReferences: []metav1.OwnerReference{a.owner},
			Annotations: map[string]string{"greeting": a.greeting, "subject": a.subject}},
		Data: original.Data, BinaryData: original.BinaryData,
	}
	_, err = maps.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	return err
}

func (a *agent) beat(ctx context.Context) {
	if err := a.renew(ctx); err != nil {
		klog.ErrorS(err, "could not renew the Lease")
	}
}

func (a *agent) renew(ctx context.Context) error {
	leases := a.cluster.CoordinationV1().Leases(a.namespace)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, a.addOn, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: a.addOn, OwnerReferences: []metav1.OwnerReference{a.owner}},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &a.leaseDurationSeconds, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
