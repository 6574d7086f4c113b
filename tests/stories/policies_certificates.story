# A cluster says which of its certificates expire soon.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: certificates, namespace: default}
    spec:
      disabled: false
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: CertificatePolicy
          metadata: {name: expiry}
          spec:
            remediationAction: inform
            severity: low
            minimumDuration: 300h
            namespaceSelector: {include: [default]}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: certificates, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: certificates}

file certificate.sh
    #!/bin/bash
    # Gives the Secret a certificate for so many days.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=shop -addext basicConstraints=critical,CA:FALSE -days $1 -keyout shop.key -out shop.crt 2>/dev/null
    kubectl --kubeconfig=.drover/cluster1.kubeconfig create secret tls shop --cert=shop.crt --key=shop.key --dry-run=client -o yaml | kubectl --kubeconfig=.drover/cluster1.kubeconfig apply -f -

start up $ drover up --clusters 1 --addons governance-policy-framework,cert-policy-controller

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f policy.yaml
policy.policy.open-cluster-management.io/certificates created
...

wait $ drover get policies
NAMESPACE   NAME           ACTION   COMPLIANCE   CLUSTERS   NOT COMPLIANT
default     certificates            Compliant    1

$ bash certificate.sh 10
secret/shop created

wait $ drover why policy/default/certificates
Cluster cluster1: template expiry: NonCompliant; 1 certificates expire in less than 300h0m0s: default:shop

$ bash certificate.sh 30
secret/shop configured

wait $ drover why policy/default/certificates
policy/default/certificates waits for nothing.

stop up
