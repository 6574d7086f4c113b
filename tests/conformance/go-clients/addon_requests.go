package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func onlyIf(it predicate.Predicate) builder.Predicates { return builder.WithPredicates(it) }

// Approves what the add-on's agents ask for, and signs what is for its own signer.
type requests struct {
	client.Client
	authority *authority
}

func (m *requests) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	it := &certificatesv1.CertificateSigningRequest{}
	if err := m.Get(ctx, request.NamespacedName, it); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Copies of the cache are ours to change.
	switch {
	case len(it.Status.Conditions) == 0:
		if err := rightful(it); err != nil {
			return ctrl.Result{}, err
		}
		it.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
			Status: corev1.ConditionTrue, Reason: "AutoApprovedByHubCSRApprovingController",
			Message: "Auto approving addon agent certificate."}}
		return ctrl.Result{}, m.SubResource("approval").Update(ctx, it)
	case it.Spec.SignerName == signerName && len(it.Status.Certificate) == 0:
		certificate, err := m.authority.sign(it.Spec.Request)
		if err != nil {
			return ctrl.Result{}, err
		}
		it.Status.Certificate = certificate
		return ctrl.Result{}, m.Status().Update(ctx, it)
	}
	return ctrl.Result{}, nil
}

// Whether a request is what the agent of its cluster may ask for.
func rightful(it *certificatesv1.CertificateSigningRequest) error {
	cluster := it.Labels[clusterLabel]
	if cluster == "" || !strings.HasPrefix(it.Spec.Username, "system:open-cluster-management:"+cluster) {
		return errors.New("it does not come from an agent of " + cluster)
	}
	request, err := parseRequest(it.Spec.Request)
	if err != nil {
		return err
	}
	user, groups := agentsUser(cluster)
	if it.Spec.SignerName == signerName {
		user, groups = "go-addon", []string{"go"}
	}
	for _, group := range groups {
		if !slices.Contains(request.Subject.Organization, group) {
			return errors.New("it does not ask for the group " + group)
		}
	}
	if request.Subject.CommonName != user {
		return errors.New("it asks for " + request.Subject.CommonName)
	}
	return nil
}

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("it is no certificate request")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return request, request.CheckSignature()
}

// A certificate authority that lives as long as its process.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: signerName}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{key, certificate}, err
}

func (a *authority) sign(text []byte) ([]byte, error) {
	request, err := parseRequest(text)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: request.Subject, DNSNames: request.DNSNames,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, request.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
