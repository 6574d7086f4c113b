# Upstream's own agent of managed-serviceaccount as a pod of our cluster, as it is: it finds its account, its volumes and the API
# server where a container has them. The hub's half is ours.
# Embedded only: the agent is a pod, and there is no kubelet elsewhere.

file account.yaml
    apiVersion: authentication.open-cluster-management.io/v1beta1
    kind: ManagedServiceAccount
    metadata: {name: ci, namespace: cluster1}
    spec:
      rotation: {}

# Without the variable that other programs of pods are helped by.
start up $ drover up --clusters 1 --addons managed-serviceaccount --node-image-map 'quay.io/open-cluster-management/managed-serviceaccount=env -u KUBECONFIG go-managed-serviceaccount'

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set AGENT=--kubeconfig=.drover/cluster1.kubeconfig -n open-cluster-management-agent-addon

$ kubectl apply -f account.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 managedserviceaccount/ci --for=condition=TokenReported --timeout=60s
managedserviceaccount.authentication.open-cluster-management.io/ci condition met

# It is Go's: its log says so.
$ kubectl $AGENT logs deployment/managed-serviceaccount-addon-agent | grep -c 'Serving metrics server.*controller-runtime'
1

$ printf '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "%s"}}' "$(kubectl get secret -n cluster1 ci -o jsonpath='{.data.token}' | base64 -d)" | kubectl $AGENT create -f - -o jsonpath='{.status.user.username}{"\n"}'
system:serviceaccount:open-cluster-management-agent-addon:ci

$ kubectl $AGENT get lease managed-serviceaccount -o name
lease.coordination.k8s.io/managed-serviceaccount

$ kubectl delete managedserviceaccount -n cluster1 ci
managedserviceaccount.authentication.open-cluster-management.io "ci" deleted

wait $ kubectl $AGENT get serviceaccount ci --ignore-not-found -o name

stop up
