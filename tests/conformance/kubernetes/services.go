package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// How long a connection to a pod may take.
const dialingMax = 5 * time.Second

// services is the network of this cluster, as far as its API server needs one: what it sends to a Service, which is what
// webhooks and conversions are called by, arrives at a ready pod of it. The API server asks for connections as it asks
// a proxy of a control plane that is elsewhere ("egress selector").
//
// Pods are processes of this machine, on loopback addresses. EndpointSlices may not name those, so pods are looked up by the
// selector of their Service.
type services struct {
	folder   string
	listener net.Listener
	server   *http.Server
	client   kubernetes.Interface
}

const egressSelector = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
  - name: cluster
    connection:
      proxyProtocol: HTTPConnect
      transport: {uds: {udsName: %q}}
`

// openServices makes the socket that the API server is told about; nobody answers before serve.
func openServices() (*services, error) {
	folder, err := os.MkdirTemp("", "services-")
	if err != nil {
		return nil, err
	}
	it := &services{folder: folder}
	if it.listener, err = net.Listen("unix", filepath.Join(folder, "socket")); err != nil {
		it.stop()
		return nil, err
	}
	text := fmt.Sprintf(egressSelector, it.listener.Addr().String())
	if err := os.WriteFile(it.configuration(), []byte(text), 0o600); err != nil {
		it.stop()
		return nil, err
	}
	return it, nil
}

// configuration is the file for --egress-selector-config-file.
func (it *services) configuration() string { return filepath.Join(it.folder, "egress.yaml") }

func (it *services) serve(kubeconfig string) error {
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	it.client = client
	it.server = &http.Server{Handler: http.HandlerFunc(it.forward)}
	go it.server.Serve(it.listener)
	return nil
}

func (it *services) stop() {
	if it.server != nil {
		it.server.Close()
	} else if it.listener != nil {
		it.listener.Close()
	}
	os.RemoveAll(it.folder)
}

// forward answers CONNECT with a connection to the Service that is asked for.
func (it *services) forward(writer http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodConnect {
		http.Error(writer, "this is for CONNECT", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(request.Context(), dialingMax)
	defer cancel()
	address, err := it.resolve(ctx, request.Host)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var dialer net.Dialer
	pod, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer pod.Close()
	// What follows is of the two ends alone.
	caller, buffered, err := http.NewResponseController(writer).Hijack()
	if err != nil {
		return
	}
	defer caller.Close()
	if _, err := io.WriteString(caller, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	copy := func(to net.Conn, from io.Reader) {
		defer both.Done()
		io.Copy(to, from)
		// The other direction ends with this one.
		caller.Close()
		pod.Close()
	}
	both.Add(2)
	go copy(pod, buffered)
	go copy(caller, pod)
	both.Wait()
}

// resolve finds a pod for the address of a Service. What is none is dialled as it is.
func (it *services) resolve(ctx context.Context, address string) (string, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return "", err
	}
	all, err := it.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for at := range all.Items {
		service := &all.Items[at]
		if service.Spec.ClusterIP != host {
			continue
		}
		for _, its := range service.Spec.Ports {
			if int(its.Port) == port {
				return it.endpoint(ctx, service, its)
			}
		}
		return "", fmt.Errorf("service %s/%s has no port %d", service.Namespace, service.Name, port)
	}
	return address, nil
}

// endpoint is a ready pod of a Service; one without a selector has EndpointSlices that somebody wrote.
func (it *services) endpoint(ctx context.Context, service *corev1.Service, port corev1.ServicePort) (string, error) {
	if len(service.Spec.Selector) == 0 {
		return it.written(ctx, service, port)
	}
	selector := labels.SelectorFromSet(service.Spec.Selector).String()
	pods, err := it.client.CoreV1().Pods(service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}
	for at := range pods.Items {
		pod := &pods.Items[at]
		if pod.DeletionTimestamp != nil || pod.Status.PodIP == "" || !isReady(pod) {
			continue
		}
		if target := targetPort(pod, port); target != 0 {
			return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(target)), nil
		}
	}
	return "", fmt.Errorf("no pod of service %s/%s is ready", service.Namespace, service.Name)
}

func (it *services) written(ctx context.Context, service *corev1.Service, port corev1.ServicePort) (string, error) {
	selector := labels.Set{"kubernetes.io/service-name": service.Name}.String()
	slices, err := it.client.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}
	for _, slice := range slices.Items {
		for _, its := range slice.Ports {
			if its.Port == nil || its.Name != nil && *its.Name != port.Name {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if ready := endpoint.Conditions.Ready; (ready == nil || *ready) && len(endpoint.Addresses) > 0 {
					return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*its.Port))), nil
				}
			}
		}
	}
	return "", errors.New("service " + service.Namespace + "/" + service.Name + " has no endpoints")
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// targetPort is 0 if the pod has no port of that name.
func targetPort(pod *corev1.Pod, port corev1.ServicePort) int {
	switch {
	case port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal != 0:
		return int(port.TargetPort.IntVal)
	case port.TargetPort.Type == intstr.Int:
		return int(port.Port)
	}
	for _, container := range pod.Spec.Containers {
		for _, its := range container.Ports {
			if its.Name == port.TargetPort.StrVal {
				return int(its.ContainerPort)
			}
		}
	}
	return 0
}
