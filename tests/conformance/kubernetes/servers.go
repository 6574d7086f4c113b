package main

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// Between two looks at a server that starts.
const lookAgain = 50 * time.Millisecond

// servers are Kubernetes' two programs, with their flags read and nothing started.
type servers struct {
	api     *apiserveroptions.ServerRunOptions
	manager *manageroptions.KubeControllerManagerOptions
}

// prepare says to both programs what an installer says to them: kubeadm's flags, and none for nodes and clouds.
func prepare(pki *pki, listener net.Listener, managerKubeconfig, egressSelector string) (*servers, error) {
	api := apiserveroptions.NewServerRunOptions()
	err := parse(api.Flags(), []string{
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--bind-address=127.0.0.1",
		"--client-ca-file=" + pki.certificate("ca"),
		"--egress-selector-config-file=" + egressSelector,
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		// Endpoints on loopback are invalid, and nobody asks for them here.
		"--endpoint-reconciler-type=none",
		// Clients see early that old revisions go: what takes ten minutes otherwise takes one.
		"--etcd-compaction-interval=30s",
		"--proxy-client-cert-file=" + pki.certificate("front-proxy-client"),
		"--proxy-client-key-file=" + pki.key("front-proxy-client"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-client-ca-file=" + pki.certificate("front-proxy-ca"),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki.key("service-account"),
		"--service-account-signing-key-file=" + pki.key("service-account"),
		"--service-cluster-ip-range=" + serviceAddresses,
		"--tls-cert-file=" + pki.certificate("server"),
		"--tls-private-key-file=" + pki.key("server"),
	})
	if err != nil {
		return nil, err
	}
	api.SecureServing.Listener = listener
	api.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port

	options, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	flags := options.Flags(manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	err = parse(flags, []string{
		"--cluster-signing-cert-file=" + pki.certificate("ca"),
		"--cluster-signing-key-file=" + pki.key("ca"),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		// Its usual pace takes seconds to make what a new cluster has.
		"--kube-api-burst=400",
		"--kube-api-qps=200",
		"--kubeconfig=" + managerKubeconfig,
		"--leader-elect=false",
		"--root-ca-file=" + pki.certificate("ca"),
		"--secure-port=0",
		"--service-account-private-key-file=" + pki.key("service-account"),
		"--use-service-account-credentials=true",
	})
	if err != nil {
		return nil, err
	}
	// Feature gates and versions are the process's, so they are set once, when everybody has added flags to them.
	if err := api.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	// As their commands do: no warnings about the old APIs that they themselves look at.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return &servers{api, options}, nil
}

func parse(named cliflag.NamedFlagSets, arguments []string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range named.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(arguments)
}

// serve is kube-apiserver; it returns when the context has ended and requests were given time to.
func (it *servers) serve(ctx context.Context, etcd string) error {
	// Clients call themselves by the program's name, and what they write is noted under it. Those of the API server are
	// made here, those of the controllers when it serves.
	os.Args[0] = "kube-apiserver"
	it.api.Etcd.StorageConfig.Transport.ServerList = []string{etcd}
	completed, err := it.api.Complete(ctx)
	if err != nil {
		return err
	}
	if wrong := completed.Validate(); len(wrong) > 0 {
		return utilerrors.NewAggregate(wrong)
	}
	return apiserver.Run(ctx, completed)
}

// control is kube-controller-manager.
func (it *servers) control(ctx context.Context) error {
	os.Args[0] = "kube-controller-manager"
	config, err := it.manager.Config(
		ctx, manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases(),
	)
	if err != nil {
		return err
	}
	return manager.Run(ctx, config.Complete())
}

// waitUntilServing waits for the API server's own word that everything in it has started.
func waitUntilServing(ctx context.Context, kubeconfig string) error {
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		answer, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && strings.TrimSpace(string(answer)) == "ok", nil
	})
}

// waitUntilReady waits for what the controllers make in a new cluster before anybody can use it.
func waitUntilReady(ctx context.Context, kubeconfig string) error {
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return false, nil
		}
		_, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil, nil
	})
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// Looking often is what it is for.
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
