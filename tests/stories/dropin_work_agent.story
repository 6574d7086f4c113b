# Our work agent alone, called as upstream's, beside a registration that is somebody else's: all it has is the hub's
# credential in a file. Here that is the one that `registration agent` leaves there; both run as processes of their own, as
# upstream's do, and neither knows that the other is ours.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

# A cluster for which nobody runs an agent: only the place is of interest.
start other $ drover up --clusters 1 --data-dir other

wait log other
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set EDGE=--kubeconfig=other/cluster1.kubeconfig

# The agent of the other fleet keeps its credential in the same place, so this one goes by its own Secret.
start registration $ drover registration agent --kubeconfig other/cluster1.kubeconfig --spoke-cluster-name edge --bootstrap-kubeconfig .drover/hub.kubeconfig --hub-kubeconfig-secret edge-hub --hub-kubeconfig-dir edge --listen 127.0.0.1:0 --namespace open-cluster-management-agent

start work $ drover work agent --kubeconfig other/cluster1.kubeconfig --spoke-cluster-name=edge --agent-id=edge --hub-kubeconfig-dir=edge --listen=127.0.0.1:0 --namespace=open-cluster-management-agent

$ drover accept --clusters edge --wait --requesters kubernetes-admin
...
Your managed cluster edge has joined the Hub successfully.

wait $ kubectl get namespace edge -o name
namespace/edge

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

# Upstream's Leases, each held by its process.
$ kubectl $EDGE get leases -n open-cluster-management-agent -o name
...
lease.coordination.k8s.io/registration-agent-lock
lease.coordination.k8s.io/work-agent-lock

# Without the work agent nothing is carried out; registration goes on.
stop work

$ kubectl delete -n edge manifestwork hello --wait=false
manifestwork.work.open-cluster-management.io "hello" deleted...

$ kubectl get managedcluster edge -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status}{"\n"}'
True

$ kubectl $EDGE get configmap hello -o name
configmap/hello

# It let go of its Lease, so the next one begins at once, and not after the 137 s that the Lease lasts.
start again $ drover work agent --kubeconfig other/cluster1.kubeconfig --spoke-cluster-name=edge --agent-id=edge --hub-kubeconfig-dir=edge --listen=127.0.0.1:0 --namespace=open-cluster-management-agent

wait $ kubectl get manifestworks -n edge -o name

wait $ kubectl $EDGE get configmap hello 2>&1
Error from server (NotFound): configmaps "hello" not found
exit 1

stop again

stop registration

stop other

stop up
