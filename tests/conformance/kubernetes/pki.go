package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

const (
	certificateLife = 365 * 24 * time.Hour
	// What the API server's Service gets, the first address of serviceAddresses.
	serviceAddress   = "10.96.0.1"
	serviceAddresses = "10.96.0.0/16"
)

// pki is a folder of NAME.crt and NAME.key: an authority for clients and the server ("ca"), one for requests that the
// server forwards ("front-proxy-ca"), what they signed, and the key of service account tokens ("service-account").
type pki struct{ folder string }

// certificate is what the authority `signer` says of `name`.
type certificate struct {
	name, signer string
	subject      pkix.Name
	usage        x509.ExtKeyUsage
	hosts        []string
	addresses    []net.IP
}

var certificates = []certificate{
	{
		name: "server", signer: "ca", usage: x509.ExtKeyUsageServerAuth,
		subject:   pkix.Name{CommonName: "kube-apiserver"},
		hosts:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		addresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceAddress)},
	},
	{
		name: "admin", signer: "ca", usage: x509.ExtKeyUsageClientAuth,
		subject: pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
	},
	{
		name: "controller-manager", signer: "ca", usage: x509.ExtKeyUsageClientAuth,
		subject: pkix.Name{CommonName: "system:kube-controller-manager"},
	},
	{
		name: "front-proxy-client", signer: "front-proxy-ca", usage: x509.ExtKeyUsageClientAuth,
		subject: pkix.Name{CommonName: "front-proxy-client"},
	},
}

// openPKI makes what the folder does not have yet.
func openPKI(folder string) (*pki, error) {
	it := &pki{folder}
	if _, err := os.Stat(it.certificate("front-proxy-client")); err == nil {
		return it, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"ca", "front-proxy-ca"} {
		if err := it.makeAuthority(name); err != nil {
			return nil, err
		}
	}
	tokenKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	if err := it.writeKey("service-account", tokenKey); err != nil {
		return nil, err
	}
	for _, wanted := range certificates {
		if err := it.issue(wanted); err != nil {
			return nil, err
		}
	}
	return it, nil
}

func (it *pki) certificate(name string) string { return filepath.Join(it.folder, name+".crt") }

func (it *pki) key(name string) string { return filepath.Join(it.folder, name+".key") }

func (it *pki) makeAuthority(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(pkix.Name{CommonName: name})
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return it.write(name, template, template, key, key)
}

func (it *pki) issue(wanted certificate) error {
	signer, err := it.readCertificate(wanted.signer)
	if err != nil {
		return err
	}
	signerKey, err := keyutil.PrivateKeyFromFile(it.key(wanted.signer))
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(wanted.subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{wanted.usage}
	template.DNSNames = wanted.hosts
	template.IPAddresses = wanted.addresses
	return it.write(wanted.name, template, signer, key, signerKey)
}

func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      subject,
		// Clocks of containers and virtual machines differ a little.
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(certificateLife),
		BasicConstraintsValid: true,
	}
}

func (it *pki) write(name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer any) error {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	if err := it.writeKey(name, key); err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return os.WriteFile(it.certificate(name), text, 0o600)
}

func (it *pki) writeKey(name string, key crypto.PrivateKey) error {
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return os.WriteFile(it.key(name), text, 0o600)
}

func (it *pki) readCertificate(name string) (*x509.Certificate, error) {
	text, err := os.ReadFile(it.certificate(name))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no certificate in " + it.certificate(name))
	}
	return x509.ParseCertificate(block.Bytes)
}

// writeKubeconfig writes how `user` reaches the server. It appears at once or not at all: others wait for the file.
func (it *pki) writeKubeconfig(path, address, user string) error {
	const name = "kubernetes"
	authority, err := os.ReadFile(it.certificate("ca"))
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(it.certificate(user))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(it.key(user))
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	unfinished := path + ".unfinished"
	if err := clientcmd.WriteToFile(*config, unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}
