package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd is one member that is reached through sockets in the file system, so it takes no port and nobody else gets in.
type etcd struct {
	server   *embed.Etcd
	sockets  string
	endpoint string
}

func startEtcd(directory string, durable bool) (*etcd, error) {
	// Not in the data directory, whose path may be longer than a socket's may be.
	sockets, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return nil, err
	}
	it := &etcd{sockets: sockets}
	if it.server, err = it.open(directory, durable); err != nil {
		it.stop()
		return nil, err
	}
	return it, nil
}

func (it *etcd) open(directory string, durable bool) (*embed.Etcd, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(it.sockets, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(it.sockets, "peer")}
	it.endpoint = client.String()
	config := embed.NewConfig()
	config.Dir = directory
	config.LogLevel = "error"
	config.ListenClientUrls, config.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	// Nobody looks for the only member; what it advertises has to look like an address all the same.
	config.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// A cluster for tests needs no more: what a power failure takes is made again.
	config.UnsafeNoFsync = !durable
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err := <-server.Err():
		server.Close()
		return nil, err
	case <-time.After(startingMax):
		server.Close()
		return nil, errors.New("it does not become ready")
	}
}

func (it *etcd) stop() {
	if it.server != nil {
		it.server.Close()
	}
	os.RemoveAll(it.sockets)
}
