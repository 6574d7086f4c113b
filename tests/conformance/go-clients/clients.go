package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// How long one check may take. They wait for states, so only a failure takes that long.
const checkTime = 60 * time.Second

// The cluster and the namespace that everything here is about. The cluster's namespace is made by the hub, ours by us.
const (
	clusterName = "go-clients"
	namespace   = "go-clients-own"
)

// What a check has: the clients of the Go world, each speaking what it speaks by default there.
type world struct {
	// JSON, as for kinds that have no protobuf.
	config *rest.Config
	// Protobuf, and JSON for what has none: what Kubernetes' own programs and OCM's send.
	protobuf *rest.Config
	kube     *kubernetes.Clientset
	kubeJSON *kubernetes.Clientset
	crds     *apiextensions.Clientset
	dynamic  *dynamic.DynamicClient
	metadata metadata.Interface
}

type check struct {
	name string
	run  func(context.Context, *world) error
}

func newWorld(kubeconfig string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "go-clients"
	config.QPS, config.Burst = 1000, 1000
	w := &world{config: config, protobuf: rest.CopyConfig(config)}
	w.protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	w.protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if w.kube, err = kubernetes.NewForConfig(w.protobuf); err != nil {
		return nil, err
	}
	if w.kubeJSON, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.crds, err = apiextensions.NewForConfig(w.protobuf); err != nil {
		return nil, err
	}
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	w.metadata, err = metadata.NewForConfig(config)
	return w, err
}

// Runs the checks whose names contain one of the arguments, all without any.
func clients(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("clients", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "an administrator's kubeconfig of a hub")
	definitions := flags.String("definitions", "", "a folder of CustomResourceDefinitions; those that the hub lacks are made")
	verbose := flags.Bool("verbose", false, "show what the libraries log")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	// Libraries log retries that are part of a check.
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	log.SetLogger(klog.Background())
	w, err := newWorld(*kubeconfig)
	if err != nil {
		return err
	}
	if err := define(ctx, w, *definitions); err != nil {
		return fmt.Errorf("could not define: %w", err)
	}
	if err := prepare(ctx, w); err != nil {
		return fmt.Errorf("could not prepare: %w", err)
	}
	var checks []check
	for _, part := range [][]check{discoveryChecks(), builtinChecks(), ownKindChecks(), watchChecks(), controllerChecks()} {
		checks = append(checks, part...)
	}
	passed, failed := 0, 0
	for _, it := range checks {
		if !wanted(it.name, flags.Args()) {
			continue
		}
		begun := time.Now()
		err := runOne(ctx, w, it)
		took := time.Since(begun).Round(time.Millisecond)
		if err != nil {
			failed++
			fmt.Printf("check %s ... FAILED (%s)\n    %s\n", it.name, took, strings.ReplaceAll(err.Error(), "\n", "\n    "))
		} else {
			passed++
			fmt.Printf("check %s ... ok (%s)\n", it.name, took)
		}
	}
	fmt.Printf("\n%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return errors.New("what failed is above")
	}
	return nil
}

func wanted(name string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return len(parts) == 0
}

func runOne(ctx context.Context, w *world, it check) (err error) {
	ctx, done := context.WithTimeout(ctx, checkTime)
	defer done()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return it.run(ctx, w)
}

// A namespace of our own, and a cluster whose namespace the hub makes.
func prepare(ctx context.Context, w *world) error {
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := w.kube.CoreV1().Namespaces().Create(ctx, own, metav1.CreateOptions{}); err != nil {
		return err
	}
	cluster := object("cluster.open-cluster-management.io/v1", "ManagedCluster", "", clusterName,
		map[string]any{"hubAcceptsClient": true})
	if _, err := w.dynamic.Resource(managedClusters).Create(ctx, cluster, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, "the hub makes the namespace of an accepted cluster", func() (bool, error) {
		_, err := w.kube.CoreV1().Namespaces().Get(ctx, clusterName, metav1.GetOptions{})
		return err == nil, nil
	})
}

// Makes the definitions that are missing, as installers do, with protobuf.
func define(ctx context.Context, w *world, folder string) error {
	if folder == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in %s: %w", folder, err)
	}
	client := w.crds.ApiextensionsV1().CustomResourceDefinitions()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		it := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, it); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := client.Create(ctx, it, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := until(ctx, it.Name+" is served", func() (bool, error) {
			now, err := client.Get(ctx, it.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, condition := range now.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Waits for a state, and says which one never came.
func until(ctx context.Context, what string, there func() (bool, error)) error {
	ctx, done := context.WithTimeout(ctx, checkTime)
	defer done()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		ok, err := there()
		last = err
		return ok && err == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("never came: %s: %w", what, last)
	}
	if err != nil {
		return fmt.Errorf("never came: %s", what)
	}
	return nil
}

// One error for all that is not as it should be, nil when everything is.
type complaints []error

func (c *complaints) check(ok bool, format string, arguments ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, arguments...))
	}
}

func (c *complaints) err() error { return errors.Join(*c...) }
