# A certificate request that cluster1 makes for itself is approved; one that it makes for cluster10 never is, although
# the names begin alike.

file own.yaml
    apiVersion: certificates.k8s.io/v1
    kind: CertificateSigningRequest
    metadata: {name: own, labels: {open-cluster-management.io/cluster-name: cluster1}}
    spec:
      signerName: kubernetes.io/kube-apiserver-client
      usages: [digital signature, key encipherment, client auth]
      request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQllUQ0NBUVlDQVFBd2dhTXhhREF1QmdOVkJBb01KM041YzNSbGJUcHZjR1Z1TFdOc2RYTjBaWEl0YldGdQpZV2RsYldWdWREcGpiSFZ6ZEdWeU1UQTJCZ05WQkFvTUwzTjVjM1JsYlRwdmNHVnVMV05zZFhOMFpYSXRiV0Z1CllXZGxiV1Z1ZERwdFlXNWhaMlZrTFdOc2RYTjBaWEp6TVRjd05RWURWUVFEREM1emVYTjBaVzA2YjNCbGJpMWoKYkhWemRHVnlMVzFoYm1GblpXMWxiblE2WTJ4MWMzUmxjakU2WVdkbGJuUXhNRmt3RXdZSEtvWkl6ajBDQVFZSQpLb1pJemowREFRY0RRZ0FFTEZmOTlhSDl4Y1ZXdW4yWWhlU3V2U2YyQjEzYnF0anFaeStPRmRURGE0QzNscmtYCjNUdkMwOGtKWWhML1pLU0lhSFdlcWs5Z2lkUHU4ZDJiNzRxYlNhQUFNQW9HQ0NxR1NNNDlCQU1DQTBrQU1FWUMKSVFEQmYrRWcxRUM5M0lJbUJVUm03ZHNxbmp2bFhxdWpBcVlFaWJSVWk2TGdCUUloQVBobWxDUUxRaVg2WHZiTgpoTXU5S0xuQjVHSDFUd1kvWWhoVjZ1ZzBLMTRtCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=

file others.yaml
    apiVersion: certificates.k8s.io/v1
    kind: CertificateSigningRequest
    metadata: {name: others, labels: {open-cluster-management.io/cluster-name: cluster10}}
    spec:
      signerName: kubernetes.io/kube-apiserver-client
      usages: [digital signature, key encipherment, client auth]
      request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQllUQ0NBUWdDQVFBd2dhVXhhVEF2QmdOVkJBb01LSE41YzNSbGJUcHZjR1Z1TFdOc2RYTjBaWEl0YldGdQpZV2RsYldWdWREcGpiSFZ6ZEdWeU1UQXdOZ1lEVlFRS0RDOXplWE4wWlcwNmIzQmxiaTFqYkhWemRHVnlMVzFoCmJtRm5aVzFsYm5RNmJXRnVZV2RsWkMxamJIVnpkR1Z5Y3pFNE1EWUdBMVVFQXd3dmMzbHpkR1Z0T205d1pXNHQKWTJ4MWMzUmxjaTF0WVc1aFoyVnRaVzUwT21Oc2RYTjBaWEl4TURwaFoyVnVkREV3V1RBVEJnY3Foa2pPUFFJQgpCZ2dxaGtqT1BRTUJCd05DQUFSaWtPVmZ2RkFwQ2F5dnBSTTdvZVRZK21wVmY0UWwwRUVBbWo2MXNpZXpWdnYzClQwbGV5Z1ZkSzJjbkVHR2FWZDhDOVZYckllVmR2UXZoSHFoTGIrSmVvQUF3Q2dZSUtvWkl6ajBFQXdJRFJ3QXcKUkFJZ1prVHFrNFF4c0Jpb1NqaDdjank2dlJIOXhoZ1dGemEvMjVtSGtmaDdxVU1DSUJXNEoydEh0ZDlMTXFkOApVbXhIRFQyeWlUUlhxM25Xem1BdlZmSG42empKCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

# The agent of cluster1 as the hub knows it.
set AGENT=--as=system:open-cluster-management:cluster1:agent1 --as-group=system:open-cluster-management:cluster1 --as-group=system:open-cluster-management:managed-clusters --as-group=system:authenticated

$ kubectl $AGENT create -f others.yaml
certificatesigningrequest.certificates.k8s.io/others created

$ kubectl $AGENT create -f own.yaml
certificatesigningrequest.certificates.k8s.io/own created

wait $ kubectl get csr own --no-headers
own   <age>   kubernetes.io/kube-apiserver-client   system:open-cluster-management:cluster1:agent1   <none>   Approved,Issued

# The other one was there first, and is still pending.
$ kubectl get csr others --no-headers
others   <age>   kubernetes.io/kube-apiserver-client   system:open-cluster-management:cluster1:agent1   <none>   Pending

stop up
