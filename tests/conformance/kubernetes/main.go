// Command real-kubernetes is a complete control plane of Kubernetes in one process on loopback: etcd, kube-apiserver and
// kube-controller-manager, as published. It has no nodes: what has to run is run by others.
//
//	real-kubernetes --data-directory DIR --kubeconfig FILE [--port PORT] [--durable]
//
// It prints one line when everything is there, and stops in the opposite order on SIGTERM or SIGINT. What the servers log
// goes to stderr.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/component-base/version"
)

// How long the cluster may take to be there, on a busy machine.
const startingMax = 3 * time.Minute

func main() {
	dataDirectory := flag.String("data-directory", "", "folder of the cluster's state and certificates")
	kubeconfig := flag.String("kubeconfig", "", "file to write the administrator's kubeconfig to")
	port := flag.Int("port", 0, "port of the API server; 0 takes one that is free")
	durable := flag.Bool("durable", false, "let etcd sync each write to the disk; clusters of tests do without")
	flag.Parse()
	if *dataDirectory == "" || *kubeconfig == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if err := run(ctx, *dataDirectory, *kubeconfig, *port, *durable); err != nil {
		fmt.Fprintln(os.Stderr, "real-kubernetes:", err)
		os.Exit(1)
	}
}

// run has a cluster until the context ends.
func run(ctx context.Context, dataDirectory, kubeconfig string, port int, durable bool) error {
	dataDirectory, err := filepath.Abs(dataDirectory)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	address := "https://" + listener.Addr().String()
	pki, err := openPKI(filepath.Join(dataDirectory, "pki"))
	if err != nil {
		return fmt.Errorf("could not make certificates: %w", err)
	}
	managerKubeconfig := filepath.Join(dataDirectory, "controller-manager.kubeconfig")
	if err := pki.writeKubeconfig(managerKubeconfig, address, "controller-manager"); err != nil {
		return err
	}
	services, err := openServices()
	if err != nil {
		return fmt.Errorf("could not open a socket for connections to services: %w", err)
	}
	defer services.stop()
	servers, err := prepare(pki, listener, managerKubeconfig, services.configuration())
	if err != nil {
		return err
	}
	etcd, err := startEtcd(filepath.Join(dataDirectory, "etcd"), durable)
	if err != nil {
		return fmt.Errorf("could not start etcd: %w", err)
	}
	defer etcd.stop()

	if err := services.serve(managerKubeconfig); err != nil {
		return err
	}

	// Each has its own context, so that the last one to start is the first to stop.
	serving, stopServing := context.WithCancel(context.Background())
	api := start(func() error { return servers.serve(serving, etcd.endpoint) })
	controlling, stopControlling := context.WithCancel(context.Background())
	manager := start(func() error {
		if err := waitUntilServing(controlling, managerKubeconfig); err != nil {
			return err
		}
		return servers.control(controlling)
	})
	ready := start(func() error {
		waiting, cancel := context.WithTimeout(controlling, startingMax)
		defer cancel()
		return waitUntilReady(waiting, managerKubeconfig)
	})
	for running := true; running && err == nil; {
		select {
		case <-ctx.Done():
			running = false
		case end := <-ready:
			ready = nil
			if err = end; err == nil {
				err = pki.writeKubeconfig(kubeconfig, address, "admin")
				fmt.Printf("Kubernetes %s at %s, kubeconfig %s\n", version.Get().GitVersion, address, kubeconfig)
				// Who read the line may have gone, and a process that writes to nobody is ended.
				os.Stdout = os.Stderr
			}
		case end := <-api:
			api = nil
			err = errors.Join(errors.New("kube-apiserver ended"), end)
		case end := <-manager:
			manager = nil
			err = errors.Join(errors.New("kube-controller-manager ended"), end)
		}
	}
	stopControlling()
	if manager != nil {
		<-manager
	}
	stopServing()
	if api != nil {
		<-api
	}
	return err
}

// start runs something beside us; its end can be received once.
func start(work func() error) <-chan error {
	end := make(chan error, 1)
	go func() { end <- work() }()
	return end
}
